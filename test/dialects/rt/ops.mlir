// RUN: dt-opt %s | dt-opt | FileCheck %s
// RUN: dt-opt %s --emit-bytecode | dt-opt | FileCheck %s

// However a size is written, it is one attribute.
// CHECK-LABEL: rt.func private @kernels
// CHECK-SAME: !rt.buffer<f32, [16*images, 64]>
rt.func private @kernels(%a: !rt.buffer<f32, [images*8 + 8*images, 64]> {rt.access = "in", rt.name = "a"}, %o: !rt.buffer<f32, [16*images, 64]> {rt.access = "out"}) attributes {scratch_bytes = 64 : i64} {
  // CHECK: rt.kernel @double [%[[I:.*]] < 1024*images] (%[[X:.*]] = %arg0 : !rt.buffer<f32, [16*images, 64]> as !rt.buffer<f32, [1024*images]>, %{{.*}} = %arg1
  rt.kernel @double [%i < 1024*images] (%x = %a : !rt.buffer<f32, [16*images, 64]> as !rt.buffer<f32, [1024*images]>, %y = %o : !rt.buffer<f32, [16*images, 64]> as !rt.buffer<f32, [1024*images]>) {
    // CHECK: rt.load %[[X]][%[[I]]] : !rt.buffer<f32, [1024*images]>
    %0 = rt.load %x[%i] : !rt.buffer<f32, [1024*images]>
    %1 = arith.addf %0, %0 : f32
    rt.store %1, %y[%i] : !rt.buffer<f32, [1024*images]>
  }
  // CHECK: rt.kernel @once [] ()
  rt.kernel @once [] () {
    // CHECK: rt.size <16*images>
    %0 = rt.size <16*images>
  }
  // CHECK: rt.alloc "local" at 64 : <f32, [4]>
  %l = rt.alloc "local" at 64 : !rt.buffer<f32, [4]>
  // CHECK: rt.view %{{.*}} {offset = #nn.dim<2>} : <f32, [4]> to <f32, [2]>
  %v = rt.view %l {offset = #nn.dim<2>} : !rt.buffer<f32, [4]> to !rt.buffer<f32, [2]>
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

// Defaults are not printed.
// CHECK-LABEL: rt.program @p batch 4 micro 2 seed 1 pace @b {
rt.program @p batch 4 micro 2 seed 1 pace @b schedule "accumulate" reorder "none" bucket 4194304 {
  // CHECK: rt.module @a origin "net" unit "net" tp 2 ranks [0, 1] arena 64 scratch 0 parameters 64 trainable 64 {
  rt.module @a origin "net" unit "net" stage 0 item "sample" tp 2 dp 1 ranks [0, 1] zero 0 arena 64 scratch 0 parameters 64 trainable 64 {
    // CHECK: rt.parameter_decl @w : !rt.buffer<f32, [2, 4]> index 0 at 0 trainable gradient decay by 2.500000e-01 lr_factor 5.000000e-01 routing 1.000000e-03 init "ones" from [] layout <4x4, [#dist.cut<0, 2, 2, 1>]> partial [#dist.cut<0, 1, 2, 1>]
    rt.parameter_decl @w : !rt.buffer<f32, [2, 4]> index 0 at 0 trainable gradient decay by 0.25 lr_factor 0.5 routing 0.001 init "ones" from [] layout #dist.layout<4x4, [#dist.cut<0, 2, 2, 1>]> partial [#dist.cut<0, 1, 2, 1>]
    // CHECK: rt.buffer_decl @h : !rt.buffer<f32, [4]> at 0 stride 0 unjoined
    rt.buffer_decl @h : !rt.buffer<f32, [4]> at 0 stride 0 unjoined
    rt.output "h" @h
    // CHECK: rt.entry forward @f [@h]
    rt.entry forward @f [@h]
    rt.entry backward @g []
    rt.func @f(%h: !rt.buffer<f32, [4]> {rt.access = "out"}) {
    }
    rt.func @g() {
      // CHECK: %[[G:.*]] = rt.gradient @w : <f32, [2, 4]>
      %w = rt.gradient @w : !rt.buffer<f32, [2, 4]>
      rt.fill %w with 0.0 : f32 : !rt.buffer<f32, [2, 4]>
      // CHECK: rt.gradients_ready 0 to 64
      rt.gradients_ready 0 to 64
    }
  }
  // CHECK: rt.module @b unit "net" stage 1 item "image" ranks [2] zero 1 arena 192 scratch 0 parameters 64 trainable 64 {
  rt.module @b unit "net" stage 1 item "image" ranks [2] zero 1 arena 192 scratch 0 parameters 64 trainable 64 {
    // CHECK: rt.symbol @n of "image" max 4 cost 2.500000e+00
    rt.symbol @n of "image" max 4 cost 2.5
    // CHECK: rt.symbol @patches of "image" measure "patches" largest 9 multiple 4 max 9 cost 2.500000e+00 square_cost 1.250000e-01
    rt.symbol @patches of "image" measure "patches" largest 9 multiple 4 max 9 cost 2.5 square_cost 0.125
    // CHECK: rt.symbol @m max 4{{$}}
    rt.symbol @m max 4 cost 0.0
    // CHECK: rt.parameter_decl @w : {{.*}} tied @a::@w
    rt.parameter_decl @w : !rt.buffer<f32, [2, 4]> index 1 at 0 from [] layout #dist.layout<4x4, [#dist.cut<0, 2, 2, 1>]> tied @a::@w
    // CHECK: rt.buffer_decl @h : !rt.buffer<f32, [4]> at 0 stride 64 received
    rt.buffer_decl @h : !rt.buffer<f32, [4]> at 0 stride 64 received
    // CHECK: rt.buffer_decl @r : !rt.buffer<f32, [4]> at 128 stride 0 early unjoined layout <8 of 7, [#dist.cut<0, 4, 2, 1>]>
    rt.buffer_decl @r : !rt.buffer<f32, [4]> at 128 stride 0 early unjoined layout #dist.layout<8 of 7, [#dist.cut<0, 4, 2, 1>]>
    // CHECK: rt.buffer_decl @g : !rt.buffer<f32, [4]> at 128 stride 0 late
    rt.buffer_decl @g : !rt.buffer<f32, [4]> at 128 stride 0 late
    // CHECK: rt.buffer_decl @k : !rt.buffer<f32, [4]> at 128 stride 0{{$}}
    rt.buffer_decl @k : !rt.buffer<f32, [4]> at 128 stride 0 whole
    rt.input "h" @h from @a {output = 0 : i64}
    // CHECK: rt.input "labels" @h apart "labels" padding -100
    rt.input "labels" @h apart "labels" padding -100
    rt.entry forward @f [@h]
    rt.func @f(%h: !rt.buffer<f32, [4]>) {
    }
  }
  // CHECK: rt.edge @a 0 to @b 0
  rt.edge @a 0 to @b 0
  // CHECK: rt.rank 0 {
  rt.rank 0 {
    // CHECK: rt.task forward @a microbatch 1 slot 0
    rt.task forward @a microbatch 1 slot 0
    // CHECK: rt.task send edge 0 microbatch 1 slot 0
    rt.task send edge 0 microbatch 1 slot 0 peer 0
    // CHECK: rt.task reduce @a microbatch 0 slot 0
    rt.task reduce @a microbatch 0 slot 0
  }
  // CHECK: rt.rank 1, 3 peak 2.000000e+00 {
  rt.rank 1, 3 peak 2.0 {
  }
  rt.rank 2 {
    // CHECK: rt.task receive edge 0 microbatch 1 slot 1 peer 2 gradient
    rt.task receive edge 0 microbatch 1 slot 1 peer 2 gradient
    // CHECK: rt.task forward @b microbatch 1 slot 0 received 1 early 3 late 2
    rt.task forward @b microbatch 1 slot 0 received 1 early 3 late 2
  }
}
