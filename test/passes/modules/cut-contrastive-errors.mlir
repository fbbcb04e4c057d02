// RUN: not dt-opt %s --dist-cut-contrastive 2>&1 | FileCheck %s
// CHECK: error: units.t.span: what it feeds runs over the whole batch ('h') and takes single microbatches; expected 1, not 2

dist.module @t of "sample" role encoder attributes {span = 2 : i64} {
  nn.dim @batch of "sample" max 4
  func.func @forward(%x: tensor<?x6xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x6xf32, #nn.dims<batch>> {nn.name = "z"}) {
    %z = nn.mul %x, %x : tensor<?x6xf32, #nn.dims<batch>>, tensor<?x6xf32, #nn.dims<batch>>
    return %z : tensor<?x6xf32, #nn.dims<batch>>
  }
}
dist.module @u of "sample" role encoder {
  nn.dim @batch of "sample" max 4
  func.func @forward(%x: tensor<?x6xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x6xf32, #nn.dims<batch>> {nn.name = "z"}) {
    %z = nn.mul %x, %x : tensor<?x6xf32, #nn.dims<batch>>, tensor<?x6xf32, #nn.dims<batch>>
    return %z : tensor<?x6xf32, #nn.dims<batch>>
  }
}
dist.module @h of "sample" role generator {
  nn.dim @batch of "sample" max 4
  nn.parameter @s : tensor<f32> trainable from #nn.onnx<"h.onnx", "s">
  func.func @forward(%arg0: tensor<?x6xf32, #nn.dims<batch>> {nn.name = "a"}, %arg1: tensor<?x6xf32, #nn.dims<batch>> {nn.name = "b"}) -> (tensor<?x?xf32, #nn.dims<batch, batch>> {nn.name = "y"}, tensor<f32> {nn.name = "loss.loss"}) {
    %0 = nn.constant dense<5.000000e-01> : tensor<f32>
    %1 = nn.transpose %arg1 [1, 0] : tensor<?x6xf32, #nn.dims<batch>>
    %2 = nn.matmul %arg0, %1 : tensor<?x6xf32, #nn.dims<batch>>, tensor<6x?xf32, #nn.dims<batch>>
    %3 = nn.read @s : tensor<f32>
    %4 = nn.mul %3, %2 : tensor<f32>, tensor<?x?xf32, #nn.dims<batch, batch>>
    %5 = nn.generate : tensor<?xi64, #nn.dims<batch>> {
    ^bb0(%arg2: index):
      %13 = arith.index_cast %arg2 : index to i64
      nn.yield %13 : i64
    }
    %6 = nn.transpose %4 [1, 0] : tensor<?x?xf32, #nn.dims<batch, batch>>
    %7 = nn.cross_entropy %4, %5 : tensor<?x?xf32, #nn.dims<batch, batch>>, tensor<?xi64, #nn.dims<batch>>
    %8 = nn.cross_entropy %6, %5 : tensor<?x?xf32, #nn.dims<batch, batch>>, tensor<?xi64, #nn.dims<batch>>
    %9 = nn.reduce sum %7 {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<batch>>
    %10 = nn.reduce sum %8 {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<batch>>
    %11 = nn.add %9, %10 : tensor<f32>, tensor<f32>
    %12 = nn.mul %11, %0 : tensor<f32>, tensor<f32>
    return %4, %12 : tensor<?x?xf32, #nn.dims<batch, batch>>, tensor<f32>
  }
  func.func @loss.denominator() -> tensor<f32> {
    %0 = nn.generate : tensor<f32> {
      %1 = nn.size <batch>
      %2 = arith.index_cast %1 : index to i64
      %3 = arith.sitofp %2 : i64 to f32
      nn.yield %3 : f32
    }
    return %0 : tensor<f32>
  }
}
dist.edge @t "z" to @h "a"
dist.edge @u "z" to @h "b"
dist.loss "loss" in @h numerator "loss.loss" denominator @loss.denominator weight 1.000000e+00
dist.optimizer adamw lr 1.000000e-02
dist.dims {batch = #nn.dim<sample>}
dist.batch global 4 micro 2
dist.seed 0
