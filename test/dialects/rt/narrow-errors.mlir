// RUN: dt-opt %s -verify-diagnostics -split-input-file

rt.func @f(%a: !rt.buffer<bf16, [2]>) {
  rt.kernel @k [%i < 2] (%x = %a : !rt.buffer<bf16, [2]>) {
    %v = rt.load %x[%i] : !rt.buffer<bf16, [2]>
    // expected-error @+1 {{makes a value of 'bf16', which scalar code does not have}}
    %n = arith.truncf %v : f32 to bf16
  }
}

// -----

rt.func @f(%a: !rt.buffer<bf16, [2]>) {
  rt.kernel @k [%i < 2] (%x = %a : !rt.buffer<bf16, [2]>) {
    %v = rt.load %x[%i] : !rt.buffer<bf16, [2]>
    %w = arith.extf %v : f32 to f64
    // expected-error @+1 {{element of '!rt.buffer<bf16, [2]>' is 'f32' in scalar code, not 'f64'}}
    "rt.store"(%w, %x, %i) : (f64, !rt.buffer<bf16, [2]>, index) -> ()
  }
}

// -----

rt.func @f(%a: !rt.buffer<bf16, [2]>) {
  // expected-error @+1 {{value must be 'bf16', not 'f32'}}
  rt.fill %a with 0.0 : f32 : !rt.buffer<bf16, [2]>
}

// -----

rt.func @f(%a: !rt.buffer<bf16, [2]>, %b: !rt.buffer<f32, [2]> {rt.access = "out"}) {
  // expected-error @+1 {{cannot copy}}
  rt.copy %a to %b : !rt.buffer<bf16, [2]>, !rt.buffer<f32, [2]>
}

// -----

