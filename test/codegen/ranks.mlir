// Tables of a program for several ranks: cut and tied parameters, slots of
// received buffers, edges, rows of messages, equal lists once.
// RUN: dt-opt %s --dt-print-program -o /dev/null | FileCheck %s

// CHECK: class AG {
// CHECK: dt::rt::collective(context.group, {.kind = dt::rt::CollectiveKind::AllReduce, .reduction = dt::rt::Reduction::Sum, .type = dt::rt::DType::F32, .chunk = size.n, .over = 2, .stride = 1}, argument, argument);

// Each buffer has its slot of its own kind.
// CHECK: class BContext {
// CHECK: std::byte* scratch
// CHECK: // the ranks of this replica
// CHECK-NEXT: dt::rt::TensorParallel* group;
// CHECK-LABEL: //===--- b.cpp
// CHECK: context.arena.h = reinterpret_cast<float *>(task.arena + task.received * int64_t(64));
// CHECK: context.arena.grad_h = reinterpret_cast<float *>(task.arena + 128 + task.late * int64_t(64));
// CHECK: context.scratch = task.scratch;
// CHECK: context.group = task.group;
// CHECK: context.listener = task.listener;
// CHECK: dt::rt::gradientsReady(context.listener, 0, 64);

// CHECK-LABEL: //===--- program.cpp
// CHECK: int64_t kWhole_net_w[2] = {
// CHECK-NEXT: 4,
// CHECK-NEXT: 256};
// CHECK: int64_t kUnpadded_net_w[2] = {
// CHECK-NEXT: 4,
// CHECK-NEXT: 250};
// CHECK: dt::rt::CutInfo kCuts_net_w[1] = {
// CHECK-NEXT: {1, 128, 2, 1}};
// CHECK: .tensor = {"net.w", {{.*}}.module = 0, {{.*}}.whole = kWhole_net_w, .unpadded = kUnpadded_net_w, .cuts = kCuts_net_w}
// CHECK: .tensor = {"net.s", {{.*}}.module = 0, {{.*}}.partial = kPartial_net_s}
// CHECK: .tensor = {"net.s", {{.*}}.module = 1, {{.*}}.tied = 1, .partial = kPartial_net_s}
// CHECK: dt::rt::SymbolInfo kSymbols_b[1] = {
// CHECK-NEXT: {"n", "image", 4, 2.5}};
// CHECK: {.name = "a", .origin = "net", .unit = "u", .stage = 0, .item = "image", {{.*}}.tp = 2, .dp = 1, .ranks = kRanks_a, .zero = 0
// CHECK: {.name = "b", .origin = "net", .unit = "u", .stage = 1, .item = "sample", {{.*}}.backward = nullptr, .backwardInput = b_backward_input, .backwardWeight = b_backward_weight, {{.*}}.ranks = kRanks_b, .zero = 1}
// CHECK: EdgeInfo kEdges[1] = {
// CHECK-NEXT: {.from = 0, .fromOutput = 0, .to = 1, .toInput = 0, .gradient = true, .produced = {{[{][{]}}"grad.h", {{.*}}}, 128, 64, dt::rt::SlotKind::Late}, .consumed = {{[{][{]}}"grad.b.h", {{.*}}}, 64, 0}}};
// CHECK: kRows0[3] = {
// CHECK-NEXT: {dt::rt::TaskKind::Forward, 0, 0, 0},
// CHECK-NEXT: {dt::rt::TaskKind::Receive, 0, 0, 0, 0, 0, 0, 0, true},
// CHECK-NEXT: {dt::rt::TaskKind::Send, 0, 0, 0, 0, 0, 0, 0}};
// CHECK: int32_t kNumbers[1] = {
// CHECK-NEXT: 0};
// CHECK: kRows2[4] = {
// CHECK-NEXT: {dt::rt::TaskKind::Receive, 0, 0, 1, 0, 0, 0, 0},
// CHECK-NEXT: {dt::rt::TaskKind::Forward, 1, 0, 0, 1, 0, 0, 0, false, 0, kNumbers},
// CHECK-NEXT: {dt::rt::TaskKind::BackwardInput, 1, 0, 0, 1, 2, 1},
// CHECK-NEXT: {dt::rt::TaskKind::BackwardWeight, 1, 0, 0, 1, 0, 1}};
// CHECK: kRanks[3] = {
// CHECK-NEXT: {kRows0},
// CHECK-NEXT: {kRows0},
// CHECK-NEXT: {kRows2}};
// What functions give to collectives: all their calls together.
// CHECK: dt::rt::SizeTerm kElements[1] = {
// CHECK-NEXT: {2, kNumbers}};
// CHECK: dt::rt::CollectiveInfo kCollectives[1] = {
// CHECK-NEXT: {.function = a_forward, .kind = dt::rt::CollectiveKind::AllReduce, .type = dt::rt::DType::F32, .over = 2, .stride = 1, .calls = 2, .elements = kElements, .most = 4}};
// CHECK: .schedule = "zb",
// CHECK: .reorder = dt::rt::Reorder::Both,
// CHECK-NEXT: .bucketBytes = 1024,
// CHECK-NEXT: .collectives = kCollectives,
// CHECK-NEXT: .narrowSums = true}

