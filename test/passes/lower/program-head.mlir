// RUN: dt-opt %s --lower-nn-to-rt --cse --rt-plan-memory --lower-program --rt-place-waits --rt-verify-lowered | FileCheck %s

// A head over the whole batch: the tower runs for all microbatches first, each
// sends its rows to everybody who runs the head, here itself; then the head;
// then the tower backward.

dist.batch global 4 micro 2
dist.edge @tower "z" to @head "z"
dist.loss "contrast" in @head numerator "num" weight 1.0

dist.module @tower {
  dist.forward @forward.fwd backward @forward.bwd
  nn.dim @batch of "sample" max 2
  nn.parameter @w : tensor<64x32xf32> trainable from #nn.onnx<"clip.onnx", "w">
  func.func @forward.fwd(%p: tensor<?x32xf32, #nn.dims<batch>> {nn.name = "pixels"}) -> (tensor<?x64xf32, #nn.dims<batch>> {nn.name = "z"}) {
    %w = nn.read @w : tensor<64x32xf32>
    %0 = nn.linear %p, %w : tensor<?x32xf32, #nn.dims<batch>>, tensor<64x32xf32>
    return %0 : tensor<?x64xf32, #nn.dims<batch>>
  }
  func.func @forward.bwd(%p: tensor<?x32xf32, #nn.dims<batch>> {nn.name = "pixels"}, %g: tensor<?x64xf32, #nn.dims<batch>> {nn.gradient = #nn.gradient<of = "z", edge = "head.z">}) {
    %0 = nn.linear_dw %p, %g : tensor<?x32xf32, #nn.dims<batch>>, tensor<?x64xf32, #nn.dims<batch>>
    nn.accumulate @w, %0 : tensor<64x32xf32>
    return
  }
}
dist.module @head whole_batch {
  dist.forward @forward.fwd backward @forward.bwd
  nn.dim @all of "sample" max 4
  func.func @forward.fwd(%z: tensor<?x64xf32, #nn.dims<all>> {nn.name = "z"}) -> (tensor<f32> {nn.name = "num"}) {
    %0 = nn.reduce sum %z {axes = array<i64: 0, 1>} : tensor<?x64xf32, #nn.dims<all>>
    return %0 : tensor<f32>
  }
  func.func @forward.bwd(%z: tensor<?x64xf32, #nn.dims<all>> {nn.name = "z"}, %seed: tensor<f32> {nn.gradient = #nn.gradient<of = "num", loss = "contrast">}) -> (tensor<?x64xf32, #nn.dims<all>> {nn.gradient = #nn.gradient<of = "z">}) {
    %0 = nn.mul %z, %seed : tensor<?x64xf32, #nn.dims<all>>, tensor<f32>
    return %0 : tensor<?x64xf32, #nn.dims<all>>
  }
}

// CHECK: rt.module @tower ranks [0]
// A slot a microbatch for what the backward function needs.
// CHECK: rt.buffer_decl @pixels : !rt.buffer<f32, [batch, 32]> at 0 stride 256
// CHECK: rt.buffer_decl @z : !rt.buffer<f32, [batch, 64]> at 512 stride 512
// CHECK: rt.buffer_decl @grad.head.z : !rt.buffer<f32, [batch, 64]> at 1536 stride 512
// CHECK: rt.module @head whole_batch ranks [0]
// CHECK: rt.buffer_decl @z : !rt.buffer<f32, [all, 64]> at 0 stride 0 received
// CHECK: rt.buffer_decl @grad.z : !rt.buffer<f32, [all, 64]> at {{[0-9]+}} stride 0{{$}}
// CHECK: rt.loss @contrast weight 1.000000e+00 of @head @num reads []
// CHECK: rt.task receive edge 0 microbatch 0 slot 0
// CHECK-NEXT: rt.task receive edge 0 microbatch 1 slot 0
// CHECK-NEXT: rt.task forward @tower microbatch 0 slot 0
// CHECK-NEXT: rt.task receive edge 0 microbatch 0 slot 0 gradient
// CHECK-NEXT: rt.task send edge 0 microbatch 0 slot 0
// CHECK-NEXT: rt.task forward @tower microbatch 1 slot 1
// CHECK-NEXT: rt.task receive edge 0 microbatch 1 slot 1 gradient
// CHECK-NEXT: rt.task send edge 0 microbatch 1 slot 1
// CHECK-NEXT: rt.task forward @head microbatch 0 slot 0
// CHECK-NEXT: rt.task backward @head microbatch 0 slot 0
// CHECK-NEXT: rt.task send edge 0 microbatch 0 slot 0 gradient
// CHECK-NEXT: rt.task send edge 0 microbatch 1 slot 0 gradient
// CHECK-NEXT: rt.task backward @tower microbatch 0 slot 0
// CHECK-NEXT: rt.task backward @tower microbatch 1 slot 1
// CHECK-NEXT: rt.task reduce @tower microbatch 0 slot 0
