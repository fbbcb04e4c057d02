// What an adapter cannot stand beside.
// RUN: dt-opt %s --pass-pipeline='builtin.module(dist.module(nn-apply-adapters))' --split-input-file --verify-diagnostics

dist.module @m {
  nn.parameter @e : tensor<6x4xf32> from #nn.onnx<"m.onnx", "e">
  nn.parameter @a : tensor<2x4xf32> trainable from #nn.init<"kaiming_uniform", "", "">
  nn.parameter @b : tensor<6x2xf32> trainable from #nn.init<"zeros", "", "">
  // expected-error@+1 {{'nn.adapter' op needs products of @e, which is used by nn.gather}}
  nn.adapter @e down @a up @b scale 2.0
  func.func @forward(%x: tensor<3xi64> {nn.name = "x"}) -> (tensor<3x4xf32> {nn.name = "y"}) {
    %e = nn.read @e : tensor<6x4xf32>
    %0 = nn.gather %e at %x {axis = 0 : i64} : tensor<6x4xf32>, tensor<3xi64>
    return %0 : tensor<3x4xf32>
  }
}

// -----

dist.module @m {
  nn.parameter @w : tensor<4x4xf32> from #nn.onnx<"m.onnx", "w">
  nn.parameter @a : tensor<2x4xf32> trainable from #nn.init<"kaiming_uniform", "", "">
  nn.parameter @b : tensor<4x2xf32> trainable from #nn.init<"zeros", "", "">
  // expected-error@+1 {{'nn.adapter' op needs one orientation of @w}}
  nn.adapter @w down @a up @b scale 2.0
  func.func @forward(%x: tensor<3x4xf32> {nn.name = "x"}) -> (tensor<3x4xf32> {nn.name = "y"}) {
    %w = nn.read @w : tensor<4x4xf32>
    %0 = nn.linear %x, %w : tensor<3x4xf32>, tensor<4x4xf32>
    %1 = nn.linear %0, %w {in_out} : tensor<3x4xf32>, tensor<4x4xf32>
    return %1 : tensor<3x4xf32>
  }
}

// -----

dist.module @m {
  nn.parameter @w : tensor<4x4xf32> from #nn.onnx<"m.onnx", "w">
  nn.parameter @a : tensor<2x4xf32> trainable from #nn.init<"kaiming_uniform", "", "">
  nn.parameter @b : tensor<4x2xf32> trainable from #nn.init<"zeros", "", "">
  // expected-error@+1 {{'nn.adapter' op needs a product of @w, which none reads}}
  nn.adapter @w down @a up @b scale 2.0
  func.func @forward(%x: tensor<3x4xf32> {nn.name = "x"}) -> (tensor<3x4xf32> {nn.name = "y"}) {
    return %x : tensor<3x4xf32>
  }
}
