// RUN: dt-opt %s --lower-nn-to-rt --cse | FileCheck %s

// CHECK-LABEL: rt.func @transpose(
// CHECK: rt.kernel @transpose [%[[B:.*]] < 2, %[[H:.*]] < 4, %[[T:.*]] < 40, %[[D:.*]] < 16]
// CHECK: rt.load %{{.*}}[%[[B]], %[[T]], %[[H]], %[[D]]]
func.func @transpose(%x: tensor<2x40x4x16xf32>) -> tensor<2x4x40x16xf32> {
  %0 = nn.transpose %x [0, 2, 1, 3] : tensor<2x40x4x16xf32>
  return %0 : tensor<2x4x40x16xf32>
}

// Dims that stay neighbours move as one.
// CHECK-LABEL: rt.func @transpose_merged(
// CHECK: rt.kernel @transpose [%{{.*}} < 64, %{{.*}} < 80]
func.func @transpose_merged(%x: tensor<2x40x4x16xf32>) -> tensor<4x16x2x40xf32> {
  %0 = nn.transpose %x [2, 3, 0, 1] : tensor<2x40x4x16xf32>
  return %0 : tensor<4x16x2x40xf32>
}

// CHECK-LABEL: rt.func @transpose_of_ones(
// CHECK-NOT: rt.kernel

// CHECK-LABEL: rt.func @slice_outer(
func.func @transpose_of_ones(%x: tensor<1x40x1x16xf32>, %w: tensor<640x8xf32>) -> tensor<1x8xf32> {
  %0 = nn.transpose %x [0, 2, 1, 3] : tensor<1x40x1x16xf32>
  %1 = nn.reshape %0 : tensor<1x1x40x16xf32> to tensor<1x640xf32>
  %2 = nn.linear %1, %w {in_out} : tensor<1x640xf32>, tensor<640x8xf32>
  return %2 : tensor<1x8xf32>
}

// A slice of the outermost dim is a part of the buffer.
// CHECK: rt.view %{{.*}} {offset = #nn.dim<640>} : <f32, [4, 40, 16]> to <f32, [2, 40, 16]>
func.func @slice_outer(%x: tensor<4x40x16xf32>) -> tensor<2x40x16xf32> {
  %0 = nn.slice %x [1, 0, 0] step [1, 1, 1] {from_end = array<i1>} : tensor<4x40x16xf32> to tensor<2x40x16xf32>
  return %0 : tensor<2x40x16xf32>
}

// CHECK-LABEL: rt.func @slice_inner(
// CHECK: rt.kernel @slice [%[[I:.*]] < 80, %[[J:.*]] < 64]
// CHECK: %[[C:.*]] = arith.constant 64
// CHECK: %[[AT:.*]] = arith.addi %[[J]], %[[C]]
// CHECK: rt.load %{{.*}}[%[[I]], %[[AT]]] : !rt.buffer<f32, [80, 192]>
func.func @slice_inner(%x: tensor<80x192xf32>) -> tensor<80x64xf32> {
  %0 = nn.slice %x [0, 64] step [1, 1] {from_end = array<i1>} : tensor<80x192xf32> to tensor<80x64xf32>
  return %0 : tensor<80x64xf32>
}

// CHECK-LABEL: rt.func @slice_back(
// CHECK: arith.constant -1
func.func @slice_back(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = nn.slice %x [7] step [-1] {from_end = array<i1>} : tensor<8xf32> to tensor<8xf32>
  return %0 : tensor<8xf32>
}

// CHECK-LABEL: rt.func @pad(
// CHECK: rt.kernel @pad [%{{.*}} < 80, %{{.*}} < 192]
// CHECK: scf.if
func.func @pad(%x: tensor<80x64xf32>) -> tensor<80x192xf32> {
  %0 = nn.pad %x low [0, 64] interior [0, 0] {reverse = array<i1>, value = 0.0 : f64} : tensor<80x64xf32> to tensor<80x192xf32>
  return %0 : tensor<80x192xf32>
}

// CHECK-LABEL: rt.func @concat(
// CHECK: rt.kernel @concat [%{{.*}} < 2, %{{.*}} < 640]
// CHECK: rt.kernel @concat [%{{.*}} < 2, %{{.*}} < 320]
func.func @concat(%x: tensor<2x40x16xf32>, %y: tensor<2x20x16xf32>) -> tensor<2x60x16xf32> {
  %0 = nn.concat %x, %y {axis = 1 : i64} : tensor<2x40x16xf32>, tensor<2x20x16xf32>
  return %0 : tensor<2x60x16xf32>
}
