// RUN: dt-opt %s --dist-cut-stages --split-input-file 2>/dev/null | FileCheck %s
// RUN: dt-opt %s --dist-cut-stages --split-input-file 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// Embedding and head read one parameter; the embedding's output skips the
// middle; the mask comes from raw input, the scale has no items: both are
// computed where they are used. The edge from the encoder goes to its user.
dist.module @enc of "sample" {
  nn.dim @batch of "sample" max 4
  nn.parameter @w : tensor<8x8xf32> trainable from #nn.onnx<"m.onnx", "w">
  func.func @forward(%x: tensor<?x8xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x8xf32, #nn.dims<batch>> {nn.name = "context"}) {
    %w = nn.read @w : tensor<8x8xf32>
    %y = nn.linear %x, %w : tensor<?x8xf32, #nn.dims<batch>>, tensor<8x8xf32>
    return %y : tensor<?x8xf32, #nn.dims<batch>>
  }
}
dist.module @m of "sample" role backbone attributes {unit = "m", tp = 1 : i64, dp = 2 : i64, pp = 3 : i64, vpp = 1 : i64, unit_ranks = array<i64: 7, 6, 5, 4, 3, 2>, stages = [["embed", "layer.0"], ["layer.1-2"], ["head"]], zero = 1 : i64} {
  nn.dim @batch of "sample" max 4
  nn.parameter @emb : tensor<16x8xf32> trainable from #nn.onnx<"m.onnx", "emb">
  nn.parameter @scale : tensor<8xf32> trainable from #nn.onnx<"m.onnx", "scale">
  nn.parameter @w0 : tensor<8x8xf32> trainable from #nn.onnx<"m.onnx", "w0">
  nn.parameter @w1 : tensor<8x8xf32> trainable from #nn.onnx<"m.onnx", "w1">
  nn.parameter @w2 : tensor<8x8xf32> trainable from #nn.onnx<"m.onnx", "w2">
  nn.parameter @unused : tensor<2xf32> from #nn.onnx<"m.onnx", "unused">
  func.func private @layer(%x: tensor<?x8xf32, #nn.dims<batch>>, %m: tensor<?x1xf32, #nn.dims<batch>>, %w: tensor<8x8xf32>) -> tensor<?x8xf32, #nn.dims<batch>> {
    %y = nn.linear %x, %w : tensor<?x8xf32, #nn.dims<batch>>, tensor<8x8xf32>
    %z = nn.mul %y, %m : tensor<?x8xf32, #nn.dims<batch>>, tensor<?x1xf32, #nn.dims<batch>>
    return %z : tensor<?x8xf32, #nn.dims<batch>>
  }
  func.func @forward(%ids: tensor<?xi64, #nn.dims<batch>> {nn.name = "ids"}, %keep: tensor<?x1xi64, #nn.dims<batch>> {nn.name = "keep"}, %context: tensor<?x8xf32, #nn.dims<batch>> {nn.name = "context"}, %labels: tensor<?xi64, #nn.dims<batch>> {nn.name = "labels"}) -> (tensor<?x8xf32, #nn.dims<batch>> {nn.name = "hidden"}, tensor<f32> {nn.name = "loss"}) {
    %e = nn.read @emb : tensor<16x8xf32>
    %h0 = nn.gather %e at %ids {axis = 0 : i64} : tensor<16x8xf32>, tensor<?xi64, #nn.dims<batch>>
    %s = nn.read @scale : tensor<8xf32>
    %g = nn.exp %s : tensor<8xf32>
    %h = nn.mul %h0, %g : tensor<?x8xf32, #nn.dims<batch>>, tensor<8xf32>
    %mask = nn.cast %keep : tensor<?x1xi64, #nn.dims<batch>> to tensor<?x1xf32, #nn.dims<batch>>
    %w0 = nn.read @w0 : tensor<8x8xf32>
    %a = call @layer(%h, %mask, %w0) : (tensor<?x8xf32, #nn.dims<batch>>, tensor<?x1xf32, #nn.dims<batch>>, tensor<8x8xf32>) -> tensor<?x8xf32, #nn.dims<batch>>
    %w1 = nn.read @w1 : tensor<8x8xf32>
    %b = call @layer(%a, %mask, %w1) : (tensor<?x8xf32, #nn.dims<batch>>, tensor<?x1xf32, #nn.dims<batch>>, tensor<8x8xf32>) -> tensor<?x8xf32, #nn.dims<batch>>
    %w2 = nn.read @w2 : tensor<8x8xf32>
    %c = call @layer(%b, %mask, %w2) : (tensor<?x8xf32, #nn.dims<batch>>, tensor<?x1xf32, #nn.dims<batch>>, tensor<8x8xf32>) -> tensor<?x8xf32, #nn.dims<batch>>
    %d = nn.add %c, %h : tensor<?x8xf32, #nn.dims<batch>>, tensor<?x8xf32, #nn.dims<batch>>
    %d1 = nn.add %d, %context : tensor<?x8xf32, #nn.dims<batch>>, tensor<?x8xf32, #nn.dims<batch>>
    %d2 = nn.mul %d1, %g : tensor<?x8xf32, #nn.dims<batch>>, tensor<8xf32>
    %logits = nn.linear %d2, %e : tensor<?x8xf32, #nn.dims<batch>>, tensor<16x8xf32>
    %ce = nn.cross_entropy %logits, %labels : tensor<?x16xf32, #nn.dims<batch>>, tensor<?xi64, #nn.dims<batch>>
    %loss = nn.reduce sum %ce {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<batch>>
    return %c, %loss : tensor<?x8xf32, #nn.dims<batch>>, tensor<f32>
  }
  func.func @loss.denominator(%keep: tensor<?x1xi64, #nn.dims<batch>> {nn.name = "keep"}) -> tensor<f32> {
    %a = nn.cast %keep : tensor<?x1xi64, #nn.dims<batch>> to tensor<?x1xf32, #nn.dims<batch>>
    %s = nn.reduce sum %a {axes = array<i64: 0, 1>} : tensor<?x1xf32, #nn.dims<batch>>
    return %s : tensor<f32>
  }
}
dist.module @gen of "sample" {
  nn.dim @batch of "sample" max 4
  nn.parameter @w : tensor<16x8xf32> trainable from #nn.onnx<"m.onnx", "emb">
  func.func @forward(%x: tensor<?x8xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x16xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %w = nn.read @w : tensor<16x8xf32>
    %y = nn.linear %x, %w : tensor<?x8xf32, #nn.dims<batch>>, tensor<16x8xf32>
    return %y : tensor<?x16xf32, #nn.dims<batch>>
  }
}
dist.edge @enc "context" to @m "context" depth 5
dist.edge @m "hidden" to @gen "x"
dist.tie @gen::@w = @m::@emb
dist.loss "loss" in @m numerator "loss" denominator @loss.denominator weight 1.0
dist.batch global 8 micro 4

// CHECK-NOT: dist.module @m {
// CHECK: dist.module @m.0 of "sample" role backbone origin "m" attributes {dp = 2 : i64, ranks = array<i64: 7, 6>, unit = "m", zero = 1 : i64} {
// CHECK: nn.parameter @emb
// CHECK: nn.parameter @scale
// CHECK: nn.parameter @w0
// CHECK-NOT: nn.parameter @w1
// CHECK: nn.parameter @unused
// CHECK: func.func private @layer
// CHECK: func.func @forward(%{{.*}}nn.name = "ids"}, %{{.*}}nn.name = "keep"}) -> (
// CHECK-SAME: "cut.0"}, {{.*}}"cut.1"})
// CHECK: dist.module @m.1 {{.*}}ranks = array<i64: 5, 4>, stage = 1
// CHECK: func.func private @layer
// CHECK: func.func @forward(%{{.*}}nn.name = "keep"}, %{{.*}}nn.name = "cut.0"}) -> (tensor<?x8xf32, #nn.dims<batch>> {nn.name = "hidden"})
// CHECK: nn.cast
// CHECK: call @layer
// CHECK: call @layer
// CHECK: dist.module @m.2 {{.*}}ranks = array<i64: 3, 2>, stage = 2
// CHECK: nn.parameter @emb
// CHECK: nn.parameter @scale
// CHECK-NOT: func.func private @layer
// CHECK: func.func @forward(%{{.*}}nn.name = "context"}, %{{.*}}nn.name = "labels"}, %{{.*}}nn.name = "hidden"}, %{{.*}}nn.name = "cut.1"}, %{{.*}}nn.name = "keep"}) -> (tensor<f32> {nn.name = "loss"})
// CHECK: nn.exp
// CHECK: func.func @loss.denominator
// CHECK: dist.tie @m.2::@emb = @m.0::@emb
// CHECK: dist.tie @m.2::@scale = @m.0::@scale
// CHECK: dist.edge @m.0 "cut.0" to @m.1 "cut.0"
// CHECK: dist.edge @m.1 "hidden" to @m.2 "hidden"
// CHECK: dist.edge @m.0 "cut.1" to @m.2 "cut.1"
// CHECK: dist.edge @enc "context" to @m.2 "context" depth 5
// CHECK: dist.edge @m.1 "hidden" to @gen "x"
// CHECK: dist.tie @gen::@w = @m.0::@emb
// CHECK: dist.loss "loss" in @m.2

// REMARK: remark: stage 0 of m: 0.0 MFLOP forward
// REMARK: remark: stage 1 of m: {{.*}} a tensor of 'tensor<?x8xf32, #nn.dims<batch>>' crosses into it, 32 bytes an item

// -----

// Balanced: the dear layer stands alone. There and back over the ranks.
dist.module @m of "sample" attributes {pp = 2 : i64, vpp = 2 : i64} {
  nn.dim @batch of "sample" max 512
  nn.parameter @a : tensor<64x64xf32> trainable from #nn.onnx<"m.onnx", "a">
  nn.parameter @b : tensor<4096x64xf32> trainable from #nn.onnx<"m.onnx", "b">
  nn.parameter @c : tensor<64x4096xf32> trainable from #nn.onnx<"m.onnx", "c">
  func.func @forward(%x: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x64xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %a = nn.read @a : tensor<64x64xf32>
    %b = nn.read @b : tensor<4096x64xf32>
    %c = nn.read @c : tensor<64x4096xf32>
    %0 = nn.linear %x, %a : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
    %1 = nn.linear %0, %a : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
    %2 = nn.linear %1, %b : tensor<?x64xf32, #nn.dims<batch>>, tensor<4096x64xf32>
    %3 = nn.linear %2, %c : tensor<?x4096xf32, #nn.dims<batch>>, tensor<64x4096xf32>
    %4 = nn.linear %3, %a : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
    return %4 : tensor<?x64xf32, #nn.dims<batch>>
  }
}
dist.plan ranks 2 schedule "zb-v" pace @m reorder "none" bucket 4096 depth 2

// CHECK: dist.module @m.0 {{.*}}ranks = array<i64: 0>
// CHECK: dist.module @m.1 {{.*}}ranks = array<i64: 1>
// CHECK: dist.module @m.2 {{.*}}ranks = array<i64: 1>
// CHECK: dist.module @m.3 {{.*}}ranks = array<i64: 0>

// -----

// What runs over the whole batch runs where what it needs is.
dist.module @a of "sample" attributes {ranks = array<i64: 0, 1>, dp = 2 : i64} {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    return %x : tensor<?x4xf32, #nn.dims<batch>>
  }
}
dist.module @b of "sample" attributes {ranks = array<i64: 4>} {
  nn.dim @batch of "sample" max 4
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    return %x : tensor<?x4xf32, #nn.dims<batch>>
  }
}
dist.module @head of "sample" whole_batch {
  nn.dim @batch of "sample" max 8
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}, %y: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "z"}) {
    %z = nn.add %x, %y : tensor<?x4xf32, #nn.dims<batch>>, tensor<?x4xf32, #nn.dims<batch>>
    return %z : tensor<?x4xf32, #nn.dims<batch>>
  }
}
dist.edge @a "y" to @head "x"
dist.edge @b "y" to @head "y"
dist.plan ranks 5 schedule "1f1b" pace @a reorder "none" bucket 4096 depth 2

// CHECK: dist.module @head {{.*}}ranks = array<i64: 0, 1, 4>
