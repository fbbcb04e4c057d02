// RUN: dt-opt %s -verify-diagnostics -split-input-file

func.func @f(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{'dist.all_reduce' op needs ranks and a stride of at least 1}}
  %0 = dist.all_reduce sum %x over 0 stride 1 : tensor<8x8xf32>
  return
}

// -----

func.func @f(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{'dist.shift' op needs ranks and a stride of at least 1}}
  %0 = dist.shift %x over 2 stride 0 : tensor<8x8xf32>
  return
}

// -----

func.func @f(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{'dist.slice' op axis 2 of a tensor of rank 2}}
  %0 = dist.slice %x axis 2 chunk 1 over 4 stride 1 : tensor<8x8xf32> to tensor<8x2xf32>
  return
}

// -----

func.func @f(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{'dist.slice' op 3 x 1 does not divide dim 1 of [8, 8]}}
  %0 = dist.slice %x axis 1 chunk 1 over 3 stride 1 : tensor<8x8xf32> to tensor<8x2xf32>
  return
}

// -----

func.func @f(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{'dist.slice' op needs a chunk of at least 1}}
  %0 = dist.slice %x axis 1 chunk 0 over 4 stride 1 : tensor<8x8xf32> to tensor<8x2xf32>
  return
}

// -----

func.func @f(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{'dist.reduce_scatter' op expected result type 'tensor<8x4xf32>', got 'tensor<8x2xf32>'}}
  %0 = dist.reduce_scatter %x axis 1 chunk 1 over 2 stride 1 : tensor<8x8xf32> to tensor<8x2xf32>
  return
}

// -----

func.func @f(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{'dist.all_gather' op expected result type 'tensor<16x4xf32>', got 'tensor<8x8xf32>'}}
  %0 = dist.all_gather %x axis 0 chunk 1 over 2 stride 1 : tensor<8x4xf32> to tensor<8x8xf32>
  return
}

// -----

func.func @f(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{'dist.all_to_all' op gathers and scatters two dims of one tensor}}
  %0 = dist.all_to_all %x gather 0 chunk 1 scatter 0 chunk 1 over 2 stride 1 : tensor<8x8xf32> to tensor<8x8xf32>
  return
}

// -----

func.func @f(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{'dist.all_to_all' op 3 x 1 does not divide dim 1 of [8, 8]}}
  %0 = dist.all_to_all %x gather 0 chunk 1 scatter 1 chunk 1 over 3 stride 1 : tensor<8x8xf32> to tensor<8x8xf32>
  return
}

// -----

func.func @f(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{'dist.all_to_all' op expected result type 'tensor<16x4xf32>'}}
  %0 = dist.all_to_all %x gather 0 chunk 1 scatter 1 chunk 1 over 2 stride 1 : tensor<8x8xf32> to tensor<8x8xf32>
  return
}
