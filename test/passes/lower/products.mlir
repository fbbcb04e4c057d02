// RUN: dt-opt %s --lower-nn-to-rt --cse | FileCheck %s

// CHECK-LABEL: rt.func @linear(
// CHECK: rt.matmul %arg0, %arg1 bias %arg2 to %arg3 {batch = #nn.dim<1>, k = #nn.dim<64>, m = #nn.dim<40*batch>, n = #nn.dim<128>, trans_b}
func.func @linear(%x: tensor<?x40x64xf32, #nn.dims<batch>>, %w: tensor<128x64xf32>, %b: tensor<128xf32>) -> tensor<?x40x128xf32, #nn.dims<batch>> {
  %0 = nn.linear %x, %w, %b : tensor<?x40x64xf32, #nn.dims<batch>>, tensor<128x64xf32>, tensor<128xf32>
  return %0 : tensor<?x40x128xf32, #nn.dims<batch>>
}

// CHECK-LABEL: rt.func @linear_dw(
// CHECK: rt.matmul %arg1, %arg0 to %arg2 {accumulate, batch = #nn.dim<1>, k = #nn.dim<80>, m = #nn.dim<128>, n = #nn.dim<64>, trans_a}
// CHECK: rt.matmul %arg0, %arg1 to %arg3 {batch = #nn.dim<1>, k = #nn.dim<80>, m = #nn.dim<64>, n = #nn.dim<128>, trans_a}
func.func @linear_dw(%x: tensor<2x40x64xf32>, %dy: tensor<2x40x128xf32>) -> (tensor<128x64xf32> {nn.param_grad}, tensor<64x128xf32>) {
  %0 = nn.linear_dw %x, %dy : tensor<2x40x64xf32>, tensor<2x40x128xf32>
  %1 = nn.linear_dw %x, %dy {in_out} : tensor<2x40x64xf32>, tensor<2x40x128xf32>
  return %0, %1 : tensor<128x64xf32>, tensor<64x128xf32>
}

// CHECK-LABEL: rt.func @matmul(
// CHECK: rt.matmul %arg0, %arg1 to %{{.*}} {batch = #nn.dim<8>, k = #nn.dim<16>, m = #nn.dim<40>, n = #nn.dim<40>, stride_a = #nn.dim<640>, stride_b = #nn.dim<640>, stride_c = #nn.dim<1600>, trans_b}
// One matrix on the right: the batch is rows.
// CHECK: rt.matmul %arg0, %arg2 to %{{.*}} {batch = #nn.dim<1>, k = #nn.dim<16>, m = #nn.dim<320>, n = #nn.dim<32>}
// Heads of a group share a matrix on the left that must be repeated.
// CHECK: rt.kernel @repeat
// CHECK: rt.matmul
func.func @matmul(%a: tensor<2x4x40x16xf32>, %b: tensor<2x4x40x16xf32>, %w: tensor<16x32xf32>, %g: tensor<2x1x40x40xf32>) -> (tensor<2x4x40x40xf32>, tensor<2x4x40x32xf32>, tensor<2x4x40x16xf32>) {
  %0 = nn.matmul %a, %b {trans_b} : tensor<2x4x40x16xf32>, tensor<2x4x40x16xf32>
  %1 = nn.matmul %a, %w : tensor<2x4x40x16xf32>, tensor<16x32xf32>
  %2 = nn.matmul %g, %b : tensor<2x1x40x40xf32>, tensor<2x4x40x16xf32>
  return %0, %1, %2 : tensor<2x4x40x40xf32>, tensor<2x4x40x32xf32>, tensor<2x4x40x16xf32>
}