rt.program @p batch 2 micro 2 seed 0 pace @b schedule "zb" reorder "both" bucket 1024 narrow_sums {
  rt.module @a origin "net" unit "u" item "image" tp 2 ranks [0, 1] arena 128 scratch 0 parameters 2112 trainable 2112 {
    rt.symbol @n of "image" max 4
    rt.parameter_decl @w : !rt.buffer<f32, [4, 128]> index 0 at 0 trainable gradient from [#nn.onnx<"a.onnx", "w">] layout #dist.layout<4x256 of 4x250, [#dist.cut<1, 128, 2, 1>]>
    rt.parameter_decl @s : !rt.buffer<f32, [4]> index 1 at 2048 trainable gradient from [#nn.onnx<"a.onnx", "s">] partial [#dist.cut<0, 1, 2, 1>]
    rt.buffer_decl @h : !rt.buffer<f32, [n]> at 0 stride 0
    rt.buffer_decl @grad.b.h : !rt.buffer<f32, [n]> at 64 stride 0
    rt.output "h" @h
    rt.entry forward @f [@h]
    rt.func @f(%h: !rt.buffer<f32, [n]> {rt.access = "out"}) {
      rt.call @g(%h) : !rt.buffer<f32, [n]>
      rt.call @g(%h) : !rt.buffer<f32, [n]>
    }
    rt.func @g(%h: !rt.buffer<f32, [n]> {rt.access = "inout"}) {
      rt.collective all_reduce by sum %h to %h over 2 stride 1 : !rt.buffer<f32, [n]>, !rt.buffer<f32, [n]>
    }
  }
  rt.module @b origin "net" unit "u" stage 1 ranks [2] zero 1 arena 256 scratch 0 parameters 64 trainable 64 {
    rt.symbol @n of "image" max 4 cost 2.5
    rt.parameter_decl @s : !rt.buffer<f32, [4]> index 2 at 0 trainable gradient from [#nn.onnx<"a.onnx", "s">] partial [#dist.cut<0, 1, 2, 1>] tied @a::@s
    rt.buffer_decl @h : !rt.buffer<f32, [n]> at 0 stride 64 received
    rt.buffer_decl @grad.h : !rt.buffer<f32, [n]> at 128 stride 64 late
    rt.input "h" @h from @a {output = 0 : i64}
    rt.entry forward @f [@h]
    rt.entry backward_input @f [@h]
    rt.entry backward_weight @w [@h]
    rt.func @f(%h: !rt.buffer<f32, [n]>) {
    }
    rt.func @w(%h: !rt.buffer<f32, [n]>) {
      rt.gradients_ready 0 to 64
    }
  }
  rt.edge @a 0 to @b 0 gradient @grad.h to @grad.b.h
  rt.optimizer {kind = "sgd"}
  rt.rank 0 {
    rt.task forward @a microbatch 0 slot 0
    rt.task receive edge 0 microbatch 0 slot 0 gradient
    rt.task send edge 0 microbatch 0 slot 0
  }
  rt.rank 1 {
    rt.task forward @a microbatch 0 slot 0
    rt.task receive edge 0 microbatch 0 slot 0 gradient
    rt.task send edge 0 microbatch 0 slot 0
  }
  rt.rank 2 {
    rt.task receive edge 0 microbatch 0 slot 1
    rt.task forward @b microbatch 0 slot 0 received 1 waits [0]
    rt.task backward_input @b microbatch 0 slot 0 received 1 early 2 late 1
    rt.task backward_weight @b microbatch 0 slot 0 received 1 late 1
  }
}
