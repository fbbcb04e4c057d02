// RUN: dt-opt %s --load-plugin=%plugins/Example.so --verify-diagnostics

func.func @other(%x: tensor<4x6x8xf32>, %d: tensor<6xf32>) {
  // expected-error @below {{takes [batch, tokens, channels] and [channels], not [4, 6, 8] and [6]}}
  %0 = example.scan %x, %d : tensor<4x6x8xf32>, tensor<6xf32>
  return
}
