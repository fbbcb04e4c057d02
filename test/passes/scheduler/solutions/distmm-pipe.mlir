// RUN: dt-opt %s --sched-solve=schedule=distmm-pipe | FileCheck %s

// Two towers and a head that needs the embeddings of all microbatches: it runs once, on the ranks of both, after all forwards; gradients of
// every microbatch come back from it.
sched.problem @step ranks 2 microbatches 2 {
  sched.unit @image
  sched.unit @text
  sched.unit @head
  sched.stage @i of @image on [[0]] forward [10] input [10] weight [10] keeps [64] weight_keeps [64]
  sched.stage @t of @text on [[1]] forward [10] input [10] weight [10] keeps [64] weight_keeps [64]
  sched.stage @h of @head on [[0, 1]] forward [10] batch_sync
  sched.edge @i to @h latency 0
  sched.edge @t to @h latency 0
}

// CHECK: sched.solution of @step schedule "distmm-pipe" {
// CHECK-NEXT: sched.rank 0 {
// CHECK-NEXT: sched.run F @i mb 0 slot 0
// CHECK-NEXT: sched.run F @i mb 1 slot 1
// CHECK-NEXT: sched.run S @h mb 0
// CHECK-NEXT: sched.run B @i mb 0 slot 0
// CHECK-NEXT: sched.run B @i mb 1 slot 1
// CHECK-NEXT: }
// CHECK-NEXT: sched.rank 1 {
// CHECK-NEXT: sched.run F @t mb 0 slot 0
// CHECK-NEXT: sched.run F @t mb 1 slot 1
// CHECK-NEXT: sched.run S @h mb 0
// CHECK-NEXT: sched.run B @t mb 0 slot 0
// CHECK-NEXT: sched.run B @t mb 1 slot 1
// CHECK-NEXT: }
