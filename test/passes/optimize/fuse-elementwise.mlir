// RUN: dt-opt %s --nn-fuse-elementwise --nn-verify-optimized | FileCheck %s

// CHECK-LABEL: func.func @gated(
// CHECK: %[[F:.*]] = nn.fused %arg0, %arg1 {kernel = "silu_mul"}
// CHECK: math.exp
// CHECK: nn.yield %{{.*}} : f32
// CHECK-NOT: nn.fused
func.func @gated(%g: tensor<80x128xf32>, %u: tensor<80x128xf32>) -> tensor<80x128xf32> {
  %0 = nn.silu %g : tensor<80x128xf32>
  %1 = nn.mul %0, %u : tensor<80x128xf32>, tensor<80x128xf32>
  return %1 : tensor<80x128xf32>
}

// A producer that others use too becomes a second result.
// CHECK-LABEL: func.func @two_results(
// CHECK: %[[F:.*]]:2 = nn.fused %arg0
// CHECK: return %[[F]]#0, %[[F]]#1
func.func @two_results(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = nn.exp %x : tensor<8xf32>
  %1 = nn.neg %0 : tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// Broadcasts and splats disappear into the body.
// CHECK-LABEL: func.func @repeated(
// CHECK: nn.fused %arg0, %arg1 {kernel = "mul_add"} : (tensor<80x64xf32>, tensor<64xf32>)
// CHECK: arith.constant 2.000000e+00 : f32
// CHECK-NOT: nn.broadcast
func.func @repeated(%x: tensor<80x64xf32>, %b: tensor<64xf32>) -> tensor<80x64xf32> {
  %two = nn.constant dense<2.0> : tensor<f32>
  %0 = nn.broadcast %b : tensor<64xf32> to tensor<80x64xf32>
  %1 = nn.mul %x, %two : tensor<80x64xf32>, tensor<f32>
  %2 = nn.add %1, %0 : tensor<80x64xf32>, tensor<80x64xf32>
  return %2 : tensor<80x64xf32>
}

// The sum needs the first exp and feeds the division: one op cannot run before
// and after it.
// CHECK-LABEL: func.func @path_outside(
// CHECK: nn.fused %arg0 {kernel = "exp"}
// CHECK: nn.reduce
// CHECK: nn.fused %{{.*}}, %{{.*}} {kernel = "div"}
func.func @path_outside(%x: tensor<80x64xf32>) -> tensor<80x64xf32> {
  %0 = nn.exp %x : tensor<80x64xf32>
  %1 = nn.reduce sum %0 {axes = array<i64: 1>, keepdims} : tensor<80x64xf32>
  %2 = nn.div %0, %1 : tensor<80x64xf32>, tensor<80x1xf32>
  return %2 : tensor<80x64xf32>
}

// Another shape is another kernel.
// CHECK-LABEL: func.func @shapes(
// CHECK: nn.fused {{.*}} "neg"
// CHECK: nn.fused {{.*}} "add"
func.func @shapes(%x: tensor<80x64xf32>, %b: tensor<64xf32>) -> tensor<80x64xf32> {
  %0 = nn.neg %b : tensor<64xf32>
  %1 = nn.add %x, %0 : tensor<80x64xf32>, tensor<64xf32>
  return %1 : tensor<80x64xf32>
}

// A user between the members moves behind the group.
// CHECK-LABEL: func.func @between(
// CHECK: %[[F:.*]]:2 = nn.fused %arg0, %arg1
// CHECK: nn.transpose %[[F]]#0
func.func @between(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = nn.exp %x : tensor<4x4xf32>
  %1 = nn.transpose %0 [1, 0] : tensor<4x4xf32>
  %2 = nn.mul %0, %y : tensor<4x4xf32>, tensor<4x4xf32>
  return %1, %2 : tensor<4x4xf32>, tensor<4x4xf32>
}

// It comes right behind the group, ahead of what stood further down.
// CHECK-LABEL: func.func @behind(
// CHECK: %[[F:.*]]:2 = nn.fused
// CHECK-NEXT: ^bb0
// CHECK: }
// CHECK-NEXT: nn.transpose %[[F]]#0
// CHECK-NEXT: nn.softmax %[[F]]#1
func.func @behind(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = nn.exp %x : tensor<4x4xf32>
  %1 = nn.transpose %0 [1, 0] : tensor<4x4xf32>
  %2 = nn.mul %0, %y : tensor<4x4xf32>, tensor<4x4xf32>
  %3 = nn.softmax %2 {axis = 1 : i64} : tensor<4x4xf32>
  return %1, %3 : tensor<4x4xf32>, tensor<4x4xf32>
}

// What reads the same tensor is one op although neither uses the other.
// CHECK-LABEL: func.func @readers(
// CHECK: nn.fused {{.*}} "gelu_gelu_grad"
// CHECK-NOT: nn.fused
func.func @readers(%x: tensor<80x64xf32>, %g: tensor<80x64xf32>) -> (tensor<80x64xf32>, tensor<80x64xf32>) {
  %0 = nn.gelu %x : tensor<80x64xf32>
  %1 = nn.gelu_grad %x, %g : tensor<80x64xf32>, tensor<80x64xf32>
  return %0, %1 : tensor<80x64xf32>, tensor<80x64xf32>
}

// What is stored narrow is widened by each that takes it: between the sums is
// a norm, and nothing wide is stored.
// CHECK-LABEL: func.func @widened(
// CHECK: %[[F:.*]] = nn.fused %arg0, %arg1 {{.*}} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xbf16>
// CHECK: %[[N:.*]] = nn.rms_norm %[[F]]
// CHECK: nn.fused %[[F]], %[[N]] {{.*}} : (tensor<2x4xbf16>, tensor<2x4xf32>) -> tensor<2x4xf32>
func.func @widened(%x: tensor<2x4xf32>, %y: tensor<2x4xf32>, %g: tensor<4xf32>) -> tensor<2x4xf32> {
  %s = nn.add %x, %y : tensor<2x4xf32>, tensor<2x4xf32>
  %n = nn.cast %s : tensor<2x4xf32> to tensor<2x4xbf16>
  %w = nn.cast %n : tensor<2x4xbf16> to tensor<2x4xf32>
  %r = nn.rms_norm %n scale %g {eps = 1.0e-6 : f64, stored = f32} : tensor<2x4xbf16>, tensor<4xf32>
  %t = nn.add %w, %r : tensor<2x4xf32>, tensor<2x4xf32>
  return %t : tensor<2x4xf32>
}

// What attentions to parts of the keys give is added as they come, and what else is computed from the sum with the last one.
// CHECK-LABEL: func.func @parts(
// CHECK: nn.attention
// CHECK: nn.attention
// CHECK-NEXT: nn.fused {{.*}} {kernel = "add"}
// CHECK: nn.attention
// CHECK-NEXT: nn.fused {{.*}} {kernel = "add_exp"}
// CHECK-NOT: nn.fused
func.func @parts(%q: tensor<2x4x4x8xf32>, %k: tensor<2x4x4x8xf32>, %l: tensor<2x4x4x8xf32>, %m: tensor<2x4x4x8xf32>) -> tensor<2x4x4x8xf32> {
  %0, %a = nn.attention %q, %k, %k {partial, empty_row = 1 : i32, scale = 0.5 : f64} : tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>
  %1, %b = nn.attention %q, %l, %l {partial, empty_row = 1 : i32, scale = 0.5 : f64} : tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>
  %2 = nn.add %0, %1 : tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>
  %3, %c = nn.attention %q, %m, %m {partial, empty_row = 1 : i32, scale = 0.5 : f64} : tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>
  %4 = nn.add %2, %3 : tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>
  %5 = nn.exp %4 : tensor<2x4x4x8xf32>
  return %5 : tensor<2x4x4x8xf32>
}
