// RUN: dt-opt %s -verify-diagnostics -split-input-file

// Buffers, functions, calls, kernels.

// expected-error @+1 {{expected a size such as 'batch' or '16*images + 1'}}
rt.func @f(%a: !rt.buffer<f32, [2*]>) {
}

// -----

// expected-error @+1 {{element type must be an integer or a float}}
rt.func @f(%a: !rt.buffer<index, [2]>) {
}

// -----

// expected-error @+1 {{argument 0 must be a buffer, not 'index'}}
rt.func @f(%a: index) {
}

// -----

// expected-error @+1 {{rt.access of argument 0 must be in, out or inout, not 'write'}}
rt.func @f(%a: !rt.buffer<f32, [2]> {rt.access = "write"}) {
}

// -----

rt.func @f(%a: !rt.buffer<f32, [2]>) {
  // expected-error @+1 {{element types and numbers differ}}
  rt.kernel @k [] (%x = %a : !rt.buffer<f32, [2]> as !rt.buffer<f32, [3]>) {
  }
}

// -----

rt.func @f(%a: !rt.buffer<f32, [2]>) {
  rt.kernel @k [] () {
    // expected-error @+1 {{does not belong in a kernel}}
    %0 = rt.parameter @p : !rt.buffer<f32, [2]>
  }
}

// -----

rt.func @f(%a: !rt.buffer<f32, [2, 2]>) {
  rt.kernel @k [%i < 2] (%x = %a : !rt.buffer<f32, [2, 2]>) {
    // expected-error @+1 {{needs 2 indices, has 1}}
    %0 = rt.load %x[%i] : !rt.buffer<f32, [2, 2]>
  }
}

// -----

