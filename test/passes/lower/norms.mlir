// RUN: dt-opt %s --lower-nn-to-rt --cse | FileCheck %s

// CHECK-LABEL: rt.func @layer_norm(
// CHECK: rt.kernel @layer_norm [%{{.*}} < 40*batch]
// Mean, variance, then the row: three loops that lanes may share.
// CHECK-COUNT-3: {rt.simd}
// CHECK-NOT: {rt.simd}
// CHECK: rt.func
func.func @layer_norm(%x: tensor<?x40x64xf32, #nn.dims<batch>>, %s: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<?x40x64xf32, #nn.dims<batch>> {
  %0 = nn.layer_norm %x scale %s bias %b {eps = 1.0e-5, axes = 1} : tensor<?x40x64xf32, #nn.dims<batch>>, tensor<64xf32>, tensor<64xf32>
  return %0 : tensor<?x40x64xf32, #nn.dims<batch>>
}

// CHECK-SAME: @layer_norm_dx(
// CHECK: rt.kernel @layer_norm_dx [%{{.*}} < 80]
func.func @layer_norm_dx(%x: tensor<2x40x64xf32>, %s: tensor<64xf32>, %dy: tensor<2x40x64xf32>) -> tensor<2x40x64xf32> {
  %0 = nn.layer_norm_dx %x scale %s, %dy {eps = 1.0e-5, axes = 1} : tensor<2x40x64xf32>, tensor<64xf32>, tensor<2x40x64xf32>
  return %0 : tensor<2x40x64xf32>
}

// A parameter's gradient is added to where the caller keeps it.
// CHECK-LABEL: rt.func @layer_norm_dscale(
// CHECK-SAME: {rt.access = "inout"}
// CHECK: rt.kernel @layer_norm_dscale_statistics [%{{.*}} < 80]
// CHECK: rt.kernel @layer_norm_dscale [%{{.*}} < 4]
// CHECK-NOT: rt.store %cst
func.func @layer_norm_dscale(%x: tensor<2x40x64xf32>, %dy: tensor<2x40x64xf32>) -> (tensor<64xf32> {nn.param_grad}) {
  %0 = nn.layer_norm_dscale %x, %dy {eps = 1.0e-5, axes = 1} : tensor<2x40x64xf32>, tensor<2x40x64xf32>
  return %0 : tensor<64xf32>
}

// CHECK-LABEL: rt.func @group_norm(
// CHECK: rt.kernel @group_norm [%[[N:.*]] < 2, %[[G:.*]] < 4]
// CHECK-SAME: as !rt.buffer<f32, [2, 4, 8, 256]>
func.func @group_norm(%x: tensor<2x32x16x16xf32>, %s: tensor<32xf32>, %b: tensor<32xf32>) -> tensor<2x32x16x16xf32> {
  %0 = nn.group_norm %x scale %s bias %b {eps = 1.0e-5, groups = 4} : tensor<2x32x16x16xf32>, tensor<32xf32>, tensor<32xf32>
  return %0 : tensor<2x32x16x16xf32>
}

// CHECK-LABEL: rt.func @group_norm_grads(
// CHECK: rt.kernel @group_norm_dx [%{{.*}} < 2, %{{.*}} < 4]
// CHECK: rt.kernel @group_norm_dscale [%{{.*}} < 4, %{{.*}} < 8]
func.func @group_norm_grads(%x: tensor<2x32x16x16xf32>, %s: tensor<32xf32>, %dy: tensor<2x32x16x16xf32>) -> (tensor<2x32x16x16xf32>, tensor<32xf32>) {
  %0 = nn.group_norm_dx %x scale %s, %dy {eps = 1.0e-5, groups = 4} : tensor<2x32x16x16xf32>, tensor<32xf32>, tensor<2x32x16x16xf32>
  %1 = nn.group_norm_dscale %x, %dy {eps = 1.0e-5, groups = 4} : tensor<2x32x16x16xf32>, tensor<2x32x16x16xf32>
  return %0, %1 : tensor<2x32x16x16xf32>, tensor<32xf32>
}

// CHECK-LABEL: rt.func @rms_norm(
// CHECK: rt.kernel @rms_norm [%{{.*}} < 80]
// CHECK: rt.kernel @rms_norm_dx [%{{.*}} < 80]
// CHECK: rt.kernel @rms_norm_dscale [%{{.*}} < 4]
func.func @rms_norm(%x: tensor<2x40x64xf32>, %s: tensor<64xf32>) -> (tensor<2x40x64xf32>, tensor<2x40x64xf32>, tensor<64xf32>) {
  %0 = nn.rms_norm %x scale %s {eps = 1.0e-5, axes = 1} : tensor<2x40x64xf32>, tensor<64xf32>
  %1 = nn.rms_norm_dx %x scale %s, %x {eps = 1.0e-5, axes = 1} : tensor<2x40x64xf32>, tensor<64xf32>, tensor<2x40x64xf32>
  %2 = nn.rms_norm_dscale %x, %x {eps = 1.0e-5, axes = 1} : tensor<2x40x64xf32>, tensor<2x40x64xf32>
  return %0, %1, %2 : tensor<2x40x64xf32>, tensor<2x40x64xf32>, tensor<64xf32>
}
