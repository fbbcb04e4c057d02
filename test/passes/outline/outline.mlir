// RUN: dt-opt %s --pass-pipeline="builtin.module(dist.module(nn-outline-layers{min-ops=3}))" --split-input-file | FileCheck %s

// Layer 0 also holds the factor that both layers share; a tap reads layer 0's result.
// CHECK-LABEL: dist.module @m
// CHECK: func.func private @layers(%{{.*}}: tensor<2x4xf32>, %{{.*}}: tensor<4x4xf32> {nn.name = "w"}, %{{.*}}: tensor<2x4xf32>{{.*}}) -> tensor<2x4xf32>
// CHECK: func.func @forward
// CHECK: %[[A:.*]] = call @layers
// CHECK: %[[B:.*]] = call @layers(%[[A]]
// CHECK: return %[[A]], %[[B]]
dist.module @m {
  nn.parameter @"layers.0.w" : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "layers.0.w">
  nn.parameter @"layers.1.w" : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "layers.1.w">
  func.func @forward(%x: tensor<2x4xf32>, %t: tensor<2x4xi64>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
    %w0 = nn.read @"layers.0.w" : tensor<4x4xf32>
    %w1 = nn.read @"layers.1.w" : tensor<4x4xf32>
    %0 = nn.linear %x, %w0 : tensor<2x4xf32>, tensor<4x4xf32>
    %f = nn.cast %t : tensor<2x4xi64> to tensor<2x4xf32>
    %1 = nn.mul %0, %f : tensor<2x4xf32>, tensor<2x4xf32>
    %2 = nn.silu %1 : tensor<2x4xf32>
    %3 = nn.linear %2, %w1 : tensor<2x4xf32>, tensor<4x4xf32>
    %4 = nn.mul %3, %f : tensor<2x4xf32>, tensor<2x4xf32>
    %5 = nn.silu %4 : tensor<2x4xf32>
    return %2, %5 : tensor<2x4xf32>, tensor<2x4xf32>
  }
}

// -----

// Equal ops, but the second multiplies by its input instead of its product: not equal.
// CHECK-LABEL: dist.module @wiring
// CHECK-NOT: call
dist.module @wiring {
  nn.parameter @"layers.0.w" : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "layers.0.w">
  nn.parameter @"layers.1.w" : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "layers.1.w">
  func.func @forward(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %w0 = nn.read @"layers.0.w" : tensor<4x4xf32>
    %w1 = nn.read @"layers.1.w" : tensor<4x4xf32>
    %0 = nn.linear %x, %w0 : tensor<2x4xf32>, tensor<4x4xf32>
    %1 = nn.silu %0 : tensor<2x4xf32>
    %2 = nn.mul %1, %0 : tensor<2x4xf32>, tensor<2x4xf32>
    %3 = nn.linear %2, %w1 : tensor<2x4xf32>, tensor<4x4xf32>
    %4 = nn.silu %3 : tensor<2x4xf32>
    %5 = nn.mul %4, %2 : tensor<2x4xf32>, tensor<2x4xf32>
    return %5 : tensor<2x4xf32>
  }
}

// -----

// Six layers are six calls, and not two of three layers each: a stage begins with a call.
// CHECK-LABEL: dist.module @deep
// CHECK: func.func private @layers(
// CHECK-NOT: func.func private
// CHECK: func.func @forward
// CHECK-COUNT-6: call @layers(
dist.module @deep {
  nn.parameter @"layers.0.w" : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "layers.0.w">
  nn.parameter @"layers.1.w" : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "layers.1.w">
  nn.parameter @"layers.2.w" : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "layers.2.w">
  nn.parameter @"layers.3.w" : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "layers.3.w">
  nn.parameter @"layers.4.w" : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "layers.4.w">
  nn.parameter @"layers.5.w" : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "layers.5.w">
  func.func @forward(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %w0 = nn.read @"layers.0.w" : tensor<4x4xf32>
    %w1 = nn.read @"layers.1.w" : tensor<4x4xf32>
    %w2 = nn.read @"layers.2.w" : tensor<4x4xf32>
    %w3 = nn.read @"layers.3.w" : tensor<4x4xf32>
    %w4 = nn.read @"layers.4.w" : tensor<4x4xf32>
    %w5 = nn.read @"layers.5.w" : tensor<4x4xf32>
    %a0 = nn.linear %x, %w0 : tensor<2x4xf32>, tensor<4x4xf32>
    %b0 = nn.silu %a0 : tensor<2x4xf32>
    %c0 = nn.mul %b0, %a0 : tensor<2x4xf32>, tensor<2x4xf32>
    %a1 = nn.linear %c0, %w1 : tensor<2x4xf32>, tensor<4x4xf32>
    %b1 = nn.silu %a1 : tensor<2x4xf32>
    %c1 = nn.mul %b1, %a1 : tensor<2x4xf32>, tensor<2x4xf32>
    %a2 = nn.linear %c1, %w2 : tensor<2x4xf32>, tensor<4x4xf32>
    %b2 = nn.silu %a2 : tensor<2x4xf32>
    %c2 = nn.mul %b2, %a2 : tensor<2x4xf32>, tensor<2x4xf32>
    %a3 = nn.linear %c2, %w3 : tensor<2x4xf32>, tensor<4x4xf32>
    %b3 = nn.silu %a3 : tensor<2x4xf32>
    %c3 = nn.mul %b3, %a3 : tensor<2x4xf32>, tensor<2x4xf32>
    %a4 = nn.linear %c3, %w4 : tensor<2x4xf32>, tensor<4x4xf32>
    %b4 = nn.silu %a4 : tensor<2x4xf32>
    %c4 = nn.mul %b4, %a4 : tensor<2x4xf32>, tensor<2x4xf32>
    %a5 = nn.linear %c4, %w5 : tensor<2x4xf32>, tensor<4x4xf32>
    %b5 = nn.silu %a5 : tensor<2x4xf32>
    %c5 = nn.mul %b5, %a5 : tensor<2x4xf32>, tensor<2x4xf32>
    return %c5 : tensor<2x4xf32>
  }
}
