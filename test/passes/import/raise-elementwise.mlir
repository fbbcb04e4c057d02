// RUN: dt-opt %s --pass-pipeline="builtin.module(func.func(nn-raise-elementwise))" --split-input-file | FileCheck %s

// CHECK-LABEL: @bias
// CHECK: %[[R:.*]] = nn.linear %arg0, %arg1, %arg2
// CHECK-NEXT: return %[[R]]
func.func @bias(%x: tensor<2x4xf32>, %w: tensor<8x4xf32>, %b: tensor<8xf32>) -> tensor<2x8xf32> {
  %0 = nn.linear %x, %w : tensor<2x4xf32>, tensor<8x4xf32>
  %1 = nn.add %0, %b : tensor<2x8xf32>, tensor<8xf32>
  return %1 : tensor<2x8xf32>
}

// -----

// The addend is a row a sample, not a bias.
// CHECK-LABEL: @no_bias
// CHECK: nn.add
func.func @no_bias(%x: tensor<2x4xf32>, %w: tensor<8x4xf32>, %b: tensor<2x1xf32>) -> tensor<2x8xf32> {
  %0 = nn.linear %x, %w : tensor<2x4xf32>, tensor<8x4xf32>
  %1 = nn.add %0, %b : tensor<2x8xf32>, tensor<2x1xf32>
  return %1 : tensor<2x8xf32>
}

// -----

// GPT-2's Conv1D flattens [batch, seq] around its product.
// CHECK-LABEL: @flattened
// CHECK: %[[R:.*]] = nn.linear %arg0, %arg1, %arg2 {in_out} : tensor<?x5x4xf32, #nn.dims<batch>>
// CHECK-NEXT: return %[[R]]
func.func @flattened(%x: tensor<?x5x4xf32, #nn.dims<batch>>, %w: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<?x5x8xf32, #nn.dims<batch>> {
  %0 = nn.reshape %x : tensor<?x5x4xf32, #nn.dims<batch>> to tensor<?x4xf32, #nn.dims<5*batch>>
  %1 = nn.linear %0, %w, %b {in_out} : tensor<?x4xf32, #nn.dims<5*batch>>, tensor<4x8xf32>, tensor<8xf32>
  %2 = nn.reshape %1 : tensor<?x8xf32, #nn.dims<5*batch>> to tensor<?x5x8xf32, #nn.dims<batch>>
  return %2 : tensor<?x5x8xf32, #nn.dims<batch>>
}

// -----

// CHECK-LABEL: @silu
// CHECK: nn.silu %arg0
func.func @silu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.sigmoid %x : tensor<4xf32>
  %1 = nn.mul %x, %0 : tensor<4xf32>, tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// CLIP's quick GELU is x * sigmoid(1.702 x).
// CHECK-LABEL: @not_silu
// CHECK-NOT: nn.silu
func.func @not_silu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = nn.constant dense<1.702> : tensor<f32>
  %0 = nn.mul %x, %c : tensor<4xf32>, tensor<f32>
  %1 = nn.sigmoid %0 : tensor<4xf32>
  %2 = nn.mul %x, %1 : tensor<4xf32>, tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

// As PyTorch's exporter writes GPT-2's gelu_new.
// CHECK-LABEL: @gelu_tanh
// CHECK: nn.gelu %arg0 {tanh}
func.func @gelu_tanh(%x: tensor<4xf32>) -> tensor<4xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %three = nn.constant dense<3.0> : tensor<f32>
  %a = nn.constant dense<0.044714998453855515> : tensor<f32>
  %s = nn.constant dense<0.7978845834732056> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.mul %x, %half : tensor<4xf32>, tensor<f32>
  %1 = nn.pow %x, %three : tensor<4xf32>, tensor<f32>
  %2 = nn.mul %1, %a : tensor<4xf32>, tensor<f32>
  %3 = nn.add %x, %2 : tensor<4xf32>, tensor<4xf32>
  %4 = nn.mul %3, %s : tensor<4xf32>, tensor<f32>
  %5 = nn.tanh %4 : tensor<4xf32>
  %6 = nn.add %5, %one : tensor<4xf32>, tensor<f32>
  %7 = nn.mul %0, %6 : tensor<4xf32>, tensor<4xf32>
  return %7 : tensor<4xf32>
}

// -----

