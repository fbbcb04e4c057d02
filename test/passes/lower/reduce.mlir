// RUN: dt-opt %s --lower-nn-to-rt --cse | FileCheck %s

// The last axis: a point a row.
// CHECK-LABEL: rt.func @rows(
// CHECK: rt.kernel @reduce [%{{.*}} < 80]
// CHECK: arith.divf
func.func @rows(%x: tensor<2x40x16xf32>) -> tensor<2x40xf32> {
  %0 = nn.reduce mean %x {axes = array<i64: 2>} : tensor<2x40x16xf32>
  return %0 : tensor<2x40xf32>
}

// Leading axes: a point takes some columns through all rows.
// CHECK-LABEL: rt.func @columns(
// CHECK: rt.kernel @reduce [%{{.*}} < 4]
// CHECK-SAME: as !rt.buffer<f32, [40*batch, 64]>
func.func @columns(%x: tensor<?x40x64xf32, #nn.dims<batch>>) -> tensor<64xf32> {
  %0 = nn.reduce sum %x {axes = array<i64: 0, 1>} : tensor<?x40x64xf32, #nn.dims<batch>>
  return %0 : tensor<64xf32>
}

// Both at once, as for a bias of a convolution.
// CHECK-LABEL: rt.func @around(
// CHECK: rt.kernel @reduce [%{{.*}} < 8]
// CHECK: scf.for
// CHECK: scf.for
func.func @around(%x: tensor<2x8x4x4xf32>) -> (tensor<8xf32> {nn.param_grad}) {
  %0 = nn.reduce sum %x {axes = array<i64: 0, 2, 3>} : tensor<2x8x4x4xf32>
  return %0 : tensor<8xf32>
}

// CHECK-LABEL: rt.func @all(
// CHECK: rt.kernel @reduce [] (
// CHECK: arith.maximumf
func.func @all(%x: tensor<2x8xf32>) -> tensor<f32> {
  %0 = nn.reduce max %x {axes = array<i64: 0, 1>} : tensor<2x8xf32>
  return %0 : tensor<f32>
}

// Axes of size 1 only: nothing to compute.
// CHECK-LABEL: rt.func @nothing(
// CHECK-NOT: rt.kernel
// CHECK: rt.copy
func.func @nothing(%x: tensor<8x1xf32>) -> tensor<8xf32> {
  %0 = nn.reduce sum %x {axes = array<i64: 1>} : tensor<8x1xf32>
  return %0 : tensor<8xf32>
}

// CHECK-LABEL: rt.func @others(
// CHECK: rt.kernel @cumsum [%{{.*}} < 2, %{{.*}} < 1]
// CHECK: rt.kernel @arg_max [%{{.*}} < 2, %{{.*}} < 1]
// CHECK: rt.kernel @reduce
// CHECK: arith.ori
func.func @others(%x: tensor<2x8xi64>, %f: tensor<2x8xf32>, %b: tensor<2x8xi1>) -> (tensor<2x8xi64>, tensor<2xi64>, tensor<2xi1>) {
  %0 = nn.cumsum %x {axis = 1 : i64} : tensor<2x8xi64>
  %1 = nn.arg_max %f {axis = 1 : i64} : tensor<2x8xf32>
  %2 = nn.reduce max %b {axes = array<i64: 1>} : tensor<2x8xi1>
  return %0, %1, %2 : tensor<2x8xi64>, tensor<2xi64>, tensor<2xi1>
}
