// RUN: dt-opt %s --rt-place-streams | FileCheck %s
// RUN: dt-opt %s --rt-place-streams --rt-plan-memory --rt-verify-lowered | FileCheck %s --check-prefix=PLACES

// Input gradient, sum over ranks, norm: the weight gradient, which none of them needs, is multiplied meanwhile.
// CHECK-LABEL: rt.func @input_gradient(
// CHECK: rt.matmul %arg1, %arg2 to %[[X:[0-9]+]]
// CHECK-NEXT: %[[MADE:.*]] = rt.record on compute
// CHECK-NEXT: rt.matmul %arg0, %arg1 to %arg4
// CHECK-NEXT: rt.wait %[[MADE]] on tp
// CHECK-NEXT: rt.collective all_reduce by sum %[[X]] to %[[X]] over 2 stride 1 on tp
// CHECK-NEXT: %[[SUMMED:.*]] = rt.record on tp
// CHECK-NEXT: rt.wait %[[SUMMED]] on compute
// CHECK-NEXT: rt.copy %[[X]] to %arg3
rt.func @input_gradient(%x: !rt.buffer<f32, [8, 8]>, %dy: !rt.buffer<f32, [8, 8]>, %w: !rt.buffer<f32, [8, 8]>, %dx: !rt.buffer<f32, [8, 8]> {rt.access = "out"}, %dw: !rt.buffer<f32, [8, 8]> {rt.access = "inout"}) {
  %0 = rt.alloc "dx" : <f32, [8, 8]>
  rt.matmul %dy, %w to %0 {batch = #nn.dim<1>, k = #nn.dim<8>, m = #nn.dim<8>, n = #nn.dim<8>} : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.matmul %x, %dy to %dw {accumulate, batch = #nn.dim<1>, k = #nn.dim<8>, m = #nn.dim<8>, n = #nn.dim<8>, trans_a} : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.collective all_reduce by sum %0 to %0 over 2 stride 1 : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.copy %0 to %dx : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
}

// The weight gradient stands before the product that the sum needs: it moves.
// CHECK-LABEL: rt.func @moved(
// CHECK: rt.matmul %arg1, %arg2 to %[[X:[0-9]+]]
// CHECK-NOT: rt.matmul
// CHECK: rt.collective all_reduce {{.*}} on tp
// CHECK: rt.matmul %arg0, %arg1 to %arg4
// CHECK-NEXT: rt.matmul %arg1, %arg0 to %arg4
// CHECK-NEXT: rt.wait
rt.func @moved(%x: !rt.buffer<f32, [8, 8]>, %dy: !rt.buffer<f32, [8, 8]>, %w: !rt.buffer<f32, [8, 8]>, %dx: !rt.buffer<f32, [8, 8]> {rt.access = "out"}, %dw: !rt.buffer<f32, [8, 8]> {rt.access = "inout"}) {
  %0 = rt.alloc "dx" : <f32, [8, 8]>
  rt.matmul %x, %dy to %dw {accumulate, batch = #nn.dim<1>, k = #nn.dim<8>, m = #nn.dim<8>, n = #nn.dim<8>, trans_a} : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.matmul %dy, %x to %dw {accumulate, batch = #nn.dim<1>, k = #nn.dim<8>, m = #nn.dim<8>, n = #nn.dim<8>, trans_a} : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.matmul %dy, %w to %0 {batch = #nn.dim<1>, k = #nn.dim<8>, m = #nn.dim<8>, n = #nn.dim<8>} : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.collective all_reduce by sum %0 to %0 over 2 stride 1 : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.copy %0 to %dx : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
}

// Two sums, one after the other, and two weight gradients: each sum has one beside it, also if both products stand before the first.
// CHECK-LABEL: rt.func @shared_out(
// CHECK: rt.matmul %arg1, %arg2 to %[[X:[0-9]+]]
// CHECK-NOT: rt.matmul
// CHECK: rt.collective all_reduce by sum %[[X]] to %[[X]] over 2 stride 1 on tp
// CHECK: rt.matmul %arg1, %arg0 to %arg5
// CHECK: rt.matmul %[[X]], %arg2 to %[[Y:[0-9]+]]
// CHECK-NOT: rt.matmul
// CHECK: rt.collective all_reduce by sum %[[Y]] to %[[Y]] over 2 stride 1 on tp
// CHECK: rt.matmul %arg0, %arg1 to %arg4
// CHECK: rt.copy %[[Y]] to %arg3
rt.func @shared_out(%x: !rt.buffer<f32, [8, 8]>, %dy: !rt.buffer<f32, [8, 8]>, %w: !rt.buffer<f32, [8, 8]>, %dx: !rt.buffer<f32, [8, 8]> {rt.access = "out"}, %dv: !rt.buffer<f32, [8, 8]> {rt.access = "inout"}, %dw: !rt.buffer<f32, [8, 8]> {rt.access = "inout"}) {
  %0 = rt.alloc "first" : <f32, [8, 8]>
  %1 = rt.alloc "second" : <f32, [8, 8]>
  rt.matmul %dy, %x to %dw {accumulate, batch = #nn.dim<1>, k = #nn.dim<8>, m = #nn.dim<8>, n = #nn.dim<8>, trans_a} : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.matmul %x, %dy to %dv {accumulate, batch = #nn.dim<1>, k = #nn.dim<8>, m = #nn.dim<8>, n = #nn.dim<8>, trans_a} : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.matmul %dy, %w to %0 {batch = #nn.dim<1>, k = #nn.dim<8>, m = #nn.dim<8>, n = #nn.dim<8>} : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.collective all_reduce by sum %0 to %0 over 2 stride 1 : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.matmul %0, %w to %1 {batch = #nn.dim<1>, k = #nn.dim<8>, m = #nn.dim<8>, n = #nn.dim<8>} : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.collective all_reduce by sum %1 to %1 over 2 stride 1 : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.copy %1 to %dx : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
}

// Gathered for the second product while the first one runs; not while those before it do, which would take memory for longer.
// CHECK-LABEL: rt.func @gather_early(
// CHECK: rt.matmul %arg1, %arg1 to %arg3
// CHECK-NEXT: %[[E:.*]] = rt.record on compute
// CHECK-NEXT: rt.matmul %arg1, %arg2 to %arg3
// CHECK-NEXT: rt.wait %[[E]] on tp
// CHECK-NEXT: rt.collective all_gather %arg0 to %[[X:.*]] over 2 stride 1 on tp
// CHECK-NEXT: %[[DONE:.*]] = rt.record on tp
// CHECK-NEXT: rt.wait %[[DONE]] on compute
// CHECK-NEXT: rt.matmul %[[X]], %arg1
rt.func @gather_early(%part: !rt.buffer<f32, [4, 8]>, %a: !rt.buffer<f32, [8, 8]>, %b: !rt.buffer<f32, [8, 8]>, %y: !rt.buffer<f32, [8, 8]> {rt.access = "out"}, %z: !rt.buffer<f32, [8, 8]> {rt.access = "out"}) {
  %0 = rt.alloc "whole" : <f32, [8, 8]>
  rt.matmul %a, %a to %y {batch = #nn.dim<1>, k = #nn.dim<8>, m = #nn.dim<8>, n = #nn.dim<8>} : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.matmul %a, %b to %y {accumulate, batch = #nn.dim<1>, k = #nn.dim<8>, m = #nn.dim<8>, n = #nn.dim<8>} : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.collective all_gather %part to %0 over 2 stride 1 : !rt.buffer<f32, [4, 8]>, !rt.buffer<f32, [8, 8]>
  rt.matmul %0, %a to %z {batch = #nn.dim<1>, k = #nn.dim<8>, m = #nn.dim<8>, n = #nn.dim<8>} : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
}

// What is passed on again begins where it stands, behind the product beside which it was itself received: else all blocks would come at once.
// CHECK-LABEL: rt.func @round(
// CHECK: rt.collective shift %arg0 to %[[ONE:[0-9]+]] over 4 stride 1 on tp
// CHECK-NEXT: %[[CAME:.*]] = rt.record on tp
// CHECK-NEXT: rt.matmul %arg0, %arg1 to %arg2
// CHECK-NEXT: %[[HERE:.*]] = rt.record on compute
// CHECK-NEXT: rt.wait %[[HERE]] on tp
// CHECK-NEXT: rt.collective shift %[[ONE]] to %[[TWO:[0-9]+]] over 4 stride 1 on tp
// CHECK-NEXT: %[[NEXT:.*]] = rt.record on tp
// CHECK-NEXT: rt.wait %[[CAME]] on compute
// CHECK-NEXT: rt.matmul %[[ONE]], %arg1
// CHECK-NEXT: rt.wait %[[NEXT]] on compute
// CHECK-NEXT: rt.matmul %[[TWO]], %arg1
rt.func @round(%a: !rt.buffer<f32, [8, 8]>, %w: !rt.buffer<f32, [8, 8]>, %y: !rt.buffer<f32, [8, 8]> {rt.access = "out"}, %z: !rt.buffer<f32, [8, 8]> {rt.access = "out"}) {
  %0 = rt.alloc "one" : <f32, [8, 8]>
  %1 = rt.alloc "two" : <f32, [8, 8]>
  rt.collective shift %a to %0 over 4 stride 1 : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.matmul %a, %w to %y {batch = #nn.dim<1>, k = #nn.dim<8>, m = #nn.dim<8>, n = #nn.dim<8>} : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.collective shift %0 to %1 over 4 stride 1 : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.matmul %0, %w to %y {accumulate, batch = #nn.dim<1>, k = #nn.dim<8>, m = #nn.dim<8>, n = #nn.dim<8>} : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.matmul %1, %w to %z {batch = #nn.dim<1>, k = #nn.dim<8>, m = #nn.dim<8>, n = #nn.dim<8>} : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
}

// Chunks: the second travels while the first is multiplied, and its product while the first one's sum travels.
// CHECK-LABEL: rt.func @chunks(
// CHECK: rt.collective all_gather %arg0 {{.*}} stride 1 :
// CHECK-NEXT: %[[FIRST:.*]] = rt.record on compute
// CHECK-NEXT: rt.matmul %[[A:.*]], %arg2 to
// CHECK-NEXT: rt.wait %[[FIRST]] on tp
// CHECK-NEXT: rt.collective all_gather %arg1 to %[[B:.*]] over 2 stride 1 on tp
// CHECK-NEXT: %[[SECOND:.*]] = rt.record on tp
// CHECK-NEXT: rt.wait %[[SECOND]] on compute
// CHECK-NEXT: %[[PRODUCT:.*]] = rt.record on compute
// CHECK-NEXT: rt.matmul %[[B]], %arg2
// CHECK-NEXT: rt.wait %[[PRODUCT]] on tp
// CHECK-NEXT: rt.collective reduce_scatter {{.*}} on tp
// CHECK-NEXT: %[[END:.*]] = rt.record on tp
// CHECK-NEXT: rt.collective reduce_scatter {{.*}} stride 1 :
// CHECK-NEXT: rt.wait %[[END]] on compute
// CHECK-NEXT: }
rt.func @chunks(%x0: !rt.buffer<f32, [4, 8]>, %x1: !rt.buffer<f32, [4, 8]>, %w: !rt.buffer<f32, [8, 8]>, %y0: !rt.buffer<f32, [4, 8]> {rt.access = "out"}, %y1: !rt.buffer<f32, [4, 8]> {rt.access = "out"}) {
  %a = rt.alloc "a" : <f32, [8, 8]>
  %b = rt.alloc "b" : <f32, [8, 8]>
  %p = rt.alloc "p" : <f32, [8, 8]>
  %q = rt.alloc "q" : <f32, [8, 8]>
  rt.collective all_gather %x0 to %a over 2 stride 1 : !rt.buffer<f32, [4, 8]>, !rt.buffer<f32, [8, 8]>
  rt.matmul %a, %w to %p {batch = #nn.dim<1>, k = #nn.dim<8>, m = #nn.dim<8>, n = #nn.dim<8>} : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.collective all_gather %x1 to %b over 2 stride 1 : !rt.buffer<f32, [4, 8]>, !rt.buffer<f32, [8, 8]>
  rt.matmul %b, %w to %q {batch = #nn.dim<1>, k = #nn.dim<8>, m = #nn.dim<8>, n = #nn.dim<8>} : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.collective reduce_scatter by sum %p to %y0 over 2 stride 1 : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [4, 8]>
  rt.collective reduce_scatter by sum %q to %y1 over 2 stride 1 : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [4, 8]>
}

// Nothing to do meanwhile: no stream, no event.
// CHECK-LABEL: rt.func @alone(
// CHECK-NOT: rt.record
// CHECK: rt.collective all_reduce by sum %{{.*}} over 2 stride 1 :
// CHECK-NEXT: rt.matmul
// CHECK-NEXT: {{^ *}}}
rt.func @alone(%x: !rt.buffer<f32, [8, 8]>, %w: !rt.buffer<f32, [8, 8]>, %y: !rt.buffer<f32, [8, 8]> {rt.access = "out"}) {
  %0 = rt.alloc "x" : <f32, [8, 8]>
  rt.matmul %x, %w to %0 {batch = #nn.dim<1>, k = #nn.dim<8>, m = #nn.dim<8>, n = #nn.dim<8>} : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.collective all_reduce by sum %0 to %0 over 2 stride 1 : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.matmul %0, %w to %y {batch = #nn.dim<1>, k = #nn.dim<8>, m = #nn.dim<8>, n = #nn.dim<8>} : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
}

// A collective's operand keeps its place until it has been waited for: %late, made meanwhile, stands elsewhere. In the order of the ops %sent would be free by then.
// PLACES-LABEL: rt.func @places(
// PLACES: rt.alloc "sent" at [[SENT:[0-9]+]] :
// PLACES-NOT: rt.alloc "late" at [[SENT]] :
// PLACES: rt.alloc "late" at
rt.func @places(%x: !rt.buffer<f32, [8, 8]>, %w: !rt.buffer<f32, [8, 8]>, %y: !rt.buffer<f32, [8, 8]> {rt.access = "out"}, %z: !rt.buffer<f32, [8, 8]> {rt.access = "out"}) {
  %0 = rt.alloc "sent" : <f32, [8, 8]>
  %1 = rt.alloc "late" : <f32, [8, 8]>
  rt.matmul %x, %w to %0 {batch = #nn.dim<1>, k = #nn.dim<8>, m = #nn.dim<8>, n = #nn.dim<8>} : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.collective all_reduce by sum %0 to %y over 2 stride 1 : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.matmul %w, %w to %1 {batch = #nn.dim<1>, k = #nn.dim<8>, m = #nn.dim<8>, n = #nn.dim<8>} : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
  rt.matmul %1, %w to %z {batch = #nn.dim<1>, k = #nn.dim<8>, m = #nn.dim<8>, n = #nn.dim<8>} : !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>, !rt.buffer<f32, [8, 8]>
}
