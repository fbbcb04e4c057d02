// RUN: dt-opt %s --lower-nn-to-rt --cse --rt-plan-memory --rt-verify-lowered | FileCheck %s

// bf16 is stored only: kernels load and store f32. `stored` is what an operator
// keeps of its result where that is not what its operands have.

// CHECK-LABEL: rt.func @products(
// CHECK: rt.matmul %arg0, %arg1 bias %arg2 to %arg4 {{.*}} : !rt.buffer<bf16, [8, 64]>, !rt.buffer<bf16, [128, 64]>, !rt.buffer<f32, [128]>, !rt.buffer<bf16, [8, 128]>
// CHECK: rt.matmul %arg3, %arg0 to %arg5 {accumulate, {{.*}} : !rt.buffer<bf16, [8, 128]>, !rt.buffer<bf16, [8, 64]>, !rt.buffer<f32, [128, 64]>
// CHECK: rt.matmul %arg3, %arg1 to %arg6 {{.*}} : !rt.buffer<bf16, [8, 128]>, !rt.buffer<bf16, [128, 64]>, !rt.buffer<f32, [8, 64]>
func.func @products(%x: tensor<8x64xbf16>, %w: tensor<128x64xbf16>, %b: tensor<128xf32>, %dy: tensor<8x128xbf16>) -> (tensor<8x128xbf16>, tensor<128x64xf32> {nn.param_grad}, tensor<8x64xf32>) {
  %0 = nn.linear %x, %w, %b : tensor<8x64xbf16>, tensor<128x64xbf16>, tensor<128xf32>
  %1 = nn.linear_dw %dy, %dy {stored = f32} : tensor<8x128xbf16>, tensor<8x128xbf16>
  %2 = nn.linear_dw %x, %dy {stored = f32} : tensor<8x64xbf16>, tensor<8x128xbf16>
  %3 = nn.matmul %dy, %w {stored = f32} : tensor<8x128xbf16>, tensor<128x64xbf16>
  return %0, %2, %3 : tensor<8x128xbf16>, tensor<128x64xf32>, tensor<8x64xf32>
}

// Rounded once, whatever is done in between.
// CHECK-LABEL: rt.func @fused(
// CHECK: rt.kernel @fused [%[[I:.*]] < 512]
// CHECK: %[[X:.*]] = rt.load %{{.*}}[%[[I]]] : !rt.buffer<bf16, [512]>
// CHECK: %[[R:.*]] = rt.load %{{.*}}[%[[I]]] : !rt.buffer<f32, [512]>
// CHECK: %[[S:.*]] = arith.addf %[[X]], %[[R]] : f32
// CHECK: rt.store %[[S]], %{{.*}} : !rt.buffer<bf16, [512]>
// CHECK: rt.kernel @cast
// CHECK: %[[Y:.*]] = rt.load %{{.*}} : !rt.buffer<bf16, [512]>
// CHECK-NEXT: rt.store %[[Y]], %{{.*}} : !rt.buffer<f32, [512]>
func.func @fused(%x: tensor<8x64xbf16>, %r: tensor<8x64xf32>) -> (tensor<8x64xbf16>, tensor<8x64xf32>) {
  %0 = nn.fused %x, %r : (tensor<8x64xbf16>, tensor<8x64xf32>) -> tensor<8x64xbf16> {
  ^bb0(%a: f32, %b: f32):
    %2 = arith.addf %a, %b : f32
    nn.yield %2 : f32
  }
  %1 = nn.cast %x : tensor<8x64xbf16> to tensor<8x64xf32>
  return %0, %1 : tensor<8x64xbf16>, tensor<8x64xf32>
}

