// Streams and events: calls in a CUDA program, with a number for each event of a module; on the CPU ops stand in their order, and nothing is said.
// RUN: dt-opt %s --dt-print-program=target=cuda -o /dev/null | FileCheck %s
// RUN: dt-opt %s --dt-print-program -o /dev/null | FileCheck %s --check-prefix=CPU

// CHECK-LABEL: //===--- m.cu
// CHECK: context.tpStream = task.tpStream;
// CHECK: class MF {
// CHECK: dt::rt::recordEvent(0, context.stream);
// CHECK-NEXT: dt::rt::waitForEvent(0, context.tpStream);
// CHECK-NEXT: dt::rt::collective(context.group, {{.*}}, argument, argument, context.tpStream);
// CHECK-NEXT: dt::rt::recordEvent(1, context.tpStream);
// CHECK-NEXT: dt::rt::copy(argument_3, argument_2, 8, context.stream);
// CHECK-NEXT: dt::rt::waitForEvent(1, context.stream);
// CHECK-NEXT: dt::rt::collective(context.group, {{.*}}, argument, argument, context.stream);
// CHECK: class MG {
// CHECK: dt::rt::recordEvent(2, context.stream);

// CPU-LABEL: //===--- m.cpp
// CPU-NOT: Event(
// CPU: dt::rt::collective(context.group, {{.*}}, argument, argument);
// CPU-NEXT: dt::rt::copy(argument_3, argument_2, 8);
// CPU-NEXT: dt::rt::collective(context.group, {{.*}}, argument, argument);
// CPU-NOT: Event(
rt.program @p batch 2 micro 2 seed 0 pace @m {
  rt.module @m tp 2 ranks [0, 1] arena 192 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @x : !rt.buffer<f32, [8]> at 0 stride 0
    rt.buffer_decl @y : !rt.buffer<f32, [8]> at 64 stride 0
    rt.buffer_decl @z : !rt.buffer<f32, [8]> at 128 stride 0
    rt.entry forward @f [@x, @y, @z]
    rt.entry backward @g [@x]
    rt.func @f(%x: !rt.buffer<f32, [8]> {rt.access = "inout"}, %y: !rt.buffer<f32, [8]>, %z: !rt.buffer<f32, [8]> {rt.access = "out"}) {
      %made = rt.record on compute
      rt.wait %made on tp
      rt.collective all_reduce by sum %x to %x over 2 stride 1 on tp : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
      %summed = rt.record on tp
      rt.copy %y to %z : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
      rt.wait %summed on compute
      rt.collective all_reduce by sum %x to %x over 2 stride 1 : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
    }
    rt.func @g(%x: !rt.buffer<f32, [8]> {rt.access = "inout"}) {
      %made = rt.record on compute
      rt.wait %made on tp
      rt.collective all_reduce by sum %x to %x over 2 stride 1 on tp : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
      %summed = rt.record on tp
      rt.wait %summed on compute
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
