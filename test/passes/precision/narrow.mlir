// RUN: dt-opt %s --nn-narrow | FileCheck %s

// Products take and give bf16; the sum around them stays float32. The angles
// are made of integers and stay as they are; so does a module that says
// nothing.

// CHECK-LABEL: dist.module @narrow
dist.module @narrow precision bf16 {
  nn.dim @batch of "sample" max 2
  nn.parameter @w : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w">
  nn.parameter @b : tensor<4xf32> trainable from #nn.onnx<"m.onnx", "b">
  // CHECK: func.func @forward(%[[X:.*]]: tensor<?x4xf32
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}, %at: tensor<?x3xi64, #nn.dims<batch>> {nn.name = "at"}, %f: tensor<1x1x4xf32> {nn.name = "f"})
      -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}, tensor<?x3x4xf32, #nn.dims<batch>> {nn.name = "angles"}, tensor<?x4xf32, #nn.dims<batch>> {nn.name = "product"}) {
    %w = nn.read @w : tensor<4x4xf32>
    %b = nn.read @b : tensor<4xf32>
    // CHECK-DAG: %[[XB:.*]] = nn.cast %[[X]] : {{.*}} to tensor<?x4xbf16
    // CHECK-DAG: %[[WB:.*]] = nn.cast %{{.*}} : tensor<4x4xf32> to tensor<4x4xbf16>
    // CHECK-DAG: %[[BB:.*]] = nn.cast %{{.*}} : tensor<4xf32> to tensor<4xbf16>
    // CHECK: %[[Y:.*]] = nn.linear %[[XB]], %[[WB]], %[[BB]] : tensor<?x4xbf16
    // CHECK: %[[YW:.*]] = nn.cast %[[Y]] : {{.*}} to tensor<?x4xf32
    %y = nn.linear %x, %w, %b : tensor<?x4xf32, #nn.dims<batch>>, tensor<4x4xf32>, tensor<4xf32>
    // CHECK: %[[SUM:.*]] = nn.add %[[X]], %[[YW]] : tensor<?x4xf32
    %sum = nn.add %x, %y : tensor<?x4xf32, #nn.dims<batch>>, tensor<?x4xf32, #nn.dims<batch>>
    // One cast a value.
    // CHECK-NOT: nn.cast %[[X]]
    // CHECK: %[[Z:.*]] = nn.linear %[[XB]], %[[WB]] :
    %z = nn.linear %x, %w : tensor<?x4xf32, #nn.dims<batch>>, tensor<4x4xf32>
    // CHECK: nn.matmul %{{.*}}, %{{.*}} : tensor<?x3x1xf32, #nn.dims<batch>>, tensor<1x1x4xf32>
    %number = nn.cast %at : tensor<?x3xi64, #nn.dims<batch>> to tensor<?x3xf32, #nn.dims<batch>>
    %column = nn.reshape %number : tensor<?x3xf32, #nn.dims<batch>> to tensor<?x3x1xf32, #nn.dims<batch>>
    %angles = nn.matmul %column, %f : tensor<?x3x1xf32, #nn.dims<batch>>, tensor<1x1x4xf32>
    // What is widened only to be returned is not.
    // CHECK: return %[[SUM]], %{{.*}}, %[[Z]] :
    return %sum, %angles, %z : tensor<?x4xf32, #nn.dims<batch>>, tensor<?x3x4xf32, #nn.dims<batch>>, tensor<?x4xf32, #nn.dims<batch>>
  }
}

// CHECK-LABEL: dist.module @wide
dist.module @wide {
  nn.dim @batch of "sample" max 2
  nn.parameter @w : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w2">
  // CHECK-NOT: bf16
  // CHECK: return
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %w = nn.read @w : tensor<4x4xf32>
    %y = nn.linear %x, %w : tensor<?x4xf32, #nn.dims<batch>>, tensor<4x4xf32>
    return %y : tensor<?x4xf32, #nn.dims<batch>>
  }
}
