// RUN: dt-opt %s -verify-diagnostics -split-input-file

// What the dialect leaves on functions, their arguments and results.

// expected-error @+1 {{argument 0: 'nn.nam' is no attribute of it, or not with this value}}
func.func private @f(tensor<4xf32> {nn.nam = "x"})

// -----

// expected-error @+1 {{argument 0: 'nn.name' is no attribute of it, or not with this value}}
func.func private @f(tensor<4xf32> {nn.name = 1 : i64})

// -----

// expected-error @+1 {{argument 0: 'nn.residual' is no attribute of it, or not with this value}}
func.func private @f(tensor<4xf32> {nn.residual = -1 : i64})

// -----

// expected-error @+1 {{argument 0: 'nn.gradient' is no attribute of it, or not with this value}}
func.func private @f(tensor<4xf32> {nn.gradient = #nn.gradient<edge = "m.x">})

// -----

// expected-error @+1 {{argument 0: 'nn.gradient' is no attribute of it, or not with this value}}
func.func private @f(tensor<4xf32> {nn.gradient = #nn.gradient<of = "y", edge = "m.x", loss = "l">})

// -----

// expected-error @+1 {{argument 0: 'nn.param_grad' is no attribute of it, or not with this value}}
func.func private @f(tensor<4xf32> {nn.param_grad})

// -----

// expected-error @+1 {{result 0: 'nn.wants_grad' is no attribute of it, or not with this value}}
func.func private @f() -> (tensor<4xf32> {nn.wants_grad})

// -----

// expected-error @+1 {{result 0: 'nn.gradients' is no attribute of it, or not with this value}}
func.func private @f() -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.x", loss = "l">]})

// -----

// expected-error @+1 {{'nn.save' is no attribute of it, or not with this value}}
func.func private @f() attributes {nn.save = "some"}

// -----

// expected-error @+1 {{'nn.save' is no attribute of it, or not with this value}}
dist.seed 1 {nn.save = "all"}
