// RUN: dt-opt %s --emit=mlir --to=schedule --plan="m:tp=2,pp=2" --remarks=%t | FileCheck %s
// RUN: dt-opt %s --dist-agree-ties | FileCheck %s --check-prefix=NONE

// The embedding in the first stage and the class scores in the last are one
// parameter: its copies are cut alike, whatever each stage by itself would do.
// CHECK: dist.module @m.0
// CHECK: nn.parameter @emb : [[TYPE:.*]] trainable {{.*}}dist.layout = [[LAYOUT:#dist.layout<[^>]*>.*]]}
// CHECK: dist.module @m.1
// CHECK: nn.parameter @emb : [[TYPE]] trainable {{.*}}dist.layout = [[LAYOUT]]}
// CHECK: dist.tie @m.1::@emb = @m.0::@emb
// NONE-NOT: cut_hint

dist.module @m of "sample" role backbone {
  nn.dim @batch of "sample" max 4
  nn.parameter @emb : tensor<255x64xf32> trainable from #nn.onnx<"m.onnx", "emb">
  nn.parameter @w0 : tensor<256x64xf32> trainable from #nn.onnx<"m.onnx", "w0">
  nn.parameter @w1 : tensor<64x256xf32> trainable from #nn.onnx<"m.onnx", "w1">
  func.func @forward(%ids: tensor<?x32xi64, #nn.dims<batch>> {nn.name = "ids"}, %labels: tensor<?x32xi64, #nn.dims<batch>> {nn.name = "labels"}) -> (tensor<f32> {nn.name = "loss"}) {
    %e = nn.read @emb : tensor<255x64xf32>
    %h = nn.gather %e at %ids {axis = 0 : i64} : tensor<255x64xf32>, tensor<?x32xi64, #nn.dims<batch>>
    %w0 = nn.read @w0 : tensor<256x64xf32>
    %w1 = nn.read @w1 : tensor<64x256xf32>
    %a = nn.linear %h, %w0 : tensor<?x32x64xf32, #nn.dims<batch>>, tensor<256x64xf32>
    %b = nn.gelu %a : tensor<?x32x256xf32, #nn.dims<batch>>
    %c = nn.linear %b, %w1 : tensor<?x32x256xf32, #nn.dims<batch>>, tensor<64x256xf32>
    %d = nn.add %c, %h : tensor<?x32x64xf32, #nn.dims<batch>>, tensor<?x32x64xf32, #nn.dims<batch>>
    %logits = nn.linear %d, %e : tensor<?x32x64xf32, #nn.dims<batch>>, tensor<255x64xf32>
    %ce = nn.cross_entropy %logits, %labels : tensor<?x32x255xf32, #nn.dims<batch>>, tensor<?x32xi64, #nn.dims<batch>>
    %loss = nn.reduce sum %ce {axes = array<i64: 0, 1>} : tensor<?x32xf32, #nn.dims<batch>>
    return %loss : tensor<f32>
  }
  func.func @loss.denominator(%labels: tensor<?x32xi64, #nn.dims<batch>> {nn.name = "labels"}) -> tensor<f32> {
    %0 = nn.constant dense<-100> : tensor<i64>
    %1 = nn.cmp ne %labels, %0 : tensor<?x32xi64, #nn.dims<batch>>, tensor<i64>
    %2 = nn.cast %1 : tensor<?x32xi1, #nn.dims<batch>> to tensor<?x32xf32, #nn.dims<batch>>
    %3 = nn.reduce sum %2 {axes = array<i64: 0, 1>} : tensor<?x32xf32, #nn.dims<batch>>
    return %3 : tensor<f32>
  }
}
dist.loss "loss" in @m numerator "loss" denominator @loss.denominator weight 1.0
dist.optimizer adamw lr 1.000000e-03
dist.batch global 4 micro 4
