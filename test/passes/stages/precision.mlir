// RUN: dt-opt %s --dist-cut-stages --split-input-file | FileCheck %s

// In a bf16 module what crosses does so in bf16; both stages compute in
// float32.

// CHECK-LABEL: dist.module @m.0
// CHECK: -> (tensor<?x8xbf16, #nn.dims<batch>> {nn.name = "cut.0"})
// CHECK: %[[A:.*]] = call @layer(
// CHECK: %[[N:.*]] = nn.cast %[[A]] : tensor<?x8xf32, #nn.dims<batch>> to tensor<?x8xbf16, #nn.dims<batch>>
// CHECK: return %[[N]]
// CHECK-LABEL: dist.module @m.1
// CHECK: func.func @forward(%[[IN:.*]]: tensor<?x8xbf16, #nn.dims<batch>> {nn.name = "cut.0"})
// CHECK: %[[W:.*]] = nn.cast %[[IN]] : tensor<?x8xbf16, #nn.dims<batch>> to tensor<?x8xf32, #nn.dims<batch>>
// CHECK: call @layer(%[[W]]
// CHECK: dist.edge @m.0 "cut.0" to @m.1 "cut.0"
dist.module @m of "sample" role backbone precision bf16 attributes {unit = "m", tp = 1 : i64, dp = 1 : i64, pp = 2 : i64, vpp = 1 : i64, unit_ranks = array<i64: 0, 1>} {
  nn.dim @batch of "sample" max 4
  nn.parameter @w0 : tensor<8x8xf32> working bf16 trainable from #nn.onnx<"m.onnx", "w0">
  nn.parameter @w1 : tensor<8x8xf32> working bf16 trainable from #nn.onnx<"m.onnx", "w1">
  func.func private @layer(%x: tensor<?x8xf32, #nn.dims<batch>>, %w: tensor<8x8xbf16>) -> tensor<?x8xf32, #nn.dims<batch>> {
    %n = nn.cast %x : tensor<?x8xf32, #nn.dims<batch>> to tensor<?x8xbf16, #nn.dims<batch>>
    %y = nn.linear %n, %w : tensor<?x8xbf16, #nn.dims<batch>>, tensor<8x8xbf16>
    %v = nn.cast %y : tensor<?x8xbf16, #nn.dims<batch>> to tensor<?x8xf32, #nn.dims<batch>>
    %z = nn.add %x, %v : tensor<?x8xf32, #nn.dims<batch>>, tensor<?x8xf32, #nn.dims<batch>>
    return %z : tensor<?x8xf32, #nn.dims<batch>>
  }
  func.func @forward(%x: tensor<?x8xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x8xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %w0 = nn.read @w0 : tensor<8x8xbf16>
    %a = call @layer(%x, %w0) : (tensor<?x8xf32, #nn.dims<batch>>, tensor<8x8xbf16>) -> tensor<?x8xf32, #nn.dims<batch>>
    %w1 = nn.read @w1 : tensor<8x8xbf16>
    %b = call @layer(%a, %w1) : (tensor<?x8xf32, #nn.dims<batch>>, tensor<8x8xbf16>) -> tensor<?x8xf32, #nn.dims<batch>>
    return %b : tensor<?x8xf32, #nn.dims<batch>>
  }
}

// -----

// Gradients of copies are added up, in float32; those that one stage has stay
// as they are.

// CHECK-LABEL: dist.module @s.0
// CHECK: nn.parameter @w : tensor<8x8xf32> working bf16 trainable from #nn.onnx<"s.onnx", "w">{{$}}
// CHECK: nn.parameter @w0 : {{.*}} {narrow_gradient}
// CHECK-LABEL: dist.module @s.1
// CHECK: nn.parameter @w : tensor<8x8xf32> working bf16 trainable from #nn.onnx<"s.onnx", "w">{{$}}
// CHECK: nn.parameter @w1 : {{.*}} {narrow_gradient}
// CHECK: dist.tie @s.1::@w = @s.0::@w
dist.module @s of "sample" role backbone precision bf16 narrow_gradients attributes {unit = "s", tp = 1 : i64, dp = 1 : i64, pp = 2 : i64, vpp = 1 : i64, unit_ranks = array<i64: 0, 1>} {
  nn.dim @batch of "sample" max 4
  nn.parameter @w : tensor<8x8xf32> working bf16 trainable from #nn.onnx<"s.onnx", "w"> {narrow_gradient}
  nn.parameter @w0 : tensor<8x8xf32> working bf16 trainable from #nn.onnx<"s.onnx", "w0"> {narrow_gradient}
  nn.parameter @w1 : tensor<8x8xf32> working bf16 trainable from #nn.onnx<"s.onnx", "w1"> {narrow_gradient}
  func.func private @layer(%x: tensor<?x8xbf16, #nn.dims<batch>>, %w: tensor<8x8xbf16>, %v: tensor<8x8xbf16>) -> tensor<?x8xbf16, #nn.dims<batch>> {
    %y = nn.linear %x, %w : tensor<?x8xbf16, #nn.dims<batch>>, tensor<8x8xbf16>
    %z = nn.linear %y, %v : tensor<?x8xbf16, #nn.dims<batch>>, tensor<8x8xbf16>
    return %z : tensor<?x8xbf16, #nn.dims<batch>>
  }
  func.func @forward(%x: tensor<?x8xbf16, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x8xbf16, #nn.dims<batch>> {nn.name = "y"}) {
    %w = nn.read @w : tensor<8x8xbf16>
    %w0 = nn.read @w0 : tensor<8x8xbf16>
    %a = call @layer(%x, %w, %w0) : (tensor<?x8xbf16, #nn.dims<batch>>, tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16, #nn.dims<batch>>
    %w1 = nn.read @w1 : tensor<8x8xbf16>
    %b = call @layer(%a, %w, %w1) : (tensor<?x8xbf16, #nn.dims<batch>>, tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16, #nn.dims<batch>>
    return %b : tensor<?x8xbf16, #nn.dims<batch>>
  }
}
