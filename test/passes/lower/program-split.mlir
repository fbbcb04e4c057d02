// RUN: dt-opt %s --lower-nn-to-rt --cse --rt-plan-memory --sched-solve=schedule=zb-h1 --lower-program --rt-place-waits --rt-verify-lowered | FileCheck %s

// Two stages on the same rank with split backward functions. The first has no
// gradient of inputs, hence no input half and no row for it. Both run on the
// same ranks, so that edges are copies.

dist.batch global 2 micro 1
dist.plan ranks 1 schedule "zb-h1" pace @llm reorder "none" bucket 1024 depth 2
dist.edge @a "h" to @b "h"
dist.loss "text" in @b numerator "num" weight 1.0

dist.module @a attributes {unit = "llm"} {
  dist.forward @forward.fwd weight @forward.bwd.weight
  nn.dim @batch of "sample" max 1
  nn.parameter @w : tensor<64xf32> trainable from #nn.onnx<"a.onnx", "w">
  func.func @forward.fwd(%x: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x64xf32, #nn.dims<batch>> {nn.name = "h"}, tensor<?x64xf32, #nn.dims<batch>> {nn.residual}, tensor<?x64xf32, #nn.dims<batch>> {nn.residual}) {
    %w = nn.read @w : tensor<64xf32>
    %0 = nn.mul %x, %w : tensor<?x64xf32, #nn.dims<batch>>, tensor<64xf32>
    %1 = nn.exp %0 : tensor<?x64xf32, #nn.dims<batch>>
    %2 = nn.exp %1 : tensor<?x64xf32, #nn.dims<batch>>
    return %2, %0, %1 : tensor<?x64xf32, #nn.dims<batch>>, tensor<?x64xf32, #nn.dims<batch>>, tensor<?x64xf32, #nn.dims<batch>>
  }
  func.func @forward.bwd.weight(%s: tensor<?x64xf32, #nn.dims<batch>> {nn.residual = 1 : i64}, %g: tensor<?x64xf32, #nn.dims<batch>> {nn.gradient = #nn.gradient<of = "h", edge = "b.h">}) {
    %1 = nn.mul %s, %g : tensor<?x64xf32, #nn.dims<batch>>, tensor<?x64xf32, #nn.dims<batch>>
    %0 = nn.reduce sum %1 {axes = array<i64: 0>} : tensor<?x64xf32, #nn.dims<batch>>
    nn.accumulate @w, %0 : tensor<64xf32>
    return
  }
}
dist.module @b attributes {unit = "llm", stage = 1 : i64} {
  dist.forward @forward.fwd input @forward.bwd.input weight @forward.bwd.weight
  nn.dim @batch of "sample" max 1
  nn.parameter @w : tensor<64xf32> trainable from #nn.onnx<"b.onnx", "w">
  func.func @forward.fwd(%h: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "h"}) -> (tensor<f32> {nn.name = "num"}, tensor<64xf32> {nn.residual}) {
    %w = nn.read @w : tensor<64xf32>
    %0 = nn.mul %h, %w : tensor<?x64xf32, #nn.dims<batch>>, tensor<64xf32>
    %1 = nn.reduce sum %0 {axes = array<i64: 0, 1>} : tensor<?x64xf32, #nn.dims<batch>>
    %2 = nn.exp %w : tensor<64xf32>
    return %1, %2 : tensor<f32>, tensor<64xf32>
  }
  func.func @forward.bwd.input(%h: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "h"}, %seed: tensor<f32> {nn.gradient = #nn.gradient<of = "num", loss = "text">}) -> (tensor<?x64xf32, #nn.dims<batch>> {nn.gradient = #nn.gradient<of = "h">}, tensor<?x64xf32, #nn.dims<batch>> {nn.residual}) {
    %0 = nn.mul %h, %seed : tensor<?x64xf32, #nn.dims<batch>>, tensor<f32>
    %1 = nn.exp %0 : tensor<?x64xf32, #nn.dims<batch>>
    return %0, %1 : tensor<?x64xf32, #nn.dims<batch>>, tensor<?x64xf32, #nn.dims<batch>>
  }
  func.func @forward.bwd.weight(%kept: tensor<?x64xf32, #nn.dims<batch>> {nn.residual = 1 : i64}) {
    %0 = nn.reduce sum %kept {axes = array<i64: 0>} : tensor<?x64xf32, #nn.dims<batch>>
    nn.accumulate @w, %0 : tensor<64xf32>
    return
  }
}
sched.problem @step ranks 1 microbatches 2 {
  sched.unit @llm
  sched.stage @a of @llm on [[0]] forward [10] input [10] weight [10]
  sched.stage @b of @llm on [[0]] forward [10] input [10] weight [10]
  sched.edge @a to @b latency 0
}

// CHECK: rt.module @a unit "llm"
// CHECK: rt.entry forward @forward.fwd [@x, @h, @saved0, @saved1]
// CHECK-NEXT: rt.entry backward_weight @forward.bwd.weight [@saved1, @grad.b.h]
// CHECK: rt.module @b unit "llm" stage 1
// CHECK-DAG: rt.buffer_decl @h : {{.*}} at {{[0-9]+}} stride 0 received
// CHECK-DAG: rt.buffer_decl @saved0 : {{.*}} at {{[0-9]+}} stride 0 early
// CHECK-DAG: rt.buffer_decl @grad.h : {{.*}} at {{[0-9]+}} stride 256 late
// CHECK-DAG: rt.buffer_decl @kept1 : {{.*}} at {{[0-9]+}} stride 256 late
// CHECK: rt.entry backward_input @forward.bwd.input [@h, @grad.h, @kept1]
// CHECK-NEXT: rt.entry backward_weight @forward.bwd.weight [@kept1]
// What only gradients of inputs read has one slot here, as has what they alone
// take from the edge; what they make for gradients of weights has two.
// CHECK: rt.rank 0 {
// CHECK-NEXT: rt.task forward @a microbatch 0 slot 0
// CHECK-NEXT: rt.task copy edge 0 microbatch 0 slot 0
// CHECK-NEXT: rt.task forward @b microbatch 0 slot 0
// CHECK-NEXT: rt.task backward_input @b microbatch 0 slot 0
// CHECK-NEXT: rt.task copy edge 0 microbatch 0 slot 0 gradient
// CHECK-NEXT: rt.task forward @a microbatch 1 slot 1
// CHECK-NEXT: rt.task copy edge 0 microbatch 1 slot 1
// CHECK-NEXT: rt.task forward @b microbatch 1 slot 0
// CHECK-NEXT: rt.task backward_input @b microbatch 1 slot 0 late 1
// CHECK-NEXT: rt.task copy edge 0 microbatch 1 slot 1 peer 1 gradient
// CHECK-NEXT: rt.task backward_weight @a microbatch 0 slot 0
// CHECK-NEXT: rt.task backward_weight @b microbatch 0 slot 0
// CHECK-NEXT: rt.task backward_weight @a microbatch 1 slot 1
// CHECK-NEXT: rt.task reduce @a microbatch 0 slot 0
// CHECK-NEXT: rt.task backward_weight @b microbatch 1 slot 0 late 1
// CHECK-NEXT: rt.task reduce @b microbatch 0 slot 0
// CHECK-NEXT: }
