// RUN: dt-opt %s --lower-nn-to-rt --cse --rt-plan-memory --sched-solve=schedule=1f1b --lower-program --rt-verify-lowered | FileCheck %s
// RUN: dt-opt %s --lower-nn-to-rt --cse --rt-plan-memory --sched-solve=schedule=1f1b --lower-program | grep -c gradients_ready | FileCheck %s --check-prefix=COUNT
// RUN: sed 's/dp = 2/dp = 1/; s/ranks = array<i64: 0, 1>/ranks = array<i64: 0>/; s/ranks 2/ranks 1/; s/\[\[0\], \[1\]\]/[[0]]/' %s > %t.mlir
// RUN: dt-opt %t.mlir --lower-nn-to-rt --cse --rt-plan-memory --sched-solve=schedule=1f1b --lower-program | FileCheck %s --check-prefix=ONE

// Two replicas: the backward function says which gradients are complete, and
// parameters have their places in that order. A layer's gradients are complete
// behind its call, those of a parameter that two layers share behind the last of
// these; what nothing adds to here (@idle) is complete from the begin.

dist.batch global 4 micro 2
dist.plan ranks 2 schedule "1f1b" pace @m reorder "none" bucket 1024 depth 1
dist.loss "text" in @m numerator "num" weight 1.0

dist.module @m attributes {dp = 2 : i64, ranks = array<i64: 0, 1>} {
  dist.forward @forward.fwd backward @forward.bwd
  nn.dim @batch of "sample" max 1
  nn.parameter @frozen : tensor<64xf32> from #nn.onnx<"m.onnx", "frozen">
  nn.parameter @shared : tensor<64xf32> trainable from #nn.onnx<"m.onnx", "shared">
  nn.parameter @first : tensor<64xf32> trainable from #nn.onnx<"m.onnx", "first">
  nn.parameter @untouched : tensor<64xf32> trainable from #nn.onnx<"m.onnx", "untouched"> {no_gradient}
  nn.parameter @last : tensor<60xf32> trainable from #nn.onnx<"m.onnx", "last">
  nn.parameter @idle : tensor<64xf32> trainable from #nn.onnx<"m.onnx", "idle">
  func.func @forward.fwd(%p: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<f32> {nn.name = "num"}) {
    %0 = nn.reduce sum %p {axes = array<i64: 0, 1>} : tensor<?x64xf32, #nn.dims<batch>>
    return %0 : tensor<f32>
  }
  func.func private @layer.bwd(%p: tensor<?x64xf32, #nn.dims<batch>>, %g: tensor<f32>) -> (tensor<64xf32> {nn.param_grad}, tensor<64xf32> {nn.param_grad}) {
    %0 = nn.mul %p, %g : tensor<?x64xf32, #nn.dims<batch>>, tensor<f32>
    %1 = nn.reduce sum %0 {axes = array<i64: 0>} : tensor<?x64xf32, #nn.dims<batch>>
    %2 = nn.reduce sum %p {axes = array<i64: 0>} : tensor<?x64xf32, #nn.dims<batch>>
    return %1, %2 : tensor<64xf32>, tensor<64xf32>
  }
  func.func @forward.bwd(%p: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "x"}, %seed: tensor<f32> {nn.gradient = #nn.gradient<of = "num", loss = "text">}) {
    %1 = nn.slice %p [0, 0] step [1, 1] {from_end = array<i1>} : tensor<?x64xf32, #nn.dims<batch>> to tensor<?x60xf32, #nn.dims<batch>>
    %2 = nn.reduce sum %1 {axes = array<i64: 0>} : tensor<?x60xf32, #nn.dims<batch>>
    nn.accumulate @last, %2 : tensor<60xf32>
    %3:2 = func.call @layer.bwd(%p, %seed) : (tensor<?x64xf32, #nn.dims<batch>>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>)
    nn.accumulate @first, %3#0 : tensor<64xf32>
    nn.accumulate @shared, %3#1 : tensor<64xf32>
    %4 = nn.reduce sum %p {axes = array<i64: 0>} : tensor<?x64xf32, #nn.dims<batch>>
    nn.accumulate @shared, %4 : tensor<64xf32>
    return
  }
}
sched.problem @step ranks 2 microbatches 2 {
  sched.unit @u
  sched.stage @m of @u on [[0], [1]] forward [10] input [10] weight [10]
}

// @idle, @last (60 elements, padded), @first, @shared; then what has no
// gradient.
// CHECK: rt.parameter_decl @frozen : {{.*}} index 5 at 1280 from
// CHECK: rt.parameter_decl @shared : {{.*}} index 3 at 768 trainable gradient
// CHECK: rt.parameter_decl @first : {{.*}} index 2 at 512 trainable gradient
// CHECK: rt.parameter_decl @untouched : {{.*}} index 4 at 1024 trainable decay
// CHECK: rt.parameter_decl @last : {{.*}} index 1 at 256 trainable gradient
// CHECK: rt.parameter_decl @idle : {{.*}} index 0 at 0 trainable gradient
// CHECK-LABEL: rt.func @forward.bwd
// CHECK: rt.kernel @reduce
// CHECK: rt.gradients_ready 0 to 512
// CHECK: rt.call @layer.bwd
// CHECK-NEXT: rt.gradients_ready 512 to 768
// CHECK-NEXT: rt.kernel @reduce
// CHECK: rt.gradients_ready 768 to 1024
// COUNT: 3

// One replica has nobody to wait for; places are the same.
// ONE: rt.parameter_decl @idle : {{.*}} index 0 at 0 trainable gradient
// ONE-NOT: gradients_ready
