// RUN: dt-opt %s --nn-working-copies | FileCheck %s --check-prefix=TYPES
// RUN: dt-opt %s --nn-working-copies --nn-move-casts --dt-differentiate | FileCheck %s

// Gradients of what products read in bf16 are stored so. Not those of what stays float32, of a copy in another module, of what is frozen.
// TYPES: nn.parameter @w : {{.*}} working bf16 trainable {{.*}} {narrow_gradient}
// TYPES: nn.parameter @table : {{.*}} working bf16 trainable {{.*}} {narrow_gradient}
// TYPES-NOT: narrow_gradient
// TYPES: nn.parameter @scale : tensor<4xf32> trainable from
// TYPES: nn.parameter @copy : tensor<4x4xf32> working bf16 trainable from
// TYPES: nn.parameter @frozen : tensor<4x4xf32> working bf16 from
// TYPES: func.func @forward

// Each adds up in its own type.
// CHECK-LABEL: func.func @forward.bwd
// CHECK-DAG: nn.accumulate @w, %{{.*}} : tensor<4x4xbf16>
// CHECK-DAG: nn.accumulate @table, %{{.*}} : tensor<4x4xbf16>
// CHECK-DAG: nn.accumulate @table, %{{.*}} : tensor<4x4xbf16>
// CHECK-DAG: nn.accumulate @copy, %{{.*}} : tensor<4x4xf32>
// CHECK-DAG: nn.accumulate @scale, %{{.*}} : tensor<4xf32>
dist.module @m precision bf16 narrow_gradients {
  nn.parameter @w : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w">
  nn.parameter @table : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "table">
  nn.parameter @scale : tensor<4xf32> trainable from #nn.onnx<"m.onnx", "scale">
  nn.parameter @copy : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "copy">
  nn.parameter @frozen : tensor<4x4xf32> from #nn.onnx<"m.onnx", "frozen">
  func.func @forward(%i: tensor<2xi64> {nn.name = "i"}) -> (tensor<f32> {nn.name = "num"}) {
    %scale = nn.read @scale : tensor<4xf32>
    %table = nn.read @table : tensor<4x4xf32>
    %0 = nn.gather %table at %i {axis = 0 : i64} : tensor<4x4xf32>, tensor<2xi64>
    %1 = nn.mul %0, %scale : tensor<2x4xf32>, tensor<4xf32>
    %x = nn.cast %1 : tensor<2x4xf32> to tensor<2x4xbf16>
    %w = nn.read @w : tensor<4x4xf32>
    %wn = nn.cast %w : tensor<4x4xf32> to tensor<4x4xbf16>
    %2 = nn.linear %x, %wn : tensor<2x4xbf16>, tensor<4x4xbf16>
    %copy = nn.read @copy : tensor<4x4xf32>
    %copyn = nn.cast %copy : tensor<4x4xf32> to tensor<4x4xbf16>
    %3 = nn.linear %2, %copyn : tensor<2x4xbf16>, tensor<4x4xbf16>
    %frozen = nn.read @frozen : tensor<4x4xf32>
    %frozenn = nn.cast %frozen : tensor<4x4xf32> to tensor<4x4xbf16>
    %4 = nn.linear %3, %frozenn : tensor<2x4xbf16>, tensor<4x4xbf16>
    %tablen = nn.cast %table : tensor<4x4xf32> to tensor<4x4xbf16>
    %5 = nn.linear %4, %tablen : tensor<2x4xbf16>, tensor<4x4xbf16>
    %6 = nn.cast %5 : tensor<2x4xbf16> to tensor<2x4xf32>
    %r = nn.reduce sum %6 {axes = array<i64: 0, 1>} : tensor<2x4xf32>
    return %r : tensor<f32>
  }
}
dist.loss "l" in @m numerator "num" weight 1.0
dist.module @other {
  nn.parameter @original : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "copy">
  func.func @forward() {
    return
  }
}
dist.tie @m::@copy = @other::@original
