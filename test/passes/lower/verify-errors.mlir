// Each claim of the verifier behind lowering, broken.
// RUN: dt-opt %s --rt-verify-lowered --split-input-file --verify-diagnostics

// expected-error@+1 {{'func.func' op is left after lowering to rt}}
func.func private @f()

// -----

rt.func @f() {
  // expected-error@+1 {{'arith.constant' op still has a value of type 'tensor<4xf32>'}}
  %0 = arith.constant dense<0.0> : tensor<4xf32>
}

// -----

// An argument of a block that nothing uses.
rt.func @f(%a: !rt.buffer<f32, [4]> {rt.access = "in"}) {
  // expected-error@+1 {{'scf.execute_region' op still has a value of type 'tensor<4xf32>'}}
  scf.execute_region {
    scf.yield
  ^bb1(%t: tensor<4xf32>):
    scf.yield
  }
}

// -----

rt.func @f() attributes {scratch_bytes = 64 : i64} {
  // expected-error@+1 {{'rt.alloc' op has no place in its function's scratch}}
  %0 = rt.alloc "a" : !rt.buffer<f32, [4]>
}

// -----

rt.func @f() attributes {scratch_bytes = 64 : i64} {
  // expected-error@+1 {{'rt.alloc' op ends at byte 80 of a scratch of 64}}
  %0 = rt.alloc "a" at 64 : !rt.buffer<f32, [4]>
}

// -----

// Rows count with as many as there may be.
nn.dim @batch of "sample" max 4
rt.func @f() attributes {scratch_bytes = 64 : i64} {
  // expected-error@+1 {{'rt.alloc' op ends at byte 128 of a scratch of 64}}
  %0 = rt.alloc "a" at 64 : !rt.buffer<f32, [batch, 4]>
}

// -----

rt.func @f() attributes {scratch_bytes = 64 : i64} {
  // expected-error@+1 {{'rt.alloc' op begins at byte -64}}
  %0 = rt.alloc "a" at -64 : !rt.buffer<f32, [4]>
}

// -----

rt.func private @layer(%x: !rt.buffer<f32, [4]> {rt.access = "in"}) attributes {scratch_bytes = 128 : i64} {
  %0 = arith.constant false
}
rt.func @f(%x: !rt.buffer<f32, [4]> {rt.access = "in"}) attributes {scratch_bytes = 64 : i64} {
  // expected-error@+1 {{'rt.call' op gives no scratch to @layer, which needs 128 bytes}}
  rt.call @layer(%x) : !rt.buffer<f32, [4]>
}

// -----

rt.func private @layer(%x: !rt.buffer<f32, [4]> {rt.access = "in"}) attributes {scratch_bytes = 128 : i64} {
  %0 = arith.constant false
}
rt.func @f(%x: !rt.buffer<f32, [4]> {rt.access = "in"}) attributes {scratch_bytes = 64 : i64} {
  %0 = rt.alloc "layer.scratch" at 0 : !rt.buffer<i8, [64]>
  // expected-error@+1 {{'rt.call' op scratch of '!rt.buffer<i8, [64]>' is too small for @layer, which needs 128 bytes}}
  rt.call @layer(%x) scratch %0 : !rt.buffer<f32, [4]>, !rt.buffer<i8, [64]>
}