// CHECK-LABEL: rt.func @conv(
// CHECK: rt.conv %arg0, %arg1 to %arg3 {c = 3 : i64
// CHECK-SAME: in = #nn.dims<32, 32>
// CHECK-SAME: n = #nn.dim<images>
// CHECK: rt.conv_dx %arg2, %arg1 to
// CHECK: rt.conv_dw %arg0, %arg2 to %arg5 {accumulate
func.func @conv(%x: tensor<?x3x32x32xf32, #nn.dims<images>>, %w: tensor<8x3x3x3xf32>, %dy: tensor<?x8x16x16xf32, #nn.dims<images>>) -> (tensor<?x8x16x16xf32, #nn.dims<images>>, tensor<?x3x32x32xf32, #nn.dims<images>>, tensor<8x3x3x3xf32> {nn.param_grad}) {
  %0 = nn.conv %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : tensor<?x3x32x32xf32, #nn.dims<images>>, tensor<8x3x3x3xf32>
  %1 = nn.conv_dx %dy, %w {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<?x8x16x16xf32, #nn.dims<images>>, tensor<8x3x3x3xf32>) -> tensor<?x3x32x32xf32, #nn.dims<images>>
  %2 = nn.conv_dw %x, %dy {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<?x3x32x32xf32, #nn.dims<images>>, tensor<?x8x16x16xf32, #nn.dims<images>>) -> tensor<8x3x3x3xf32>
  return %0, %1, %2 : tensor<?x8x16x16xf32, #nn.dims<images>>, tensor<?x3x32x32xf32, #nn.dims<images>>, tensor<8x3x3x3xf32>
}

// CHECK-LABEL: rt.func @attention(
// CHECK: rt.attention %arg0, %arg1, %arg2 mask %arg3 to %arg4, %arg5
// CHECK-SAME: b = #nn.dim<2>, causal, d = #nn.dim<16>, dv = #nn.dim<16>, empty_row = 0 : i32, h = #nn.dim<4>, hk = #nn.dim<2>
// CHECK-SAME: k_strides = #nn.dims<1280, 32, 16>, mask_strides = #nn.dims<40, 0, 0, 1>
// CHECK-SAME: q_strides = #nn.dims<2560, 64, 16>{{.*}} soft_cap = 2.000000e+00 : f64
// CHECK: rt.attention_grad{{.*}} soft_cap = 2.000000e+00 : f64
func.func @attention(%q: tensor<2x40x4x16xf32>, %k: tensor<2x40x2x16xf32>, %v: tensor<2x40x2x16xf32>, %m: tensor<2x1x1x40xi1>) -> (tensor<2x40x4x16xf32>, tensor<2x4x40xf32>, tensor<2x40x4x16xf32>) {
  %0, %1 = nn.attention %q, %k, %v mask %m {scale = 0.25 : f64, causal, empty_row = 0 : i32, soft_cap = 2.0 : f64} : tensor<2x40x4x16xf32>, tensor<2x40x2x16xf32>, tensor<2x40x2x16xf32>, tensor<2x1x1x40xi1>
  %dq, %dk, %dv = nn.attention_grad %q, %k, %v mask %m of %0, %1, %0 {scale = 0.25 : f64, causal, empty_row = 0 : i32, soft_cap = 2.0 : f64} : tensor<2x40x4x16xf32>, tensor<2x40x2x16xf32>, tensor<2x40x2x16xf32>, tensor<2x1x1x40xi1>, tensor<2x40x4x16xf32>, tensor<2x4x40xf32>, tensor<2x40x4x16xf32>
  return %0, %1, %dq : tensor<2x40x4x16xf32>, tensor<2x4x40xf32>, tensor<2x40x4x16xf32>
}

// CHECK-LABEL: rt.func @rotary(
// CHECK: rt.kernel @rotary [%{{.*}} < 2, %{{.*}} < 40, %{{.*}} < 4]
// Turned pairs, then what passes through.
// CHECK-COUNT-2: {rt.simd}
func.func @rotary(%x: tensor<2x40x4x16xf32>, %c: tensor<40x4xf32>, %s: tensor<40x4xf32>) -> tensor<2x40x4x16xf32> {
  %0 = nn.rotary %x, %c, %s {style = 0 : i32} : tensor<2x40x4x16xf32>, tensor<40x4xf32>, tensor<40x4xf32>
  return %0 : tensor<2x40x4x16xf32>
}
