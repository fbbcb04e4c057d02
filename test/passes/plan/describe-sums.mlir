// Layers that add up a number beside what they hand on (rows that a capacity drops). Of eight the first, which begins the sum, is a kind, as is the last; all others are one.
// RUN: dt-opt %s --dist-describe-layers="save=none" 2>&1 -o /dev/null | FileCheck %s --implicit-check-not="layer '"
// CHECK: layer 'layers' of one of 1 ranks
// CHECK: layer 'layers.1' of one of 1 ranks
// Between others it keeps what the one before handed on: 6 * 4 numbers.
// CHECK-SAME: | keeps 96 bytes,
// The last hands its sum to nothing.
// CHECK: layer 'layers.7' of one of 1 ranks
// CHECK: layer 'head' of one of 1 ranks

dist.module @m of "sample" {
  nn.dim @batch of "sample" max 4
  nn.parameter @w0 : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w0">
  nn.parameter @w1 : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w1">
  nn.parameter @w2 : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w2">
  nn.parameter @w3 : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w3">
  nn.parameter @w4 : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w4">
  nn.parameter @w5 : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w5">
  nn.parameter @w6 : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w6">
  nn.parameter @w7 : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w7">
  func.func private @layers(%x: tensor<?x6x4xf32, #nn.dims<batch>>, %w: tensor<4x4xf32>) -> (tensor<?xf32, #nn.dims<batch>>, tensor<?x6x4xf32, #nn.dims<batch>>) {
    %0 = nn.linear %x, %w : tensor<?x6x4xf32, #nn.dims<batch>>, tensor<4x4xf32>
    %1 = nn.tanh %0 : tensor<?x6x4xf32, #nn.dims<batch>>
    %2 = nn.reduce max %0 {axes = array<i64: 1, 2>} : tensor<?x6x4xf32, #nn.dims<batch>>
    return %2, %1 : tensor<?xf32, #nn.dims<batch>>, tensor<?x6x4xf32, #nn.dims<batch>>
  }
  func.func @forward(%x: tensor<?x6x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss.l"}, tensor<?xf32, #nn.dims<batch>> {nn.name = "seen"}) {
    %w0 = nn.read @w0 : tensor<4x4xf32>
    %y0:2 = call @layers(%x, %w0) : (tensor<?x6x4xf32, #nn.dims<batch>>, tensor<4x4xf32>) -> (tensor<?xf32, #nn.dims<batch>>, tensor<?x6x4xf32, #nn.dims<batch>>)
    %w1 = nn.read @w1 : tensor<4x4xf32>
    %y1:2 = call @layers(%y0#1, %w1) : (tensor<?x6x4xf32, #nn.dims<batch>>, tensor<4x4xf32>) -> (tensor<?xf32, #nn.dims<batch>>, tensor<?x6x4xf32, #nn.dims<batch>>)
    %s1 = nn.add %y0#0, %y1#0 : tensor<?xf32, #nn.dims<batch>>, tensor<?xf32, #nn.dims<batch>>
    %w2 = nn.read @w2 : tensor<4x4xf32>
    %y2:2 = call @layers(%y1#1, %w2) : (tensor<?x6x4xf32, #nn.dims<batch>>, tensor<4x4xf32>) -> (tensor<?xf32, #nn.dims<batch>>, tensor<?x6x4xf32, #nn.dims<batch>>)
    %s2 = nn.add %s1, %y2#0 : tensor<?xf32, #nn.dims<batch>>, tensor<?xf32, #nn.dims<batch>>
    %w3 = nn.read @w3 : tensor<4x4xf32>
    %y3:2 = call @layers(%y2#1, %w3) : (tensor<?x6x4xf32, #nn.dims<batch>>, tensor<4x4xf32>) -> (tensor<?xf32, #nn.dims<batch>>, tensor<?x6x4xf32, #nn.dims<batch>>)
    %s3 = nn.add %s2, %y3#0 : tensor<?xf32, #nn.dims<batch>>, tensor<?xf32, #nn.dims<batch>>
    %w4 = nn.read @w4 : tensor<4x4xf32>
    %y4:2 = call @layers(%y3#1, %w4) : (tensor<?x6x4xf32, #nn.dims<batch>>, tensor<4x4xf32>) -> (tensor<?xf32, #nn.dims<batch>>, tensor<?x6x4xf32, #nn.dims<batch>>)
    %s4 = nn.add %s3, %y4#0 : tensor<?xf32, #nn.dims<batch>>, tensor<?xf32, #nn.dims<batch>>
    %w5 = nn.read @w5 : tensor<4x4xf32>
    %y5:2 = call @layers(%y4#1, %w5) : (tensor<?x6x4xf32, #nn.dims<batch>>, tensor<4x4xf32>) -> (tensor<?xf32, #nn.dims<batch>>, tensor<?x6x4xf32, #nn.dims<batch>>)
    %s5 = nn.add %s4, %y5#0 : tensor<?xf32, #nn.dims<batch>>, tensor<?xf32, #nn.dims<batch>>
    %w6 = nn.read @w6 : tensor<4x4xf32>
    %y6:2 = call @layers(%y5#1, %w6) : (tensor<?x6x4xf32, #nn.dims<batch>>, tensor<4x4xf32>) -> (tensor<?xf32, #nn.dims<batch>>, tensor<?x6x4xf32, #nn.dims<batch>>)
    %s6 = nn.add %s5, %y6#0 : tensor<?xf32, #nn.dims<batch>>, tensor<?xf32, #nn.dims<batch>>
    %w7 = nn.read @w7 : tensor<4x4xf32>
    %y7:2 = call @layers(%y6#1, %w7) : (tensor<?x6x4xf32, #nn.dims<batch>>, tensor<4x4xf32>) -> (tensor<?xf32, #nn.dims<batch>>, tensor<?x6x4xf32, #nn.dims<batch>>)
    %s7 = nn.add %s6, %y7#0 : tensor<?xf32, #nn.dims<batch>>, tensor<?xf32, #nn.dims<batch>>
    %l = nn.reduce sum %y7#1 {axes = array<i64: 0, 1, 2>} : tensor<?x6x4xf32, #nn.dims<batch>>
    return %l, %s7 : tensor<f32>, tensor<?xf32, #nn.dims<batch>>
  }
  func.func @d() -> tensor<f32> {
    %0 = nn.constant dense<1.0> : tensor<f32>
    return %0 : tensor<f32>
  }
}
dist.loss "l" in @m numerator "loss.l" denominator @d weight 1.0
dist.batch global 4 micro 4
