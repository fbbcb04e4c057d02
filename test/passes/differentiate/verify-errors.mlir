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
  // expected-error@+1 {{has no forward function beside it}}
  func.func @forward.bwd() {
    return
  }
}

// -----

dist.module @m {
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
  func.func @forward.fwd() -> (tensor<4xf32> {nn.name = "y"}) {
    %0 = nn.constant dense<0.0> : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func @forward.bwd(%dy: tensor<4xf32> {nn.grad_of = "y", nn.edge = "b.x"}) {
    return
  }
}
dist.module @b {
  func.func @forward.fwd(%x: tensor<4xf32> {nn.name = "x"}) {
    return
  }
}
// expected-error@+1 {{brings no gradient back, but its source takes one}}
dist.edge @a "y" to @b "x"

// -----

dist.module @a {
  func.func @forward.fwd() -> (tensor<4xf32> {nn.name = "y"}) {
    %0 = nn.constant dense<0.0> : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
dist.module @b {
  func.func @forward.fwd(%x: tensor<4xf32> {nn.name = "x"}) {
    return
  }
  func.func @forward.bwd(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.grad_of = "x"}) {
    return %x : tensor<4xf32>
  }
}
// expected-error@+1 {{brings a gradient back that its source does not take}}
dist.edge @a "y" to @b "x"
