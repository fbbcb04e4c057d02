// RUN: dt-opt %s --nn-verify-optimized --split-input-file --verify-diagnostics

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'nn.exp' op stands outside of nn.fused}}
  %0 = nn.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Casts have scalar code too.
dist.module @m {
  func.func private @layer(%x: tensor<4xf32>) -> tensor<4xi64> {
    // expected-error@+1 {{'nn.cast' op stands outside of nn.fused}}
    %0 = nn.cast %x : tensor<4xf32> to tensor<4xi64>
    return %0 : tensor<4xi64>
  }
}
