// RUN: dt-opt %s --dt-differentiate --split-input-file | FileCheck %s

// Three calls of one layer. The input wants no gradient, so the first call has a variant of its own; the last has a frozen weight. A tap
// leaves after the first. The weight is used twice inside: two gradients, never added by an op.
// CHECK-LABEL: dist.module @m
// CHECK: nn.parameter @unused : {{.*}} {no_gradient}
// CHECK-NOT: func.func private @layer(
// CHECK: func.func private @layer.3.fwd(
// CHECK: func.func private @layer.3.bwd({{.*}}) -> (tensor<4x4xf32> {nn.param_grad}, tensor<4x4xf32> {nn.param_grad})
// CHECK: func.func private @layer.2.fwd(
// CHECK: func.func private @layer.2.bwd({{.*}}) -> (tensor<2x4xf32>, tensor<4x4xf32> {nn.param_grad}, tensor<4x4xf32> {nn.param_grad})
// CHECK: func.func private @layer.fwd(
// CHECK: func.func private @layer.bwd({{.*}}) -> tensor<2x4xf32>
// CHECK-LABEL: func.func @forward.fwd
// CHECK: %[[A:.*]]:2 = call @layer.3.fwd(
// CHECK: %[[B:.*]]:2 = call @layer.2.fwd(%[[A]]#0
// CHECK: %[[C:.*]]:2 = call @layer.fwd(%[[B]]#0
// CHECK: return %[[A]]#0, %{{.*}}, %[[A]]#1, %[[B]]#1, %[[C]]#1
// CHECK-LABEL: func.func @forward.bwd(
// CHECK-SAME: %[[X:.*]]: tensor<2x4xf32> {nn.name = "x"}
// CHECK-SAME: %[[TAP:arg[0-9]+]]: tensor<2x4xf32> {nn.gradient = #nn.gradient<of = "tap", edge = "next.h">}
// CHECK-SAME: %[[SEED:.*]]: tensor<f32> {nn.gradient = #nn.gradient<of = "num", loss = "l">}
// CHECK: %[[DC:.*]] = call @layer.bwd
// CHECK: %[[DB:.*]]:3 = call @layer.2.bwd({{.*}}%[[DC]])
// CHECK: nn.accumulate @w1, %[[DB]]#1
// CHECK: nn.accumulate @w1, %[[DB]]#2
// CHECK: %[[SUM:.*]] = nn.add %[[TAP]], %[[DB]]#0
// CHECK: %[[DA:.*]]:2 = call @layer.3.bwd(%[[X]]{{.*}}%[[SUM]])
// CHECK: nn.accumulate @w0, %[[DA]]#0
// CHECK: nn.accumulate @w0, %[[DA]]#1
dist.module @m {
  nn.parameter @w0 : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w0">
  nn.parameter @w1 : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w1">
  nn.parameter @frozen : tensor<4x4xf32> from #nn.onnx<"m.onnx", "frozen">
  nn.parameter @unused : tensor<4xf32> trainable from #nn.onnx<"m.onnx", "unused">
  func.func private @layer(%x: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> tensor<2x4xf32> {
    %0 = nn.linear %x, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %1 = nn.gelu %0 : tensor<2x4xf32>
    %2 = nn.linear %1, %w : tensor<2x4xf32>, tensor<4x4xf32>
    return %2 : tensor<2x4xf32>
  }
  func.func @forward(%x: tensor<2x4xf32> {nn.name = "x"}) -> (tensor<2x4xf32> {nn.name = "tap"}, tensor<f32> {nn.name = "num"}) {
    %w0 = nn.read @w0 : tensor<4x4xf32>
    %w1 = nn.read @w1 : tensor<4x4xf32>
    %w2 = nn.read @frozen : tensor<4x4xf32>
    %u = nn.read @unused : tensor<4xf32>
    %0 = func.call @layer(%x, %w0) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %1 = func.call @layer(%0, %w1) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %2 = func.call @layer(%1, %w2) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %3 = nn.reduce sum %2 {axes = array<i64: 0, 1>} : tensor<2x4xf32>
    return %0, %3 : tensor<2x4xf32>, tensor<f32>
  }
}
dist.module @next {
  func.func @forward(%h: tensor<2x4xf32> {nn.name = "h"}) -> (tensor<f32> {nn.name = "num"}) {
    %0 = nn.reduce sum %h {axes = array<i64: 0, 1>} : tensor<2x4xf32>
    return %0 : tensor<f32>
  }
}
// CHECK-LABEL: dist.module @next
// CHECK: func.func @forward.bwd({{.*}}) -> (tensor<2x4xf32> {nn.gradient = #nn.gradient<of = "h">})
dist.edge @m "tap" to @next "h"
dist.loss "l" in @m numerator "num" weight 1.0
dist.loss "k" in @next numerator "num" weight 1.0

// -----

// A tied weight: one read each use is merged, each contribution is added where gradients are added. A frozen module has no backward
// function, an integer input no gradient.
// CHECK-LABEL: dist.module @frozen
// CHECK: func.func @forward.fwd
// CHECK-NOT: .bwd
// CHECK-LABEL: dist.module @tied
// CHECK-LABEL: func.func @forward.bwd(
// CHECK: %[[DW:.*]] = nn.linear_dw
// CHECK: nn.accumulate @wte, %[[DW]]
// CHECK: %[[DE:.*]] = nn.gather_grad
// CHECK: nn.accumulate @wte, %[[DE]]
// CHECK: return
dist.module @frozen {
  nn.parameter @w : tensor<4xf32> from #nn.onnx<"m.onnx", "w">
  func.func @forward(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
    %w = nn.read @w : tensor<4xf32>
    %0 = nn.mul %x, %w : tensor<4xf32>, tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
dist.module @tied {
  nn.parameter @wte : tensor<7x4xf32> trainable from #nn.onnx<"m.onnx", "wte">
  func.func @forward(%ids: tensor<5xi64> {nn.name = "ids"}, %labels: tensor<5xi64> {nn.name = "labels"}, %s: tensor<4xf32> {nn.name = "s"}) -> (tensor<f32> {nn.name = "num"}) {
    %w = nn.read @wte : tensor<7x4xf32>
    %w2 = nn.read @wte : tensor<7x4xf32>
    %0 = nn.gather %w at %ids {axis = 0 : i64} : tensor<7x4xf32>, tensor<5xi64>
    %1 = nn.mul %0, %s : tensor<5x4xf32>, tensor<4xf32>
    %2 = nn.linear %1, %w2 : tensor<5x4xf32>, tensor<7x4xf32>
    %3 = nn.cross_entropy %2, %labels {ignore_index = -100 : i64} : tensor<5x7xf32>, tensor<5xi64>
    %4 = nn.reduce sum %3 {axes = array<i64: 0>} : tensor<5xf32>
    return %4 : tensor<f32>
  }
}
dist.edge @frozen "y" to @tied "s"
dist.loss "l" in @tied numerator "num" weight 1.0

// -----

// A layer in a layer, and a parameter that is changed on its way into a call: its gradient is changed back before it is added.
// CHECK-LABEL: dist.module @nested
// CHECK: func.func private @outer.bwd({{.*}}) -> (tensor<4x4xf32> {nn.param_grad}, tensor<4x4xf32>)
// CHECK: %[[G:.*]] = call @inner.{{.*}}bwd
// CHECK: return
// CHECK-LABEL: func.func @forward.bwd(
// CHECK: %[[D:.*]]:2 = call @outer.bwd
// CHECK: nn.accumulate @w, %[[D]]#0
// CHECK: %[[T:.*]] = nn.transpose %[[D]]#1
// CHECK: nn.accumulate @v, %[[T]]
dist.module @nested {
  nn.parameter @w : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w">
  nn.parameter @v : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "v">
  func.func private @inner(%x: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> tensor<2x4xf32> {
    %0 = nn.linear %x, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %1 = nn.tanh %0 : tensor<2x4xf32>
    return %1 : tensor<2x4xf32>
  }
  func.func private @outer(%x: tensor<2x4xf32>, %w: tensor<4x4xf32>, %v: tensor<4x4xf32>) -> tensor<2x4xf32> {
    %0 = func.call @inner(%x, %w) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %1 = func.call @inner(%0, %v) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    return %1 : tensor<2x4xf32>
  }
  func.func @forward(%x: tensor<2x4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "num"}) {
    %w = nn.read @w : tensor<4x4xf32>
    %v = nn.read @v : tensor<4x4xf32>
    %t = nn.transpose %v [1, 0] : tensor<4x4xf32>
    %0 = func.call @outer(%x, %w, %t) : (tensor<2x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %1 = nn.reduce sum %0 {axes = array<i64: 0, 1>} : tensor<2x4xf32>
    return %1 : tensor<f32>
  }
}
dist.loss "l" in @nested numerator "num" weight 1.0
