// RUN: dt-opt %s --dt-differentiate --nn-split-backward --nn-verify-differentiated --split-input-file | FileCheck %s

// Products with weights give the input's gradient, products of gradients those of the weights. The activation is computed again in the
// weight half, its gradient is kept for it; a residual says which of @forward.fwd's it is. The first stage has only a weight half.
// CHECK-LABEL: dist.module @first
// CHECK-NOT: @forward.bwd.input
// CHECK: func.func @forward.bwd.weight(%{{.*}} {nn.name = "x"}, %{{.*}} {nn.gradient = #nn.gradient<of = "y", edge = "second.h">}) {
// CHECK-LABEL: dist.module @second
// CHECK: func.func @forward.bwd.input(%[[U:.*]]: tensor<2x8xf32> {nn.residual = 0 : i64}, %[[Y:.*]]: tensor<2x4xf32> {nn.residual = 1 : i64},
// CHECK-SAME: %{{.*}}: tensor<f32> {nn.gradient = #nn.gradient<of = "num", loss = "l">}) -> (tensor<2x4xf32> {nn.gradient = #nn.gradient<of = "h">}, tensor<2x8xf32> {nn.residual}, tensor<2x4xf32> {nn.residual})
// CHECK-NOT: nn.linear_dw
// CHECK: %[[V:.*]] = nn.read @v
// CHECK: nn.linear %{{.*}}, %[[V]] {in_out}
// CHECK: %[[DU:.*]] = nn.gelu_grad %[[U]]
// CHECK: %[[W:.*]] = nn.read @w
// CHECK: %[[DH:.*]] = nn.linear %[[DU]], %[[W]] {in_out}
// CHECK-NOT: nn.linear_dw
// CHECK: return %[[DH]], %[[DU]], %[[DH]]
// CHECK: func.func @forward.bwd.weight(%[[H:.*]]: tensor<2x4xf32> {nn.name = "h"}, %[[U:.*]]: tensor<2x8xf32> {nn.residual = 0 : i64}, %[[Y:.*]]: tensor<2x4xf32> {nn.residual = 1 : i64},
// CHECK-SAME: %[[DU:.*]]: tensor<2x8xf32> {nn.residual = 2 : i64}, %[[DH:.*]]: tensor<2x4xf32> {nn.residual = 3 : i64}, %{{.*}}: tensor<f32> {nn.gradient = #nn.gradient<of = "num", loss = "l">}) {
// CHECK: %[[G:.*]] = nn.gelu %[[U]]
// CHECK: %[[DV:.*]] = nn.linear_dw %[[G]]
// CHECK: nn.accumulate @v, %[[DV]]
// CHECK: %[[DW:.*]] = nn.linear_dw %{{.*}}, %[[DU]]
// CHECK: nn.accumulate @w, %[[DW]]
// CHECK: %[[DB:.*]] = nn.reduce sum %[[DH]]
// CHECK: nn.accumulate @b, %[[DB]]
// CHECK: return
dist.module @first attributes {split_backward} {
  nn.parameter @w : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w">
  func.func @forward(%x: tensor<2x4xf32> {nn.name = "x"}) -> (tensor<2x4xf32> {nn.name = "y"}) {
    %w = nn.read @w : tensor<4x4xf32>
    %0 = nn.linear %x, %w : tensor<2x4xf32>, tensor<4x4xf32>
    return %0 : tensor<2x4xf32>
  }
}
dist.module @second attributes {split_backward} {
  nn.parameter @w : tensor<8x4xf32> trainable from #nn.onnx<"n.onnx", "w">
  nn.parameter @v : tensor<4x8xf32> trainable from #nn.onnx<"n.onnx", "v">
  nn.parameter @b : tensor<4xf32> trainable from #nn.onnx<"n.onnx", "b">
  func.func @forward(%h: tensor<2x4xf32> {nn.name = "h"}) -> (tensor<f32> {nn.name = "num"}) {
    %w = nn.read @w : tensor<8x4xf32>
    %v = nn.read @v : tensor<4x8xf32>
    %b = nn.read @b : tensor<4xf32>
    %0 = nn.add %h, %b : tensor<2x4xf32>, tensor<4xf32>
    %1 = nn.linear %0, %w : tensor<2x4xf32>, tensor<8x4xf32>
    %2 = nn.gelu %1 : tensor<2x8xf32>
    %3 = nn.linear %2, %v : tensor<2x8xf32>, tensor<4x8xf32>
    %4 = nn.mul %3, %3 : tensor<2x4xf32>, tensor<2x4xf32>
    %5 = nn.reduce sum %4 {axes = array<i64: 0, 1>} : tensor<2x4xf32>
    return %5 : tensor<f32>
  }
}
dist.edge @first "y" to @second "h"
dist.loss "l" in @second numerator "num" weight 1.0

// -----

