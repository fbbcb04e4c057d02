// RUN: dt-opt %s --dt-differentiate --split-input-file | FileCheck %s

// The default. Norm and activation are computed again, the residual stream is kept (its parts have as many bytes), of two views of one
// value the value is, and a rotation of a product's result is kept in place of what it is made of.
// CHECK-LABEL: dist.module @vjp
// CHECK: func.func @forward.fwd
// CHECK: %[[P:.*]] = nn.linear %{{.*}}, %{{.*}} :
// CHECK: %[[H:.*]] = nn.add
// CHECK: nn.rms_norm %[[H]]
// CHECK: %[[U:.*]] = nn.linear
// CHECK: return %{{.*}}, %[[H]], %[[U]] : tensor<f32>
// CHECK: func.func @forward.bwd(%{{.*}} {nn.name = "x"}, %[[H:[a-z0-9]+]]: tensor<2x4xf32> {nn.residual}, %[[U:[a-z0-9]+]]: tensor<2x4xf32> {nn.residual}
// CHECK: nn.gelu %[[U]]
// CHECK: nn.rms_norm %[[H]]
dist.module @vjp {
  nn.parameter @w : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w">
  nn.parameter @g : tensor<4xf32> trainable from #nn.onnx<"m.onnx", "g">
  func.func @forward(%x: tensor<2x4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "num"}) {
    %w = nn.read @w : tensor<4x4xf32>
    %g = nn.read @g : tensor<4xf32>
    %0 = nn.linear %x, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %1 = nn.add %x, %0 : tensor<2x4xf32>, tensor<2x4xf32>
    %2 = nn.rms_norm %1 scale %g {eps = 1.0e-6 : f64} : tensor<2x4xf32>, tensor<4xf32>
    %3 = nn.linear %2, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %4 = nn.gelu %3 : tensor<2x4xf32>
    %5 = nn.linear %4, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %6 = nn.reduce sum %5 {axes = array<i64: 0, 1>} : tensor<2x4xf32>
    return %6 : tensor<f32>
  }
}
dist.loss "l" in @vjp numerator "num" weight 1.0

// -----

// CHECK-LABEL: dist.module @all
// CHECK: func.func @forward.fwd
// CHECK: %[[P:.*]] = nn.linear
// CHECK: %[[H:.*]] = nn.add
// CHECK: %[[N:.*]] = nn.rms_norm
// CHECK: %[[U:.*]] = nn.linear
// CHECK: %[[A:.*]] = nn.gelu
// CHECK: return %{{.*}}, %[[H]], %[[N]], %[[U]], %[[A]] : tensor<f32>
// CHECK: func.func @forward.bwd
// CHECK-NOT: nn.rms_norm %
// CHECK-NOT: nn.gelu %
dist.module @all save all {
  nn.parameter @w : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w">
  nn.parameter @g : tensor<4xf32> trainable from #nn.onnx<"m.onnx", "g">
  func.func @forward(%x: tensor<2x4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "num"}) {
    %w = nn.read @w : tensor<4x4xf32>
    %g = nn.read @g : tensor<4xf32>
    %0 = nn.linear %x, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %1 = nn.add %x, %0 : tensor<2x4xf32>, tensor<2x4xf32>
    %2 = nn.rms_norm %1 scale %g {eps = 1.0e-6 : f64} : tensor<2x4xf32>, tensor<4xf32>
    %3 = nn.linear %2, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %4 = nn.gelu %3 : tensor<2x4xf32>
    %5 = nn.linear %4, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %6 = nn.reduce sum %5 {axes = array<i64: 0, 1>} : tensor<2x4xf32>
    return %6 : tensor<f32>
  }
}
dist.loss "l" in @all numerator "num" weight 1.0

// -----

// A gate: both products' results and the result of the gate are kept. Its activation is made again by the op that has the kept gate anyway.
// CHECK-LABEL: dist.module @all_gated
// CHECK: func.func @forward.fwd
// CHECK: %[[G:.*]] = nn.linear
// CHECK: %[[U:.*]] = nn.linear
// CHECK: %[[A:.*]] = nn.silu %[[G]]
// CHECK: %[[M:.*]] = nn.mul %[[A]], %[[U]]
// CHECK: return %{{.*}}, %[[G]], %[[U]], %[[M]] : tensor<f32>
// CHECK: func.func @forward.bwd
// CHECK: nn.silu %
dist.module @all_gated save all {
  nn.parameter @w : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w">
  nn.parameter @v : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "v">
  func.func @forward(%x: tensor<2x4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "num"}) {
    %w = nn.read @w : tensor<4x4xf32>
    %v = nn.read @v : tensor<4x4xf32>
    %0 = nn.linear %x, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %1 = nn.linear %x, %v : tensor<2x4xf32>, tensor<4x4xf32>
    %2 = nn.silu %0 : tensor<2x4xf32>
    %3 = nn.mul %2, %1 : tensor<2x4xf32>, tensor<2x4xf32>
    %4 = nn.linear %3, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %5 = nn.reduce sum %4 {axes = array<i64: 0, 1>} : tensor<2x4xf32>
    return %5 : tensor<f32>
  }
}
dist.loss "l" in @all_gated numerator "num" weight 1.0

