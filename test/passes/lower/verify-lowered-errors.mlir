// What code generation relies on, broken by hand.
// RUN: dt-opt %s --rt-verify-lowered -verify-diagnostics -split-input-file

// expected-error @+1 {{is left after lowering to rt}}
func.func private @left(tensor<4xf32>)

// -----

rt.func @f() attributes {scratch_bytes = 64 : i64} {
  // expected-error @+1 {{has no place in its function's scratch}}
  %a = rt.alloc "a" : <f32, [16]>
}

// -----

nn.dim @batch of "sample" max 4
rt.func @f() attributes {scratch_bytes = 64 : i64} {
  // expected-error @+1 {{ends at byte 128 of a scratch of 64}}
  %a = rt.alloc "a" at 0 : <f32, [8*batch]>
}

// -----

rt.func @f() attributes {scratch_bytes = 64 : i64} {
  // expected-error @+1 {{has a size without a bound}}
  %a = rt.alloc "a" at 0 : <f32, [8*batch]>
}

// -----

rt.func @callee(%x: !rt.buffer<f32, [16]>) attributes {scratch_bytes = 64 : i64} {
  %a = rt.alloc "a" at 0 : <f32, [16]>
}
rt.func @f(%x: !rt.buffer<f32, [16]>) {
  // expected-error @+1 {{gives no scratch to @callee, which needs 64 bytes}}
  rt.call @callee(%x) : !rt.buffer<f32, [16]>
}

// -----

// Both are needed by the kernel that reads them.
rt.func @lives(%y: !rt.buffer<f32, [16]> {rt.access = "out"}) attributes {scratch_bytes = 128 : i64} {
  %zero = arith.constant 0.0 : f32
  // expected-note @+1 {{which is this}}
  %a = rt.alloc "a" at 0 : <f32, [32]>
  // expected-error @+1 {{has bytes 64 to 128 of the scratch, of which some are another local's that lives at the same time}}
  %b = rt.alloc "b" at 64 : <f32, [16]>
  rt.fill %a with 0.0 : f32 : !rt.buffer<f32, [32]>
  rt.fill %b with 0.0 : f32 : !rt.buffer<f32, [16]>
  %v = rt.view %a : !rt.buffer<f32, [32]> to !rt.buffer<f32, [16]>
  rt.kernel @add [%i < 16] (%p = %v : !rt.buffer<f32, [16]>, %q = %b : !rt.buffer<f32, [16]>, %o = %y : !rt.buffer<f32, [16]>) {
    %0 = rt.load %p[%i] : !rt.buffer<f32, [16]>
    %1 = rt.load %q[%i] : !rt.buffer<f32, [16]>
    %2 = arith.addf %0, %1 : f32
    rt.store %2, %o[%i] : !rt.buffer<f32, [16]>
  }
}

// -----

// In place, but row 0 of what is overwritten is read at all points.
rt.func @row(%y: !rt.buffer<f32, [4]> {rt.access = "out"}) attributes {scratch_bytes = 64 : i64} {
  %h = rt.alloc "h" at 0 : <f32, [4, 4]>
  %s = rt.alloc "s" at 0 : <f32, [4, 4]>
  rt.fill %h with 0.0 : f32 : !rt.buffer<f32, [4, 4]>
  // expected-note @+1 {{operand 1 is this}}
  %r = rt.view %h : !rt.buffer<f32, [4, 4]> to !rt.buffer<f32, [4]>
  // expected-error @+1 {{writes operand 2, which shares bytes with operand 1 that it reads at other points or times}}
  rt.kernel @add [%i < 4, %j < 4] (%p = %h : !rt.buffer<f32, [4, 4]>, %q = %r : !rt.buffer<f32, [4]>, %o = %s : !rt.buffer<f32, [4, 4]>) {
    %0 = rt.load %p[%i, %j] : !rt.buffer<f32, [4, 4]>
    %1 = rt.load %q[%j] : !rt.buffer<f32, [4]>
    %2 = arith.addf %0, %1 : f32
    rt.store %2, %o[%i, %j] : !rt.buffer<f32, [4, 4]>
  }
  rt.fill %y with 0.0 : f32 : !rt.buffer<f32, [4]>
}

