// RUN: dt-opt %s | dt-opt | FileCheck %s

// CHECK-LABEL: sched.problem @step ranks 2 microbatches 2 memory [8192, 5120]
sched.problem @step ranks 2 microbatches 2 memory [8192, 5120] {
  // CHECK: sched.unit @llm
  sched.unit @llm
  // CHECK: sched.stage @s0 of @llm on {{\[}}[0]] forward [10] input [12] weight [8] keeps [4096] slots 2
  sched.stage @s0 of @llm on [[0]] forward [10] input [12] weight [8] keeps [4096] slots 2
  // CHECK: sched.stage @s1 of @llm on {{\[}}[1]] forward [10, 20] input [12] weight [8] keeps [4096] weight_keeps [4096] late_keeps [1024]
  sched.stage @s1 of @llm on [[1]] forward [10, 20] input [12] weight [8] keeps [4096] weight_keeps [4096] late_keeps [1024]
  // CHECK: sched.edge @s0 to @s1 latency 2 depth 1
  sched.edge @s0 to @s1 latency 2 depth 1
}

// CHECK: sched.solution of @step schedule "by hand"
sched.solution of @step schedule "by hand" {
  // CHECK: sched.rank 0
  sched.rank 0 {
    // CHECK-NEXT: sched.run F @s0 mb 0 slot 0
    sched.run F @s0 mb 0 slot 0
    // CHECK-NEXT: sched.send @s0 to @s1 mb 0 rows "images"
    sched.send @s0 to @s1 mb 0 rows "images"
    sched.run F @s0 mb 1 slot 1
    sched.receive @s1 to @s0 mb 0 gradient
    sched.run I @s0 mb 0 slot 0
    sched.send @s0 to @s1 mb 1
    sched.run W @s0 mb 0 slot 0
    sched.receive @s1 to @s0 mb 1 gradient
    sched.run B @s0 mb 1 slot 1
  }
  sched.rank 1 {
    sched.receive @s0 to @s1 mb 0 rows "images"
    sched.run F @s1 mb 0
    sched.run B @s1 mb 0
    sched.send @s1 to @s0 mb 0 gradient
    sched.receive @s0 to @s1 mb 1
    sched.run F @s1 mb 1
    sched.run B @s1 mb 1
    // CHECK: sched.send @s1 to @s0 mb 1 gradient
    sched.send @s1 to @s0 mb 1 gradient
  }
}