// -----

// What comes into each layer is kept: each runs again in its own backward function, what stands before and behind them in that of the module.
// CHECK-LABEL: dist.module @none
// CHECK: func.func private @layer.fwd(%{{.*}}, %{{.*}}) -> tensor<2x4xf32>
// CHECK: func.func private @layer.bwd(
// CHECK: %[[U:.*]] = nn.linear
// CHECK: nn.gelu_grad %[[U]]
// CHECK: func.func @forward.fwd(
// CHECK: nn.rms_norm
// CHECK: %[[A:.*]] = call @layer.fwd(
// CHECK: %[[B:.*]] = call @layer.fwd(%[[A]]
// CHECK: nn.tanh %[[B]]
// CHECK: return %{{.*}}, %[[A]], %[[B]] : tensor<f32>, tensor<2x4xf32>, tensor<2x4xf32>
// CHECK: func.func @forward.bwd(%[[X:[a-z0-9]+]]: tensor<2x4xf32> {nn.name = "x"}, %[[A:[a-z0-9]+]]: tensor<2x4xf32> {nn.residual}, %[[B:[a-z0-9]+]]: tensor<2x4xf32> {nn.residual}
// CHECK-NOT: call @layer.fwd
// CHECK: nn.tanh %[[B]]
// CHECK: call @layer.bwd(%[[A]]
// CHECK: %[[N:.*]] = nn.rms_norm %[[X]]
// CHECK: call @layer.bwd(%[[N]]
dist.module @none save none {
  nn.parameter @w : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w">
  nn.parameter @g : tensor<4xf32> trainable from #nn.onnx<"m.onnx", "g">
  func.func private @layer(%x: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> tensor<2x4xf32> {
    %0 = nn.linear %x, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %1 = nn.gelu %0 : tensor<2x4xf32>
    return %1 : tensor<2x4xf32>
  }
  func.func @forward(%x: tensor<2x4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "num"}) {
    %w = nn.read @w : tensor<4x4xf32>
    %g = nn.read @g : tensor<4xf32>
    %0 = nn.rms_norm %x scale %g {eps = 1.0e-6 : f64} : tensor<2x4xf32>, tensor<4xf32>
    %1 = func.call @layer(%0, %w) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %2 = func.call @layer(%1, %w) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %3 = nn.tanh %2 : tensor<2x4xf32>
    %4 = nn.reduce sum %3 {axes = array<i64: 0, 1>} : tensor<2x4xf32>
    return %4 : tensor<f32>
  }
}
dist.loss "l" in @none numerator "num" weight 1.0

// -----

