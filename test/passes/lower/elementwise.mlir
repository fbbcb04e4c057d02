// RUN: dt-opt %s --lower-nn-to-rt --cse | FileCheck %s

// Equal shapes: one loop.
// CHECK-LABEL: rt.func @flat(
// CHECK: rt.kernel @silu_mul [%[[I:.*]] < 5120*batch]
// CHECK: rt.load %{{.*}}[%[[I]]]
// CHECK: rt.store
func.func @flat(%g: tensor<?x40x128xf32, #nn.dims<batch>>, %u: tensor<?x40x128xf32, #nn.dims<batch>>) -> tensor<?x40x128xf32, #nn.dims<batch>> {
  %0 = nn.fused %g, %u {kernel = "silu_mul"} : (tensor<?x40x128xf32, #nn.dims<batch>>, tensor<?x40x128xf32, #nn.dims<batch>>) -> tensor<?x40x128xf32, #nn.dims<batch>> {
  ^bb0(%a: f32, %b: f32):
    %1 = arith.mulf %a, %b : f32
    nn.yield %1 : f32
  }
  return %0 : tensor<?x40x128xf32, #nn.dims<batch>>
}

// A row vector: two loops. A column: another two.
// CHECK-LABEL: rt.func @broadcast(
// CHECK: rt.kernel @add [%[[I:.*]] < 80, %[[J:.*]] < 64]
// CHECK: rt.load %{{.*}}[%[[J]]] : !rt.buffer<f32, [64]>
// CHECK: rt.kernel @mul [%[[I:.*]] < 80, %[[J:.*]] < 64]
// CHECK: rt.load %{{.*}}[%[[I]]] : !rt.buffer<f32, [80]>
func.func @broadcast(%x: tensor<2x40x64xf32>, %b: tensor<64xf32>, %c: tensor<2x40x1xf32>) -> tensor<2x40x64xf32> {
  %0 = nn.add %x, %b : tensor<2x40x64xf32>, tensor<64xf32>
  %1 = nn.mul %0, %c : tensor<2x40x64xf32>, tensor<2x40x1xf32>
  return %1 : tensor<2x40x64xf32>
}

// CHECK-LABEL: rt.func @creation(
// CHECK: rt.fill %{{.*}} with 2.000000e+00 : f32
// CHECK: rt.kernel @generate [%[[I:.*]] < 40, %[[J:.*]] < 40]
// CHECK: arith.cmpi sle, %[[J]], %[[I]]
// CHECK: rt.constant dense<[1, 2]>
func.func @creation() -> (tensor<4xf32>, tensor<40x40xi1>, tensor<2xi64>) {
  %0 = nn.constant dense<2.0> : tensor<4xf32>
  %1 = nn.generate : tensor<40x40xi1> {
  ^bb0(%i: index, %j: index):
    %3 = arith.cmpi sle, %j, %i : index
    nn.yield %3 : i1
  }
  %2 = nn.constant dense<[1, 2]> : tensor<2xi64>
  return %0, %1, %2 : tensor<4xf32>, tensor<40x40xi1>, tensor<2xi64>
}
