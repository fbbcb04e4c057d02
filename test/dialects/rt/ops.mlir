// RUN: dt-opt %s | dt-opt | FileCheck %s
// RUN: dt-opt %s --emit-bytecode | dt-opt | FileCheck %s

// CHECK-LABEL: rt.func private @kernels
// CHECK-SAME: !rt.buffer<f32, ["16*images", 64]>
rt.func private @kernels(%a: !rt.buffer<f32, ["16*images", 64]> {rt.access = "in", rt.name = "a"}, %o: !rt.buffer<f32, ["16*images", 64]> {rt.access = "out"}) attributes {scratch_bytes = 64 : i64} {
  // CHECK: rt.kernel @double [%[[I:.*]] < "1024*images"] (%[[X:.*]] = %arg0 : !rt.buffer<f32, ["16*images", 64]> as !rt.buffer<f32, ["1024*images"]>, %{{.*}} = %arg1
  rt.kernel @double [%i < "1024*images"] (%x = %a : !rt.buffer<f32, ["16*images", 64]> as !rt.buffer<f32, ["1024*images"]>, %y = %o : !rt.buffer<f32, ["16*images", 64]> as !rt.buffer<f32, ["1024*images"]>) {
    // CHECK: rt.load %[[X]][%[[I]]] : !rt.buffer<f32, ["1024*images"]>
    %0 = rt.load %x[%i] : !rt.buffer<f32, ["1024*images"]>
    %1 = arith.addf %0, %0 : f32
    rt.store %1, %y[%i] : !rt.buffer<f32, ["1024*images"]>
  }
  // CHECK: rt.kernel @once [] ()
  rt.kernel @once [] () {
    // CHECK: rt.size "16*images"
    %0 = rt.size "16*images"
  }
  // CHECK: rt.alloc "local" at 64 : <f32, [4]>
  %l = rt.alloc "local" at 64 : !rt.buffer<f32, [4]>
  // CHECK: rt.view %{{.*}} {offset = "2"} : <f32, [4]> to <f32, [2]>
  %v = rt.view %l {offset = "2"} : !rt.buffer<f32, [4]> to !rt.buffer<f32, [2]>
  // CHECK: rt.fill %{{.*}} with 0.000000e+00 : f32
  rt.fill %v with 0.0 : f32 : !rt.buffer<f32, [2]>
  // CHECK: rt.constant dense<[1.000000e+00, 2.000000e+00]>
  %c = rt.constant dense<[1.0, 2.0]> : tensor<2xf32> : !rt.buffer<f32, [2]>
  // CHECK: rt.copy
  rt.copy %c to %v : !rt.buffer<f32, [2]>, !rt.buffer<f32, [2]>
}

// An unsigned element is handled as a signless integer.
// CHECK-LABEL: rt.func @unsigned
rt.func @unsigned(%a: !rt.buffer<ui8, [4]>) {
  rt.kernel @k [%i < 4] (%x = %a : !rt.buffer<ui8, [4]>) {
    %0 = rt.load %x[%i] : !rt.buffer<ui8, [4]>
    %1 = arith.addi %0, %0 : i8
    rt.store %1, %x[%i] : !rt.buffer<ui8, [4]>
  }
}
