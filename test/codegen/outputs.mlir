// The table of outputs: what a padded one has in files, how a rank's part lies in the whole, and which one parts of the batch do not make.
// RUN: dt-opt %s --dt-print-program -o /dev/null | FileCheck %s

// CHECK-LABEL: //===--- program.cpp
// CHECK: int64_t [[REAL:kUnpadded[a-z_]*]][2] = {
// CHECK-NEXT: -1,
// CHECK-NEXT: 61};
// CHECK: dt::rt::CutInfo [[CUTS:kCuts[a-z_]*]][1] = {
// CHECK-NEXT: {1, 32, 2, 1}};
// CHECK: dt::rt::BufferInfo kOutputs_m[4] = {
// CHECK-NEXT: {{[{][{]}}"scores", dt::rt::DType::F32, 2, {{[A-Za-z0-9_]+}}}, 0, 0, dt::rt::SlotKind::Whole, false, [[REAL]], [[CUTS]]},
// CHECK-NEXT: {{[{][{]}}"padded", dt::rt::DType::F32, 2, {{[A-Za-z0-9_]+}}}, 256, 0, dt::rt::SlotKind::Whole, false, [[REAL]]},
// CHECK-NEXT: {{[{][{]}}"mixed", dt::rt::DType::F32, 2, {{[A-Za-z0-9_]+}}}, 768, 0, dt::rt::SlotKind::Whole, true},
// CHECK-NEXT: {{[{][{]}}"plain", dt::rt::DType::F32, 2, {{[A-Za-z0-9_]+}}}, 1280, 0}};
rt.program @p batch 2 micro 2 seed 0 pace @m {
  rt.module @m tp 2 ranks [0, 1] arena 1792 scratch 0 parameters 0 trainable 0 {
    rt.symbol @n of "sample" max 2
    rt.buffer_decl @scores : !rt.buffer<f32, [n, 32]> at 0 stride 0 layout #dist.layout<?x64 of ?x61, [#dist.cut<1, 32, 2, 1>]>
    rt.buffer_decl @padded : !rt.buffer<f32, [n, 64]> at 256 stride 0 layout #dist.layout<?x64 of ?x61, []>
    rt.buffer_decl @mixed : !rt.buffer<f32, [n, 64]> at 768 stride 0 unjoined
    rt.buffer_decl @plain : !rt.buffer<f32, [n, 64]> at 1280 stride 0
    rt.output "scores" @scores
    rt.output "padded" @padded
    rt.output "mixed" @mixed
    rt.output "plain" @plain
    rt.entry forward @f [@scores]
    rt.func @f(%h: !rt.buffer<f32, [n, 32]> {rt.access = "out"}) {
    }
  }
  rt.optimizer {kind = "sgd"}
  rt.rank 0 {
    rt.task forward @m microbatch 0 slot 0
  }
  rt.rank 1 {
    rt.task forward @m microbatch 0 slot 0
  }
}