// -----

// Point for point, but it is read after it has been overwritten.
rt.func @late(%x: !rt.buffer<f32, [4]>, %y: !rt.buffer<f32, [4]> {rt.access = "out"}) attributes {scratch_bytes = 64 : i64} {
  // expected-note @+1 {{operand 0 is this}}
  %h = rt.alloc "h" at 0 : <f32, [4]>
  %s = rt.alloc "s" at 0 : <f32, [4]>
  rt.fill %h with 0.0 : f32 : !rt.buffer<f32, [4]>
  // expected-error @+1 {{writes operand 1, which shares bytes with operand 0}}
  rt.kernel @two [%i < 4] (%p = %h : !rt.buffer<f32, [4]>, %o = %s : !rt.buffer<f32, [4]>, %q = %y : !rt.buffer<f32, [4]>, %z = %x : !rt.buffer<f32, [4]>) {
    %0 = rt.load %z[%i] : !rt.buffer<f32, [4]>
    rt.store %0, %o[%i] : !rt.buffer<f32, [4]>
    %1 = rt.load %p[%i] : !rt.buffer<f32, [4]>
    rt.store %1, %q[%i] : !rt.buffer<f32, [4]>
  }
}

// -----

// Point for point and before: right, with one place for both and with a part that another view leaves alone.
nn.dim @batch of "sample" max 4
rt.func @right(%x: !rt.buffer<f32, [batch, 4]> {rt.access = "inout"}) attributes {scratch_bytes = 64 : i64} {
  %h = rt.alloc "h" at 0 : <f32, [batch, 4]>
  %s = rt.alloc "s" at 0 : <f32, [batch, 4]>
  rt.fill %h with 0.0 : f32 : !rt.buffer<f32, [batch, 4]>
  rt.kernel @exp [%i < batch, %j < 4] (%p = %h : !rt.buffer<f32, [batch, 4]>, %o = %s : !rt.buffer<f32, [batch, 4]>) {
    %0 = rt.load %p[%i, %j] : !rt.buffer<f32, [batch, 4]>
    %1 = math.exp %0 : f32
    rt.store %1, %o[%i, %j] : !rt.buffer<f32, [batch, 4]>
  }
  rt.copy %s to %x : !rt.buffer<f32, [batch, 4]>, !rt.buffer<f32, [batch, 4]>
  %a = rt.view %x {offset = #nn.dim<4>} : !rt.buffer<f32, [batch, 4]> to !rt.buffer<f32, [4*batch - 4]>
  %b = rt.view %x : !rt.buffer<f32, [batch, 4]> to !rt.buffer<f32, [4]>
  rt.kernel @head [%j < 4] (%p = %a : !rt.buffer<f32, [4*batch - 4]>, %o = %b : !rt.buffer<f32, [4]>) {
    %0 = rt.load %p[%j] : !rt.buffer<f32, [4*batch - 4]>
    rt.store %0, %o[%j] : !rt.buffer<f32, [4]>
  }
}

// -----

// A library call reads in its own order.
rt.func @product(%w: !rt.buffer<f32, [4, 4]>, %y: !rt.buffer<f32, [4, 4]> {rt.access = "out"}) {
  // expected-error @+2 {{writes operand 2, which shares bytes with operand 0}}
  // expected-note @-2 {{operand 0 is this}}
  rt.matmul %y, %w to %y {batch = #nn.dim<1>, m = #nn.dim<4>, n = #nn.dim<4>, k = #nn.dim<4>} : !rt.buffer<f32, [4, 4]>, !rt.buffer<f32, [4, 4]>, !rt.buffer<f32, [4, 4]>
}

// -----

rt.func @copy(%y: !rt.buffer<f32, [8]> {rt.access = "inout"}) {
  // expected-note @+1 {{operand 0 is this}}
  %a = rt.view %y : !rt.buffer<f32, [8]> to !rt.buffer<f32, [6]>
  %b = rt.view %y {offset = #nn.dim<2>} : !rt.buffer<f32, [8]> to !rt.buffer<f32, [6]>
  // expected-error @+1 {{writes operand 1, which shares bytes with operand 0}}
  rt.copy %a to %b : !rt.buffer<f32, [6]>, !rt.buffer<f32, [6]>
}

// -----

// In place as a whole, not in parts.
rt.func @reduce(%y: !rt.buffer<f32, [8]> {rt.access = "inout"}) {
  rt.collective all_reduce by sum %y to %y over 2 stride 1 : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
  // expected-note @+1 {{operand 0 is this}}
  %a = rt.view %y : !rt.buffer<f32, [8]> to !rt.buffer<f32, [6]>
  %b = rt.view %y {offset = #nn.dim<2>} : !rt.buffer<f32, [8]> to !rt.buffer<f32, [6]>
  // expected-error @+1 {{writes operand 1, which shares bytes with operand 0}}
  rt.collective all_reduce by sum %a to %b over 2 stride 1 : !rt.buffer<f32, [6]>, !rt.buffer<f32, [6]>
}

// -----

// A callee takes its arguments for different memory.
rt.func @callee(%x: !rt.buffer<f32, [4]>, %y: !rt.buffer<f32, [4]> {rt.access = "inout"}, %z: !rt.buffer<f32, [4]> {rt.access = "inout"}) {
}
rt.func @f(%x: !rt.buffer<f32, [4]>, %y: !rt.buffer<f32, [4]> {rt.access = "inout"}) {
  // expected-error @+2 {{writes operand 1, which shares bytes with operand 2}}
  // expected-note @-2 {{operand 2 is this}}
  rt.call @callee(%x, %y, %y) : !rt.buffer<f32, [4]>, !rt.buffer<f32, [4]>, !rt.buffer<f32, [4]>
}

// -----

// What a stage's function writes is in no other buffer of the task.
rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.rank 0 {
  }
  rt.module @m ranks [0] arena 128 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @a : !rt.buffer<f32, [20]> at 0 stride 0
    rt.buffer_decl @b : !rt.buffer<f32, [16]> at 64 stride 0
    // expected-error @+1 {{writes @b, which shares bytes with argument 0, @a}}
    rt.entry forward @f [@a, @b]
    // expected-note @+1 {{in this function}}
    rt.func @f(%x: !rt.buffer<f32, [20]>, %y: !rt.buffer<f32, [16]> {rt.access = "out"}) {
    }
  }
  rt.optimizer {kind = "sgd", lr = 0.1}
}

// -----

// Gradients of attention are other columns of the same rows.
rt.func @columns(%q: !rt.buffer<f32, [2, 3, 2, 4]>, %lse: !rt.buffer<f32, [2, 2, 3]>, %all: !rt.buffer<f32, [2, 3, 24]> {rt.access = "out"}) {
  %dk = rt.view %all {offset = #nn.dim<8>} : <f32, [2, 3, 24]> to <f32, [136]>
  %dv = rt.view %all {offset = #nn.dim<16>} : <f32, [2, 3, 24]> to <f32, [128]>
  rt.attention_grad %q, %q, %q of %q, %lse, %q to %all, %dk, %dv {b = #nn.dim<2>, t = #nn.dim<3>, s = #nn.dim<3>, h = #nn.dim<2>, hk = #nn.dim<2>, d = #nn.dim<4>, dv = #nn.dim<4>, q_strides = #nn.dims<24, 8, 4>, k_strides = #nn.dims<24, 8, 4>, v_strides = #nn.dims<24, 8, 4>, o_strides = #nn.dims<24, 8, 4>,
    dq_strides = #nn.dims<72, 24, 4>, dk_strides = #nn.dims<72, 24, 4>, dv_strides = #nn.dims<72, 24, 4>, mask_strides = #nn.dims<>, scale = 1.0 : f64, empty_row = 0 : i32}
    : !rt.buffer<f32, [2, 3, 2, 4]>, !rt.buffer<f32, [2, 3, 2, 4]>, !rt.buffer<f32, [2, 3, 2, 4]>, !rt.buffer<f32, [2, 3, 2, 4]>, !rt.buffer<f32, [2, 2, 3]>, !rt.buffer<f32, [2, 3, 2, 4]>, !rt.buffer<f32, [2, 3, 24]>, !rt.buffer<f32, [136]>, !rt.buffer<f32, [128]>
  // expected-note @+1 {{operand 7 is this}}
  %early = rt.view %all {offset = #nn.dim<4>} : <f32, [2, 3, 24]> to <f32, [140]>
  // expected-error @+1 {{writes operand 6, which shares bytes with operand 7 that it reads at other points or times}}
  rt.attention_grad %q, %q, %q of %q, %lse, %q to %all, %early, %dv {b = #nn.dim<2>, t = #nn.dim<3>, s = #nn.dim<3>, h = #nn.dim<2>, hk = #nn.dim<2>, d = #nn.dim<4>, dv = #nn.dim<4>, q_strides = #nn.dims<24, 8, 4>, k_strides = #nn.dims<24, 8, 4>, v_strides = #nn.dims<24, 8, 4>, o_strides = #nn.dims<24, 8, 4>,
    dq_strides = #nn.dims<72, 24, 4>, dk_strides = #nn.dims<72, 24, 4>, dv_strides = #nn.dims<72, 24, 4>, mask_strides = #nn.dims<>, scale = 1.0 : f64, empty_row = 0 : i32}
    : !rt.buffer<f32, [2, 3, 2, 4]>, !rt.buffer<f32, [2, 3, 2, 4]>, !rt.buffer<f32, [2, 3, 2, 4]>, !rt.buffer<f32, [2, 3, 2, 4]>, !rt.buffer<f32, [2, 2, 3]>, !rt.buffer<f32, [2, 3, 2, 4]>, !rt.buffer<f32, [2, 3, 24]>, !rt.buffer<f32, [140]>, !rt.buffer<f32, [128]>
}

// -----

// A parameter that another op has together with more of them.
rt.module @m ranks [0] arena 64 scratch 0 parameters 128 trainable 128 {
  rt.parameter_decl @a : !rt.buffer<f32, [16]> index 0 at 0 trainable gradient from []
  rt.parameter_decl @b : !rt.buffer<f32, [16]> index 1 at 64 trainable gradient from []
  rt.func @joined() {
    // expected-note @+1 {{operand 1 is this}}
    %0 = rt.gradient @a {beside = [@b]} : <f32, [32]>
    %1 = rt.gradient @b : <f32, [16]>
    %2 = rt.gradient @a : <f32, [16]>
    rt.copy %2 to %1 : !rt.buffer<f32, [16]>, !rt.buffer<f32, [16]>
    %first = rt.view %0 : <f32, [32]> to <f32, [16]>
    rt.copy %first to %1 : !rt.buffer<f32, [16]>, !rt.buffer<f32, [16]>
    // expected-error @+1 {{writes operand 0, which shares bytes with operand 1 that it reads at other points or times}}
    rt.kernel @k [%i < 16] (%x = %1 : !rt.buffer<f32, [16]>, %y = %0 : !rt.buffer<f32, [32]>) {
      %v = rt.load %y[%i] : !rt.buffer<f32, [32]>
      rt.store %v, %x[%i] : !rt.buffer<f32, [16]>
    }
  }
}