// CHECK-LABEL: @gelu_erf
// CHECK: nn.gelu %arg0 :
func.func @gelu_erf(%x: tensor<4xf32>) -> tensor<4xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %root = nn.constant dense<1.4142135> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.div %x, %root : tensor<4xf32>, tensor<f32>
  %1 = nn.erf %0 : tensor<4xf32>
  %2 = nn.add %1, %one : tensor<4xf32>, tensor<f32>
  %3 = nn.mul %x, %2 : tensor<4xf32>, tensor<4xf32>
  %4 = nn.mul %3, %half : tensor<4xf32>, tensor<f32>
  return %4 : tensor<4xf32>
}

// -----

// The scale is that of no GELU.
// CHECK-LABEL: @not_gelu
// CHECK-NOT: nn.gelu
func.func @not_gelu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %root = nn.constant dense<1.5> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.div %x, %root : tensor<4xf32>, tensor<f32>
  %1 = nn.erf %0 : tensor<4xf32>
  %2 = nn.add %1, %one : tensor<4xf32>, tensor<f32>
  %3 = nn.mul %x, %2 : tensor<4xf32>, tensor<4xf32>
  %4 = nn.mul %3, %half : tensor<4xf32>, tensor<f32>
  return %4 : tensor<4xf32>
}

// -----

// x^3.7 is no cube.
// CHECK-LABEL: @power
// CHECK-NOT: nn.gelu
func.func @power(%x: tensor<4xf32>) -> tensor<4xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %power = nn.constant dense<3.7> : tensor<f32>
  %a = nn.constant dense<0.044715> : tensor<f32>
  %s = nn.constant dense<0.7978845608> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.mul %x, %half : tensor<4xf32>, tensor<f32>
  %1 = nn.pow %x, %power : tensor<4xf32>, tensor<f32>
  %2 = nn.mul %1, %a : tensor<4xf32>, tensor<f32>
  %3 = nn.add %x, %2 : tensor<4xf32>, tensor<4xf32>
  %4 = nn.mul %3, %s : tensor<4xf32>, tensor<f32>
  %5 = nn.tanh %4 : tensor<4xf32>
  %6 = nn.add %5, %one : tensor<4xf32>, tensor<f32>
  %7 = nn.mul %0, %6 : tensor<4xf32>, tensor<4xf32>
  return %7 : tensor<4xf32>
}

// -----

// Close to GELU's numbers is another function.
// CHECK-LABEL: @close_factor
// CHECK-NOT: nn.gelu
func.func @close_factor(%x: tensor<4xf32>) -> tensor<4xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %power = nn.constant dense<3.0> : tensor<f32>
  %a = nn.constant dense<0.0447155> : tensor<f32>
  %s = nn.constant dense<0.7978845608> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.mul %x, %half : tensor<4xf32>, tensor<f32>
  %1 = nn.pow %x, %power : tensor<4xf32>, tensor<f32>
  %2 = nn.mul %1, %a : tensor<4xf32>, tensor<f32>
  %3 = nn.add %x, %2 : tensor<4xf32>, tensor<4xf32>
  %4 = nn.mul %3, %s : tensor<4xf32>, tensor<f32>
  %5 = nn.tanh %4 : tensor<4xf32>
  %6 = nn.add %5, %one : tensor<4xf32>, tensor<f32>
  %7 = nn.mul %0, %6 : tensor<4xf32>, tensor<4xf32>
  return %7 : tensor<4xf32>
}

// -----

// CHECK-LABEL: @close_scale
// CHECK-NOT: nn.gelu
func.func @close_scale(%x: tensor<4xf32>) -> tensor<4xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %power = nn.constant dense<3.0> : tensor<f32>
  %a = nn.constant dense<0.044715> : tensor<f32>
  %s = nn.constant dense<0.7979> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.mul %x, %half : tensor<4xf32>, tensor<f32>
  %1 = nn.pow %x, %power : tensor<4xf32>, tensor<f32>
  %2 = nn.mul %1, %a : tensor<4xf32>, tensor<f32>
  %3 = nn.add %x, %2 : tensor<4xf32>, tensor<4xf32>
  %4 = nn.mul %3, %s : tensor<4xf32>, tensor<f32>
  %5 = nn.tanh %4 : tensor<4xf32>
  %6 = nn.add %5, %one : tensor<4xf32>, tensor<f32>
  %7 = nn.mul %0, %6 : tensor<4xf32>, tensor<4xf32>
  return %7 : tensor<4xf32>
}

// -----

