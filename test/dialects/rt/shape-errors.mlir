// RUN: dt-opt %s --split-input-file --verify-diagnostics

rt.func @f(%a: !rt.buffer<f32, [4]> {rt.access = "inout"}) {
  // expected-error @+1 {{is 'row', but has no rt.simd loop whose carried values may be combined in any order}}
  rt.kernel @k row [%i < 4] (%x = %a : !rt.buffer<f32, [4]>) {
  }
}

// -----

rt.func @f(%a: !rt.buffer<f32, [4]> {rt.access = "inout"}) {
  // expected-error @+1 {{is 'column', but does not add up rows into cells of its own}}
  rt.kernel @k column [%i < 4] (%x = %a : !rt.buffer<f32, [4]>) {
  }
}

// -----

// Its cell says the row: what is added does not meet.
rt.func @f(%a: !rt.buffer<f32, [4, 32]>, %b: !rt.buffer<f32, [4, 32]> {rt.access = "inout"}) {
  // expected-error @+1 {{is 'column', but does not add up rows into cells of its own}}
  rt.kernel @k column [] (%x = %a : !rt.buffer<f32, [4, 32]>, %y = %b : !rt.buffer<f32, [4, 32]>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c32 = arith.constant 32 : index
    scf.for %r = %c0 to %c4 step %c1 {
      scf.for %j = %c0 to %c32 step %c1 {
        %v = rt.load %x[%r, %j] : !rt.buffer<f32, [4, 32]>
        %o = rt.load %y[%r, %j] : !rt.buffer<f32, [4, 32]>
        %t = arith.addf %o, %v : f32
        rt.store %t, %y[%r, %j] : !rt.buffer<f32, [4, 32]>
      } {rt.simd}
    }
  }
}

// -----

// A value carried on by a difference has an order.
rt.func @f(%a: !rt.buffer<f32, [32]>, %b: !rt.buffer<f32, []> {rt.access = "out"}) {
  // expected-error @+1 {{is 'all', but does not begin with its one loop, which makes carried values}}
  rt.kernel @k all [] (%x = %a : !rt.buffer<f32, [32]>, %y = %b : !rt.buffer<f32, []>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %zero = arith.constant 0.0 : f32
    %s = scf.for %r = %c0 to %c32 step %c1 iter_args(%p = %zero) -> (f32) {
      %v = rt.load %x[%r] : !rt.buffer<f32, [32]>
      %t = arith.subf %p, %v : f32
      scf.yield %t : f32
    } {rt.simd}
    rt.store %s, %y[] : !rt.buffer<f32, []>
  }
}

// -----

rt.func @f() {
  // expected-error @+1 {{'ball' is no shape of a kernel}}
  rt.kernel @k ball [] () {
  }
}
