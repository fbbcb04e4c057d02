// RUN: dt-opt %s --split-input-file --verify-diagnostics

func.func @axis(%x: tensor<3x7xf32>) {
  // expected-error @+1 {{axis 2 is not in [0, 2)}}
  %0, %1 = nn.top_k %x {axis = 2 : i64} : (tensor<3x7xf32>) -> (tensor<3x2xf32>, tensor<3x2xi64>)
  return
}

// -----

func.func @dims(%x: tensor<3x7xf32>) {
  // expected-error @+1 {{values and indices must have the input's dims but for the axis}}
  %0, %1 = nn.top_k %x {axis = 1 : i64} : (tensor<3x7xf32>) -> (tensor<2x2xf32>, tensor<2x2xi64>)
  return
}

// -----

func.func @indices(%x: tensor<3x7xf32>) {
  // expected-error @+1 {{values and indices must have the input's dims but for the axis}}
  %0, %1 = nn.top_k %x {axis = 1 : i64} : (tensor<3x7xf32>) -> (tensor<3x2xf32>, tensor<3x3xi64>)
  return
}

// -----

func.func @many(%x: tensor<3x7xf32>) {
  // expected-error @+1 {{takes 8 of 7 elements: must be numbers or equal}}
  %0, %1 = nn.top_k %x {axis = 1 : i64} : (tensor<3x7xf32>) -> (tensor<3x8xf32>, tensor<3x8xi64>)
  return
}

// -----

func.func @unknown(%x: tensor<?x7xf32, #nn.dims<n>>) {
  // expected-error @+1 {{takes 2 of n elements: must be numbers or equal}}
  %0, %1 = nn.top_k %x {axis = 0 : i64} : (tensor<?x7xf32, #nn.dims<n>>) -> (tensor<2x7xf32>, tensor<2x7xi64>)
  return
}

// -----

func.func @element(%x: tensor<3x7xf32>) {
  // expected-error @+1 {{changes the element type from 'f32' to 'f64'}}
  %0, %1 = nn.top_k %x {axis = 1 : i64} : (tensor<3x7xf32>) -> (tensor<3x2xf64>, tensor<3x2xi64>)
  return
}

// -----

func.func @batch(%x: tensor<?x7xf32, #nn.dims<n>>, %i: tensor<2x5x1xi64>) {
  // expected-error @+1 {{input [n, 7] and indices [2, 5, 1] must share their first dims (batch_dims = 1)}}
  %0 = nn.gather_nd %x at %i {batch_dims = 1 : i64} : tensor<?x7xf32, #nn.dims<n>>, tensor<2x5x1xi64>
  return
}

// -----

func.func @outside(%x: tensor<2x7xf32>, %i: tensor<3x4xi64>) {
  // expected-error @+1 {{indices [3, 4] do not lie inside [2, 7] on axis 0}}
  %0 = nn.gather_elements %x at %i {axis = 1 : i64} : tensor<2x7xf32>, tensor<3x4xi64>
  return
}

// -----

func.func @order(%x: tensor<2x7xf32>, %i: tensor<3xi64>) {
  // expected-error @+1 {{in_order needs zero_out_of_range and axis 0}}
  %0 = nn.gather %x at %i {axis = 0 : i64, in_order} : tensor<2x7xf32>, tensor<3xi64>
  return
}
