// RUN: dt-opt %s --sched-solve=schedule=zb-h1 | FileCheck %s

// Backwards are split. The gradient goes out between I and W; the last stage puts its W off by one microbatch, within as many slots as 1F1B
// has.
sched.problem @step ranks 2 microbatches 3 {
  sched.unit @llm
  sched.stage @s0 of @llm on [[0]] forward [10] input [10] weight [10] keeps [64] weight_keeps [64]
  sched.stage @s1 of @llm on [[1]] forward [10] input [10] weight [10] keeps [64] weight_keeps [64]
  sched.edge @s0 to @s1 latency 0
}

// CHECK: sched.solution of @step schedule "zb-h1" {
// CHECK-NEXT: sched.rank 0 {
// CHECK-NEXT: sched.run F @s0 mb 0 slot 0
// CHECK-NEXT: sched.send @s0 to @s1 mb 0
// CHECK-NEXT: sched.run F @s0 mb 1 slot 1
// CHECK-NEXT: sched.send @s0 to @s1 mb 1
// CHECK-NEXT: sched.receive @s1 to @s0 mb 0 gradient
// CHECK-NEXT: sched.run I @s0 mb 0 slot 0
// CHECK-NEXT: sched.run W @s0 mb 0 slot 0
// CHECK-NEXT: sched.receive @s1 to @s0 mb 1 gradient
// CHECK-NEXT: sched.run F @s0 mb 2 slot 0
// CHECK-NEXT: sched.send @s0 to @s1 mb 2
// CHECK-NEXT: sched.run I @s0 mb 1 slot 1
// CHECK-NEXT: sched.run W @s0 mb 1 slot 1
// CHECK-NEXT: sched.receive @s1 to @s0 mb 2 gradient
// CHECK-NEXT: sched.run I @s0 mb 2 slot 0
// CHECK-NEXT: sched.run W @s0 mb 2 slot 0
// CHECK-NEXT: }
// CHECK-NEXT: sched.rank 1 {
// CHECK-NEXT: sched.receive @s0 to @s1 mb 0
// CHECK-NEXT: sched.run F @s1 mb 0 slot 0
// CHECK-NEXT: sched.receive @s0 to @s1 mb 1
// CHECK-NEXT: sched.run I @s1 mb 0 slot 0
// CHECK-NEXT: sched.send @s1 to @s0 mb 0 gradient
// CHECK-NEXT: sched.run F @s1 mb 1 slot 1
// CHECK-NEXT: sched.run I @s1 mb 1 slot 1
// CHECK-NEXT: sched.send @s1 to @s0 mb 1 gradient
// CHECK-NEXT: sched.run W @s1 mb 0 slot 0
// CHECK-NEXT: sched.receive @s0 to @s1 mb 2
// CHECK-NEXT: sched.run F @s1 mb 2 slot 0
// CHECK-NEXT: sched.run I @s1 mb 2 slot 0
// CHECK-NEXT: sched.send @s1 to @s0 mb 2 gradient
// CHECK-NEXT: sched.run W @s1 mb 1 slot 1
// CHECK-NEXT: sched.run W @s1 mb 2 slot 0
// CHECK-NEXT: }