rt.func @f(%a: !rt.buffer<f32, [2]>) {
  // expected-error @+1 {{reaches beyond the end}}
  %0 = rt.view %a {offset = #nn.dim<1>} : !rt.buffer<f32, [2]> to !rt.buffer<f32, [2]>
}

// -----

rt.func @f(%a: !rt.buffer<f32, [2]>) {
  // expected-error @+1 {{cannot change the element type}}
  %0 = rt.view %a : !rt.buffer<f32, [2]> to !rt.buffer<i32, [2]>
}

// -----

rt.func @f(%a: !rt.buffer<f32, [2]>) {
  // expected-error @+1 {{offset must be a multiple of 64 bytes}}
  %0 = rt.alloc at 4 : !rt.buffer<f32, [2]>
}

// -----

rt.func @f(%a: !rt.buffer<f32, [2]>) {
  // expected-error @+1 {{calls no rt.func: @g}}
  rt.call @g(%a) : !rt.buffer<f32, [2]>
}

// -----

// expected-note @+1 {{which takes}}
rt.func @g(%a: !rt.buffer<f32, [3]>) {
}
rt.func @f(%a: !rt.buffer<f32, [2]>) {
  // expected-error @+1 {{arguments differ from those of @g}}
  rt.call @g(%a) : !rt.buffer<f32, [2]>
}

// -----

rt.func @g() attributes {scratch_bytes = 128 : i64} {
  %s = rt.alloc at 0 : !rt.buffer<i8, [128]>
}
rt.func @f() {
  %s = rt.alloc at 0 : !rt.buffer<i8, [64]>
  // expected-error @+1 {{is too small for @g, which needs 128 bytes}}
  rt.call @g() scratch %s : !rt.buffer<i8, [64]>
}

// -----

rt.func @f(%a: !rt.buffer<f32, [2, 3]>, %b: !rt.buffer<f32, [3, 4]>, %c: !rt.buffer<f32, [2, 5]>) {
  // expected-error @+1 {{'c' has 10 elements, expected 8}}
  rt.matmul %a, %b to %c {batch = #nn.dim<1>, m = #nn.dim<2>, n = #nn.dim<4>, k = #nn.dim<3>} : !rt.buffer<f32, [2, 3]>, !rt.buffer<f32, [3, 4]>, !rt.buffer<f32, [2, 5]>
}

// -----

rt.func @f(%a: !rt.buffer<f32, [2]>, %b: !rt.buffer<f32, [3]>) {
  // expected-error @+1 {{cannot copy}}
  rt.copy %a to %b : !rt.buffer<f32, [2]>, !rt.buffer<f32, [3]>
}

// -----

rt.func @f(%a: !rt.buffer<f32, [2]>) {
  // expected-error @+1 {{value must be 'f32', not 'i64'}}
  rt.fill %a with 0 : i64 : !rt.buffer<f32, [2]>
}

// -----

rt.func @f() {
  // expected-error @+1 {{cannot be}}
  %0 = rt.constant dense<0.0> : tensor<3xf32> : !rt.buffer<f32, [2]>
}

// -----

// expected-error @+1 {{runs on rank 0 twice}}
rt.module @m dp 2 ranks [0, 0] arena 64 scratch 0 parameters 0 trainable 0 {
}

// -----

rt.func @f(%a: !rt.buffer<f32, [8]>) {
  // expected-error @+1 {{indices are integers, not 'f32'}}
  rt.check_indices "rows of gather" %a below <4> : !rt.buffer<f32, [8]>
}

// -----

rt.func @f(%a: !rt.buffer<i64, [8]>) {
  // expected-error @+1 {{needs a stride of at least 1}}
  rt.check_indices "rows of gather" %a below <4> {stride = 0 : i64} : !rt.buffer<i64, [8]>
}

// -----

rt.func @f(%a: !rt.buffer<i64, [8]>) {
  // expected-error @+1 {{block is chunk, over and stride, of each cut}}
  rt.check_indices "rows of gather" %a below <4> {block = array<i64: 2, 2>} : !rt.buffer<i64, [8]>
}

// -----

rt.func @f(%a: !rt.buffer<i64, [8]>) {
  // expected-error @+1 {{must say what uses the indices}}
  rt.check_indices "" %a below <4> : !rt.buffer<i64, [8]>
}

// -----

rt.func @f(%a: !rt.buffer<i64, [8]>) {
  // expected-error @+1 {{expected a size such as}}
  rt.check_indices "rows of gather" %a below <4*> : !rt.buffer<i64, [8]>
}

// -----

rt.func @f(%a: !rt.buffer<i64, [8]>) {
  // expected-error @+1 {{expected a size such as}}
  rt.check_indices "rows of gather" %a below <4> {per = #nn.dim<*4>} : !rt.buffer<i64, [8]>
}

// -----

// Dense heads are as many as they are; rows with a pitch may be the columns of
// others, but not beyond their end.
rt.func @f(%q: !rt.buffer<f32, [24]>, %k: !rt.buffer<f32, [20]>, %o: !rt.buffer<f32, [8]>, %lse: !rt.buffer<f32, [2]>) {
  rt.attention %q, %q, %k to %o, %lse {b = #nn.dim<1>, t = #nn.dim<2>, s = #nn.dim<2>, h = #nn.dim<1>, hk = #nn.dim<1>, d = #nn.dim<4>, dv = #nn.dim<4>, q_strides = #nn.dims<24, 12, 4>, k_strides = #nn.dims<24, 12, 4>, v_strides = #nn.dims<24, 12, 4>,
      o_strides = #nn.dims<8, 4, 4>, mask_strides = #nn.dims<>, scale = 0.5 : f64, empty_row = 0 : i32} : !rt.buffer<f32, [24]>, !rt.buffer<f32, [24]>, !rt.buffer<f32, [20]>, !rt.buffer<f32, [8]>, !rt.buffer<f32, [2]>
  // expected-error @+1 {{'v' has 20 elements, its strides reach 22}}
  rt.attention %q, %q, %k to %o, %lse {b = #nn.dim<1>, t = #nn.dim<2>, s = #nn.dim<2>, h = #nn.dim<1>, hk = #nn.dim<1>, d = #nn.dim<4>, dv = #nn.dim<4>, q_strides = #nn.dims<24, 12, 4>, k_strides = #nn.dims<24, 12, 4>, v_strides = #nn.dims<24, 18, 4>,
      o_strides = #nn.dims<8, 4, 4>, mask_strides = #nn.dims<>, scale = 0.5 : f64, empty_row = 0 : i32} : !rt.buffer<f32, [24]>, !rt.buffer<f32, [24]>, !rt.buffer<f32, [20]>, !rt.buffer<f32, [8]>, !rt.buffer<f32, [2]>
}

// -----

rt.func @f(%q: !rt.buffer<f32, [24]>, %o: !rt.buffer<f32, [8]>, %lse: !rt.buffer<f32, [2]>) {
  // expected-error @+1 {{'q' has 24 elements, expected 8}}
  rt.attention %q, %o, %o to %o, %lse {b = #nn.dim<1>, t = #nn.dim<2>, s = #nn.dim<2>, h = #nn.dim<1>, hk = #nn.dim<1>, d = #nn.dim<4>, dv = #nn.dim<4>, q_strides = #nn.dims<8, 4, 4>, k_strides = #nn.dims<8, 4, 4>, v_strides = #nn.dims<8, 4, 4>,
      o_strides = #nn.dims<8, 4, 4>, mask_strides = #nn.dims<>, scale = 0.5 : f64, empty_row = 0 : i32} : !rt.buffer<f32, [24]>, !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>, !rt.buffer<f32, [2]>
}

// -----

rt.func @f(%q: !rt.buffer<f32, [8]>, %i: !rt.buffer<i64, [2]>, %j: !rt.buffer<i32, [2]>, %o: !rt.buffer<f32, [8]>, %lse: !rt.buffer<f32, [2]>) {
  // expected-error @+1 {{strides of segments are three numbers}}
  rt.attention %q, %q, %q segments %i by %i to %o, %lse {b = #nn.dim<1>, t = #nn.dim<2>, s = #nn.dim<2>, h = #nn.dim<1>, hk = #nn.dim<1>, d = #nn.dim<4>, dv = #nn.dim<4>, q_strides = #nn.dims<8, 4, 4>, k_strides = #nn.dims<8, 4, 4>, v_strides = #nn.dims<8, 4, 4>,
      o_strides = #nn.dims<8, 4, 4>, mask_strides = #nn.dims<>, scale = 0.5 : f64, empty_row = 0 : i32} : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>, !rt.buffer<i64, [2]>, !rt.buffer<i64, [2]>, !rt.buffer<f32, [8]>, !rt.buffer<f32, [2]>
}

// -----

rt.func @f(%q: !rt.buffer<f32, [8]>, %i: !rt.buffer<i64, [2]>, %j: !rt.buffer<i32, [2]>, %o: !rt.buffer<f32, [8]>, %lse: !rt.buffer<f32, [2]>) {
  // expected-error @+1 {{strides of segments are three numbers}}
  rt.attention %q, %q, %q to %o, %lse {b = #nn.dim<1>, t = #nn.dim<2>, s = #nn.dim<2>, h = #nn.dim<1>, hk = #nn.dim<1>, d = #nn.dim<4>, dv = #nn.dim<4>, q_strides = #nn.dims<8, 4, 4>, k_strides = #nn.dims<8, 4, 4>, v_strides = #nn.dims<8, 4, 4>,
      o_strides = #nn.dims<8, 4, 4>, mask_strides = #nn.dims<>, scale = 0.5 : f64, empty_row = 0 : i32, segment_strides = #nn.dims<2, 1, 2>} : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>, !rt.buffer<f32, [2]>
}

// -----

rt.func @f(%q: !rt.buffer<f32, [8]>, %i: !rt.buffer<i64, [2]>, %j: !rt.buffer<i32, [2]>, %o: !rt.buffer<f32, [8]>, %lse: !rt.buffer<f32, [2]>) {
  // expected-error @+1 {{'key_segments' has elements of 'i32', expected 'i64'}}
  rt.attention %q, %q, %q segments %i by %j to %o, %lse {b = #nn.dim<1>, t = #nn.dim<2>, s = #nn.dim<2>, h = #nn.dim<1>, hk = #nn.dim<1>, d = #nn.dim<4>, dv = #nn.dim<4>, q_strides = #nn.dims<8, 4, 4>, k_strides = #nn.dims<8, 4, 4>, v_strides = #nn.dims<8, 4, 4>,
      o_strides = #nn.dims<8, 4, 4>, mask_strides = #nn.dims<>, scale = 0.5 : f64, empty_row = 0 : i32, segment_strides = #nn.dims<2, 1, 2>} : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>, !rt.buffer<i64, [2]>, !rt.buffer<i32, [2]>, !rt.buffer<f32, [8]>, !rt.buffer<f32, [2]>
}

// -----

rt.func @f(%q: !rt.buffer<f32, [8]>, %i: !rt.buffer<i64, [2]>, %j: !rt.buffer<i32, [2]>, %o: !rt.buffer<f32, [8]>, %lse: !rt.buffer<f32, [2]>) {
  // expected-error @+1 {{segments are i32 or i64, not 'f32'}}
  rt.attention %q, %q, %q segments %lse by %lse to %o, %lse {b = #nn.dim<1>, t = #nn.dim<2>, s = #nn.dim<2>, h = #nn.dim<1>, hk = #nn.dim<1>, d = #nn.dim<4>, dv = #nn.dim<4>, q_strides = #nn.dims<8, 4, 4>, k_strides = #nn.dims<8, 4, 4>, v_strides = #nn.dims<8, 4, 4>,
      o_strides = #nn.dims<8, 4, 4>, mask_strides = #nn.dims<>, scale = 0.5 : f64, empty_row = 0 : i32, segment_strides = #nn.dims<2, 1, 2>} : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>, !rt.buffer<f32, [2]>, !rt.buffer<f32, [2]>, !rt.buffer<f32, [8]>, !rt.buffer<f32, [2]>
}

// -----

rt.func @f(%q: !rt.buffer<f32, [8]>, %i: !rt.buffer<i64, [2]>, %j: !rt.buffer<i32, [2]>, %o: !rt.buffer<f32, [8]>, %lse: !rt.buffer<f32, [2]>) {
  // expected-error @+1 {{a window has 1 key or more, not 0}}
  rt.attention %q, %q, %q to %o, %lse {b = #nn.dim<1>, t = #nn.dim<2>, s = #nn.dim<2>, h = #nn.dim<1>, hk = #nn.dim<1>, d = #nn.dim<4>, dv = #nn.dim<4>, q_strides = #nn.dims<8, 4, 4>, k_strides = #nn.dims<8, 4, 4>, v_strides = #nn.dims<8, 4, 4>,
      o_strides = #nn.dims<8, 4, 4>, mask_strides = #nn.dims<>, scale = 0.5 : f64, empty_row = 0 : i32, window = 0 : i64} : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>, !rt.buffer<f32, [2]>
}

// -----

rt.func @f(%experts: !rt.buffer<i64, [6]>, %first: !rt.buffer<i64, []>, %order: !rt.buffer<i32, [8]>, %place: !rt.buffer<i32, [6]>, %offsets: !rt.buffer<i32, [3]>) {
  // expected-error @+1 {{has room for 8 rows, not for 3 of 2 parts}}
  rt.route %experts from %first to %order, %place, %offsets {count = 5 : i64, group = 2 : i64, op = "route", placed = 2 : i64, room = #nn.dim<8>, rows = #nn.dim<6>, slots = #nn.dim<3>} : !rt.buffer<i64, [6]>, !rt.buffer<i64, []>, !rt.buffer<i32, [8]>, !rt.buffer<i32, [6]>, !rt.buffer<i32, [3]>
}

// -----

rt.func @f(%experts: !rt.buffer<i64, [6]>, %first: !rt.buffer<i64, []>, %order: !rt.buffer<i32, [6]>, %place: !rt.buffer<i32, [6]>, %offsets: !rt.buffer<i32, [3]>) {
  // expected-error @+1 {{places 6 of 5 experts}}
  rt.route %experts from %first to %order, %place, %offsets {count = 5 : i64, group = 3 : i64, op = "route", placed = 2 : i64, room = #nn.dim<6>, rows = #nn.dim<6>, slots = #nn.dim<3>} : !rt.buffer<i64, [6]>, !rt.buffer<i64, []>, !rt.buffer<i32, [6]>, !rt.buffer<i32, [6]>, !rt.buffer<i32, [3]>
}
