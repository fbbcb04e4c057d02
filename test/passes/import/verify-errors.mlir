// Each claim of the verifier behind import, broken.
// RUN: dt-opt %s --nn-verify-import --split-input-file --verify-diagnostics

dist.module @m {
  func.func @forward(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
    // expected-error@+1 {{'arith.addf' op is left after import, which leaves ops of nn, dist and func}}
    %0 = arith.addf %x, %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// In a body of nn too, where it is no scalar.
dist.module @m {
  func.func @forward(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
    %0 = nn.fused %x : (tensor<4xf32>) -> tensor<4xf32> {
    ^bb0(%a: f32):
      %c = arith.constant 1.0 : f32
      // expected-error@+1 {{'arith.constant' op in the body of nn.fused works on something else than scalars}}
      %t = arith.constant dense<0.0> : tensor<4xf32>
      nn.yield %c : f32
    }
    return %0 : tensor<4xf32>
  }
}

// -----

// Of a result.
dist.module @m {
  func.func @forward(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
    // expected-error@+1 {{'func.call' op has a '?' dim without an expression after import}}
    %0 = func.call @layer(%x) : (tensor<4xf32>) -> tensor<?xf32>
    return %x : tensor<4xf32>
  }
  func.func private @layer(%x: tensor<4xf32>) -> tensor<?xf32>
}

// -----

// Of an argument.
dist.module @m {
  // expected-error@+1 {{'func.func' op has a '?' dim without an expression after import}}
  func.func @forward(%x: tensor<?xf32> {nn.name = "x"}) {
    return
  }
}

// -----

// Of a declaration's result.
dist.module @m {
  // expected-error@+1 {{'func.func' op has a '?' dim without an expression after import}}
  func.func private @layer() -> tensor<?xf32>
}

// -----

dist.module @m {
  // expected-error@+1 {{'func.func' op has a tensor of unknown rank after import}}
  func.func @forward(%x: tensor<*xf32> {nn.name = "x"}) {
    return
  }
}

// -----

dist.module @m {
  nn.dim @batch of "sample" max 2
  // expected-error@+1 {{'func.func' op has a '?' dim of size '2*rows', but the module has no nn.dim @rows}}
  func.func @forward(%x: tensor<?xf32, #nn.dims<"2*rows">> {nn.name = "x"}) {
    return
  }
}

// -----

// Adapters are products by now.
dist.module @m {
  nn.parameter @w : tensor<4x4xf32> from #nn.onnx<"m.onnx", "w">
  nn.parameter @a : tensor<2x4xf32> trainable from #nn.init<"kaiming_uniform", "", "">
  nn.parameter @b : tensor<4x2xf32> trainable from #nn.init<"zeros", "", "">
  // expected-error@+1 {{'nn.adapter' op is left after import, which makes products of it}}
  nn.adapter @w down @a up @b scale 2.0
}
