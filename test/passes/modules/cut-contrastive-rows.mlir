// RUN: dt-opt %s --dist-cut-contrastive --dist-verify-modules --split-input-file | FileCheck %s

// Places that the recipe declares are counted anew in each part: a head that sees
// the whole batch takes the input as it came, not what a tower makes of it.
// CHECK: dist.module @model of "image" role tower {
// CHECK: func.func @forward
// CHECK-NOT: xi64
// CHECK: return
// CHECK: dist.module @model_head of "image" role head whole_batch origin "model" {
// CHECK: func.func @forward(
// CHECK-SAME: tensor<?xi64, #nn.dims<images>> {nn.name = "places"}
// CHECK: nn.reshape %{{.*}} : tensor<?xi64, #nn.dims<images>> to tensor<?x1xi64, #nn.dims<images>>
dist.item "image" max 2
dist.module @model of "image" role backbone {
  nn.dim @batch of "sample" max 2
  nn.dim @images of "image" max 4
  nn.parameter @w : tensor<4x8xf32> trainable from #nn.onnx<"m.onnx", "w">
  func.func @forward(%x: tensor<?x8xf32, #nn.dims<images>> {nn.name = "x"}, %table: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "table"}, %places: tensor<?xi64, #nn.dims<images>> {nn.name = "places"})
      -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "filled"}, tensor<f32> {nn.name = "loss.c"}) {
    %w = nn.read @w : tensor<4x8xf32>
    %t = nn.linear %x, %w : tensor<?x8xf32, #nn.dims<images>>, tensor<4x8xf32>
    %tt = nn.transpose %t [1, 0] : tensor<?x4xf32, #nn.dims<images>>
    %p = nn.matmul %t, %tt : tensor<?x4xf32, #nn.dims<images>>, tensor<4x?xf32, #nn.dims<images>>
    %mixed = nn.matmul %p, %t : tensor<?x?xf32, #nn.dims<images, images>>, tensor<?x4xf32, #nn.dims<images>>
    %at = nn.reshape %places : tensor<?xi64, #nn.dims<images>> to tensor<?x1xi64, #nn.dims<images>>
    %filled = nn.scatter_nd add %table at %at, %mixed : tensor<?x4xf32, #nn.dims<batch>>, tensor<?x1xi64, #nn.dims<images>>, tensor<?x4xf32, #nn.dims<images>>
    %sum = nn.reduce sum %mixed {axes = array<i64: 0, 1>} : tensor<?x4xf32, #nn.dims<images>>
    return %filled, %sum : tensor<?x4xf32, #nn.dims<batch>>, tensor<f32>
  }
  func.func @c.denominator() -> tensor<f32> {
    %0 = nn.constant dense<1.0> : tensor<f32>
    return %0 : tensor<f32>
  }
}
dist.loss "c" in @model numerator "loss.c" denominator @c.denominator weight 1.0
dist.input "model.places" = {index = ["sample"], of = "image"}
dist.batch global 8 micro 2

// -----

// Attention inside of segments treats items alone, whatever it keeps for its
// gradient: it stays in the tower.
// CHECK: dist.module @packed of "sample" role tower {
// CHECK: nn.attention
// CHECK: return
// CHECK: dist.module @packed_head of "sample" role head whole_batch
// CHECK-NOT: nn.attention
// CHECK-NOT: dist.edge @packed_head
dist.measure "tokens" of "sample" max 5
dist.module @packed of "sample" role backbone {
  nn.dim @t of "sample" measure "tokens" largest 5 max 10
  nn.parameter @w : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w">
  func.func @forward(%x: tensor<1x?x1x4xf32, #nn.dims<t>> {nn.name = "x"}, %s: tensor<1x?xi64, #nn.dims<t>> {nn.name = "s"}) -> (tensor<f32> {nn.name = "loss.c"}) {
    %w = nn.read @w : tensor<4x4xf32>
    %q = nn.linear %x, %w : tensor<1x?x1x4xf32, #nn.dims<t>>, tensor<4x4xf32>
    %o, %lse = nn.attention %q, %q, %q segments %s by %s {scale = 1.0 : f64} : tensor<1x?x1x4xf32, #nn.dims<t>>, tensor<1x?x1x4xf32, #nn.dims<t>>, tensor<1x?x1x4xf32, #nn.dims<t>>, tensor<1x?xi64, #nn.dims<t>>, tensor<1x?xi64, #nn.dims<t>>
    %r = nn.reshape %o : tensor<1x?x1x4xf32, #nn.dims<t>> to tensor<?x4xf32, #nn.dims<t>>
    %rt = nn.transpose %r [1, 0] : tensor<?x4xf32, #nn.dims<t>>
    %p = nn.matmul %r, %rt : tensor<?x4xf32, #nn.dims<t>>, tensor<4x?xf32, #nn.dims<t>>
    %m = nn.matmul %p, %r : tensor<?x?xf32, #nn.dims<t, t>>, tensor<?x4xf32, #nn.dims<t>>
    %sum = nn.reduce sum %m {axes = array<i64: 0, 1>} : tensor<?x4xf32, #nn.dims<t>>
    return %sum : tensor<f32>
  }
  func.func @c.denominator() -> tensor<f32> {
    %0 = nn.constant dense<1.0> : tensor<f32>
    return %0 : tensor<f32>
  }
}
dist.loss "c" in @packed numerator "loss.c" denominator @c.denominator weight 1.0
dist.batch global 8 micro 2