// CHECK-LABEL: @close_half
// CHECK-NOT: nn.gelu
func.func @close_half(%x: tensor<4xf32>) -> tensor<4xf32> {
  %half = nn.constant dense<0.50002> : tensor<f32>
  %power = nn.constant dense<3.0> : tensor<f32>
  %a = nn.constant dense<0.044715> : tensor<f32>
  %s = nn.constant dense<0.7978845608> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.mul %x, %half : tensor<4xf32>, tensor<f32>
  %1 = nn.pow %x, %power : tensor<4xf32>, tensor<f32>
  %2 = nn.mul %1, %a : tensor<4xf32>, tensor<f32>
  %3 = nn.add %x, %2 : tensor<4xf32>, tensor<4xf32>
  %4 = nn.mul %3, %s : tensor<4xf32>, tensor<f32>
  %5 = nn.tanh %4 : tensor<4xf32>
  %6 = nn.add %5, %one : tensor<4xf32>, tensor<f32>
  %7 = nn.mul %0, %6 : tensor<4xf32>, tensor<4xf32>
  return %7 : tensor<4xf32>
}

// -----

// In 16 bits the numbers are rounded further.
// CHECK-LABEL: @half_precision
// CHECK: nn.gelu %arg0 {tanh}
func.func @half_precision(%x: tensor<4xf16>) -> tensor<4xf16> {
  %half = nn.constant dense<0.5> : tensor<f16>
  %power = nn.constant dense<3.0> : tensor<f16>
  %a = nn.constant dense<0.044715> : tensor<f16>
  %s = nn.constant dense<0.7978845608> : tensor<f16>
  %one = nn.constant dense<1.0> : tensor<f16>
  %0 = nn.mul %x, %half : tensor<4xf16>, tensor<f16>
  %1 = nn.pow %x, %power : tensor<4xf16>, tensor<f16>
  %2 = nn.mul %1, %a : tensor<4xf16>, tensor<f16>
  %3 = nn.add %x, %2 : tensor<4xf16>, tensor<4xf16>
  %4 = nn.mul %3, %s : tensor<4xf16>, tensor<f16>
  %5 = nn.tanh %4 : tensor<4xf16>
  %6 = nn.add %5, %one : tensor<4xf16>, tensor<f16>
  %7 = nn.mul %0, %6 : tensor<4xf16>, tensor<4xf16>
  return %7 : tensor<4xf16>
}

// -----

// A number of 16 bits' precision in 32 bits is not the formula's.
// CHECK-LABEL: @coarse
// CHECK-NOT: nn.gelu
func.func @coarse(%x: tensor<4xf32>) -> tensor<4xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %power = nn.constant dense<3.0> : tensor<f32>
  %a = nn.constant dense<0.044708251953125> : tensor<f32>
  %s = nn.constant dense<0.7978515625> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.mul %x, %half : tensor<4xf32>, tensor<f32>
  %1 = nn.pow %x, %power : tensor<4xf32>, tensor<f32>
  %2 = nn.mul %1, %a : tensor<4xf32>, tensor<f32>
  %3 = nn.add %x, %2 : tensor<4xf32>, tensor<4xf32>
  %4 = nn.mul %3, %s : tensor<4xf32>, tensor<f32>
  %5 = nn.tanh %4 : tensor<4xf32>
  %6 = nn.add %5, %one : tensor<4xf32>, tensor<f32>
  %7 = nn.mul %0, %6 : tensor<4xf32>, tensor<4xf32>
  return %7 : tensor<4xf32>
}

// -----

// A cast to whole numbers is carried out: 3.7 becomes 3.
// CHECK-LABEL: @cast_power
// CHECK: nn.gelu %arg0 {tanh}
func.func @cast_power(%x: tensor<4xf32>) -> tensor<4xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %power = nn.constant dense<3.7> : tensor<f32>
  %whole = nn.cast %power : tensor<f32> to tensor<i64>
  %cube = nn.cast %whole : tensor<i64> to tensor<f32>
  %a = nn.constant dense<0.044715> : tensor<f32>
  %s = nn.constant dense<0.7978845608> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.mul %x, %half : tensor<4xf32>, tensor<f32>
  %1 = nn.pow %x, %cube : tensor<4xf32>, tensor<f32>
  %2 = nn.mul %1, %a : tensor<4xf32>, tensor<f32>
  %3 = nn.add %x, %2 : tensor<4xf32>, tensor<4xf32>
  %4 = nn.mul %3, %s : tensor<4xf32>, tensor<f32>
  %5 = nn.tanh %4 : tensor<4xf32>
  %6 = nn.add %5, %one : tensor<4xf32>, tensor<f32>
  %7 = nn.mul %0, %6 : tensor<4xf32>, tensor<4xf32>
  return %7 : tensor<4xf32>
}

// -----

