// RUN: dt-opt %s -verify-diagnostics -split-input-file

// What rt.gradients_ready says must hold: nothing adds to these gradients any
// more, neither in the function nor in what it calls.

rt.module @m ranks [0] arena 64 scratch 0 parameters 128 trainable 128 {
  rt.entry backward @f []
  rt.func @f() {
    // expected-error @+1 {{of 64 to 64 is no range of multiples of 64}}
    rt.gradients_ready 64 to 64
  }
}

// -----

rt.module @m ranks [0] arena 64 scratch 0 parameters 128 trainable 128 {
  rt.entry backward @f []
  rt.func @f() {
    // expected-error @+1 {{of 0 to 65 is no range of multiples of 64}}
    rt.gradients_ready 0 to 65
  }
}

// -----

rt.module @m ranks [0] arena 64 scratch 0 parameters 128 trainable 128 {
  rt.entry backward @f []
  rt.func @f() {
    // expected-error @+1 {{of -64 to 64 is no range of multiples of 64}}
    rt.gradients_ready -64 to 64
  }
}

// -----

rt.module @m ranks [0] arena 64 scratch 0 parameters 192 trainable 192 {
  rt.entry backward @f []
  rt.func @f() {
    rt.gradients_ready 0 to 64
    // expected-error @+1 {{begins at 128, not where the one before it ends: 64}}
    rt.gradients_ready 128 to 192
  }
}

// -----

rt.module @m ranks [0] arena 64 scratch 0 parameters 128 trainable 64 {
  rt.entry backward @f []
  rt.func @f() {
    // expected-error @+1 {{ends at 128; gradients have 64 bytes}}
    rt.gradients_ready 0 to 128
  }
}

// -----

rt.module @m ranks [0] arena 64 scratch 0 parameters 64 trainable 64 {
  rt.entry backward_input @f []
  rt.func @f() {
    // expected-error @+1 {{is not in a function that ends a microbatch's backward}}
    rt.gradients_ready 0 to 64
  }
}

// -----

rt.module @m ranks [0] arena 64 scratch 0 parameters 128 trainable 128 {
  rt.parameter_decl @w : !rt.buffer<f32, [4]> index 0 at 64 trainable gradient from []
  rt.entry backward @f []
  rt.func @f() {
    %w = rt.gradient @w : !rt.buffer<f32, [4]>
    %v = rt.view %w {offset = #nn.dim<2>} : !rt.buffer<f32, [4]> to !rt.buffer<f32, [2]>
    // What lies before it may be ready.
    rt.gradients_ready 0 to 64
    // expected-error @+1 {{has the gradient of @w in it}}
    rt.gradients_ready 64 to 128
    // expected-note @+1 {{which this op adds to}}
    rt.fill %v with 0.0 : f32 : !rt.buffer<f32, [2]>
  }
}

// -----

rt.module @m ranks [0] arena 64 scratch 0 parameters 64 trainable 64 {
  rt.parameter_decl @w : !rt.buffer<f32, [4]> index 0 at 0 trainable gradient from []
  rt.entry backward_weight @f []
  rt.func @layer(%a: !rt.buffer<f32, [4]>) {
    %w = rt.gradient @w : !rt.buffer<f32, [4]>
    rt.fill %w with 0.0 : f32 : !rt.buffer<f32, [4]>
  }
  rt.func @f() {
    %a = rt.alloc : !rt.buffer<f32, [4]>
    // expected-error @+1 {{has the gradient of @w in it}}
    rt.gradients_ready 0 to 64
    // expected-note @+1 {{which this op adds to}}
    rt.call @layer(%a) : !rt.buffer<f32, [4]>
  }
}
