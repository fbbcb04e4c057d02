// RUN: dt-opt %s --split-input-file --verify-diagnostics

dist.module @m {
  nn.parameter @w : tensor<6x4xf32> from #nn.onnx<"m.onnx", "w">
  nn.parameter @a : tensor<2x4xf32> trainable from #nn.init<"zeros", "", "">
  // expected-error@+1 {{names no nn.parameter: @b}}
  nn.adapter @w down @a up @b scale 2.0
}

// -----

dist.module @m {
  nn.parameter @w : tensor<6x4xf32> from #nn.onnx<"m.onnx", "w">
  nn.parameter @a : tensor<2x4xf32> trainable from #nn.init<"zeros", "", "">
  nn.parameter @b : tensor<4x2xf32> trainable from #nn.init<"zeros", "", "">
  // expected-error@+1 {{has down 'tensor<2x4xf32>' and up 'tensor<4x2xf32>' for 'tensor<6x4xf32>'}}
  nn.adapter @w down @a up @b scale 2.0
}

// -----

dist.module @m {
  nn.parameter @w : tensor<6xf32> from #nn.onnx<"m.onnx", "w">
  // expected-error@+1 {{needs matrices of floats, but @w is 'tensor<6xf32>'}}
  nn.adapter @w down @w up @w scale 2.0
}

// -----

dist.module @m {
  nn.parameter @w : tensor<4x4xf32> from #nn.onnx<"m.onnx", "w">
  // expected-error@+1 {{has a scale that is 0 or no number}}
  nn.adapter @w down @w up @w scale 0.0
}
