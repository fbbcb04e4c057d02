// RUN: dt-opt %s --lower-nn-to-rt --cse --rt-plan-memory --sched-solve=schedule=1f1b --lower-program --rt-place-waits --rt-verify-lowered -split-input-file | FileCheck %s
// RUN: sed 's/to @llm.1 "h"$/& {depth = 2 : i64}/' %s > %t.mlir
// RUN: dt-opt %t.mlir --lower-nn-to-rt --cse --rt-plan-memory --sched-solve=schedule=1f1b --lower-program -split-input-file | FileCheck %s --check-prefix=DEPTH

// Two stages of one unit on two ranks, three microbatches: slots as there are
// microbatches in flight, receives posted ahead, reductions behind the last
// backward.

dist.batch global 3 micro 1
dist.plan ranks 2 schedule "1f1b" pace @llm reorder "both" bucket 1024 depth 1 narrow_sums
dist.edge @llm.0 "h" to @llm.1 "h"
dist.loss "text" in @llm.1 numerator "num" weight 1.0
dist.tie @llm.1::@scale = @llm.0::@scale

dist.module @llm.0 origin "llm" attributes {unit = "llm", ranks = array<i64: 0>, zero = 1 : i64} {
  dist.forward @forward.fwd backward @forward.bwd
  nn.dim @batch of "sample" max 1
  nn.parameter @scale : tensor<64xf32> trainable from #nn.init<"ones", "", "">
  nn.parameter @w : tensor<64x32xf32> trainable from #nn.onnx<"llm.onnx", "w">
  func.func @forward.fwd(%p: tensor<?x32xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x64xf32, #nn.dims<batch>> {nn.name = "h"}, tensor<?x64xf32, #nn.dims<batch>> {nn.residual}) {
    %w = nn.read @w : tensor<64x32xf32>
    %0 = nn.linear %p, %w : tensor<?x32xf32, #nn.dims<batch>>, tensor<64x32xf32>
    %1 = nn.exp %0 : tensor<?x64xf32, #nn.dims<batch>>
    return %1, %0 : tensor<?x64xf32, #nn.dims<batch>>, tensor<?x64xf32, #nn.dims<batch>>
  }
  func.func @forward.bwd(%p: tensor<?x32xf32, #nn.dims<batch>> {nn.name = "x"}, %s: tensor<?x64xf32, #nn.dims<batch>> {nn.residual}, %g: tensor<?x64xf32, #nn.dims<batch>> {nn.gradient = #nn.gradient<of = "h", edge = "llm.1.h">}) {
    %1 = nn.mul %s, %g : tensor<?x64xf32, #nn.dims<batch>>, tensor<?x64xf32, #nn.dims<batch>>
    %0 = nn.linear_dw %p, %1 : tensor<?x32xf32, #nn.dims<batch>>, tensor<?x64xf32, #nn.dims<batch>>
    nn.accumulate @w, %0 : tensor<64x32xf32>
    return
  }
}
dist.module @llm.1 origin "llm" attributes {unit = "llm", stage = 1 : i64, ranks = array<i64: 1>} {
  dist.forward @forward.fwd backward @forward.bwd
  nn.dim @batch of "sample" max 1
  nn.parameter @scale : tensor<64xf32> trainable from #nn.init<"ones", "", "">
  func.func @forward.fwd(%e: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "h"}) -> (tensor<f32> {nn.name = "num"}) {
    %s = nn.read @scale : tensor<64xf32>
    %h = nn.mul %e, %s : tensor<?x64xf32, #nn.dims<batch>>, tensor<64xf32>
    %0 = nn.reduce sum %h {axes = array<i64: 0, 1>} : tensor<?x64xf32, #nn.dims<batch>>
    return %0 : tensor<f32>
  }
  func.func @forward.bwd(%e: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "h"}, %seed: tensor<f32> {nn.gradient = #nn.gradient<of = "num", loss = "text">}) -> (tensor<?x64xf32, #nn.dims<batch>> {nn.gradient = #nn.gradient<of = "h">}) {
    %1 = nn.mul %e, %seed : tensor<?x64xf32, #nn.dims<batch>>, tensor<f32>
    %3 = nn.reduce sum %1 {axes = array<i64: 0>} : tensor<?x64xf32, #nn.dims<batch>>
    nn.accumulate @scale, %3 : tensor<64xf32>
    return %1 : tensor<?x64xf32, #nn.dims<batch>>
  }
}
sched.problem @step ranks 2 microbatches 3 {
  sched.unit @llm
  sched.stage @llm.0 of @llm on [[0]] forward [10] input [10] weight [10]
  sched.stage @llm.1 of @llm on [[1]] forward [10] input [10] weight [10]
  sched.edge @llm.0 to @llm.1 latency 1
}

