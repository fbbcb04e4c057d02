// RUN: dt-opt %s --lower-nn-to-rt --cse --rt-plan-memory --sched-solve=schedule=1f1b --lower-program --rt-verify-lowered -split-input-file -verify-diagnostics | FileCheck %s

// What is stored in 2 bytes comes first, in the order of completion, then what
// is trained in 4. Gradients are 128 bytes apart at least, so that neighbours of
// one type are as many elements apart in both regions.

dist.batch global 4 micro 2
dist.plan ranks 2 schedule "1f1b" pace @m reorder "none" bucket 1024 depth 1
dist.loss "text" in @m numerator "num" weight 1.0

dist.module @m attributes {dp = 2 : i64, ranks = array<i64: 0, 1>} {
  dist.forward @forward.fwd backward @forward.bwd
  nn.dim @batch of "sample" max 1
  nn.parameter @kept : tensor<40x64xf32> working bf16 from #nn.onnx<"m.onnx", "kept">
  nn.parameter @late : tensor<64x40xf32> working bf16 trainable from #nn.onnx<"m.onnx", "late">
  nn.parameter @scale : tensor<40xf32> trainable from #nn.onnx<"m.onnx", "scale">
  nn.parameter @bias : tensor<3xf32> working bf16 trainable from #nn.onnx<"m.onnx", "bias">
  nn.parameter @untouched : tensor<8xf32> working bf16 trainable from #nn.onnx<"m.onnx", "untouched"> {no_gradient}
  func.func @forward.fwd(%p: tensor<?x40xbf16, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<f32> {nn.name = "num"}) {
    %w = nn.read @late : tensor<64x40xbf16>
    %y = nn.linear %p, %w {stored = f32} : tensor<?x40xbf16, #nn.dims<batch>>, tensor<64x40xbf16>
    %0 = nn.reduce sum %y {axes = array<i64: 0, 1>} : tensor<?x64xf32, #nn.dims<batch>>
    return %0 : tensor<f32>
  }
  func.func @forward.bwd(%p: tensor<?x40xbf16, #nn.dims<batch>> {nn.name = "x"}, %seed: tensor<f32> {nn.gradient = #nn.gradient<of = "num", loss = "text">}) {
    %0 = nn.reduce sum %p {axes = array<i64: 0>, stored = f32} : tensor<?x40xbf16, #nn.dims<batch>>
    nn.accumulate @scale, %0 : tensor<40xf32>
    %1 = nn.slice %0 [0] step [1] {from_end = array<i1>} : tensor<40xf32> to tensor<3xf32>
    nn.accumulate @bias, %1 : tensor<3xf32>
    %2 = nn.constant dense<1.0> : tensor<64x40xf32>
    nn.accumulate @late, %2 : tensor<64x40xf32>
    return
  }
}
sched.problem @step ranks 2 microbatches 2 {
  sched.unit @u
  sched.stage @m of @u on [[0], [1]] forward [10] input [10] weight [10]
}

// bias (3 elements, in a step of 32), late (2560), scale (40 in 64), untouched
// (8 in 32), then what is frozen: 64 + 5120 + 256 + 64 + 5120 bytes, and
// gradients of 128 + 10240 + 256 + 128.
// CHECK: rt.module @m
// CHECK-SAME: parameters 10624 trainable 10752
// CHECK: rt.parameter_decl @kept : !rt.buffer<bf16, [40, 64]> index 4 at 5504 from
// CHECK: rt.parameter_decl @late : !rt.buffer<bf16, [64, 40]> index 1 at 64 trainable at 128 gradient
// CHECK: rt.parameter_decl @scale : !rt.buffer<f32, [40]> index 2 at 5184 trainable at 10368 gradient
// CHECK: rt.parameter_decl @bias : !rt.buffer<bf16, [3]> index 0 at 0 trainable gradient
// CHECK: rt.parameter_decl @untouched : !rt.buffer<bf16, [8]> index 3 at 5440 trainable at 10624 decay

// CHECK: rt.parameter @late : <bf16, [64, 40]>
// What ends first but has its place last is complete with what is before it.
// CHECK: rt.gradient @late : <f32, [64, 40]>
// CHECK: rt.gradients_ready 0 to 128
// CHECK: rt.gradients_ready 128 to 10624
// CHECK-NOT: rt.gradients_ready

// -----

dist.batch global 1 micro 1
dist.loss "text" in @m numerator "num" weight 1.0
// expected-error @+1 {{ties parameters of one module that are stored differently: as 'f32' and as 'bf16'}}
dist.tie @m::@v = @m::@w
dist.module @m {
  nn.dim @batch of "sample" max 1
  nn.parameter @w : tensor<4xf32> working bf16 from #nn.onnx<"m.onnx", "w">
  nn.parameter @v : tensor<4xf32> from #nn.onnx<"m.onnx", "v">
  func.func @forward(%p: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<f32> {nn.name = "num"}) {
    %0 = nn.reduce sum %p {axes = array<i64: 0, 1>} : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<f32>
  }
}
