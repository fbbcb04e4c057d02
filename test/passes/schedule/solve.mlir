// RUN: dt-opt %s --sched-solve | FileCheck %s
// RUN: dt-opt %s --sched-solve=schedule=gpipe | FileCheck %s --check-prefix=GPIPE
// RUN: dt-opt %s --sched-solve=schedule=accumulate | FileCheck %s --check-prefix=ACCUMULATE
// RUN: dt-opt %s --emit=timeline | FileCheck %s --check-prefix=TEXT
// RUN: dt-opt %s --emit=timeline -o %t.svg && FileCheck %s --check-prefix=SVG --input-file=%t.svg
// RUN: dt-opt %s --emit=timeline -o %t.html && FileCheck %s --check-prefix=HTML --input-file=%t.html

// Encoder, a language model on two ranks, generator: warm-up is the longest
// path to the end, less one.
sched.problem @step ranks 4 microbatches 4 {
  sched.unit @enc
  sched.unit @llm
  sched.unit @gen
  sched.stage @e of @enc on [[0]] forward [10] input [10] weight [10] keeps [64]
  sched.stage @l0 of @llm on [[1]] forward [10] input [10] weight [10] keeps [64]
  sched.stage @l1 of @llm on [[2]] forward [10] input [10] weight [10] keeps [64]
  sched.stage @g of @gen on [[3]] forward [10] input [10] weight [10] keeps [64]
  sched.edge @e to @l0 latency 0
  sched.edge @l0 to @l1 latency 0
  sched.edge @l1 to @g latency 0
}

// CHECK: sched.solution of @step schedule "1f1b"
// CHECK: sched.rank 0 {
// CHECK-NEXT: sched.run F @e mb 0 slot 0
// CHECK-NEXT: sched.send @e to @l0 mb 0
// CHECK-NEXT: sched.run F @e mb 1 slot 1
// CHECK: sched.run F @e mb 3 slot 3
// CHECK: sched.receive @l0 to @e mb 0 gradient
// CHECK-NEXT: sched.run B @e mb 0 slot 0
// CHECK: sched.rank 3 {
// CHECK-NEXT: sched.receive @l1 to @g mb 0
// CHECK-NEXT: sched.run F @g mb 0 slot 0
// CHECK: sched.run B @g mb 0 slot 0
// CHECK-NEXT: sched.send @g to @l1 mb 0 gradient

// GPIPE: sched.solution of @step schedule "gpipe"
// GPIPE: sched.rank 3
// GPIPE: sched.run F @g mb 3 slot 3
// GPIPE: sched.run B @g mb 0 slot 0

// A microbatch is back before the next begins: one slot.
// ACCUMULATE: sched.solution of @step schedule "accumulate"
// ACCUMULATE: sched.rank 0
// ACCUMULATE: sched.run F @e mb 0 slot 0
// ACCUMULATE: sched.run B @e mb 0 slot 0
// ACCUMULATE: sched.run F @e mb 1 slot 0

// TEXT: step: 1f1b
// TEXT-NEXT: 0 e  |F0-F1-F2-F3-{{\.+}}B0----
// TEXT: 3 g  |.........F0-B0----F1-B1----F2-B2----F3-B3----.................
// TEXT-NEXT: wall 210 (bubble 42.9 %), longest span 210 (bubble 42.9 %)

// SVG: <svg xmlns="http://www.w3.org/2000/svg"
// SVG: <title>forward of e, microbatch 0
// SVG-NEXT: 0 to 10 (10)</title>
// SVG: </svg>

// HTML: <!DOCTYPE html>
// HTML: </svg>
// HTML: <td>3</td><td>g</td><td class="r">120</td><td class="r">42.9 %</td><td class="r">64 B</td>
