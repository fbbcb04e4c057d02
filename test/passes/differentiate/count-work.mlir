// RUN: dt-opt %s --pass-pipeline="builtin.module(dist-mark-wanted,dist.module(dist-count-work))" --split-input-file | FileCheck %s

// Two calls of one layer, 64 FLOPs a product. The first has data as input, so it has no gradient of that: forward and the
// weight's. The second has both. The frozen product behind them passes the gradient on; what only the metric reads has none.
// CHECK: dist.module @m {{.*}}work = #dist.work<<512>>
dist.module @m {
  nn.parameter @a : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "a">
  nn.parameter @b : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "b">
  nn.parameter @frozen : tensor<4x4xf32> from #nn.onnx<"m.onnx", "frozen">
  func.func private @layer(%x: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> tensor<2x4xf32> {
    %0 = nn.linear %x, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %1 = nn.gelu %0 : tensor<2x4xf32>
    return %1 : tensor<2x4xf32>
  }
  func.func @forward(%x: tensor<2x4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "num"}, tensor<f32> {nn.name = "shown"}) {
    %a = nn.read @a : tensor<4x4xf32>
    %b = nn.read @b : tensor<4x4xf32>
    %frozen = nn.read @frozen : tensor<4x4xf32>
    %0 = call @layer(%x, %a) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %1 = call @layer(%0, %b) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %2 = nn.linear %1, %frozen : tensor<2x4xf32>, tensor<4x4xf32>
    %3 = nn.linear %1, %b : tensor<2x4xf32>, tensor<4x4xf32>
    %num = nn.reduce sum %2 {axes = array<i64: 0, 1>} : tensor<2x4xf32>
    %shown = nn.reduce sum %3 {axes = array<i64: 0, 1>} : tensor<2x4xf32>
    return %num, %shown : tensor<f32>, tensor<f32>
  }
}
dist.loss "text" in @m numerator "num" weight 1.0
dist.loss "metric" in @m numerator "shown" weight 0.0

// -----

// Attention of 2 heads of 4: 2 (4 + 4) FLOPs of a head for each pair forward, twice as many for gradients of queries, keys and values. What
// keeps samples apart is counted inside these, by its window; without segments all pairs of the part count.
// CHECK: dist.module @packed
// CHECK-SAME: work = #dist.work<<32*seq*seq>, [<32, <seq>, <seq>, true, 16>, <96, <seq>, <seq>, true, 0>]>
dist.module @packed of "sample" {
  nn.dim @seq of "sample" measure "tokens" largest 32 max 64
  nn.parameter @w : tensor<4xf32> trainable from #nn.onnx<"p.onnx", "w">
  func.func @forward(%x: tensor<1x?x2x4xf32, #nn.dims<seq>> {nn.name = "x"}, %s: tensor<1x?xi64, #nn.dims<seq>> {nn.name = "s"}) -> (tensor<f32> {nn.name = "num"}) {
    %0, %l0 = nn.attention %x, %x, %x segments %s by %s {scale = 1.0 : f64, causal, window = 16 : i64} : tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?xi64, #nn.dims<seq>>, tensor<1x?xi64, #nn.dims<seq>>
    %3, %l3 = nn.attention %x, %x, %x {scale = 1.0 : f64} : tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>
    %w = nn.read @w : tensor<4xf32>
    %1 = nn.mul %0, %w : tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<4xf32>
    %4 = nn.add %1, %3 : tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>
    %2, %l2 = nn.attention %4, %4, %4 segments %s by %s {scale = 1.0 : f64, causal} : tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?xi64, #nn.dims<seq>>, tensor<1x?xi64, #nn.dims<seq>>
    %num = nn.reduce sum %2 {axes = array<i64: 0, 1, 2, 3>} : tensor<1x?x2x4xf32, #nn.dims<seq>>
    return %num : tensor<f32>
  }
}
dist.loss "text" in @packed numerator "num" weight 1.0