// CHECK: rt.program @program batch 3 micro 1 seed 0 pace @llm.0 schedule "1f1b" reorder "both" bucket 1024 narrow_sums {
// CHECK: rt.module @llm.0 origin "llm" unit "llm" ranks [0] zero 1 arena {{[0-9]+}} scratch {{[0-9]+}} parameters 8448 trainable 8448 {
// CHECK: rt.parameter_decl @scale : !rt.buffer<f32, [64]> index 0 at 0 trainable gradient decay init "ones" from []
// Two microbatches are in flight on rank 0, one message is posted ahead on rank 1.
// CHECK: rt.buffer_decl @x : !rt.buffer<f32, [batch, 32]> at 0 stride 128
// CHECK: rt.buffer_decl @h : !rt.buffer<f32, [batch, 64]> at 256 stride 256
// CHECK: rt.buffer_decl @saved0 : !rt.buffer<f32, [batch, 64]> at 768 stride 256
// CHECK: rt.buffer_decl @grad.llm.1.h : !rt.buffer<f32, [batch, 64]> at 1280 stride 256
// CHECK: rt.module @llm.1 origin "llm" unit "llm" stage 1 ranks [1]
// CHECK: rt.parameter_decl @scale : !rt.buffer<f32, [64]> index 2 at 0 trainable gradient decay init "ones" from [] tied @llm.0::@scale
// CHECK: rt.buffer_decl @h : !rt.buffer<f32, [batch, 64]> at 0 stride 256 received
// CHECK: rt.buffer_decl @num : !rt.buffer<f32, []> at 512 stride 0
// CHECK: rt.buffer_decl @grad.h : !rt.buffer<f32, [batch, 64]> at 576 stride 0
// CHECK: rt.edge @llm.0 0 to @llm.1 0 gradient @grad.h to @grad.llm.1.h
// CHECK: rt.rank 0 {
// CHECK-NEXT: rt.task forward @llm.0 microbatch 0 slot 0
// CHECK-NEXT: rt.task receive edge 0 microbatch 0 slot 0 gradient
// CHECK-NEXT: rt.task send edge 0 microbatch 0 slot 0
// CHECK-NEXT: rt.task forward @llm.0 microbatch 1 slot 1
// CHECK-NEXT: rt.task receive edge 0 microbatch 1 slot 1 gradient
// CHECK-NEXT: rt.task send edge 0 microbatch 1 slot 1
// CHECK-NEXT: rt.task backward @llm.0 microbatch 0 slot 0
// CHECK-NEXT: rt.task forward @llm.0 microbatch 2 slot 0
// CHECK-NEXT: rt.task receive edge 0 microbatch 2 slot 0 gradient
// CHECK-NEXT: rt.task send edge 0 microbatch 2 slot 0
// CHECK-NEXT: rt.task backward @llm.0 microbatch 1 slot 1
// CHECK-NEXT: rt.task backward @llm.0 microbatch 2 slot 0
// CHECK-NEXT: rt.task reduce @llm.0 microbatch 0 slot 0
// CHECK-NEXT: }
// CHECK-NEXT: rt.rank 1 {
// CHECK-NEXT: rt.task receive edge 0 microbatch 0 slot 0
// CHECK-NEXT: rt.task forward @llm.1 microbatch 0 slot 0
// CHECK-NEXT: rt.task receive edge 0 microbatch 1 slot 1
// CHECK-NEXT: rt.task backward @llm.1 microbatch 0 slot 0
// CHECK-NEXT: rt.task send edge 0 microbatch 0 slot 0 gradient
// CHECK-NEXT: rt.task forward @llm.1 microbatch 1 slot 0 received 1
// CHECK-NEXT: rt.task receive edge 0 microbatch 2 slot 0
// CHECK-NEXT: rt.task backward @llm.1 microbatch 1 slot 0 received 1
// CHECK-NEXT: rt.task send edge 0 microbatch 1 slot 0 gradient
// CHECK-NEXT: rt.task forward @llm.1 microbatch 2 slot 0
// CHECK-NEXT: rt.task backward @llm.1 microbatch 2 slot 0
// CHECK-NEXT: rt.task send edge 0 microbatch 2 slot 0 gradient
// CHECK-NEXT: rt.task reduce @llm.1 microbatch 0 slot 0
// CHECK-NEXT: }
// An edge may say that more are posted ahead.
// DEPTH: rt.rank 1 {
// DEPTH-NEXT: rt.task receive edge 0 microbatch 0 slot 0
// DEPTH-NEXT: rt.task receive edge 0 microbatch 1 slot 1
// DEPTH-NEXT: rt.task forward @llm.1 microbatch 0 slot 0
// DEPTH-NEXT: rt.task receive edge 0 microbatch 2 slot 2
// DEPTH-NEXT: rt.task backward @llm.1 microbatch 0 slot 0

