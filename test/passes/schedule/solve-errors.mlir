// RUN: dt-opt %s --sched-solve=schedule=interleaved -verify-diagnostics -split-input-file
// RUN: not dt-opt %s --sched-solve=schedule=fastest --split-input-file 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not dt-opt %s --sched-solve=objective=beauty --split-input-file 2>&1 | FileCheck %s --check-prefix=OBJECTIVE

// NAME: 'sched.problem' op has no solution: no schedule 'fastest'; expected one of 1f1b, accumulate, distmm-pipe, dualpipe-v, gpipe, interleaved
// OBJECTIVE: sched-solve: expected objective wall or span, not 'beauty'

// expected-error @+1 {{'sched.problem' op has no solution: interleaved: stages of m do not go round their ranks; expected stage k on the ranks of stage k mod 2}}
sched.problem @p ranks 2 microbatches 2 {
  sched.unit @m
  sched.stage @a of @m on [[0]] forward [1]
  sched.stage @b of @m on [[1]] forward [1]
  sched.stage @c of @m on [[0]] forward [1]
  sched.edge @a to @b latency 0
  sched.edge @b to @c latency 0
}
