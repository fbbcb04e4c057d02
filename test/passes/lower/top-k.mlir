// RUN: dt-opt %s --lower-nn-to-rt --cse | FileCheck %s

// A good part of the axis: each element counts those before it.
// CHECK-LABEL: rt.func @part(
// CHECK: rt.kernel @top_k [%{{.*}} < 5, %{{.*}} < 8, %{{.*}} < 3]
// CHECK: scf.for
// CHECK: arith.cmpf ugt
// CHECK: scf.if
// CHECK: rt.store
func.func @part(%x: tensor<5x8x3xf32>) -> (tensor<5x2x3xf32>, tensor<5x2x3xi64>) {
  %0, %1 = nn.top_k %x {axis = 1 : i64} : (tensor<5x8x3xf32>) -> (tensor<5x2x3xf32>, tensor<5x2x3xi64>)
  return %0, %1 : tensor<5x2x3xf32>, tensor<5x2x3xi64>
}

// All of an axis without a number is a sort: every element has a place.
// CHECK-LABEL: rt.func @sort(
// CHECK: rt.kernel @top_k [%{{.*}} < tokens, %{{.*}} < 1
// CHECK: arith.cmpi sgt
// CHECK-NOT: scf.if
// CHECK: rt.store
func.func @sort(%x: tensor<?xi64, #nn.dims<tokens>>) -> (tensor<?xi64, #nn.dims<tokens>>, tensor<?xi64, #nn.dims<tokens>>) {
  %0, %1 = nn.top_k %x {axis = 0 : i64, smallest} : (tensor<?xi64, #nn.dims<tokens>>) -> (tensor<?xi64, #nn.dims<tokens>>, tensor<?xi64, #nn.dims<tokens>>)
  return %0, %1 : tensor<?xi64, #nn.dims<tokens>>, tensor<?xi64, #nn.dims<tokens>>
}

// Few of many: a point a row keeps a list.
// CHECK-LABEL: rt.func @few(
// CHECK: rt.kernel @top_k [%{{.*}} < 4, %{{.*}} < 1]
// CHECK: arith.cmpi ugt
func.func @few(%x: tensor<4x1000xui8>) -> (tensor<4x3xui8>, tensor<4x3xi64>) {
  %0, %1 = nn.top_k %x {axis = 1 : i64} : (tensor<4x1000xui8>) -> (tensor<4x3xui8>, tensor<4x3xi64>)
  return %0, %1 : tensor<4x3xui8>, tensor<4x3xi64>
}