// GELU's numbers as a file in bf16 or fp16 has them are another function's in a file that has float32 only.
// CHECK-LABEL: @gelu_bf16
// CHECK: nn.gelu %arg0 {tanh}
func.func @gelu_bf16(%x: tensor<4xf32>) -> tensor<4xf32> attributes {nn.narrow_numbers} {
  %half = nn.constant dense<0.5> : tensor<f32>
  %three = nn.constant dense<3.0> : tensor<f32>
  %a = nn.constant dense<0.044677734375> : tensor<f32>
  %s = nn.constant dense<0.796875> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.mul %x, %half : tensor<4xf32>, tensor<f32>
  %1 = nn.pow %x, %three : tensor<4xf32>, tensor<f32>
  %2 = nn.mul %1, %a : tensor<4xf32>, tensor<f32>
  %3 = nn.add %x, %2 : tensor<4xf32>, tensor<4xf32>
  %4 = nn.mul %3, %s : tensor<4xf32>, tensor<f32>
  %5 = nn.tanh %4 : tensor<4xf32>
  %6 = nn.add %5, %one : tensor<4xf32>, tensor<f32>
  %7 = nn.mul %0, %6 : tensor<4xf32>, tensor<4xf32>
  return %7 : tensor<4xf32>
}

// -----

// CHECK-LABEL: @gelu_fp16
// CHECK: nn.gelu %arg0 {tanh}
func.func @gelu_fp16(%x: tensor<4xf32>) -> tensor<4xf32> attributes {nn.narrow_numbers} {
  %half = nn.constant dense<0.5> : tensor<f32>
  %three = nn.constant dense<3.0> : tensor<f32>
  %a = nn.constant dense<0.044708251953125> : tensor<f32>
  %s = nn.constant dense<0.7978515625> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.mul %x, %half : tensor<4xf32>, tensor<f32>
  %1 = nn.pow %x, %three : tensor<4xf32>, tensor<f32>
  %2 = nn.mul %1, %a : tensor<4xf32>, tensor<f32>
  %3 = nn.add %x, %2 : tensor<4xf32>, tensor<4xf32>
  %4 = nn.mul %3, %s : tensor<4xf32>, tensor<f32>
  %5 = nn.tanh %4 : tensor<4xf32>
  %6 = nn.add %5, %one : tensor<4xf32>, tensor<f32>
  %7 = nn.mul %0, %6 : tensor<4xf32>, tensor<4xf32>
  return %7 : tensor<4xf32>
}

// -----

// CHECK-LABEL: @gelu_rounded
// CHECK-NOT: nn.gelu
func.func @gelu_rounded(%x: tensor<4xf32>) -> tensor<4xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %three = nn.constant dense<3.0> : tensor<f32>
  %a = nn.constant dense<0.044677734375> : tensor<f32>
  %s = nn.constant dense<0.796875> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.mul %x, %half : tensor<4xf32>, tensor<f32>
  %1 = nn.pow %x, %three : tensor<4xf32>, tensor<f32>
  %2 = nn.mul %1, %a : tensor<4xf32>, tensor<f32>
  %3 = nn.add %x, %2 : tensor<4xf32>, tensor<4xf32>
  %4 = nn.mul %3, %s : tensor<4xf32>, tensor<f32>
  %5 = nn.tanh %4 : tensor<4xf32>
  %6 = nn.add %5, %one : tensor<4xf32>, tensor<f32>
  %7 = nn.mul %0, %6 : tensor<4xf32>, tensor<4xf32>
  return %7 : tensor<4xf32>
}

// -----

// 0.0447 is no number of 16 bits.
// CHECK-LABEL: @close_narrow
// CHECK-NOT: nn.gelu
func.func @close_narrow(%x: tensor<4xf32>) -> tensor<4xf32> attributes {nn.narrow_numbers} {
  %half = nn.constant dense<0.5> : tensor<f32>
  %three = nn.constant dense<3.0> : tensor<f32>
  %a = nn.constant dense<0.0447> : tensor<f32>
  %s = nn.constant dense<0.796875> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.mul %x, %half : tensor<4xf32>, tensor<f32>
  %1 = nn.pow %x, %three : tensor<4xf32>, tensor<f32>
  %2 = nn.mul %1, %a : tensor<4xf32>, tensor<f32>
  %3 = nn.add %x, %2 : tensor<4xf32>, tensor<4xf32>
  %4 = nn.mul %3, %s : tensor<4xf32>, tensor<f32>
  %5 = nn.tanh %4 : tensor<4xf32>
  %6 = nn.add %5, %one : tensor<4xf32>, tensor<f32>
  %7 = nn.mul %0, %6 : tensor<4xf32>, tensor<4xf32>
  return %7 : tensor<4xf32>
}
