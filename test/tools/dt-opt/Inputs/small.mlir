func.func @f(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>) -> tensor<2x4xf32> attributes {names = ["one", "two"], values = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>} {
  %0 = nn.matmul %x, %w : tensor<2x3xf32>, tensor<3x4xf32>
  return %0 : tensor<2x4xf32>
}
