// RUN: dt-opt %s -verify-diagnostics -split-input-file

func.func @classes(%x: tensor<8x16xf32>, %l: tensor<8xi64>, %n: tensor<8xi64>) -> tensor<8xf32> {
  // expected-error @+1 {{classes must be one number}}
  %0 = nn.cross_entropy %x, %l classes %n : tensor<8x16xf32>, tensor<8xi64>, tensor<8xi64>
  return %0 : tensor<8xf32>
}
