// RUN: dt-opt %s --sched-solve=schedule=nested | FileCheck %s

// The module with the most work runs 1F1B; the other one fills in.
sched.problem @step ranks 2 microbatches 2 {
  sched.unit @enc
  sched.unit @llm
  sched.stage @e0 of @enc on [[0]] forward [10] input [10] weight [10] keeps [64] weight_keeps [64]
  sched.stage @e1 of @enc on [[1]] forward [10] input [10] weight [10] keeps [64] weight_keeps [64]
  sched.stage @l0 of @llm on [[0]] forward [20] input [20] weight [20] keeps [64]
  sched.stage @l1 of @llm on [[1]] forward [20] input [20] weight [20] keeps [64]
  sched.edge @e0 to @e1 latency 0
  sched.edge @e1 to @l0 latency 0
  sched.edge @l0 to @l1 latency 0
}

// CHECK: sched.solution of @step schedule "nested" {
// CHECK-NEXT: sched.rank 0 {
// CHECK-NEXT: sched.run F @e0 mb 0 slot 0
// CHECK-NEXT: sched.send @e0 to @e1 mb 0
// CHECK-NEXT: sched.run F @e0 mb 1 slot 1
// CHECK-NEXT: sched.send @e0 to @e1 mb 1
// CHECK-NEXT: sched.receive @e1 to @l0 mb 0
// CHECK-NEXT: sched.run F @l0 mb 0 slot 0
// CHECK-NEXT: sched.receive @e1 to @l0 mb 1
// CHECK-NEXT: sched.send @l0 to @l1 mb 0
// CHECK-NEXT: sched.run F @l0 mb 1 slot 1
// CHECK-NEXT: sched.send @l0 to @l1 mb 1
// CHECK-NEXT: sched.receive @l1 to @l0 mb 0 gradient
// CHECK-NEXT: sched.run B @l0 mb 0 slot 0
// CHECK-NEXT: sched.send @l0 to @e1 mb 0 gradient
// CHECK-NEXT: sched.receive @l1 to @l0 mb 1 gradient
// CHECK-NEXT: sched.run B @l0 mb 1 slot 1
// CHECK-NEXT: sched.receive @e1 to @e0 mb 0 gradient
// CHECK-NEXT: sched.send @l0 to @e1 mb 1 gradient
// CHECK-NEXT: sched.run B @e0 mb 0 slot 0
// CHECK-NEXT: sched.receive @e1 to @e0 mb 1 gradient
// CHECK-NEXT: sched.run B @e0 mb 1 slot 1
// CHECK-NEXT: }
// CHECK-NEXT: sched.rank 1 {
// CHECK-NEXT: sched.receive @e0 to @e1 mb 0
// CHECK-NEXT: sched.run F @e1 mb 0 slot 0
// CHECK-NEXT: sched.receive @e0 to @e1 mb 1
// CHECK-NEXT: sched.send @e1 to @l0 mb 0
// CHECK-NEXT: sched.run F @e1 mb 1 slot 1
// CHECK-NEXT: sched.send @e1 to @l0 mb 1
// CHECK-NEXT: sched.receive @l0 to @l1 mb 0
// CHECK-NEXT: sched.run F @l1 mb 0 slot 0
// CHECK-NEXT: sched.receive @l0 to @l1 mb 1
// CHECK-NEXT: sched.run B @l1 mb 0 slot 0
// CHECK-NEXT: sched.send @l1 to @l0 mb 0 gradient
// CHECK-NEXT: sched.run F @l1 mb 1 slot 0
// CHECK-NEXT: sched.run B @l1 mb 1 slot 0
// CHECK-NEXT: sched.receive @l0 to @e1 mb 0 gradient
// CHECK-NEXT: sched.send @l1 to @l0 mb 1 gradient
// CHECK-NEXT: sched.run B @e1 mb 0 slot 0
// CHECK-NEXT: sched.send @e1 to @e0 mb 0 gradient
// CHECK-NEXT: sched.receive @l0 to @e1 mb 1 gradient
// CHECK-NEXT: sched.run B @e1 mb 1 slot 1
// CHECK-NEXT: sched.send @e1 to @e0 mb 1 gradient
// CHECK-NEXT: }
