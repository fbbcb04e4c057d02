// RUN: dt-opt %s --lower-nn-to-rt --cse | FileCheck %s

// CHECK-LABEL: rt.func @gather(
// CHECK: rt.kernel @gather [%{{.*}} < 1, %{{.*}} < 80, %{{.*}} < 64]
// Indices come from data: clamped.
// CHECK: arith.minsi
// CHECK: arith.maxsi
func.func @gather(%t: tensor<512x64xf32>, %i: tensor<2x40xi64>) -> tensor<2x40x64xf32> {
  %0 = nn.gather %t at %i {axis = 0 : i64} : tensor<512x64xf32>, tensor<2x40xi64>
  return %0 : tensor<2x40x64xf32>
}

// Into a parameter's gradient: added to, not cleared.
// CHECK-LABEL: rt.func @gather_grad(
// CHECK: rt.kernel @gather_grad [%{{.*}} < 1, %{{.*}} < 4]
// CHECK: scf.for
// CHECK: rt.load %{{.*}} : !rt.buffer<i64, [80]>
// CHECK: arith.addf
func.func @gather_grad(%g: tensor<2x40x64xf32>, %i: tensor<2x40xi64>) -> (tensor<512x64xf32> {nn.param_grad}) {
  %0 = nn.gather_grad %g at %i {axis = 0 : i64} : (tensor<2x40x64xf32>, tensor<2x40xi64>) -> tensor<512x64xf32>
  return %0 : tensor<512x64xf32>
}

// CHECK-LABEL: rt.func @elements(
// CHECK: rt.kernel @gather_elements [%{{.*}} < 80, %{{.*}} < 1]
// CHECK: rt.fill
// CHECK: rt.kernel @gather_elements_grad [%{{.*}} < 80]
func.func @elements(%x: tensor<80x512xf32>, %i: tensor<80x1xi64>) -> (tensor<80x1xf32>, tensor<80x512xf32>) {
  %0 = nn.gather_elements %x at %i {axis = 1 : i64} : tensor<80x512xf32>, tensor<80x1xi64>
  %1 = nn.gather_elements_grad %0 at %i {axis = 1 : i64} : (tensor<80x1xf32>, tensor<80x1xi64>) -> tensor<80x512xf32>
  return %0, %1 : tensor<80x1xf32>, tensor<80x512xf32>
}

// CHECK-LABEL: rt.func @tuples(
// CHECK: rt.kernel @gather_nd [%{{.*}} < 1, %{{.*}} < 16*images, %{{.*}} < 64]
// CHECK: rt.copy
// CHECK: rt.kernel @scatter_nd [%{{.*}} < 4]
func.func @tuples(%x: tensor<2x40x64xf32>, %i: tensor<?x16x2xi64, #nn.dims<images>>) -> (tensor<?x16x64xf32, #nn.dims<images>>, tensor<2x40x64xf32>) {
  %0 = nn.gather_nd %x at %i {batch_dims = 0 : i64} : tensor<2x40x64xf32>, tensor<?x16x2xi64, #nn.dims<images>>
  %1 = nn.scatter_nd add %x at %i, %0 : tensor<2x40x64xf32>, tensor<?x16x2xi64, #nn.dims<images>>, tensor<?x16x64xf32, #nn.dims<images>>
  return %0, %1 : tensor<?x16x64xf32, #nn.dims<images>>, tensor<2x40x64xf32>
}

// What is there meets the updates in order. Not-a-number stays; numbers without a sign are compared as such.
// CHECK-LABEL: rt.func @kinds(
// CHECK: rt.kernel @scatter_nd
// CHECK: arith.mulf
// CHECK: rt.kernel @scatter_nd
// CHECK: arith.maximumf
// CHECK: rt.kernel @scatter_nd
// CHECK: arith.minui
// CHECK: rt.kernel @scatter_nd
// CHECK: arith.ori
func.func @kinds(%x: tensor<8x3xf32>, %b: tensor<8xui8>, %c: tensor<8xi1>, %i: tensor<4x1xi64>, %u: tensor<4x3xf32>, %v: tensor<4xui8>, %w: tensor<4xi1>)
    -> (tensor<8x3xf32>, tensor<8x3xf32>, tensor<8xui8>, tensor<8xi1>) {
  %0 = nn.scatter_nd mul %x at %i, %u : tensor<8x3xf32>, tensor<4x1xi64>, tensor<4x3xf32>
  %1 = nn.scatter_nd max %x at %i, %u : tensor<8x3xf32>, tensor<4x1xi64>, tensor<4x3xf32>
  %2 = nn.scatter_nd min %b at %i, %v : tensor<8xui8>, tensor<4x1xi64>, tensor<4xui8>
  %3 = nn.scatter_nd max %c at %i, %w : tensor<8xi1>, tensor<4x1xi64>, tensor<4xi1>
  return %0, %1, %2, %3 : tensor<8x3xf32>, tensor<8x3xf32>, tensor<8xui8>, tensor<8xi1>
}

// CHECK-LABEL: rt.func @pool(
// CHECK: rt.kernel @pool [%{{.*}} < 16, %{{.*}} < 16, %{{.*}} < 16]
// CHECK: rt.kernel @pool_dx [%{{.*}} < 16]
// CHECK: rt.kernel @pool_dx [%{{.*}} < 16]
func.func @pool(%x: tensor<2x8x32x32xf32>) -> (tensor<2x8x16x16xf32>, tensor<2x8x32x32xf32>, tensor<2x8x32x32xf32>) {
  %0 = nn.pool max %x {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x8x32x32xf32>) -> tensor<2x8x16x16xf32>
  %1 = nn.pool_dx max %x, %0 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : tensor<2x8x32x32xf32>, tensor<2x8x16x16xf32>
  %2 = nn.pool_dx avg %x, %0 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : tensor<2x8x32x32xf32>, tensor<2x8x16x16xf32>
  return %0, %1, %2 : tensor<2x8x16x16xf32>, tensor<2x8x32x32xf32>, tensor<2x8x32x32xf32>
}