// Layers stay functions, each split once. The layer's input gradient is what its weight half needs for the bias: that half takes the
// result. A call of which the input half needs nothing stays whole. A module without the attribute is left alone.
// CHECK-LABEL: dist.module @m
// CHECK: func.func private @layer.bwd(
// CHECK: func.func private @layer.bwd.input({{.*}}) -> tensor<2x4xf32> {
// CHECK-NOT: nn.linear_dw
// CHECK: func.func private @layer.bwd.weight({{.*}}) -> (tensor<4x4xf32> {nn.param_grad}, tensor<4xf32> {nn.param_grad}) {
// CHECK-NOT: nn.linear %
// CHECK: func.func @forward.fwd(
// CHECK: func.func @forward.bwd.input(
// CHECK: %[[D1:.*]] = call @layer.bwd.input(
// CHECK: %[[D0:.*]] = call @layer.bwd.input(%{{.*}}, %[[D1]])
// CHECK: return %[[D0]], %[[D1]], %[[D0]]
// CHECK: func.func @forward.bwd.weight(
// CHECK-SAME: %[[D1:[a-z0-9]+]]: tensor<2x4xf32> {nn.residual = 2 : i64}, %[[D0:[a-z0-9]+]]: tensor<2x4xf32> {nn.residual = 3 : i64}
// CHECK: call @layer.bwd(
// CHECK: call @layer.bwd.weight({{.*}}, %[[D1]])
// CHECK: call @layer.bwd.weight({{.*}}, %[[D1]], %[[D0]])
// CHECK-LABEL: dist.module @before
// CHECK: func.func @forward.bwd(
dist.module @m attributes {split_backward} {
  nn.parameter @w0 : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w0">
  nn.parameter @w1 : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w1">
  nn.parameter @b : tensor<4xf32> trainable from #nn.onnx<"m.onnx", "b">
  func.func private @layer(%x: tensor<2x4xf32>, %w: tensor<4x4xf32>, %b: tensor<4xf32>) -> tensor<2x4xf32> {
    %0 = nn.add %x, %b : tensor<2x4xf32>, tensor<4xf32>
    %1 = nn.linear %0, %w : tensor<2x4xf32>, tensor<4x4xf32>
    return %1 : tensor<2x4xf32>
  }
  func.func @forward(%x: tensor<2x4xf32> {nn.name = "x"}, %u: tensor<2x4xf32> {nn.name = "u"}) -> (tensor<f32> {nn.name = "num"}) {
    %w0 = nn.read @w0 : tensor<4x4xf32>
    %w1 = nn.read @w1 : tensor<4x4xf32>
    %b = nn.read @b : tensor<4xf32>
    %0 = func.call @layer(%x, %w0, %b) : (tensor<2x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %1 = func.call @layer(%0, %w1, %b) : (tensor<2x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %2 = nn.linear %u, %w0 : tensor<2x4xf32>, tensor<4x4xf32>
    %3 = func.call @layer(%2, %w1, %b) : (tensor<2x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %4 = nn.add %1, %3 : tensor<2x4xf32>, tensor<2x4xf32>
    %5 = nn.reduce sum %4 {axes = array<i64: 0, 1>} : tensor<2x4xf32>
    return %5 : tensor<f32>
  }
}
dist.module @before {
  nn.parameter @w : tensor<4xf32> trainable from #nn.onnx<"a.onnx", "w">
  func.func @forward(%x: tensor<2x4xf32> {nn.name = "x"}) -> (tensor<2x4xf32> {nn.name = "y"}) {
    %w = nn.read @w : tensor<4xf32>
    %0 = nn.add %x, %w : tensor<2x4xf32>, tensor<4xf32>
    return %0 : tensor<2x4xf32>
  }
}
dist.edge @before "y" to @m "x"
dist.loss "l" in @m numerator "num" weight 1.0

// -----

// A frozen module only passes gradients on.
// CHECK-LABEL: dist.module @frozen
// CHECK: func.func @forward.bwd.input({{.*}}nn.residual = 0 : i64{{.*}}) -> (tensor<2x4xf32> {nn.gradient = #nn.gradient<of = "x">}) {
// CHECK-NOT: @forward.bwd.weight
// CHECK-LABEL: dist.module @before
dist.module @frozen attributes {split_backward} {
  nn.parameter @w : tensor<4x4xf32> from #nn.onnx<"m.onnx", "w">
  func.func @forward(%x: tensor<2x4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "num"}) {
    %w = nn.read @w : tensor<4x4xf32>
    %0 = nn.linear %x, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %1 = nn.gelu %0 : tensor<2x4xf32>
    %2 = nn.reduce sum %1 {axes = array<i64: 0, 1>} : tensor<2x4xf32>
    return %2 : tensor<f32>
  }
}
dist.module @before {
  nn.parameter @w : tensor<4xf32> trainable from #nn.onnx<"a.onnx", "w">
  func.func @forward(%x: tensor<2x4xf32> {nn.name = "x"}) -> (tensor<2x4xf32> {nn.name = "y"}) {
    %w = nn.read @w : tensor<4xf32>
    %0 = nn.add %x, %w : tensor<2x4xf32>, tensor<4xf32>
    return %0 : tensor<2x4xf32>
  }
}
dist.edge @before "y" to @frozen "x"
dist.loss "l" in @frozen numerator "num" weight 1.0