// Statistics are f32, as all that is summed.
// CHECK-LABEL: rt.func @norms(
// CHECK: rt.kernel @layer_norm
// CHECK: arith.divf %{{.*}} : f32
// CHECK: rt.store %{{.*}} : !rt.buffer<bf16, [8, 64]>
// CHECK: rt.kernel @layer_norm_dscale_statistics
// CHECK: rt.store %{{.*}} : !rt.buffer<f32, [8]>
// CHECK: rt.kernel @layer_norm_dscale
// CHECK: rt.load %{{.*}} : !rt.buffer<bf16, [8, 64]>
// CHECK: rt.store %{{.*}} : !rt.buffer<f32, [64]>
func.func @norms(%x: tensor<8x64xf32>, %s: tensor<64xf32>, %b: tensor<64xf32>, %dy: tensor<8x64xbf16>) -> (tensor<8x64xbf16>, tensor<64xf32> {nn.param_grad}) {
  %0 = nn.layer_norm %x scale %s bias %b {eps = 1.0e-5, axes = 1, stored = bf16} : tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>
  %1 = nn.layer_norm_dscale %0, %dy {eps = 1.0e-5, axes = 1, stored = f32} : tensor<8x64xbf16>, tensor<8x64xbf16>
  return %0, %1 : tensor<8x64xbf16>, tensor<64xf32>
}

// What has been stored is read again in f32 only: here nothing is.
// CHECK-LABEL: rt.func @softmax(
// CHECK: rt.kernel @softmax
// CHECK: math.exp
// CHECK-NOT: rt.store
// CHECK: math.exp
// CHECK: rt.store %{{.*}} : !rt.buffer<bf16, [8, 64]>
// CHECK-NOT: rt.load %{{.*}} : !rt.buffer<bf16
// CHECK: rt.func
func.func @softmax(%x: tensor<8x64xf32>) -> tensor<8x64xbf16> {
  %0 = nn.softmax %x {axis = -1 : i64, stored = bf16} : tensor<8x64xf32>
  return %0 : tensor<8x64xbf16>
}

// CHECK-SAME: @cross_entropy(
// CHECK: rt.kernel @cross_entropy
// CHECK: rt.load %{{.*}} : !rt.buffer<bf16, [8, 64]>
// CHECK: rt.store %{{.*}} : !rt.buffer<f32, [8]>
// The difference to the label is taken before it is rounded.
// CHECK: rt.kernel @cross_entropy_grad
// CHECK: %[[TAKEN:.*]] = arith.select
// CHECK: %[[D:.*]] = arith.subf %{{.*}}, %[[TAKEN]] : f32
// CHECK-NEXT: rt.store %[[D]], %{{.*}} : !rt.buffer<bf16, [8, 64]>
func.func @cross_entropy(%x: tensor<8x64xbf16>, %l: tensor<8xi64>, %dy: tensor<8xf32>) -> (tensor<8xf32>, tensor<8x64xbf16>) {
  %0 = nn.cross_entropy %x, %l {ignore_index = -100 : i64, stored = f32} : tensor<8x64xbf16>, tensor<8xi64>
  %1 = nn.cross_entropy_grad %x, %l, %dy {ignore_index = -100 : i64} : tensor<8x64xbf16>, tensor<8xi64>, tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8x64xbf16>
}

// What is added to is f32, and rounded behind the kernel.
// CHECK-LABEL: rt.func @sums(
// CHECK: %[[SUMS:.*]] = rt.alloc "sums" {{.*}}<f32, [64]>
// CHECK: rt.kernel @reduce [%{{.*}}] ({{.*}} = %[[SUMS]] : !rt.buffer<f32, [64]>
// CHECK: rt.kernel @convert
// CHECK: rt.store %{{.*}} : !rt.buffer<bf16, [64]>
// CHECK: %[[SUMS:.*]] = rt.alloc "sums" {{.*}}<f32, [512, 64]>
// CHECK: rt.kernel @gather_grad {{.*}} = %[[SUMS]]
// CHECK: rt.kernel @convert
// CHECK: %[[SUMS:.*]] = rt.alloc "sums" {{.*}}<f32, [8, 64]>
// CHECK: rt.kernel @convert {{.*}} = %[[SUMS]]
// CHECK: rt.kernel @scatter_nd {{.*}} = %[[SUMS]]
// CHECK: rt.kernel @convert
// Along rows nothing is read again.
// CHECK-NOT: rt.alloc
// CHECK: rt.kernel @reduce
// CHECK: rt.store %{{.*}} : !rt.buffer<bf16, [8]>
func.func @sums(%x: tensor<8x64xbf16>, %i: tensor<8xi64>, %t: tensor<4x1xi64>, %u: tensor<4x64xbf16>) -> (tensor<64xbf16>, tensor<512x64xbf16>, tensor<8x64xbf16>, tensor<8xbf16>) {
  %0 = nn.reduce sum %x {axes = array<i64: 0>} : tensor<8x64xbf16>
  %1 = nn.gather_grad %x at %i {axis = 0 : i64} : (tensor<8x64xbf16>, tensor<8xi64>) -> tensor<512x64xbf16>
  %2 = nn.scatter_nd add %x at %t, %u : tensor<8x64xbf16>, tensor<4x1xi64>, tensor<4x64xbf16>
  %3 = nn.reduce mean %x {axes = array<i64: 1>} : tensor<8x64xbf16>
  return %0, %1, %2, %3 : tensor<64xbf16>, tensor<512x64xbf16>, tensor<8x64xbf16>, tensor<8xbf16>
}