// -----

// A frozen encoder on rank 0 feeds two replicas of a tower, and these a
// whole-batch head on both ranks. The encoder's messages: one to the other
// rank, one to itself. The head: everybody gets all rows, and gives itself the
// gradient.

dist.batch global 4 micro 2
dist.plan ranks 2 schedule "1f1b" pace @tower reorder "none" bucket 1024 depth 2
dist.edge @encoder "e" to @tower "e"
dist.edge @tower "z" to @head "z"
dist.loss "contrast" in @head numerator "num" weight 1.0

dist.module @encoder {
  nn.dim @batch of "sample" max 2
  func.func @forward(%p: tensor<?x32xf32, #nn.dims<batch>> {nn.name = "pixels"}) -> (tensor<?x32xf32, #nn.dims<batch>> {nn.name = "e"}) {
    %0 = nn.exp %p : tensor<?x32xf32, #nn.dims<batch>>
    return %0 : tensor<?x32xf32, #nn.dims<batch>>
  }
}
dist.module @tower attributes {dp = 2 : i64, ranks = array<i64: 0, 1>} {
  dist.forward @forward.fwd backward @forward.bwd
  nn.dim @batch of "sample" max 1
  nn.parameter @w : tensor<64x32xf32> trainable from #nn.onnx<"clip.onnx", "w">
  func.func @forward.fwd(%p: tensor<?x32xf32, #nn.dims<batch>> {nn.name = "e"}) -> (tensor<?x64xf32, #nn.dims<batch>> {nn.name = "z"}) {
    %w = nn.read @w : tensor<64x32xf32>
    %0 = nn.linear %p, %w : tensor<?x32xf32, #nn.dims<batch>>, tensor<64x32xf32>
    return %0 : tensor<?x64xf32, #nn.dims<batch>>
  }
  func.func @forward.bwd(%p: tensor<?x32xf32, #nn.dims<batch>> {nn.name = "e"}, %g: tensor<?x64xf32, #nn.dims<batch>> {nn.gradient = #nn.gradient<of = "z", edge = "head.z">}) {
    %0 = nn.linear_dw %p, %g : tensor<?x32xf32, #nn.dims<batch>>, tensor<?x64xf32, #nn.dims<batch>>
    nn.accumulate @w, %0 : tensor<64x32xf32>
    return
  }
}
dist.module @head whole_batch attributes {ranks = array<i64: 0, 1>} {
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
sched.problem @step ranks 2 microbatches 2 {
  sched.unit @encoders
  sched.unit @towers
  sched.unit @heads
  sched.stage @encoder of @encoders on [[0]] forward [10] no_backward
  sched.stage @tower of @towers on [[0], [1]] forward [10] input [10] weight [10]
  sched.stage @head of @heads on [[0, 1]] forward [10] batch_sync
  sched.edge @encoder to @tower latency 1 no_gradient
  sched.edge @tower to @head latency 1
}

// CHECK: rt.module @encoder ranks [0] arena 512
// CHECK: rt.buffer_decl @e : !rt.buffer<f32, [batch, 32]> at 256 stride 0
// CHECK: rt.module @tower dp 2 ranks [0, 1]
// CHECK: rt.buffer_decl @e : !rt.buffer<f32, [batch, 32]> at 0 stride 128 received
// CHECK: rt.buffer_decl @z : !rt.buffer<f32, [batch, 64]> at 256 stride 256
// CHECK: rt.module @head whole_batch ranks [0, 1]
// CHECK: rt.buffer_decl @z : !rt.buffer<f32, [all, 64]> at 0 stride 0 received
// CHECK: rt.rank 0 {
// CHECK-NEXT: rt.task receive edge 0 microbatch 0 slot 0
// CHECK-NEXT: rt.task receive edge 0 microbatch 1 slot 1
// CHECK-NEXT: rt.task receive edge 1 microbatch 0 slot 0
// CHECK-NEXT: rt.task receive edge 1 microbatch 0 slot 0 peer 1
// CHECK-NEXT: rt.task receive edge 1 microbatch 1 slot 0
// CHECK-NEXT: rt.task receive edge 1 microbatch 1 slot 0 peer 1
// CHECK-NEXT: rt.task forward @encoder microbatch 0 slot 0
// CHECK-NEXT: rt.task send edge 0 microbatch 0 slot 0
// CHECK-NEXT: rt.task send edge 0 microbatch 0 slot 0 peer 1
// CHECK-NEXT: rt.task forward @tower microbatch 0 slot 0
// CHECK-NEXT: rt.task receive edge 1 microbatch 0 slot 0 gradient
// CHECK-NEXT: rt.task send edge 1 microbatch 0 slot 0
// CHECK-NEXT: rt.task send edge 1 microbatch 0 slot 0 peer 1
// CHECK: rt.task forward @tower microbatch 1 slot 1 received 1
// CHECK: rt.task forward @head microbatch 0 slot 0
// CHECK-NEXT: rt.task backward @head microbatch 0 slot 0
// CHECK-NEXT: rt.task send edge 1 microbatch 0 slot 0 gradient
// CHECK-NEXT: rt.task send edge 1 microbatch 1 slot 0 gradient
// CHECK-NEXT: rt.task backward @tower microbatch 0 slot 0
// CHECK: rt.rank 1 {
// CHECK: rt.task forward @tower microbatch 0 slot 0
// CHECK-NEXT: rt.task receive edge 1 microbatch 0 slot 0 peer 1 gradient
// CHECK: rt.task send edge 1 microbatch 0 slot 0 peer 1 gradient

// -----

// An encoder of images in two pieces feeds, on another rank, one in one piece,
// which feeds one in two pieces on the same ranks. A task is a row a piece, a
// message one for each pair of pieces, in the same order on both ends; pieces
// have slots of their own. Between colocated modules with other pieces rows are
// sent from the rank to itself; with equal pieces they are copied.

dist.batch global 2 micro 2
dist.plan ranks 2 schedule "1f1b" pace @b reorder "none" bucket 1024 depth 2
dist.edge @a "e" to @b "e"
dist.edge @b "h" to @c "h"
dist.edge @c "z" to @d "z"
dist.loss "loss" in @d numerator "num" weight 1.0

dist.module @a attributes {sub = 2 : i64} {
  dist.forward @forward.fwd backward @forward.bwd
  nn.dim @batch of "sample" max 1
  nn.parameter @w : tensor<64x32xf32> trainable from #nn.onnx<"a.onnx", "w">
  func.func @forward.fwd(%p: tensor<?x32xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x64xf32, #nn.dims<batch>> {nn.name = "e"}) {
    %w = nn.read @w : tensor<64x32xf32>
    %0 = nn.linear %p, %w : tensor<?x32xf32, #nn.dims<batch>>, tensor<64x32xf32>
    return %0 : tensor<?x64xf32, #nn.dims<batch>>
  }
  func.func @forward.bwd(%p: tensor<?x32xf32, #nn.dims<batch>> {nn.name = "x"}, %g: tensor<?x64xf32, #nn.dims<batch>> {nn.gradient = #nn.gradient<of = "e", edge = "b.e">}) {
    %0 = nn.linear_dw %p, %g : tensor<?x32xf32, #nn.dims<batch>>, tensor<?x64xf32, #nn.dims<batch>>
    nn.accumulate @w, %0 : tensor<64x32xf32>
    return
  }
}
dist.module @b attributes {ranks = array<i64: 1>} {
  dist.forward @forward.fwd backward @forward.bwd
  nn.dim @batch of "sample" max 2
  func.func @forward.fwd(%p: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "e"}) -> (tensor<?x64xf32, #nn.dims<batch>> {nn.name = "h"}) {
    %0 = nn.exp %p : tensor<?x64xf32, #nn.dims<batch>>
    return %0 : tensor<?x64xf32, #nn.dims<batch>>
  }
  func.func @forward.bwd(%p: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "e"}, %g: tensor<?x64xf32, #nn.dims<batch>> {nn.gradient = #nn.gradient<of = "h", edge = "c.h">}) -> (tensor<?x64xf32, #nn.dims<batch>> {nn.gradient = #nn.gradient<of = "e">}) {
    %0 = nn.mul %p, %g : tensor<?x64xf32, #nn.dims<batch>>, tensor<?x64xf32, #nn.dims<batch>>
    return %0 : tensor<?x64xf32, #nn.dims<batch>>
  }
}
dist.module @c attributes {ranks = array<i64: 1>, sub = 2 : i64} {
  dist.forward @forward.fwd backward @forward.bwd
  nn.dim @batch of "sample" max 1
  func.func @forward.fwd(%p: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "h"}) -> (tensor<?x64xf32, #nn.dims<batch>> {nn.name = "z"}) {
    %0 = nn.exp %p : tensor<?x64xf32, #nn.dims<batch>>
    return %0 : tensor<?x64xf32, #nn.dims<batch>>
  }
  func.func @forward.bwd(%p: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "h"}, %g: tensor<?x64xf32, #nn.dims<batch>> {nn.gradient = #nn.gradient<of = "z", edge = "d.z">}) -> (tensor<?x64xf32, #nn.dims<batch>> {nn.gradient = #nn.gradient<of = "h">}) {
    %0 = nn.mul %p, %g : tensor<?x64xf32, #nn.dims<batch>>, tensor<?x64xf32, #nn.dims<batch>>
    return %0 : tensor<?x64xf32, #nn.dims<batch>>
  }
}
dist.module @d attributes {ranks = array<i64: 1>, sub = 2 : i64} {
  dist.forward @forward.fwd backward @forward.bwd
  nn.dim @batch of "sample" max 1
  func.func @forward.fwd(%e: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "z"}) -> (tensor<f32> {nn.name = "num"}) {
    %0 = nn.reduce sum %e {axes = array<i64: 0, 1>} : tensor<?x64xf32, #nn.dims<batch>>
    return %0 : tensor<f32>
  }
  func.func @forward.bwd(%e: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "z"}, %seed: tensor<f32> {nn.gradient = #nn.gradient<of = "num", loss = "loss">}) -> (tensor<?x64xf32, #nn.dims<batch>> {nn.gradient = #nn.gradient<of = "z">}) {
    %1 = nn.mul %e, %seed : tensor<?x64xf32, #nn.dims<batch>>, tensor<f32>
    return %1 : tensor<?x64xf32, #nn.dims<batch>>
  }
}
sched.problem @step ranks 2 microbatches 1 {
  sched.unit @units
  sched.stage @a of @units on [[0]] forward [10] input [10] weight [10]
  sched.stage @b of @units on [[1]] forward [10] input [10]
  sched.stage @c of @units on [[1]] forward [10] input [10]
  sched.stage @d of @units on [[1]] forward [10] input [10]
  sched.edge @a to @b latency 1
  sched.edge @b to @c latency 1
  sched.edge @c to @d latency 1
}

