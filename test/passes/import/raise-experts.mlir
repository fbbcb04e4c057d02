// RUN: dt-opt %s --pass-pipeline="builtin.module(dist.module(func.func(nn-raise-experts,canonicalize,cse)))" | FileCheck %s

dist.module @m {
  nn.dim @t
  nn.parameter @up : tensor<4x10x6xf32> trainable from #nn.onnx<"m.onnx", "up">
  nn.parameter @down : tensor<4x10x6xf32> trainable from #nn.onnx<"m.onnx", "down">
  nn.parameter @bias : tensor<4x10xf32> trainable from #nn.onnx<"m.onnx", "bias">

// The weight of each row's expert on the left: [out, in] by [in, 1].
// CHECK-LABEL: func.func @left
// CHECK: %[[W:.*]] = nn.read @up
// CHECK: %[[Y:.*]] = nn.expert_linear %arg0 by %arg1, %[[W]] :
// CHECK-NEXT: return %[[Y]]
  func.func @left(%x: tensor<?x6xf32, #nn.dims<t>>, %ids: tensor<?xi64, #nn.dims<t>>) -> tensor<?x10xf32, #nn.dims<t>> {
    %w = nn.read @up : tensor<4x10x6xf32>
    %0 = nn.gather %w at %ids {axis = 0} : tensor<4x10x6xf32>, tensor<?xi64, #nn.dims<t>>
    %1 = nn.reshape %x : tensor<?x6xf32, #nn.dims<t>> to tensor<?x6x1xf32, #nn.dims<t>>
    %2 = nn.matmul %0, %1 : tensor<?x10x6xf32, #nn.dims<t>>, tensor<?x6x1xf32, #nn.dims<t>>
    %3 = nn.reshape %2 : tensor<?x10x1xf32, #nn.dims<t>> to tensor<?x10xf32, #nn.dims<t>>
    return %3 : tensor<?x10xf32, #nn.dims<t>>
  }

// On the right [in, out], by tuples of one index, with two choices a token and a bias.
// CHECK-LABEL: func.func @right
// CHECK-DAG: %[[X:.*]] = nn.reshape %arg0 : {{.*}} to tensor<?x10xf32, #nn.dims<2*t>>
// CHECK-DAG: %[[IDS:.*]] = nn.reshape %arg1 : {{.*}} to tensor<?xi64, #nn.dims<2*t>>
// CHECK-DAG: %[[W:.*]] = nn.read @down
// CHECK-DAG: %[[B:.*]] = nn.read @bias
// CHECK: nn.expert_linear %[[X]] by %[[IDS]], %[[W]]{{( )*}}{in_out}
// CHECK: nn.expert_linear %{{.*}} by %[[IDS]], %{{.*}}, %[[B]] :
// CHECK-NOT: nn.add
  func.func @right(%x: tensor<?x2x10xf32, #nn.dims<t>>, %ids: tensor<?x2xi64, #nn.dims<t>>) -> tensor<?x2x10xf32, #nn.dims<t>> {
    %w = nn.read @down : tensor<4x10x6xf32>
    %w2 = nn.read @up : tensor<4x10x6xf32>
    %b = nn.read @bias : tensor<4x10xf32>
    %i = nn.reshape %ids : tensor<?x2xi64, #nn.dims<t>> to tensor<?x2x1xi64, #nn.dims<t>>
    %0 = nn.gather_nd %w at %i : tensor<4x10x6xf32>, tensor<?x2x1xi64, #nn.dims<t>>
    %1 = nn.reshape %x : tensor<?x2x10xf32, #nn.dims<t>> to tensor<?x2x1x10xf32, #nn.dims<t>>
    %2 = nn.matmul %1, %0 : tensor<?x2x1x10xf32, #nn.dims<t>>, tensor<?x2x10x6xf32, #nn.dims<t>>
    %3 = nn.gather %w2 at %ids {axis = 0} : tensor<4x10x6xf32>, tensor<?x2xi64, #nn.dims<t>>
    %4 = nn.matmul %2, %3 {trans_b} : tensor<?x2x1x6xf32, #nn.dims<t>>, tensor<?x2x10x6xf32, #nn.dims<t>>
    %5 = nn.reshape %4 : tensor<?x2x1x10xf32, #nn.dims<t>> to tensor<?x2x10xf32, #nn.dims<t>>
    %6 = nn.gather_nd %b at %i : tensor<4x10xf32>, tensor<?x2x1xi64, #nn.dims<t>>
    %7 = nn.add %6, %5 : tensor<?x2x10xf32, #nn.dims<t>>, tensor<?x2x10xf32, #nn.dims<t>>
    return %7 : tensor<?x2x10xf32, #nn.dims<t>>
  }

// A factor a row goes where rows are short.
// CHECK-LABEL: func.func @factor
// CHECK: %[[M:.*]] = nn.mul %arg0, %arg2
// CHECK: %[[Y:.*]] = nn.expert_linear %[[M]] by %arg1
// CHECK-NEXT: return %[[Y]]
  func.func @factor(%x: tensor<?x6xf32, #nn.dims<t>>, %ids: tensor<?xi64, #nn.dims<t>>, %s: tensor<?x1xf32, #nn.dims<t>>) -> tensor<?x10xf32, #nn.dims<t>> {
    %w = nn.read @up : tensor<4x10x6xf32>
    %0 = nn.expert_linear %x by %ids, %w : tensor<?x6xf32, #nn.dims<t>>, tensor<?xi64, #nn.dims<t>>, tensor<4x10x6xf32>
    %1 = nn.mul %0, %s : tensor<?x10xf32, #nn.dims<t>>, tensor<?x1xf32, #nn.dims<t>>
    return %1 : tensor<?x10xf32, #nn.dims<t>>
  }

// A table of the data is no weight, and a row for all of a batch no row.
// CHECK-LABEL: func.func @others
// CHECK-NOT: nn.expert_linear
  func.func @others(%x: tensor<3x6xf32>, %table: tensor<4x10x6xf32>, %ids: tensor<3xi64>) -> (tensor<3x10x1xf32>, tensor<3x10x2xf32>) {
    %w = nn.read @up : tensor<4x10x6xf32>
    %0 = nn.gather %table at %ids {axis = 0} : tensor<4x10x6xf32>, tensor<3xi64>
    %1 = nn.reshape %x : tensor<3x6xf32> to tensor<3x6x1xf32>
    %2 = nn.matmul %0, %1 : tensor<3x10x6xf32>, tensor<3x6x1xf32>
    %3 = nn.gather %w at %ids {axis = 0} : tensor<4x10x6xf32>, tensor<3xi64>
    %4 = nn.broadcast %1 : tensor<3x6x1xf32> to tensor<3x6x2xf32>
    %5 = nn.matmul %3, %4 : tensor<3x10x6xf32>, tensor<3x6x2xf32>
    return %2, %5 : tensor<3x10x1xf32>, tensor<3x10x2xf32>
  }
}
