// RUN: dt-opt %s --pass-pipeline="builtin.module(func.func(nn-raise-norms))" --split-input-file | FileCheck %s

// As PyTorch's exporter writes LlamaRMSNorm.
// CHECK-LABEL: @rms
// CHECK: %[[R:.*]] = nn.rms_norm %arg0 scale %arg1 {eps = 9.99{{.*}}E-7 : f64}
// CHECK-NEXT: return %[[R]]
func.func @rms(%x: tensor<2x4xf32>, %w: tensor<4xf32>) -> tensor<2x4xf32> {
  %two = nn.constant dense<2.0> : tensor<f32>
  %eps = nn.constant dense<9.99999997E-7> : tensor<f32>
  %0 = nn.pow %x, %two : tensor<2x4xf32>, tensor<f32>
  %1 = nn.reduce mean %0 {axes = array<i64: 1>, keepdims} : tensor<2x4xf32>
  %2 = nn.add %1, %eps : tensor<2x1xf32>, tensor<f32>
  %3 = nn.sqrt %2 : tensor<2x1xf32>
  %4 = nn.reciprocal %3 : tensor<2x1xf32>
  %5 = nn.mul %x, %4 : tensor<2x4xf32>, tensor<2x1xf32>
  %6 = nn.mul %w, %5 : tensor<4xf32>, tensor<2x4xf32>
  return %6 : tensor<2x4xf32>
}

// -----

// The mean is not over the last axis.
// CHECK-LABEL: @not_rms
// CHECK-NOT: nn.rms_norm
func.func @not_rms(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %eps = nn.constant dense<1.0E-6> : tensor<f32>
  %0 = nn.mul %x, %x : tensor<4x4xf32>, tensor<4x4xf32>
  %1 = nn.reduce mean %0 {axes = array<i64: 0>, keepdims} : tensor<4x4xf32>
  %2 = nn.add %1, %eps : tensor<1x4xf32>, tensor<f32>
  %3 = nn.rsqrt %2 : tensor<1x4xf32>
  %4 = nn.mul %x, %3 : tensor<4x4xf32>, tensor<1x4xf32>
  return %4 : tensor<4x4xf32>
}

// -----

// CHECK-LABEL: @layer
// CHECK: nn.layer_norm %arg0 scale %arg1 bias %arg2
func.func @layer(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<2x4xf32> {
  %eps = nn.constant dense<1.0E-5> : tensor<f32>
  %two = nn.constant dense<2.0> : tensor<f32>
  %0 = nn.reduce mean %x {axes = array<i64: 1>, keepdims} : tensor<2x4xf32>
  %1 = nn.sub %x, %0 : tensor<2x4xf32>, tensor<2x1xf32>
  %2 = nn.pow %1, %two : tensor<2x4xf32>, tensor<f32>
  %3 = nn.reduce mean %2 {axes = array<i64: 1>, keepdims} : tensor<2x4xf32>
  %4 = nn.add %3, %eps : tensor<2x1xf32>, tensor<f32>
  %5 = nn.sqrt %4 : tensor<2x1xf32>
  %6 = nn.div %1, %5 : tensor<2x4xf32>, tensor<2x1xf32>
  %7 = nn.mul %6, %w : tensor<2x4xf32>, tensor<4xf32>
  %8 = nn.add %7, %b : tensor<2x4xf32>, tensor<4xf32>
  return %8 : tensor<2x4xf32>
}

// -----

// diffusers' GroupNorm: an instance norm of the groups between reshapes.
// CHECK-LABEL: @group
// CHECK: %[[R:.*]] = nn.group_norm %arg0 scale %arg1 bias %arg2 {eps = {{.*}}, groups = 2 : i64}
// CHECK-NEXT: return %[[R]]
func.func @group(%x: tensor<?x8x4x4xf32, #nn.dims<batch>>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<?x8x4x4xf32, #nn.dims<batch>> {
  %ones = nn.constant dense<1.0> : tensor<2xf32>
  %zeros = nn.constant dense<0.0> : tensor<2xf32>
  %0 = nn.reshape %x : tensor<?x8x4x4xf32, #nn.dims<batch>> to tensor<?x2x64xf32, #nn.dims<batch>>
  %1 = nn.group_norm %0 scale %ones bias %zeros {eps = 1.0e-5, groups = 2} : tensor<?x2x64xf32, #nn.dims<batch>>, tensor<2xf32>, tensor<2xf32>
  %2 = nn.reshape %1 : tensor<?x2x64xf32, #nn.dims<batch>> to tensor<?x8x4x4xf32, #nn.dims<batch>>
  %3 = nn.reshape %w : tensor<8xf32> to tensor<8x1x1xf32>
  %4 = nn.mul %2, %3 : tensor<?x8x4x4xf32, #nn.dims<batch>>, tensor<8x1x1xf32>
  %5 = nn.reshape %b : tensor<8xf32> to tensor<8x1x1xf32>
  %6 = nn.add %4, %5 : tensor<?x8x4x4xf32, #nn.dims<batch>>, tensor<8x1x1xf32>
  return %6 : tensor<?x8x4x4xf32, #nn.dims<batch>>
}

// -----

// A factor along the width is no scale of channels, though it has their number.
// CHECK-LABEL: @not_scale
// CHECK: nn.mul
func.func @not_scale(%x: tensor<2x4x4x4xf32>, %w: tensor<4xf32>) -> tensor<2x4x4x4xf32> {
  %0 = nn.group_norm %x {eps = 1.0e-5, groups = 2} : tensor<2x4x4x4xf32>
  %1 = nn.mul %0, %w : tensor<2x4x4x4xf32>, tensor<4xf32>
  return %1 : tensor<2x4x4x4xf32>
}

// -----

// x^2.0001 is no square.
// CHECK-LABEL: @no_square
// CHECK-NOT: nn.rms_norm
func.func @no_square(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %power = nn.constant dense<2.0001> : tensor<f32>
  %eps = nn.constant dense<1.0E-6> : tensor<f32>
  %0 = nn.pow %x, %power : tensor<2x4xf32>, tensor<f32>
  %1 = nn.reduce mean %0 {axes = array<i64: 1>, keepdims} : tensor<2x4xf32>
  %2 = nn.add %1, %eps : tensor<2x1xf32>, tensor<f32>
  %3 = nn.rsqrt %2 : tensor<2x1xf32>
  %4 = nn.mul %x, %3 : tensor<2x4xf32>, tensor<2x1xf32>
  return %4 : tensor<2x4xf32>
}