rt.func @f(%a: !rt.buffer<f64, [2, 3]>, %b: !rt.buffer<f64, [3, 4]>, %c: !rt.buffer<f64, [2, 4]>) {
  // expected-error @+1 {{'a' has elements of 'f64', expected 'f32' or 'bf16'}}
  rt.matmul %a, %b to %c {batch = #nn.dim<1>, m = #nn.dim<2>, n = #nn.dim<4>, k = #nn.dim<3>} : !rt.buffer<f64, [2, 3]>, !rt.buffer<f64, [3, 4]>, !rt.buffer<f64, [2, 4]>
}

// -----

rt.func @f(%a: !rt.buffer<bf16, [2, 3]>, %b: !rt.buffer<f32, [3, 4]>, %c: !rt.buffer<f32, [2, 4]>) {
  // expected-error @+1 {{'b' has elements of 'f32', expected 'bf16'}}
  rt.matmul %a, %b to %c {batch = #nn.dim<1>, m = #nn.dim<2>, n = #nn.dim<4>, k = #nn.dim<3>} : !rt.buffer<bf16, [2, 3]>, !rt.buffer<f32, [3, 4]>, !rt.buffer<f32, [2, 4]>
}

// -----

rt.func @f(%a: !rt.buffer<f32, [2, 3]>, %b: !rt.buffer<f32, [3, 4]>, %c: !rt.buffer<bf16, [2, 4]>) {
  // expected-error @+1 {{'c' has elements of 'bf16', expected 'f32'}}
  rt.matmul %a, %b to %c {batch = #nn.dim<1>, m = #nn.dim<2>, n = #nn.dim<4>, k = #nn.dim<3>} : !rt.buffer<f32, [2, 3]>, !rt.buffer<f32, [3, 4]>, !rt.buffer<bf16, [2, 4]>
}

// -----

rt.func @f(%a: !rt.buffer<f32, [2, 3]>, %b: !rt.buffer<f32, [3, 4]>, %c: !rt.buffer<bf16, [2, 4]>) {
  // expected-error @+1 {{'c' has elements of 'bf16', expected 'f32'}}
  rt.matmul %a, %b to %c {accumulate, batch = #nn.dim<1>, m = #nn.dim<2>, n = #nn.dim<4>, k = #nn.dim<3>} : !rt.buffer<f32, [2, 3]>, !rt.buffer<f32, [3, 4]>, !rt.buffer<bf16, [2, 4]>
}

// -----

rt.func @f(%a: !rt.buffer<bf16, [2, 3]>, %b: !rt.buffer<bf16, [3, 4]>, %bias: !rt.buffer<i64, [4]>, %c: !rt.buffer<bf16, [2, 4]>) {
  // expected-error @+1 {{'bias' has elements of 'i64', expected 'f32' or 'bf16'}}
  rt.matmul %a, %b bias %bias to %c {batch = #nn.dim<1>, m = #nn.dim<2>, n = #nn.dim<4>, k = #nn.dim<3>} : !rt.buffer<bf16, [2, 3]>, !rt.buffer<bf16, [3, 4]>, !rt.buffer<i64, [4]>, !rt.buffer<bf16, [2, 4]>
}

// -----

rt.func @f(%x: !rt.buffer<bf16, [2, 3, 8]>, %w: !rt.buffer<bf16, [4, 3, 3]>, %y: !rt.buffer<f32, [2, 4, 6]>) {
  // expected-error @+1 {{'y' has elements of 'f32', expected 'bf16'}}
  rt.conv %x, %w to %y {n = #nn.dim<2>, c = 3, o = 4, groups = 1, in = #nn.dims<8>, kernel = array<i64: 3>, strides = array<i64: 1>, dilations = array<i64: 1>, pad_begin = array<i64: 0>, pad_end = array<i64: 0>}
    : !rt.buffer<bf16, [2, 3, 8]>, !rt.buffer<bf16, [4, 3, 3]>, !rt.buffer<f32, [2, 4, 6]>
}

// -----

rt.func @f(%x: !rt.buffer<bf16, [2, 3, 8]>, %w: !rt.buffer<bf16, [4, 3, 3]>, %b: !rt.buffer<f32, [4]>, %y: !rt.buffer<bf16, [2, 4, 6]>) {
  // expected-error @+1 {{'db' has elements of 'f32', expected 'bf16'}}
  rt.conv_dw %x, %y to %w bias %b {n = #nn.dim<2>, c = 3, o = 4, groups = 1, in = #nn.dims<8>, kernel = array<i64: 3>, strides = array<i64: 1>, dilations = array<i64: 1>, pad_begin = array<i64: 0>, pad_end = array<i64: 0>}
    : !rt.buffer<bf16, [2, 3, 8]>, !rt.buffer<bf16, [2, 4, 6]>, !rt.buffer<bf16, [4, 3, 3]>, !rt.buffer<f32, [4]>
}

// -----

rt.func @f(%x: !rt.buffer<bf16, [2, 3, 8]>, %w: !rt.buffer<bf16, [4, 3, 3]>, %y: !rt.buffer<bf16, [2, 4, 6]>) {
  // expected-error @+1 {{'dw' has elements of 'bf16', expected 'f32'}}
  rt.conv_dw %x, %y to %w {accumulate, n = #nn.dim<2>, c = 3, o = 4, groups = 1, in = #nn.dims<8>, kernel = array<i64: 3>, strides = array<i64: 1>, dilations = array<i64: 1>, pad_begin = array<i64: 0>, pad_end = array<i64: 0>}
    : !rt.buffer<bf16, [2, 3, 8]>, !rt.buffer<bf16, [2, 4, 6]>, !rt.buffer<bf16, [4, 3, 3]>
}

// -----

rt.func @f(%q: !rt.buffer<bf16, [1, 2, 1, 4]>, %o: !rt.buffer<bf16, [1, 2, 1, 4]>, %lse: !rt.buffer<bf16, [1, 1, 2]>) {
  // expected-error @+1 {{'lse' has elements of 'bf16', expected 'f32'}}
  rt.attention %q, %q, %q to %o, %lse {b = #nn.dim<1>, t = #nn.dim<2>, s = #nn.dim<2>, h = #nn.dim<1>, hk = #nn.dim<1>, d = #nn.dim<4>, dv = #nn.dim<4>, q_strides = #nn.dims<8, 4, 4>, k_strides = #nn.dims<8, 4, 4>, v_strides = #nn.dims<8, 4, 4>,
    o_strides = #nn.dims<8, 4, 4>, mask_strides = #nn.dims<>, scale = 0.5, empty_row = 0 : i32}
    : !rt.buffer<bf16, [1, 2, 1, 4]>, !rt.buffer<bf16, [1, 2, 1, 4]>, !rt.buffer<bf16, [1, 2, 1, 4]>, !rt.buffer<bf16, [1, 2, 1, 4]>, !rt.buffer<bf16, [1, 1, 2]>
}

// -----

rt.func @f(%q: !rt.buffer<f32, [1, 2, 1, 4]>, %mask: !rt.buffer<bf16, [2]>, %o: !rt.buffer<f32, [1, 2, 1, 4]>, %lse: !rt.buffer<f32, [1, 1, 2]>) {
  // expected-error @+1 {{'mask' has elements of 'bf16', expected 'f32' or 'i1'}}
  rt.attention %q, %q, %q mask %mask to %o, %lse {b = #nn.dim<1>, t = #nn.dim<2>, s = #nn.dim<2>, h = #nn.dim<1>, hk = #nn.dim<1>, d = #nn.dim<4>, dv = #nn.dim<4>, q_strides = #nn.dims<8, 4, 4>, k_strides = #nn.dims<8, 4, 4>, v_strides = #nn.dims<8, 4, 4>,
    o_strides = #nn.dims<8, 4, 4>, mask_strides = #nn.dims<0, 0, 0, 1>, scale = 0.5, empty_row = 0 : i32}
    : !rt.buffer<f32, [1, 2, 1, 4]>, !rt.buffer<f32, [1, 2, 1, 4]>, !rt.buffer<f32, [1, 2, 1, 4]>, !rt.buffer<bf16, [2]>, !rt.buffer<f32, [1, 2, 1, 4]>, !rt.buffer<f32, [1, 1, 2]>
}

// -----

rt.module @m ranks [0] arena 0 scratch 0 parameters 64 trainable 128 {
  // A gradient has four bytes an element.
  // expected-error @+1 {{at 64 is not in a region of 128 bytes, or not at a multiple of 64}}
  rt.parameter_decl @w : !rt.buffer<bf16, [32]> index 0 at 0 trainable at 64 gradient from []
}

// -----

// expected-error @+1 {{trains 192 bytes of 64}}
rt.module @m ranks [0] arena 0 scratch 0 parameters 64 trainable 192 {
}

// -----

// What is complete is a range of gradients, not of what is stored.
rt.module @m ranks [0] arena 64 scratch 0 parameters 128 trainable 256 {
  rt.parameter_decl @v : !rt.buffer<bf16, [32]> index 0 at 0 trainable gradient from []
  rt.parameter_decl @w : !rt.buffer<bf16, [32]> index 1 at 64 trainable at 128 gradient from []
  rt.entry backward @f []
  rt.func @f() {
    %w = rt.gradient @w : !rt.buffer<f32, [32]>
    rt.gradients_ready 0 to 128
    // expected-error @+1 {{has the gradient of @w in it}}
    rt.gradients_ready 128 to 256
    // expected-note @+1 {{which this op adds to}}
    rt.fill %w with 0.0 : f32 : !rt.buffer<f32, [32]>
  }
}
