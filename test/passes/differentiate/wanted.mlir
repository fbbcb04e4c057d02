// RUN: dt-opt %s --pass-pipeline="builtin.module(dist-mark-wanted)" --split-input-file | FileCheck %s

// A trained encoder, a frozen model between, a trained generator: the frozen one passes a gradient back and needs none of its own; what
// goes into it from data wants none.
// CHECK-LABEL: dist.module @enc
// CHECK: func.func @forward(%{{.*}}: tensor<2x4xf32> {nn.name = "pixels"}) -> (tensor<2x4xf32> {nn.gradients = [#nn.gradient<edge = "mid.image">], nn.name = "image"})
// CHECK-LABEL: dist.module @mid
// CHECK: func.func @forward(%{{.*}}: tensor<2x4xf32> {nn.name = "image", nn.wants_grad}, %{{.*}}: tensor<2x4xf32> {nn.name = "text"})
// CHECK-SAME: tensor<2x4xf32> {nn.gradients = [#nn.gradient<edge = "gen.h">], nn.name = "h"}, tensor<f32> {nn.gradients = [#nn.gradient<loss = "text">], nn.name = "num"}
// CHECK-LABEL: dist.module @gen
// CHECK: func.func @forward(%{{.*}}: tensor<2x4xf32> {nn.name = "h", nn.wants_grad})
dist.module @enc {
  nn.parameter @w : tensor<4x4xf32> trainable from #nn.onnx<"e.onnx", "w">
  func.func @forward(%x: tensor<2x4xf32> {nn.name = "pixels"}) -> (tensor<2x4xf32> {nn.name = "image"}) {
    %w = nn.read @w : tensor<4x4xf32>
    %0 = nn.linear %x, %w : tensor<2x4xf32>, tensor<4x4xf32>
    return %0 : tensor<2x4xf32>
  }
}
dist.module @mid {
  nn.parameter @w : tensor<4x4xf32> from #nn.onnx<"m.onnx", "w">
  func.func @forward(%x: tensor<2x4xf32> {nn.name = "image"}, %t: tensor<2x4xf32> {nn.name = "text"}) -> (tensor<2x4xf32> {nn.name = "h"}, tensor<f32> {nn.name = "num"}) {
    %w = nn.read @w : tensor<4x4xf32>
    %0 = nn.add %x, %t : tensor<2x4xf32>, tensor<2x4xf32>
    %1 = nn.linear %0, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %2 = nn.reduce sum %1 {axes = array<i64: 0, 1>} : tensor<2x4xf32>
    return %1, %2 : tensor<2x4xf32>, tensor<f32>
  }
}
dist.module @gen {
  nn.parameter @w : tensor<4x4xf32> trainable from #nn.onnx<"g.onnx", "w">
  func.func @forward(%x: tensor<2x4xf32> {nn.name = "h"}) -> (tensor<f32> {nn.name = "num"}) {
    %w = nn.read @w : tensor<4x4xf32>
    %0 = nn.linear %x, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %1 = nn.reduce sum %0 {axes = array<i64: 0, 1>} : tensor<2x4xf32>
    return %1 : tensor<f32>
  }
}
dist.edge @enc "image" to @mid "image"
dist.edge @mid "h" to @gen "h"
dist.loss "text" in @mid numerator "num" weight 1.0
dist.loss "pixels" in @gen numerator "num" weight 1.0

// -----

// A frozen encoder has no gradients at all, though a loss is downstream.
// CHECK-LABEL: dist.module @enc
// CHECK-NOT: nn.gradients
// CHECK-LABEL: dist.module @head
// CHECK-NOT: nn.wants_grad
// CHECK: nn.gradients = [#nn.gradient<loss = "l">]
dist.module @enc {
  nn.parameter @w : tensor<4x4xf32> from #nn.onnx<"e.onnx", "w">
  func.func @forward(%x: tensor<2x4xf32> {nn.name = "pixels"}) -> (tensor<2x4xf32> {nn.name = "image"}) {
    %w = nn.read @w : tensor<4x4xf32>
    %0 = nn.linear %x, %w : tensor<2x4xf32>, tensor<4x4xf32>
    return %0 : tensor<2x4xf32>
  }
}
dist.module @head {
  nn.parameter @w : tensor<4x4xf32> trainable from #nn.onnx<"h.onnx", "w">
  func.func @forward(%x: tensor<2x4xf32> {nn.name = "image"}) -> (tensor<f32> {nn.name = "num"}) {
    %w = nn.read @w : tensor<4x4xf32>
    %0 = nn.linear %x, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %1 = nn.reduce sum %0 {axes = array<i64: 0, 1>} : tensor<2x4xf32>
    return %1 : tensor<f32>
  }
}
dist.edge @enc "image" to @head "image"
dist.loss "l" in @head numerator "num" weight 1.0

// -----

// Two consumers: two gradients, in the order of the edges. The second uses its input only where gradients stop, so there is one.
// A tied parameter trains because the one it stands for does.
// CHECK-LABEL: dist.module @a
// CHECK: nn.gradients = [#nn.gradient<edge = "b.x">, #nn.gradient<edge = "d.x">]
// CHECK-LABEL: dist.module @c
// CHECK-NOT: nn.wants_grad
// CHECK-LABEL: dist.module @d
// CHECK: nn.parameter @w : tensor<4xf32> trainable
dist.module @a {
  nn.parameter @w : tensor<4xf32> trainable from #nn.onnx<"a.onnx", "w">
  func.func @forward(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
    %w = nn.read @w : tensor<4xf32>
    %0 = nn.mul %x, %w : tensor<4xf32>, tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
dist.module @b {
  func.func @forward(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "num"}) {
    %0 = nn.reduce sum %x {axes = array<i64: 0>} : tensor<4xf32>
    return %0 : tensor<f32>
  }
}
dist.module @c {
  nn.parameter @w : tensor<4xf32> trainable from #nn.onnx<"c.onnx", "w">
  func.func @forward(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "num"}) {
    %w = nn.read @w : tensor<4xf32>
    %r = nn.round %x : tensor<4xf32>
    %m = nn.mul %r, %w : tensor<4xf32>, tensor<4xf32>
    %0 = nn.reduce sum %m {axes = array<i64: 0>} : tensor<4xf32>
    return %0 : tensor<f32>
  }
}
dist.module @d {
  nn.parameter @w : tensor<4xf32> from #nn.onnx<"d.onnx", "w">
  func.func @forward(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "num"}) {
    %w = nn.read @w : tensor<4xf32>
    %m = nn.mul %x, %w : tensor<4xf32>, tensor<4xf32>
    %0 = nn.reduce sum %m {axes = array<i64: 0>} : tensor<4xf32>
    return %0 : tensor<f32>
  }
}
dist.edge @a "y" to @b "x"
dist.edge @a "y" to @c "x"
dist.edge @a "y" to @d "x"
dist.tie @d::@w = @a::@w
dist.loss "b" in @b numerator "num" weight 1.0
dist.loss "c" in @c numerator "num" weight 1.0
dist.loss "d" in @d numerator "num" weight 1.0
