// RUN: dt-opt %s --nn-narrow-residual 2>%t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --implicit-check-not=remark < %t.err

// What goes past a product into a sum, and the sum, are stored in bf16: the
// embedding behind its scale and its view, and two sums. The sum of three terms
// is stored once. The bias, an activation's own sum, the mask, the sum of two
// products and of two normalised ones stay as they are.

// CHECK-LABEL: dist.module @stream
dist.module @stream precision bf16 narrow_residual {
  nn.parameter @e : tensor<9x4xf32> trainable from #nn.onnx<"m.onnx", "e">
  nn.parameter @w : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w">
  nn.parameter @b : tensor<4xf32> trainable from #nn.onnx<"m.onnx", "b">
  // CHECK: func.func @forward
  func.func @forward(%ids: tensor<2xi64> {nn.name = "ids"}) -> (tensor<2x4xf32> {nn.name = "y"}) {
    %e = nn.read @e : tensor<9x4xf32>
    %w = nn.read @w : tensor<4x4xf32>
    %b = nn.read @b : tensor<4xf32>
    // CHECK: %[[E:.*]] = nn.gather
    // CHECK-NEXT: %[[EN:.*]] = nn.cast %[[E]] : tensor<2x4xf32> to tensor<2x4xbf16>
    // CHECK-NEXT: %[[X0:.*]] = nn.cast %[[EN]] : tensor<2x4xbf16> to tensor<2x4xf32>
    %x = nn.gather %e at %ids {axis = 0 : i64} : tensor<9x4xf32>, tensor<2xi64>
    // CHECK: nn.linear %[[X0]]
    %h = nn.linear %x, %w : tensor<2x4xf32>, tensor<4x4xf32>
    // CHECK: %[[B:.*]] = nn.add
    // CHECK-NEXT: nn.silu %[[B]]
    %hb = nn.add %h, %b : tensor<2x4xf32>, tensor<4xf32>
    %g = nn.silu %hb : tensor<2x4xf32>
    // CHECK-NEXT: %[[G:.*]] = nn.add
    // CHECK-NEXT: nn.linear %[[G]]
    %gg = nn.add %hb, %g : tensor<2x4xf32>, tensor<2x4xf32>
    %f = nn.linear %gg, %w : tensor<2x4xf32>, tensor<4x4xf32>
    // A scaled one is what it is made of.
    // CHECK: nn.mul %[[X0]]
    %s = nn.mul %x, %b : tensor<2x4xf32>, tensor<4xf32>
    // CHECK-NEXT: %[[X1:.*]] = nn.add
    // CHECK-NEXT: %[[X1N:.*]] = nn.cast %[[X1]] : tensor<2x4xf32> to tensor<2x4xbf16>
    // CHECK-NEXT: %[[X1W:.*]] = nn.cast %[[X1N]] : tensor<2x4xbf16> to tensor<2x4xf32>
    %x1 = nn.add %s, %f : tensor<2x4xf32>, tensor<2x4xf32>
    // CHECK-NEXT: %[[P:.*]] = nn.linear %[[X1W]]
    // CHECK-NEXT: %[[Q:.*]] = nn.linear %[[X1W]]
    %p = nn.linear %x1, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %q = nn.linear %x1, %w, %b : tensor<2x4xf32>, tensor<4x4xf32>, tensor<4xf32>
    // CHECK-NEXT: %[[T:.*]] = nn.add %[[X1W]], %[[P]]
    // CHECK-NEXT: %[[X2:.*]] = nn.add %[[T]], %[[Q]]
    // CHECK-NEXT: %[[X2N:.*]] = nn.cast %[[X2]] : tensor<2x4xf32> to tensor<2x4xbf16>
    // CHECK-NEXT: %[[X2W:.*]] = nn.cast %[[X2N]] : tensor<2x4xbf16> to tensor<2x4xf32>
    %t = nn.add %x1, %p : tensor<2x4xf32>, tensor<2x4xf32>
    %x2 = nn.add %t, %q : tensor<2x4xf32>, tensor<2x4xf32>
    // CHECK-NEXT: return %[[X2W]]
    return %x2 : tensor<2x4xf32>
  }
}

// The same sums of a module that says nothing stay float32.
// CHECK-LABEL: dist.module @wide
dist.module @wide precision bf16 {
  nn.parameter @w : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w2">
  // CHECK-NOT: nn.cast
  // CHECK: return
  func.func @forward(%x: tensor<2x4xf32> {nn.name = "x"}) -> (tensor<2x4xf32> {nn.name = "y"}) {
    %w = nn.read @w : tensor<4x4xf32>
    %y = nn.linear %x, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %sum = nn.add %x, %y : tensor<2x4xf32>, tensor<2x4xf32>
    return %sum : tensor<2x4xf32>
  }
}

// Nothing goes past these products: a line says so.
// REMARK: remark: residual: nothing is narrower: no sum of this module has an operand that is made of the other
// CHECK-LABEL: dist.module @none
dist.module @none precision bf16 narrow_residual {
  nn.parameter @w : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w3">
  // CHECK-NOT: nn.cast
  // CHECK: return
  func.func @forward(%x: tensor<2x4xf32> {nn.name = "x"}) -> (tensor<2x4xf32> {nn.name = "y"}) {
    %w = nn.read @w : tensor<4x4xf32>
    %y = nn.linear %x, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %z = nn.linear %x, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %sum = nn.add %z, %y : tensor<2x4xf32>, tensor<2x4xf32>
    return %sum : tensor<2x4xf32>
  }
}
