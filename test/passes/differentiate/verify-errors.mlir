// RUN: dt-opt %s --nn-verify-differentiated --split-input-file --verify-diagnostics

// expected-error@+1 {{still has a function @forward}}
dist.module @m {
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

dist.module @m {
  // expected-error@+1 {{still wants the gradient of argument 0}}
  func.func @other(%x: tensor<4xf32> {nn.wants_grad}) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

dist.module @m {
  // expected-error@+1 {{still has marks on result 0}}
  func.func @other(%x: tensor<4xf32>) -> (tensor<4xf32> {nn.gradients = []}) {
    return %x : tensor<4xf32>
  }
}

// -----

dist.module @m {
  // expected-error@+1 {{is in no dist.forward, but has 'nn.residual'}}
  func.func @forward.bwd(%x: tensor<4xf32> {nn.residual}) {
    return
  }
}

// -----

dist.module @m {
  dist.forward @forward.fwd backward @forward.bwd
  func.func @forward.fwd(%x: tensor<4xf32>) -> (tensor<4xf32> {nn.residual}) {
    return %x : tensor<4xf32>
  }
  // expected-error@+1 {{takes other residuals than forward.fwd returns}}
  func.func @forward.bwd(%x: tensor<5xf32> {nn.residual}) {
    return
  }
}

// -----

dist.module @m {
  func.func private @layer.bwd(%x: tensor<4xf32>) -> (tensor<4xf32> {nn.param_grad}) {
    return %x : tensor<4xf32>
  }
  func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error@+1 {{uses parameter gradient 0 otherwise than by adding it up}}
    %0 = func.call @layer.bwd(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = nn.neg %0 : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}

// -----

dist.module @a {
  dist.forward @forward.fwd backward @forward.bwd
  func.func @forward.fwd() -> (tensor<4xf32> {nn.name = "y"}) {
    %0 = nn.constant dense<0.0> : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func @forward.bwd(%dy: tensor<4xf32> {nn.gradient = #nn.gradient<of = "y", edge = "b.x">}) {
    return
  }
}
dist.module @b {
  dist.forward @forward.fwd
  func.func @forward.fwd(%x: tensor<4xf32> {nn.name = "x"}) {
    return
  }
}
// expected-error@+1 {{brings no gradient back, but its source takes one}}
dist.edge @a "y" to @b "x"

// -----

dist.module @a {
  dist.forward @forward.fwd
  func.func @forward.fwd() -> (tensor<4xf32> {nn.name = "y"}) {
    %0 = nn.constant dense<0.0> : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
dist.module @b {
  dist.forward @forward.fwd backward @forward.bwd
  func.func @forward.fwd(%x: tensor<4xf32> {nn.name = "x"}) {
    return
  }
  func.func @forward.bwd(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.gradient = #nn.gradient<of = "x">}) {
    return %x : tensor<4xf32>
  }
}
// expected-error@+1 {{brings a gradient back that its source does not take}}
dist.edge @a "y" to @b "x"

// -----

dist.module @m {
  // expected-error@+1 {{is in no dist.forward, but has 'nn.gradient'}}
  func.func @forward.bwd.input(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.gradient = #nn.gradient<of = "x">}) {
    return %x : tensor<4xf32>
  }
}

// -----

dist.module @m {
  dist.forward @forward.fwd
  dist.forward @other.fwd
  func.func @forward.fwd() {
    return
  }
  // expected-error@+1 {{is a second function of @m that is differentiated}}
  func.func @other.fwd() {
    return
  }
}

// -----

dist.module @m {
  dist.forward @forward.fwd weight @forward.bwd.weight
  func.func @forward.fwd() {
    return
  }
  // expected-error@+1 {{returns something, but only adds up gradients}}
  func.func @forward.bwd.weight(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.gradient = #nn.gradient<of = "x">}) {
    return %x : tensor<4xf32>
  }
}

// -----

dist.module @m {
  dist.forward @forward.fwd weight @forward.bwd.weight
  func.func @forward.fwd(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.residual}) {
    return %x : tensor<4xf32>
  }
  // expected-error@+1 {{takes a residual as argument 0 without its number}}
  func.func @forward.bwd.weight(%x: tensor<4xf32> {nn.residual}) {
    return
  }
}

// -----

dist.module @m {
  dist.forward @forward.fwd weight @forward.bwd.weight
  func.func @forward.fwd(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.residual}, tensor<4xf32> {nn.residual}) {
    return %x, %x : tensor<4xf32>, tensor<4xf32>
  }
  // expected-error@+1 {{takes residual 0 behind residual 1}}
  func.func @forward.bwd.weight(%x: tensor<4xf32> {nn.residual = 1 : i64}, %y: tensor<4xf32> {nn.residual = 0 : i64}) {
    return
  }
}

// -----

dist.module @m {
  dist.forward @forward.fwd weight @forward.bwd.weight
  func.func @forward.fwd(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.residual}) {
    return %x : tensor<4xf32>
  }
  // expected-error@+1 {{takes residual 1, but there are 1}}
  func.func @forward.bwd.weight(%x: tensor<4xf32> {nn.residual = 1 : i64}) {
    return
  }
}

// -----

// The input half's residuals come behind those of the forward function.
dist.module @m {
  dist.forward @forward.fwd input @forward.bwd.input weight @forward.bwd.weight
  func.func @forward.fwd(%x: tensor<4xf32> {nn.name = "x"}, %z: tensor<5xf32> {nn.name = "z"}) -> (tensor<5xf32> {nn.name = "y"}, tensor<4xf32> {nn.residual}) {
    return %z, %x : tensor<5xf32>, tensor<4xf32>
  }
  func.func @forward.bwd.input(%x: tensor<5xf32> {nn.gradient = #nn.gradient<of = "y", edge = "n.y">}) -> (tensor<5xf32> {nn.residual}) {
    return %x : tensor<5xf32>
  }
  // expected-error@+1 {{takes residual 1 as 'tensor<4xf32>', but it is 'tensor<5xf32>'}}
  func.func @forward.bwd.weight(%x: tensor<4xf32> {nn.residual = 1 : i64}) {
    return
  }
}

// -----

dist.module @m {
  dist.forward @forward.fwd input @forward.bwd.input
  nn.parameter @w : tensor<4xf32> trainable from #nn.onnx<"m.onnx", "w">
  func.func @forward.fwd(%x: tensor<4xf32> {nn.name = "x"}) {
    return
  }
  // expected-error@+1 {{adds up gradients of parameters}}
  func.func @forward.bwd.input(%x: tensor<4xf32> {nn.name = "x"}) {
    nn.accumulate @w, %x : tensor<4xf32>
    return
  }
}

// -----

dist.module @m {
  dist.forward @forward.fwd input @forward.bwd.input
  func.func @forward.fwd(%x: tensor<4xf32> {nn.name = "x"}) {
    return
  }
  // expected-error@+1 {{keeps result 0, which the weight half does not take}}
  func.func @forward.bwd.input(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.residual}) {
    return %x : tensor<4xf32>
  }
}

// -----

dist.module @m {
  dist.forward @forward.fwd input @forward.bwd.input
  func.func @forward.fwd(%x: tensor<4xf32> {nn.name = "x"}) {
    return
  }
  // expected-error@+1 {{returns result 0, which is neither a gradient nor a residual}}
  func.func @forward.bwd.input(%x: tensor<4xf32> {nn.name = "x"}) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

// Either half may take the gradient that an edge brings.
dist.module @a {
  dist.forward @forward.fwd weight @forward.bwd.weight
  func.func @forward.fwd() -> (tensor<4xf32> {nn.name = "y"}) {
    %0 = nn.constant dense<0.0> : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func @forward.bwd.weight(%dy: tensor<4xf32> {nn.gradient = #nn.gradient<of = "y", edge = "b.x">}) {
    return
  }
}
dist.module @b {
  dist.forward @forward.fwd
  func.func @forward.fwd(%x: tensor<4xf32> {nn.name = "x"}) {
    return
  }
}
// expected-error@+1 {{brings no gradient back, but its source takes one}}
dist.edge @a "y" to @b "x"

// -----

dist.module @m {
  dist.forward @forward.fwd
  // expected-error@+1 {{returns result 0, which is neither an output nor a residual}}
  func.func @forward.fwd(%x: tensor<4xf32> {nn.name = "x"}) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

dist.module @m {
  dist.forward @forward.fwd
  // expected-error@+1 {{returns output 1 behind a residual}}
  func.func @forward.fwd(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.residual}, tensor<4xf32> {nn.name = "y"}) {
    return %x, %x : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

dist.module @m {
  dist.forward @forward.fwd backward @forward.bwd
  func.func @forward.fwd(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
    return %x : tensor<4xf32>
  }
  // expected-error@+1 {{takes argument 0, which is no input, residual or gradient}}
  func.func @forward.bwd(%x: tensor<4xf32>) {
    return
  }
}

// -----

dist.module @m {
  dist.forward @forward.fwd backward @forward.bwd
  func.func @forward.fwd(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
    return %x : tensor<4xf32>
  }
  // expected-error@+1 {{takes the input 'z', which forward.fwd does not have}}
  func.func @forward.bwd(%x: tensor<4xf32> {nn.name = "z"}) {
    return
  }
}

// -----

dist.module @m {
  dist.forward @forward.fwd backward @forward.bwd
  func.func @forward.fwd(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
    return %x : tensor<4xf32>
  }
  // expected-error@+1 {{takes the gradient of 'z', which is no output of forward.fwd}}
  func.func @forward.bwd(%x: tensor<4xf32> {nn.gradient = #nn.gradient<of = "z", loss = "l">}) {
    return
  }
}

// -----

dist.module @m {
  dist.forward @forward.fwd backward @forward.bwd
  func.func @forward.fwd(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
    return %x : tensor<4xf32>
  }
  // expected-error@+1 {{takes the gradient of 'y' from no edge and no loss}}
  func.func @forward.bwd(%x: tensor<4xf32> {nn.gradient = #nn.gradient<of = "y">}) {
    return
  }
}

// -----

dist.module @m {
  dist.forward @forward.fwd backward @forward.bwd
  func.func @forward.fwd(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
    return %x : tensor<4xf32>
  }
  // expected-error@+1 {{returns result 0, which is neither a gradient nor a residual}}
  func.func @forward.bwd(%x: tensor<4xf32> {nn.name = "x"}) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

dist.module @m {
  dist.forward @forward.fwd backward @forward.bwd
  func.func @forward.fwd(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
    return %x : tensor<4xf32>
  }
  // expected-error@+1 {{returns the gradient of 'z', which is no input of forward.fwd}}
  func.func @forward.bwd(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.gradient = #nn.gradient<of = "z">}) {
    return %x : tensor<4xf32>
  }
}

// -----

dist.module @m {
  dist.forward @forward.fwd backward @forward.bwd
  func.func @forward.fwd(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
    return %x : tensor<4xf32>
  }
  // expected-error@+1 {{returns the gradient of a parameter, result 0, instead of adding it up}}
  func.func @forward.bwd(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.param_grad}) {
    return %x : tensor<4xf32>
  }
}

// -----

dist.module @m {
  nn.parameter @w : tensor<4xf32> trainable from #nn.onnx<"m.onnx", "w">
  func.func private @layer.bwd(%x: tensor<4xf32>) {
    // expected-error@+1 {{'nn.accumulate' op stands in the layer function @layer.bwd, which must leave parameters to its callers}}
    nn.accumulate @w, %x : tensor<4xf32>
    return
  }
}

// -----

// Equal residuals, in another order.
dist.module @m {
  dist.forward @forward.fwd backward @forward.bwd
  func.func @forward.fwd(%x: tensor<4xf32> {nn.name = "x"}, %z: tensor<5xf32> {nn.name = "z"}) -> (tensor<4xf32> {nn.residual}, tensor<5xf32> {nn.residual}) {
    return %x, %z : tensor<4xf32>, tensor<5xf32>
  }
  // expected-error@+1 {{takes other residuals than forward.fwd returns}}
  func.func @forward.bwd(%x: tensor<5xf32> {nn.residual}, %y: tensor<4xf32> {nn.residual}) {
    return
  }
}
