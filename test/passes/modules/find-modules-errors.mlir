// RUN: dt-opt %s --dist-find-modules --dist-verify-modules -verify-diagnostics -split-input-file

// A tower's op that mixes items, outside a loss: the error names it in the part too.
dist.module @m of "sample" attributes {split} {
  nn.dim @batch of "sample" max 2
  nn.parameter @a0 : tensor<64x64xf32> trainable from #nn.onnx<"m.onnx", "a0">
  nn.parameter @b0 : tensor<64x64xf32> trainable from #nn.onnx<"m.onnx", "b0">
  func.func @forward(%a: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "a"}, %b: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "b"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %a0 = nn.read @a0 : tensor<64x64xf32>
    %b0 = nn.read @b0 : tensor<64x64xf32>
    // expected-remark @+1 {{'m' is cut at 'nn.linear'}}
    %x = nn.linear %a, %a0 : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
    // expected-error @+1 {{'nn.softmax' of module 'm' works along the axis of items, and loss 'l' depends on it, so the batch cannot be cut into microbatches}}
    %m = nn.softmax %x {axis = 0 : i64} : tensor<?x64xf32, #nn.dims<batch>>
    // expected-remark @+1 {{'m' is cut at 'nn.linear'}}
    %y = nn.linear %b, %b0 : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
    %p = nn.mul %m, %y : tensor<?x64xf32, #nn.dims<batch>>, tensor<?x64xf32, #nn.dims<batch>>
    %l = nn.reduce sum %p {axes = array<i64: 0, 1>} : tensor<?x64xf32, #nn.dims<batch>>
    return %l : tensor<f32>
  }
  func.func @d() -> tensor<f32> {
    %0 = nn.constant dense<1.0> : tensor<f32>
    return %0 : tensor<f32>
  }
}
dist.loss "l" in @m numerator "loss.l" denominator @d weight 1.0
dist.batch global 4 micro 2

// -----

// The fixed number of pictures: legal for one microbatch, an error for two.
// expected-error @+1 {{input 'pixels' of module 'm' has the fixed dim 3 where items should be counted ('tensor<3x64xf32>'), so the batch cannot be cut into microbatches}}
dist.module @m of "sample" attributes {split} {
  nn.dim @batch of "sample" max 2
  nn.parameter @v0 : tensor<64x64xf32> trainable from #nn.onnx<"m.onnx", "v0">
  nn.parameter @t0 : tensor<64x64xf32> trainable from #nn.onnx<"m.onnx", "t0">
  func.func @forward(%pixels: tensor<3x64xf32> {nn.name = "pixels"}, %text: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "text"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %v0 = nn.read @v0 : tensor<64x64xf32>
    %t0 = nn.read @t0 : tensor<64x64xf32>
    // expected-remark @+1 {{'m' is cut at 'nn.linear' 'tensor<3x64xf32>': 384 bytes a sample cross; what depends on 'pixels' alone}}
    %x = nn.linear %pixels, %v0 : tensor<3x64xf32>, tensor<64x64xf32>
    // expected-remark @+1 {{'m' is cut at 'nn.linear'}}
    %y = nn.linear %text, %t0 : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
    %t = nn.transpose %x [1, 0] : tensor<3x64xf32>
    %s = nn.matmul %y, %t : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x3xf32>
    %l = nn.reduce sum %s {axes = array<i64: 0, 1>} : tensor<?x3xf32, #nn.dims<batch>>
    return %l : tensor<f32>
  }
  func.func @d() -> tensor<f32> {
    %0 = nn.constant dense<1.0> : tensor<f32>
    return %0 : tensor<f32>
  }
}
dist.loss "l" in @m numerator "loss.l" denominator @d weight 1.0
dist.batch global 4 micro 2
