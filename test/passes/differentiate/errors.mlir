// RUN: dt-opt %s --dt-differentiate --split-input-file --verify-diagnostics

dist.module @m {
  func.func @forward(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "num"}) {
    %0 = nn.reduce sum %x {axes = array<i64: 0>} : tensor<4xf32>
    return %0 : tensor<f32>
  }
}
// expected-error@+1 {{depends on no trainable parameter, and neither does any other loss: there is nothing to train}}
dist.loss "l" in @m numerator "num" weight 1.0

// -----

// expected-error@+1 {{is part of a cycle of dist.edge; modules must form a DAG}}
dist.module @a {
  func.func @forward(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
    return %x : tensor<4xf32>
  }
}
dist.module @b {
  func.func @forward(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
    return %x : tensor<4xf32>
  }
}
dist.edge @a "y" to @b "x"
dist.edge @b "y" to @a "x"

// -----

dist.module @m {
  nn.parameter @w : tensor<4xf32> trainable from #nn.onnx<"m.onnx", "w">
  func.func @forward() -> (tensor<f32> {nn.name = "num"}) {
    %w = nn.read @w : tensor<4xf32>
    // expected-error@+1 {{'nn.silu_grad' op has no gradient, but stands between a trained value and a loss}}
    %0 = nn.silu_grad %w, %w : tensor<4xf32>, tensor<4xf32>
    %1 = nn.reduce sum %0 {axes = array<i64: 0>} : tensor<4xf32>
    return %1 : tensor<f32>
  }
}
dist.loss "l" in @m numerator "num" weight 1.0

// -----

dist.module @m {
  nn.parameter @w : tensor<5x4xf32> trainable from #nn.onnx<"m.onnx", "w">
  func.func @forward(%x: tensor<2x5x4x8xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "num"}) {
    %w = nn.read @w : tensor<5x4xf32>
    // expected-error@+1 {{has no gradient for its angles (trained rotary frequencies are not supported)}}
    %0 = nn.rotary %x, %w, %w : tensor<2x5x4x8xf32>, tensor<5x4xf32>, tensor<5x4xf32>
    %1 = nn.reduce sum %0 {axes = array<i64: 0, 1, 2, 3>} : tensor<2x5x4x8xf32>
    return %1 : tensor<f32>
  }
}
dist.loss "l" in @m numerator "num" weight 1.0

// -----

dist.module @m {
  nn.parameter @w : tensor<2x5x4x8xf32> trainable from #nn.onnx<"m.onnx", "w">
  func.func @forward() -> (tensor<f32> {nn.name = "num"}) {
    %w = nn.read @w : tensor<2x5x4x8xf32>
    // expected-error@+1 {{has no gradient for its log-sum-exp result}}
    %0, %lse = nn.attention %w, %w, %w {scale = 1.0 : f64} : tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>
    %1 = nn.reduce sum %lse {axes = array<i64: 0, 1, 2>} : tensor<2x4x5xf32>
    return %1 : tensor<f32>
  }
}
dist.loss "l" in @m numerator "num" weight 1.0

// -----

dist.module @m {
  nn.parameter @w : tensor<4xf32> trainable from #nn.onnx<"m.onnx", "w">
  // expected-error@+1 {{calls itself; a layer function must not}}
  func.func private @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = func.call @layer(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = nn.add %0, %x : tensor<4xf32>, tensor<4xf32>
    return %1 : tensor<4xf32>
  }
  func.func @forward() -> (tensor<f32> {nn.name = "num"}) {
    %w = nn.read @w : tensor<4xf32>
    %0 = func.call @layer(%w) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = nn.reduce sum %0 {axes = array<i64: 0>} : tensor<4xf32>
    return %1 : tensor<f32>
  }
}
dist.loss "l" in @m numerator "num" weight 1.0