// CHECK: rt.module @a ranks [0] sub 2 arena 1280
// CHECK: rt.buffer_decl @x : !rt.buffer<f32, [batch, 32]> at 0 stride 128
// CHECK: rt.rank 0 {
// CHECK-NEXT: rt.task forward @a microbatch 0 slot 0
// CHECK-NEXT: rt.task forward @a microbatch 0 piece 1 slot 1
// CHECK-NEXT: rt.task receive edge 0 microbatch 0 slot 0 gradient
// CHECK-NEXT: rt.task receive edge 0 microbatch 0 piece 1 slot 1 gradient
// CHECK-NEXT: rt.task send edge 0 microbatch 0 slot 0
// CHECK-NEXT: rt.task send edge 0 microbatch 0 piece 1 slot 1
// CHECK-NEXT: rt.task backward @a microbatch 0 slot 0
// CHECK-NEXT: rt.task backward @a microbatch 0 piece 1 slot 1
// CHECK-NEXT: rt.task reduce @a microbatch 0 slot 0
// CHECK: rt.rank 1 {
// CHECK-NEXT: rt.task receive edge 0 microbatch 0 slot 0
// CHECK-NEXT: rt.task receive edge 0 microbatch 0 slot 0 peer 1
// CHECK-NEXT: rt.task receive edge 1 microbatch 0 slot 0
// CHECK-NEXT: rt.task receive edge 1 microbatch 0 piece 1 slot 1
// CHECK-NEXT: rt.task forward @b microbatch 0 slot 0
// CHECK-NEXT: rt.task receive edge 1 microbatch 0 slot 0 gradient
// CHECK-NEXT: rt.task receive edge 1 microbatch 0 slot 0 peer 1 gradient
// CHECK-NEXT: rt.task send edge 1 microbatch 0 slot 0
// CHECK-NEXT: rt.task send edge 1 microbatch 0 slot 0 peer 1
// CHECK-NEXT: rt.task forward @c microbatch 0 slot 0
// CHECK-NEXT: rt.task forward @c microbatch 0 piece 1 slot 1 received 1
// CHECK-NEXT: rt.task copy edge 2 microbatch 0 slot 0
// CHECK-NEXT: rt.task copy edge 2 microbatch 0 piece 1 slot 1 peer 1
// CHECK-NEXT: rt.task forward @d microbatch 0 slot 0
// CHECK-NEXT: rt.task forward @d microbatch 0 piece 1 slot 0 received 1
// CHECK-NEXT: rt.task backward @d microbatch 0 slot 0
// CHECK-NEXT: rt.task backward @d microbatch 0 piece 1 slot 1 received 1
// CHECK-NEXT: rt.task copy edge 2 microbatch 0 slot 0 gradient
// CHECK-NEXT: rt.task copy edge 2 microbatch 0 piece 1 slot 1 peer 1 gradient
// CHECK-NEXT: rt.task backward @c microbatch 0 slot 0
// CHECK-NEXT: rt.task backward @c microbatch 0 piece 1 slot 1 received 1
// CHECK-NEXT: rt.task send edge 1 microbatch 0 slot 0 gradient
// CHECK-NEXT: rt.task send edge 1 microbatch 0 piece 1 slot 1 gradient
// CHECK-NEXT: rt.task backward @b microbatch 0 slot 0
// CHECK-NEXT: rt.task send edge 0 microbatch 0 slot 0 gradient
// CHECK-NEXT: rt.task send edge 0 microbatch 0 slot 0 peer 1 gradient
