// RUN: dt-opt %s --sched-solve=schedule=dualpipe-v | FileCheck %s

// Two stages a rank, there and back: where the pipeline drains, weight gradients wait.
sched.problem @step ranks 2 microbatches 3 {
  sched.unit @llm
  sched.stage @s0 of @llm on [[0]] forward [10] input [10] weight [10] keeps [64] weight_keeps [64]
  sched.stage @s1 of @llm on [[1]] forward [10] input [10] weight [10] keeps [64] weight_keeps [64]
  sched.stage @s2 of @llm on [[1]] forward [10] input [10] weight [10] keeps [64] weight_keeps [64]
  sched.stage @s3 of @llm on [[0]] forward [10] input [10] weight [10] keeps [64] weight_keeps [64]
  sched.edge @s0 to @s1 latency 0
  sched.edge @s1 to @s2 latency 0
  sched.edge @s2 to @s3 latency 0
}

// CHECK: sched.solution of @step schedule "dualpipe-v" {
// CHECK-NEXT: sched.rank 0 {
// CHECK-NEXT: sched.run F @s0 mb 0 slot 0
// CHECK-NEXT: sched.send @s0 to @s1 mb 0
// CHECK-NEXT: sched.run F @s0 mb 1 slot 1
// CHECK-NEXT: sched.send @s0 to @s1 mb 1
// CHECK-NEXT: sched.run F @s0 mb 2 slot 2
// CHECK-NEXT: sched.send @s0 to @s1 mb 2
// CHECK-NEXT: sched.receive @s2 to @s3 mb 0
// CHECK-NEXT: sched.run F @s3 mb 0 slot 0
// CHECK-NEXT: sched.run I @s3 mb 0 slot 0
// CHECK-NEXT: sched.receive @s2 to @s3 mb 1
// CHECK-NEXT: sched.send @s3 to @s2 mb 0 gradient
// CHECK-NEXT: sched.run W @s3 mb 0 slot 0
// CHECK-NEXT: sched.run F @s3 mb 1 slot 0
// CHECK-NEXT: sched.run B @s3 mb 1 slot 0
// CHECK-NEXT: sched.receive @s2 to @s3 mb 2
// CHECK-NEXT: sched.send @s3 to @s2 mb 1 gradient
// CHECK-NEXT: sched.run F @s3 mb 2 slot 0
// CHECK-NEXT: sched.receive @s1 to @s0 mb 0 gradient
// CHECK-NEXT: sched.run B @s0 mb 0 slot 0
// CHECK-NEXT: sched.run B @s3 mb 2 slot 0
// CHECK-NEXT: sched.receive @s1 to @s0 mb 1 gradient
// CHECK-NEXT: sched.send @s3 to @s2 mb 2 gradient
// CHECK-NEXT: sched.run I @s0 mb 1 slot 1
// CHECK-NEXT: sched.run W @s0 mb 1 slot 1
// CHECK-NEXT: sched.receive @s1 to @s0 mb 2 gradient
// CHECK-NEXT: sched.run I @s0 mb 2 slot 2
// CHECK-NEXT: sched.run W @s0 mb 2 slot 2
// CHECK-NEXT: }
// CHECK-NEXT: sched.rank 1 {
// CHECK-NEXT: sched.receive @s0 to @s1 mb 0
// CHECK-NEXT: sched.run F @s1 mb 0 slot 0
// CHECK-NEXT: sched.receive @s0 to @s1 mb 1
// CHECK-NEXT: sched.run F @s2 mb 0 slot 0
// CHECK-NEXT: sched.receive @s0 to @s1 mb 2
// CHECK-NEXT: sched.send @s2 to @s3 mb 0
// CHECK-NEXT: sched.run F @s1 mb 1 slot 1
// CHECK-NEXT: sched.run F @s2 mb 1 slot 1
// CHECK-NEXT: sched.send @s2 to @s3 mb 1
// CHECK-NEXT: sched.receive @s3 to @s2 mb 0 gradient
// CHECK-NEXT: sched.run F @s1 mb 2 slot 2
// CHECK-NEXT: sched.run B @s2 mb 0 slot 0
// CHECK-NEXT: sched.run F @s2 mb 2 slot 0
// CHECK-NEXT: sched.send @s2 to @s3 mb 2
// CHECK-NEXT: sched.receive @s3 to @s2 mb 1 gradient
// CHECK-NEXT: sched.run B @s1 mb 0 slot 0
// CHECK-NEXT: sched.send @s1 to @s0 mb 0 gradient
// CHECK-NEXT: sched.run B @s2 mb 1 slot 1
// CHECK-NEXT: sched.run B @s1 mb 1 slot 1
// CHECK-NEXT: sched.send @s1 to @s0 mb 1 gradient
// CHECK-NEXT: sched.receive @s3 to @s2 mb 2 gradient
// CHECK-NEXT: sched.run I @s2 mb 2 slot 0
// CHECK-NEXT: sched.run I @s1 mb 2 slot 2
// CHECK-NEXT: sched.send @s1 to @s0 mb 2 gradient
// CHECK-NEXT: sched.run W @s2 mb 2 slot 0
// CHECK-NEXT: sched.run W @s1 mb 2 slot 2
// CHECK-NEXT: }
