// RUN: dt-opt %s --dist-agree-ties | FileCheck %s

// One parameter on groups of three and of two ranks: no cut suits both, and the
// third copy, which could be cut as the second, must be whole as well.
// CHECK-LABEL: dist.module @encoder
// CHECK: @emb {{.*}}dist.cut_hint = "whole"
// CHECK-LABEL: dist.module @decoder
// CHECK: @emb {{.*}}dist.cut_hint = "whole"
// CHECK-LABEL: dist.module @head
// CHECK: @emb {{.*}}dist.cut_hint = "whole"
dist.module @encoder of "sample" attributes {tp = 3 : i64, ranks = array<i64: 0, 1, 2>} {
  dist.forward @forward.fwd
  nn.dim @batch of "sample" max 4
  nn.parameter @emb : tensor<96x64xf32> trainable from #nn.onnx<"m.onnx", "emb">
  func.func @forward.fwd(%ids: tensor<?x32xi64, #nn.dims<batch>> {nn.name = "ids"}) -> (tensor<?x32x64xf32, #nn.dims<batch>> {nn.name = "h"}) {
    %e = nn.read @emb : tensor<96x64xf32>
    %h = nn.gather %e at %ids {axis = 0 : i64} : tensor<96x64xf32>, tensor<?x32xi64, #nn.dims<batch>>
    return %h : tensor<?x32x64xf32, #nn.dims<batch>>
  }
}
dist.module @decoder of "sample" attributes {tp = 2 : i64, ranks = array<i64: 3, 4>} {
  dist.forward @forward.fwd
  nn.dim @batch of "sample" max 4
  nn.parameter @emb : tensor<96x64xf32> trainable from #nn.onnx<"m.onnx", "emb">
  func.func @forward.fwd(%ids: tensor<?x32xi64, #nn.dims<batch>> {nn.name = "ids"}) -> (tensor<?x32x64xf32, #nn.dims<batch>> {nn.name = "h"}) {
    %e = nn.read @emb : tensor<96x64xf32>
    %h = nn.gather %e at %ids {axis = 0 : i64} : tensor<96x64xf32>, tensor<?x32xi64, #nn.dims<batch>>
    return %h : tensor<?x32x64xf32, #nn.dims<batch>>
  }
}
dist.module @head of "sample" attributes {tp = 2 : i64, ranks = array<i64: 5, 6>} {
  dist.forward @forward.fwd
  nn.dim @batch of "sample" max 4
  nn.parameter @emb : tensor<96x64xf32> trainable from #nn.onnx<"m.onnx", "emb">
  func.func @forward.fwd(%h: tensor<?x32x64xf32, #nn.dims<batch>> {nn.name = "h"}) -> (tensor<?x32x96xf32, #nn.dims<batch>> {nn.name = "logits"}) {
    %e = nn.read @emb : tensor<96x64xf32>
    %l = nn.linear %h, %e : tensor<?x32x64xf32, #nn.dims<batch>>, tensor<96x64xf32>
    return %l : tensor<?x32x96xf32, #nn.dims<batch>>
  }
}
dist.tie @encoder::@emb = @decoder::@emb
dist.tie @head::@emb = @decoder::@emb
dist.batch global 4 micro 4