// A layer of layers runs again as one: what it calls keeps what that second run needs.
// CHECK-LABEL: dist.module @nested
// CHECK: func.func private @inner.fwd(%{{.*}}, %{{.*}}) -> (tensor<2x4xf32>, tensor<2x4xf32>)
// CHECK: func.func private @outer.bwd(
// CHECK: %[[R:.*]]:2 = call @inner.fwd
// CHECK: call @inner.bwd({{.*}}%[[R]]#1
// CHECK: func.func @forward.fwd(
// CHECK: return %{{.*}} : tensor<f32>{{$}}
dist.module @nested save none {
  nn.parameter @w : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w">
  func.func private @inner(%x: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> tensor<2x4xf32> {
    %0 = nn.linear %x, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %1 = nn.gelu %0 : tensor<2x4xf32>
    return %1 : tensor<2x4xf32>
  }
  func.func private @outer(%x: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> tensor<2x4xf32> {
    %0 = func.call @inner(%x, %w) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %1 = nn.add %0, %x : tensor<2x4xf32>, tensor<2x4xf32>
    return %1 : tensor<2x4xf32>
  }
  func.func @forward(%x: tensor<2x4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "num"}) {
    %w = nn.read @w : tensor<4x4xf32>
    %0 = func.call @outer(%x, %w) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %1 = nn.reduce sum %0 {axes = array<i64: 0, 1>} : tensor<2x4xf32>
    return %1 : tensor<f32>
  }
}
dist.loss "l" in @nested numerator "num" weight 1.0

// -----

// On one function: the layer's inputs are all that it keeps.
// CHECK-LABEL: dist.module @layer_none
// CHECK: func.func private @layer.fwd({{.*}}) -> tensor<2x4xf32>
// CHECK: func.func private @layer.bwd(
// CHECK: %[[U:.*]] = nn.linear
// CHECK: nn.gelu_grad %[[U]]
dist.module @layer_none {
  nn.parameter @w : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w">
  func.func private @layer(%x: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> tensor<2x4xf32> attributes {nn.save = "none"} {
    %0 = nn.linear %x, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %1 = nn.gelu %0 : tensor<2x4xf32>
    return %1 : tensor<2x4xf32>
  }
  func.func @forward(%x: tensor<2x4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "num"}) {
    %w = nn.read @w : tensor<4x4xf32>
    %0 = func.call @layer(%x, %w) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %1 = nn.reduce sum %0 {axes = array<i64: 0, 1>} : tensor<2x4xf32>
    return %1 : tensor<f32>
  }
}
dist.loss "l" in @layer_none numerator "num" weight 1.0

// -----

// Ragged: bytes are compared at the bounds. The mask (one byte) is kept, not what it was compared from.
// CHECK-LABEL: dist.module @ragged
// CHECK: func.func @forward.fwd
// CHECK: %[[M:.*]] = nn.cmp
// CHECK: return %{{.*}}, %[[M]] : tensor<f32>, tensor<?x4xi1, #nn.dims<images>>
dist.module @ragged {
  nn.dim @images of "image" max 6
  nn.parameter @w : tensor<4xf32> trainable from #nn.onnx<"m.onnx", "w">
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<images>> {nn.name = "x"}) -> (tensor<f32> {nn.name = "num"}) {
    %w = nn.read @w : tensor<4xf32>
    %c = nn.cumsum %x {axis = 1 : i64} : tensor<?x4xf32, #nn.dims<images>>
    %z = nn.constant dense<0.0> : tensor<f32>
    %m = nn.cmp gt %c, %z : tensor<?x4xf32, #nn.dims<images>>, tensor<f32>
    %0 = nn.where %m, %w, %z : tensor<?x4xi1, #nn.dims<images>>, tensor<4xf32>, tensor<f32>
    %1 = nn.reduce sum %0 {axes = array<i64: 0, 1>} : tensor<?x4xf32, #nn.dims<images>>
    return %1 : tensor<f32>
  }
}
dist.item "image" max 3
dist.loss "l" in @ragged numerator "num" weight 1.0

// -----

// A stream in bf16: the sum is kept as it is stored, not the product that it is made of.
// CHECK-LABEL: dist.module @narrow
// CHECK: func.func @forward.fwd
// CHECK: %[[H:.*]] = nn.cast %{{.*}} : tensor<2x4xf32> to tensor<2x4xbf16>
// CHECK: return %{{.*}}, %[[H]] : tensor<f32>, tensor<2x4xbf16>
// CHECK: func.func @forward.bwd(%{{.*}} {nn.name = "x"}, %[[H:[a-z0-9]+]]: tensor<2x4xbf16> {nn.residual}
dist.module @narrow {
  nn.parameter @w : tensor<4x4xf32> working bf16 trainable from #nn.onnx<"m.onnx", "w">
  nn.parameter @g : tensor<4xf32> trainable from #nn.onnx<"m.onnx", "g">
  func.func @forward(%x: tensor<2x4xbf16> {nn.name = "x"}) -> (tensor<f32> {nn.name = "num"}) {
    %w = nn.read @w : tensor<4x4xbf16>
    %g = nn.read @g : tensor<4xf32>
    %0 = nn.linear %x, %w : tensor<2x4xbf16>, tensor<4x4xbf16>
    %1 = nn.cast %0 : tensor<2x4xbf16> to tensor<2x4xf32>
    %2 = nn.cast %x : tensor<2x4xbf16> to tensor<2x4xf32>
    %3 = nn.add %1, %2 : tensor<2x4xf32>, tensor<2x4xf32>
    %4 = nn.cast %3 : tensor<2x4xf32> to tensor<2x4xbf16>
    %5 = nn.cast %4 : tensor<2x4xbf16> to tensor<2x4xf32>
    %6 = nn.rms_norm %5 scale %g {eps = 1.0e-6 : f64} : tensor<2x4xf32>, tensor<4xf32>
    %7 = nn.reduce sum %6 {axes = array<i64: 0, 1>} : tensor<2x4xf32>
    return %7 : tensor<f32>
  }
}
dist.loss "l" in @narrow numerator "num" weight 1.0
