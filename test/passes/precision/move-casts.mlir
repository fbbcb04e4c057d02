// RUN: dt-opt %s --nn-move-casts | FileCheck %s

// A widening cast sinks below what only moves elements.
// CHECK-LABEL: @sink
// CHECK: %[[T:.*]] = nn.transpose %arg0 [1, 0] : tensor<2x3xbf16>
// CHECK: %[[R:.*]] = nn.reshape %[[T]] : tensor<3x2xbf16> to tensor<6xbf16>
// CHECK: %[[W:.*]] = nn.cast %[[R]] : tensor<6xbf16> to tensor<6xf32>
// CHECK: nn.exp %[[W]]
func.func @sink(%x: tensor<2x3xbf16>) -> tensor<6xf32> {
  %0 = nn.cast %x : tensor<2x3xbf16> to tensor<2x3xf32>
  %1 = nn.transpose %0 [1, 0] : tensor<2x3xf32>
  %2 = nn.reshape %1 : tensor<3x2xf32> to tensor<6xf32>
  %3 = nn.exp %2 : tensor<6xf32>
  return %3 : tensor<6xf32>
}

// Only if all floats come widened; indices are no floats.
// CHECK-LABEL: @concat
// CHECK: %[[A:.*]] = nn.concat %arg0, %arg0 {axis = 0 : i64} : tensor<2xbf16>, tensor<2xbf16>
// CHECK: nn.cast %[[A]] : tensor<4xbf16> to tensor<4xf32>
// CHECK: nn.concat %{{.*}}, %arg1 {axis = 0 : i64} : tensor<2xf32>, tensor<2xf32>
// CHECK: %[[G:.*]] = nn.gather %arg0 at %arg2 {axis = 0 : i64} : tensor<2xbf16>, tensor<5xi64>
// CHECK: nn.cast %[[G]] : tensor<5xbf16> to tensor<5xf32>
func.func @concat(%x: tensor<2xbf16>, %y: tensor<2xf32>, %i: tensor<5xi64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<5xf32>) {
  %0 = nn.cast %x : tensor<2xbf16> to tensor<2xf32>
  %1 = nn.concat %0, %0 {axis = 0 : i64} : tensor<2xf32>, tensor<2xf32>
  %2 = nn.concat %0, %y {axis = 0 : i64} : tensor<2xf32>, tensor<2xf32>
  %3 = nn.gather %0 at %i {axis = 0 : i64} : tensor<2xf32>, tensor<5xi64>
  return %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<5xf32>
}

// A narrowing cast rises above views, not above a lookup: the table has more
// elements than what is looked up.
// CHECK-LABEL: @rise
// CHECK: %[[N:.*]] = nn.cast %arg0 : tensor<4x2xf32> to tensor<4x2xbf16>
// CHECK: nn.transpose %[[N]] [1, 0] : tensor<4x2xbf16>
// CHECK: %[[G:.*]] = nn.gather %arg0 at %arg1 {axis = 0 : i64} : tensor<4x2xf32>
// CHECK: nn.cast %[[G]] : tensor<3x2xf32> to tensor<3x2xbf16>
func.func @rise(%x: tensor<4x2xf32>, %i: tensor<3xi64>) -> (tensor<2x4xbf16>, tensor<3x2xbf16>) {
  %0 = nn.transpose %x [1, 0] : tensor<4x2xf32>
  %1 = nn.cast %0 : tensor<2x4xf32> to tensor<2x4xbf16>
  %2 = nn.gather %x at %i {axis = 0 : i64} : tensor<4x2xf32>, tensor<3xi64>
  %3 = nn.cast %2 : tensor<3x2xf32> to tensor<3x2xbf16>
  return %1, %3 : tensor<2x4xbf16>, tensor<3x2xbf16>
}

// Widened and narrowed again is the value; the other way round it is rounded.
// CHECK-LABEL: @meet
// CHECK: %[[N:.*]] = nn.cast %arg1 : tensor<4xf32> to tensor<4xbf16>
// CHECK: %[[W:.*]] = nn.cast %[[N]] : tensor<4xbf16> to tensor<4xf32>
// CHECK: return %arg0, %[[W]]
func.func @meet(%x: tensor<4xbf16>, %y: tensor<4xf32>) -> (tensor<4xbf16>, tensor<4xf32>) {
  %0 = nn.cast %x : tensor<4xbf16> to tensor<4xf32>
  %1 = nn.cast %0 : tensor<4xf32> to tensor<4xbf16>
  %2 = nn.cast %y : tensor<4xf32> to tensor<4xbf16>
  %3 = nn.cast %2 : tensor<4xbf16> to tensor<4xf32>
  return %1, %3 : tensor<4xbf16>, tensor<4xf32>
}
