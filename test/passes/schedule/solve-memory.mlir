// RUN: dt-opt %s --sched-solve='schedule=zb-1p' --split-input-file | FileCheck %s
// RUN: dt-opt %s --sched-solve='schedule=zb-2p' --split-input-file | FileCheck %s

// The memory of 1F1B is each unit's own: stages of other units on the same
// ranks are no virtual stages of it, and before a batch-sync all is kept.

sched.problem @towers ranks 1 microbatches 6 {
  sched.unit @text
  sched.unit @image
  sched.unit @head
  sched.stage @text.0 of @text on [[0]] forward [125] input [215] keeps [169] frozen
  sched.stage @image.0 of @image on [[0]] forward [42] input [82] keeps [41] frozen
  sched.stage @head.0 of @head on [[0]] forward [81] batch_sync
  sched.edge @text.0 to @head.0 latency 3 depth 2
  sched.edge @image.0 to @head.0 latency 3 depth 2
}

// CHECK: sched.solution of @towers

// -----

sched.problem @v ranks 2 microbatches 4 {
  sched.unit @enc
  sched.unit @vis
  sched.unit @dec
  sched.stage @enc.0 of @enc on [[1]] forward [2] input [0] weight [2] keeps [2] weight_keeps [2]
  sched.stage @enc.1 of @enc on [[0]] forward [2] input [2] keeps [3] frozen
  sched.stage @enc.2 of @enc on [[0]] forward [55] input [57] weight [45] keeps [12] weight_keeps [16]
  sched.stage @enc.3 of @enc on [[1]] forward [55] input [57] weight [45] keeps [12] weight_keeps [16]
  sched.stage @vis.0 of @vis on [[0, 1]] forward [25] input [43] keeps [6] frozen
  sched.stage @dec.0 of @dec on [[1]] forward [199] input [345] keeps [38] frozen
  sched.edge @enc.0 to @enc.1 latency 3 depth 2
  sched.edge @enc.1 to @enc.2 latency 3 depth 2
  sched.edge @enc.2 to @enc.3 latency 3 depth 2
  sched.edge @enc.3 to @dec.0 latency 3 depth 2
  sched.edge @vis.0 to @dec.0 latency 3 depth 2
}

// CHECK: sched.solution of @v
