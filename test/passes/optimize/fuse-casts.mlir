// RUN: dt-opt %s --nn-fuse-casts | FileCheck %s
// RUN: dt-opt %s --nn-fuse-casts | dt-opt | FileCheck %s

// A norm stores what the product reads; its gradient reads what the product's
// gives.
// CHECK-LABEL: @norm
// CHECK: %[[Y:.*]] = nn.rms_norm %arg0 {eps = {{.*}}, stored = bf16} : tensor<2x4xf32>
// CHECK: %[[DX:.*]] = nn.rms_norm_dx %arg0, %arg1 {{.*}} : tensor<2x4xf32>, tensor<2x4xbf16>
// CHECK-NOT: nn.cast
// CHECK: return %[[Y]], %[[DX]] : tensor<2x4xbf16>, tensor<2x4xf32>
func.func @norm(%x: tensor<2x4xf32>, %dy: tensor<2x4xbf16>) -> (tensor<2x4xbf16>, tensor<2x4xf32>) {
  %0 = nn.rms_norm %x {eps = 1.0e-6 : f64} : tensor<2x4xf32>
  %1 = nn.cast %0 : tensor<2x4xf32> to tensor<2x4xbf16>
  %2 = nn.cast %dy : tensor<2x4xbf16> to tensor<2x4xf32>
  %3 = nn.rms_norm_dx %x, %2 {eps = 1.0e-6 : f64} : tensor<2x4xf32>, tensor<2x4xf32>
  return %1, %3 : tensor<2x4xbf16>, tensor<2x4xf32>
}

// A weight's gradient is the product's own float32 result.
// CHECK-LABEL: @weight
// CHECK: %[[DW:.*]] = nn.linear_dw %arg0, %arg1 {stored = f32} : tensor<2x4xbf16>, tensor<2x3xbf16>
// CHECK: return %[[DW]] : tensor<3x4xf32>
func.func @weight(%x: tensor<2x4xbf16>, %dy: tensor<2x3xbf16>) -> tensor<3x4xf32> {
  %0 = nn.linear_dw %x, %dy : tensor<2x4xbf16>, tensor<2x3xbf16>
  %1 = nn.cast %0 : tensor<3x4xbf16> to tensor<3x4xf32>
  return %1 : tensor<3x4xf32>
}

// Losses read bf16 logits and give float32.
// CHECK-LABEL: @loss
// CHECK: nn.cross_entropy %arg0, %arg1 {stored = f32} : tensor<2x4xbf16>
// CHECK: nn.cross_entropy_grad %arg0, %arg1, %arg2 : tensor<2x4xbf16>, tensor<2xi64>, tensor<2xf32>
// CHECK-NOT: nn.cast
func.func @loss(%x: tensor<2x4xbf16>, %l: tensor<2xi64>, %dy: tensor<2xf32>) -> (tensor<2xf32>, tensor<2x4xbf16>) {
  %0 = nn.cast %x : tensor<2x4xbf16> to tensor<2x4xf32>
  %1 = nn.cross_entropy %0, %l : tensor<2x4xf32>, tensor<2xi64>
  %2 = nn.cross_entropy_grad %0, %l, %dy : tensor<2x4xf32>, tensor<2xi64>, tensor<2xf32>
  %3 = nn.cast %2 : tensor<2x4xf32> to tensor<2x4xbf16>
  return %1, %3 : tensor<2xf32>, tensor<2x4xbf16>
}

// What elementwise neighbours read stays narrow between; a product of float32
// operands does not store bf16; what two read is not narrowed for one.
// CHECK-LABEL: @stay
// CHECK: nn.linear %arg0, %arg1 : tensor<2x4xbf16>
// CHECK: nn.cast
// CHECK: nn.linear %arg2, %arg3 : tensor<2x4xf32>
// CHECK: nn.cast
// CHECK: nn.softmax %arg2 {axis = 1 : i64} : tensor<2x4xf32>
// CHECK: nn.cast
func.func @stay(%x: tensor<2x4xbf16>, %w: tensor<4x4xbf16>, %y: tensor<2x4xf32>, %v: tensor<4x4xf32>)
    -> (tensor<2x4xf32>, tensor<2x4xbf16>, tensor<2x4xbf16>, tensor<2x4xf32>) {
  %0 = nn.linear %x, %w : tensor<2x4xbf16>, tensor<4x4xbf16>
  %1 = nn.cast %0 : tensor<2x4xbf16> to tensor<2x4xf32>
  %2 = nn.exp %1 : tensor<2x4xf32>
  %3 = nn.linear %y, %v : tensor<2x4xf32>, tensor<4x4xf32>
  %4 = nn.cast %3 : tensor<2x4xf32> to tensor<2x4xbf16>
  %5 = nn.softmax %y {axis = 1 : i64} : tensor<2x4xf32>
  %6 = nn.cast %5 : tensor<2x4xf32> to tensor<2x4xbf16>
  return %2, %4, %6, %5 : tensor<2x4xf32>, tensor<2x4xbf16>, tensor<2x4xbf16>, tensor<2x4xf32>
}

// A product's result is widened apart: libraries store it as they read.
// CHECK-LABEL: @product
// CHECK: nn.conv %arg0, %arg1
// CHECK: nn.cast
func.func @product(%x: tensor<1x2x4x4xbf16>, %w: tensor<2x2x1x1xbf16>) -> tensor<1x2x4x4xf32> {
  %0 = nn.conv %x, %w {groups = 1 : i64, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>} : tensor<1x2x4x4xbf16>, tensor<2x2x1x1xbf16>
  %1 = nn.cast %0 : tensor<1x2x4x4xbf16> to tensor<1x2x4x4xf32>
  return %1 : tensor<1x2x4x4xf32>
}
