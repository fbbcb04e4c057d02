// RUN: dt-opt %s --lower-nn-to-rt --rt-plan-memory -verify-diagnostics -split-input-file

// expected-error @+1 {{cannot be lowered: it has no body}}
func.func private @external(tensor<4xf32>)

// -----

// expected-error @+1 {{cannot be lowered: 'index' is not a ranked tensor}}
func.func @scalar(%x: index) {
  return
}

// -----

func.func @unbounded(%x: tensor<?xf32, #nn.dims<batch>>, %w: tensor<?xf32, #nn.dims<batch>>) -> tensor<f32> {
  // expected-error @+1 {{the memory that this takes has no bound, because 'batch' has none: a recipe's "dims" say}}
  %0 = nn.exp %x : tensor<?xf32, #nn.dims<batch>>
  %1 = nn.reduce sum %0 {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<batch>>
  return %1 : tensor<f32>
}

// -----

func.func @unknown(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has no lowering to rt}}
  %0 = arith.addf %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
