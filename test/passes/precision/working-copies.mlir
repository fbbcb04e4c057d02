// RUN: dt-opt %s --nn-working-copies | FileCheck %s

// A parameter that a product reads is stored in bf16; who needs float32 gets
// it widened. One that nobody narrows stays. Tied names are one tensor.

dist.module @m {
  // CHECK: nn.parameter @w : tensor<4x4xf32> working bf16 trainable from
  nn.parameter @w : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w">
  // CHECK: nn.parameter @scale : tensor<4xf32> trainable from
  nn.parameter @scale : tensor<4xf32> trainable from #nn.onnx<"m.onnx", "scale">
  // CHECK: nn.parameter @tied : tensor<4x4xf32> working bf16 trainable from
  nn.parameter @tied : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "tied">
  func.func @forward(%x: tensor<2x4xbf16> {nn.name = "x"}) -> (tensor<2x4xbf16> {nn.name = "y"}, tensor<4x4xf32> {nn.name = "z"}, tensor<4x4xf32> {nn.name = "t"}) {
    // CHECK: %[[W:.*]] = nn.read @w : tensor<4x4xbf16>
    // CHECK: %[[F:.*]] = nn.cast %[[W]] : tensor<4x4xbf16> to tensor<4x4xf32>
    %w = nn.read @w : tensor<4x4xf32>
    // CHECK: nn.read @scale : tensor<4xf32>
    %s = nn.read @scale : tensor<4xf32>
    %n = nn.cast %w : tensor<4x4xf32> to tensor<4x4xbf16>
    %y = nn.linear %x, %n : tensor<2x4xbf16>, tensor<4x4xbf16>
    // CHECK: %[[T:.*]] = nn.read @tied : tensor<4x4xbf16>
    // CHECK: nn.cast %[[T]] : tensor<4x4xbf16> to tensor<4x4xf32>
    %t = nn.read @tied : tensor<4x4xf32>
    // CHECK: nn.mul %[[F]]
    %z = nn.mul %w, %s : tensor<4x4xf32>, tensor<4xf32>
    return %y, %z, %t : tensor<2x4xbf16>, tensor<4x4xf32>, tensor<4x4xf32>
  }
}
dist.tie @m::@tied = @m::@w

// So are two names that are tied to the same parameter of another module: its
// copy is stored once. Of the original nobody here wants bf16.
dist.module @copies {
  // CHECK: nn.parameter @table : tensor<4x4xf32> working bf16 trainable from
  nn.parameter @table : tensor<4x4xf32> trainable from #nn.onnx<"copies.onnx", "table">
  // CHECK: nn.parameter @head : tensor<4x4xf32> working bf16 trainable from
  nn.parameter @head : tensor<4x4xf32> trainable from #nn.onnx<"copies.onnx", "head">
  func.func @forward(%x: tensor<2x4xbf16> {nn.name = "x"}) -> (tensor<2x4xbf16> {nn.name = "y"}, tensor<4x4xf32> {nn.name = "z"}) {
    // CHECK: nn.read @table : tensor<4x4xbf16>
    %z = nn.read @table : tensor<4x4xf32>
    %w = nn.read @head : tensor<4x4xf32>
    %n = nn.cast %w : tensor<4x4xf32> to tensor<4x4xbf16>
    %y = nn.linear %x, %n : tensor<2x4xbf16>, tensor<4x4xbf16>
    return %y, %z : tensor<2x4xbf16>, tensor<4x4xf32>
  }
}
dist.module @owner {
  // CHECK: nn.parameter @embed : tensor<4x4xf32> trainable from
  nn.parameter @embed : tensor<4x4xf32> trainable from #nn.onnx<"owner.onnx", "embed">
  func.func @forward() -> (tensor<4x4xf32> {nn.name = "y"}) {
    %y = nn.read @embed : tensor<4x4xf32>
    return %y : tensor<4x4xf32>
  }
}
dist.tie @copies::@table = @owner::@embed
dist.tie @copies::@head = @owner::@embed
