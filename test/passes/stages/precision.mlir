// RUN: dt-opt %s --dist-cut-stages | FileCheck %s

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
