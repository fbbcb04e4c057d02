// RUN: dt-opt %s --rt-place-waits --rt-verify-lowered | FileCheck %s

// One slot for outputs: the second microbatch's forward waits for what is sent of the first one. The backward waits for the gradient that it reads. Slots of rank 1's inputs are two, that of gradients is one.
rt.program @p batch 2 micro 1 seed 0 pace @a {
  rt.module @a ranks [0] arena 256 scratch 0 parameters 64 trainable 64 {
    rt.buffer_decl @h : !rt.buffer<f32, [16]> at 0 stride 64
    rt.buffer_decl @gh : !rt.buffer<f32, [16]> at 128 stride 64
    rt.output "h" @h
    rt.entry forward @f [@h]
    rt.entry backward @g [@gh]
    rt.func @f(%h: !rt.buffer<f32, [16]> {rt.access = "out"}) {}
    rt.func @g(%gh: !rt.buffer<f32, [16]>) {}
  }
  rt.module @b ranks [1] arena 256 scratch 0 parameters 64 trainable 64 {
    rt.buffer_decl @x : !rt.buffer<f32, [16]> at 0 stride 64 received
    rt.buffer_decl @dx : !rt.buffer<f32, [16]> at 128 stride 64
    rt.input "x" @x from @a {output = 0 : i64}
    rt.entry forward @f [@x]
    rt.entry backward @g [@x, @dx]
    rt.func @f(%x: !rt.buffer<f32, [16]>) {}
    rt.func @g(%x: !rt.buffer<f32, [16]>, %dx: !rt.buffer<f32, [16]> {rt.access = "out"}) {}
  }
  rt.edge @a 0 to @b 0 gradient @dx to @gh
  rt.rank 0 {
    // CHECK-LABEL: rt.rank 0 {
    // CHECK-NEXT: rt.task forward @a microbatch 0 slot 0{{$}}
    rt.task forward @a microbatch 0 slot 0
    // CHECK-NEXT: rt.task send edge 0 microbatch 0 slot 0{{$}}
    rt.task send edge 0 microbatch 0 slot 0
    // CHECK-NEXT: rt.task receive {{.*}} gradient{{$}}
    rt.task receive edge 0 microbatch 0 slot 0 gradient
    // CHECK-NEXT: rt.task forward @a microbatch 1 slot 0 waits [1]
    rt.task forward @a microbatch 1 slot 0
    // CHECK-NEXT: rt.task send edge 0 microbatch 1 slot 0{{$}}
    rt.task send edge 0 microbatch 1 slot 0
    // CHECK-NEXT: rt.task receive edge 0 microbatch 1 slot 1 gradient{{$}}
    rt.task receive edge 0 microbatch 1 slot 1 gradient
    // CHECK-NEXT: rt.task backward @a microbatch 0 slot 0 waits [2]
    rt.task backward @a microbatch 0 slot 0
    // CHECK-NEXT: rt.task backward @a microbatch 1 slot 1 waits [5]
    rt.task backward @a microbatch 1 slot 1
    // CHECK-NEXT: rt.task reduce
    rt.task reduce @a microbatch 0 slot 0
  }
  rt.rank 1 {
    // CHECK-LABEL: rt.rank 1 {
    // CHECK-NEXT: rt.task receive
    rt.task receive edge 0 microbatch 0 slot 0
    // CHECK-NEXT: rt.task receive
    rt.task receive edge 0 microbatch 1 slot 1
    // CHECK-NEXT: rt.task forward @b microbatch 0 slot 0 waits [0]
    rt.task forward @b microbatch 0 slot 0
    // CHECK-NEXT: rt.task backward @b microbatch 0 slot 0{{$}}
    rt.task backward @b microbatch 0 slot 0
    // CHECK-NEXT: rt.task send
    rt.task send edge 0 microbatch 0 slot 0 gradient
    // CHECK-NEXT: rt.task forward @b microbatch 1 slot 0 received 1 waits [1]
    rt.task forward @b microbatch 1 slot 0 received 1
    // CHECK-NEXT: rt.task backward @b microbatch 1 slot 0 received 1 waits [4]
    rt.task backward @b microbatch 1 slot 0 received 1
  }
}
