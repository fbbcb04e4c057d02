// RUN: dt-opt %s --dist-cut-contrastive --dist-verify-modules | FileCheck %s

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
