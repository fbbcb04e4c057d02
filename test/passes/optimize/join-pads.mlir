// RUN: dt-opt %s --nn-join-pads | FileCheck %s

// The gradients of a split come back together.
// CHECK-LABEL: func.func @split(
// CHECK: %[[C:.*]] = nn.concat %arg0, %arg1, %arg2 {axis = 1 : i64}
// CHECK-NOT: nn.add
// CHECK: return %[[C]]
func.func @split(%q: tensor<8x4xf32>, %k: tensor<8x2xf32>, %v: tensor<8x2xf32>) -> tensor<8x8xf32> {
  %0 = nn.pad %v low [0, 6] interior [0, 0] : tensor<8x2xf32> to tensor<8x8xf32>
  %1 = nn.pad %k low [0, 4] interior [0, 0] : tensor<8x2xf32> to tensor<8x8xf32>
  %2 = nn.add %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
  %3 = nn.pad %q low [0, 0] interior [0, 0] : tensor<8x4xf32> to tensor<8x8xf32>
  %4 = nn.add %2, %3 : tensor<8x8xf32>, tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}

// Other addends stay.
// CHECK-LABEL: func.func @and_more(
// CHECK: %[[C:.*]] = nn.concat %arg0, %arg0 {axis = 0 : i64}
// CHECK: nn.add %[[C]], %arg1
func.func @and_more(%a: tensor<4xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %0 = nn.pad %a low [0] interior [0] : tensor<4xf32> to tensor<8xf32>
  %1 = nn.add %0, %b : tensor<8xf32>, tensor<8xf32>
  %2 = nn.pad %a low [4] interior [0] : tensor<4xf32> to tensor<8xf32>
  %3 = nn.add %1, %2 : tensor<8xf32>, tensor<8xf32>
  return %3 : tensor<8xf32>
}

// A gap, an overlap, another filling, a sum that is used besides: nothing.
// CHECK-LABEL: func.func @not(
// CHECK-NOT: nn.concat
func.func @not(%a: tensor<4xf32>, %b: tensor<3xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = nn.pad %a low [0] interior [0] : tensor<4xf32> to tensor<8xf32>
  %gap = nn.pad %b low [4] interior [0] : tensor<3xf32> to tensor<8xf32>
  %1 = nn.add %0, %gap : tensor<8xf32>, tensor<8xf32>
  %overlap = nn.pad %a low [3] interior [0] : tensor<4xf32> to tensor<8xf32>
  %2 = nn.add %0, %overlap : tensor<8xf32>, tensor<8xf32>
  %ones = nn.pad %a low [4] interior [0] {value = 1.0} : tensor<4xf32> to tensor<8xf32>
  %3 = nn.add %0, %ones : tensor<8xf32>, tensor<8xf32>
  %late = nn.pad %b low [5] interior [0] : tensor<3xf32> to tensor<8xf32>
  %4 = nn.add %0, %late : tensor<8xf32>, tensor<8xf32>
  %5 = nn.pad %b low [4] interior [0] : tensor<3xf32> to tensor<8xf32>
  %6 = nn.add %4, %5 : tensor<8xf32>, tensor<8xf32>
  return %1, %2, %3, %4, %6 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