// To a gradient in bf16 rows of one index are added together, from an order by index: a buffer of a row, not of the table.
// CHECK-LABEL: rt.func @table(
// CHECK-SAME: %[[DT:[a-z0-9]+]]: !rt.buffer<bf16, [512, 64]> {rt.access = "inout"}
// CHECK: %[[ORDER:.*]] = rt.alloc "order" {{.*}}<i32, [8]>
// CHECK: rt.kernel @"order of gather_grad" [%{{.*}} < 8]
// CHECK: %[[SUMS:.*]] = rt.alloc "sums" {{.*}}<f32, [1, 64]>
// CHECK: rt.kernel @gather_grad {{.*}} = %[[DT]]
// CHECK-NOT: rt.kernel
func.func @table(%x: tensor<8x64xbf16>, %i: tensor<8xi64>) -> (tensor<512x64xbf16> {nn.param_grad}) {
  %0 = nn.gather_grad %x at %i {axis = 0 : i64} : (tensor<8x64xbf16>, tensor<8xi64>) -> tensor<512x64xbf16>
  return %0 : tensor<512x64xbf16>
}

// What is moved only is as it was.
// CHECK-LABEL: rt.func @moved(
// CHECK: rt.kernel @gather
// CHECK: %[[V:.*]] = rt.load %{{.*}} : !rt.buffer<bf16
// CHECK-NEXT: rt.store %[[V]]
// CHECK: rt.kernel @transpose
// CHECK: %[[V:.*]] = rt.load %{{.*}} : !rt.buffer<bf16
// CHECK-NEXT: rt.store %[[V]]
// CHECK: rt.view %arg0 {offset = #nn.dim<192>} : <bf16, [512, 64]> to <bf16, [2, 64]>
func.func @moved(%t: tensor<512x64xbf16>, %i: tensor<8xi64>) -> (tensor<8x64xbf16>, tensor<64x512xbf16>, tensor<2x64xbf16>) {
  %0 = nn.gather %t at %i {axis = 0 : i64} : tensor<512x64xbf16>, tensor<8xi64>
  %1 = nn.transpose %t [1, 0] : tensor<512x64xbf16>
  %2 = nn.slice %t [3, 0] step [1, 1] {from_end = array<i1>} : tensor<512x64xbf16> to tensor<2x64xbf16>
  return %0, %1, %2 : tensor<8x64xbf16>, tensor<64x512xbf16>, tensor<2x64xbf16>
}

// A view in another type is a copy.
// CHECK-LABEL: rt.func @stored(
// CHECK: rt.kernel @convert
// CHECK: rt.load %{{.*}} : !rt.buffer<bf16
// CHECK: rt.store %{{.*}} : !rt.buffer<f32
func.func @stored(%x: tensor<1x8x64xbf16>) -> tensor<8x64xf32> {
  %0 = nn.reduce sum %x {axes = array<i64: 0>, stored = f32} : tensor<1x8x64xbf16>
  return %0 : tensor<8x64xf32>
}
