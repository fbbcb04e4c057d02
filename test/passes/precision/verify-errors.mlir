// RUN: dt-opt %s --split-input-file --verify-diagnostics --nn-verify-precision

func.func @mixed(%x: tensor<2x4xbf16>, %w: tensor<4x4xf32>) -> tensor<2x4xbf16> {
  // expected-error@+1 {{'nn.linear' op takes 'bf16' and 'f32'; expected one element type}}
  %y = nn.linear %x, %w : tensor<2x4xbf16>, tensor<4x4xf32>
  return %y : tensor<2x4xbf16>
}

// -----

func.func @elementwise(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  // expected-error@+1 {{'nn.exp' op computes with 'bf16'; expected float32}}
  %y = nn.exp %x : tensor<4xbf16>
  return %y : tensor<4xbf16>
}

// -----

dist.module @m {
  // expected-note@+1 {{declared here}}
  nn.parameter @w : tensor<4xf32> working bf16 trainable from #nn.onnx<"m.onnx", "w">
  func.func @forward() -> (tensor<4xf32> {nn.name = "y"}) {
    // expected-error@+1 {{has type 'tensor<4xf32>' but @w is 'tensor<4xbf16>'}}
    %w = nn.read @w : tensor<4xf32>
    return %w : tensor<4xf32>
  }
}
