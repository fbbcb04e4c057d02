// RUN: dt-opt %s -verify-diagnostics -split-input-file

// expected-error @+1 {{'2*' is not a size}}
rt.func @f(%a: !rt.buffer<f32, ["2*"]>) {
}

// -----

// expected-error @+1 {{write size 'images*16' as '16*images'}}
rt.func @f(%a: !rt.buffer<f32, ["images*16"]>) {
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
  %0 = rt.view %a {offset = "1"} : !rt.buffer<f32, [2]> to !rt.buffer<f32, [2]>
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
  rt.matmul %a, %b to %c {batch = "1", m = "2", n = "4", k = "3"} : !rt.buffer<f32, [2, 3]>, !rt.buffer<f32, [3, 4]>, !rt.buffer<f32, [2, 5]>
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

rt.module @m {
  rt.func @f(%a: !rt.buffer<f32, [2]>) {
  }
  // expected-note @+1 {{declared here}}
  rt.buffer_decl @b : !rt.buffer<f32, [3]> at 0 stride 0
  // expected-error @+1 {{gives @b of type}}
  rt.stage forward @f [@b]
}
