// Parameters that an op joins are of one element type and differ in the first axis only.
// RUN: dt-opt %s -verify-diagnostics -split-input-file

dist.module @m {
  nn.parameter @a : tensor<2x4xf32> from #nn.init<"zeros", "", "">
  func.func @f() {
    // expected-error @+1 {{names no nn.parameter: @b}}
    %0 = nn.read @a {beside = [@b]} : tensor<4x4xf32>
    return
  }
}

// -----

dist.module @m {
  nn.parameter @a : tensor<2x4xf32> from #nn.init<"zeros", "", "">
  nn.parameter @b : tensor<2x3xf32> from #nn.init<"zeros", "", "">
  func.func @f() {
    // expected-error @+1 {{joins @b, which is 'tensor<2x3xf32>', to 'tensor<2x4xf32>'}}
    %0 = nn.read @a {beside = [@b]} : tensor<4x4xf32>
    return
  }
}

// -----

dist.module @m {
  nn.parameter @a : tensor<2x4xf32> working bf16 trainable from #nn.init<"zeros", "", "">
  nn.parameter @b : tensor<2x4xf32> trainable from #nn.init<"zeros", "", "">
  func.func @f(%g: tensor<4x4xf32>) {
    nn.accumulate @a, %g {beside = [@b]} : tensor<4x4xf32>
    // expected-error @+1 {{joins @b, which is 'tensor<2x4xf32>', to 'tensor<2x4xbf16>'}}
    %0 = nn.read @a {beside = [@b]} : tensor<4x4xbf16>
    return
  }
}

// -----

dist.module @m {
  nn.parameter @a : tensor<2x4xf32> from #nn.init<"zeros", "", "">
  // expected-note @+1 {{declared here}}
  nn.parameter @b : tensor<3x4xf32> from #nn.init<"zeros", "", "">
  func.func @f() {
    // expected-error @+1 {{has type 'tensor<4x4xf32>' but @b is 'tensor<5x4xf32>'}}
    %0 = nn.read @b {beside = [@a]} : tensor<4x4xf32>
    return
  }
}

// -----

dist.module @m {
  nn.parameter @a : tensor<f32> from #nn.init<"zeros", "", "">
  func.func @f() {
    // expected-error @+1 {{joins parameters of no axes}}
    %0 = nn.read @a {beside = [@a]} : tensor<f32>
    return
  }
}
