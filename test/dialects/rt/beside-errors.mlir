// RUN: dt-opt %s -verify-diagnostics -split-input-file

// Parameters that an op joins stand one behind another, without a gap.

rt.module @m ranks [0] arena 64 scratch 0 parameters 256 trainable 128 {
  rt.parameter_decl @a : !rt.buffer<f32, [16]> index 0 at 0 trainable gradient from []
  // expected-note @+1 {{which is this}}
  rt.parameter_decl @b : !rt.buffer<f32, [16]> index 1 at 128 trainable at 64 gradient from []
  rt.func @f() {
    %0 = rt.gradient @a {beside = [@b]} : <f32, [32]>
    // expected-error @+1 {{joins parameters that do not stand side by side: one ends at 64, @b begins at 128}}
    %1 = rt.parameter @a {beside = [@b]} : <f32, [32]>
  }
}

// -----

rt.module @m ranks [0] arena 64 scratch 0 parameters 128 trainable 128 {
  // expected-note @+1 {{which is this}}
  rt.parameter_decl @a : !rt.buffer<f32, [16]> index 0 at 0 trainable gradient from []
  rt.parameter_decl @b : !rt.buffer<f32, [16]> index 1 at 64 trainable gradient from []
  rt.func @f() {
    // expected-error @+1 {{joins parameters that do not stand side by side: one ends at 128, @a begins at 0}}
    %0 = rt.gradient @b {beside = [@a]} : <f32, [32]>
  }
}

// -----

rt.module @m ranks [0] arena 64 scratch 0 parameters 128 trainable 128 {
  rt.parameter_decl @a : !rt.buffer<f32, [16]> index 0 at 0 trainable gradient from []
  rt.func @f() {
    // expected-error @+1 {{names no rt.parameter_decl: @b}}
    %0 = rt.gradient @a {beside = [@b]} : <f32, [32]>
  }
}
