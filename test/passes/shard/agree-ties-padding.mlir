// RUN: dt-opt %s --dist-agree-ties | FileCheck %s
// RUN: dt-opt %s --dist-agree-ties --dt-shard | FileCheck %s --check-prefix=SHARD

// Two ranks do not divide 95 rows. Looked up, they could be padded; the scores
// of the other copy go to another stage and cannot: both stay as they are.
// CHECK-LABEL: dist.module @embedding
// CHECK: @emb {{.*}}dist.cut_hint = "whole"
// CHECK-LABEL: dist.module @head
// CHECK: @emb {{.*}}dist.cut_hint = "whole"
// SHARD-LABEL: dist.module @embedding
// SHARD: nn.parameter @emb : tensor<95x64xf32>
// SHARD-LABEL: dist.module @head
// SHARD: nn.parameter @emb : tensor<95x64xf32>
dist.module @embedding of "sample" attributes {tp = 2 : i64, ranks = array<i64: 0, 1>} {
  dist.forward @forward.fwd
  nn.dim @batch of "sample" max 4
  nn.parameter @emb : tensor<95x64xf32> trainable from #nn.onnx<"m.onnx", "emb">
  func.func @forward.fwd(%ids: tensor<?x32xi64, #nn.dims<batch>> {nn.name = "ids"}) -> (tensor<?x32x64xf32, #nn.dims<batch>> {nn.name = "h"}) {
    %e = nn.read @emb : tensor<95x64xf32>
    %h = nn.gather %e at %ids {axis = 0 : i64} : tensor<95x64xf32>, tensor<?x32xi64, #nn.dims<batch>>
    return %h : tensor<?x32x64xf32, #nn.dims<batch>>
  }
}
dist.module @head of "sample" attributes {tp = 2 : i64, ranks = array<i64: 2, 3>} {
  dist.forward @forward.fwd
  nn.dim @batch of "sample" max 4
  nn.parameter @emb : tensor<95x64xf32> trainable from #nn.onnx<"m.onnx", "emb">
  func.func @forward.fwd(%h: tensor<?x32x64xf32, #nn.dims<batch>> {nn.name = "h"}) -> (tensor<?x32x95xf32, #nn.dims<batch>> {nn.name = "logits"}) {
    %e = nn.read @emb : tensor<95x64xf32>
    %l = nn.linear %h, %e : tensor<?x32x64xf32, #nn.dims<batch>>, tensor<95x64xf32>
    return %l : tensor<?x32x95xf32, #nn.dims<batch>>
  }
}
dist.module @last of "sample" attributes {ranks = array<i64: 4>} {
  dist.forward @forward.fwd
  nn.dim @batch of "sample" max 4
  func.func @forward.fwd(%l: tensor<?x32x95xf32, #nn.dims<batch>> {nn.name = "logits"}) -> (tensor<?x32x95xf32, #nn.dims<batch>> {nn.name = "scores"}) {
    %s = nn.tanh %l : tensor<?x32x95xf32, #nn.dims<batch>>
    return %s : tensor<?x32x95xf32, #nn.dims<batch>>
  }
}
dist.tie @head::@emb = @embedding::@emb
dist.edge @embedding "h" to @head "h"
dist.edge @head "logits" to @last "logits"
dist.batch global 4 micro 4
