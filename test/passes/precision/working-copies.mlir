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

// A table of which each row that is looked up is rounded at once, also behind a view, beside rows of something else, or if it is frozen, is stored rounded. Not where another lookup wants float32, under any of its names, or
// where rows are rounded after they are added to others.
// CHECK-LABEL: dist.module @tables
dist.module @tables {
  // CHECK: nn.parameter @rows : tensor<8x4xf32> working bf16 trainable from
  nn.parameter @rows : tensor<8x4xf32> trainable from #nn.onnx<"tables.onnx", "rows">
  // CHECK: nn.parameter @frozen : tensor<2x4x4xf32> working bf16 from
  nn.parameter @frozen : tensor<2x4x4xf32> from #nn.onnx<"tables.onnx", "frozen">
  // CHECK: nn.parameter @mixed : tensor<8x4xf32> working bf16 trainable from
  nn.parameter @mixed : tensor<8x4xf32> trainable from #nn.onnx<"tables.onnx", "mixed">
  // CHECK: nn.parameter @places : tensor<8x4xf32> working bf16 trainable from
  nn.parameter @places : tensor<8x4xf32> trainable from #nn.onnx<"tables.onnx", "places">
  // CHECK: nn.parameter @sums : tensor<8x4xf32> trainable from
  nn.parameter @sums : tensor<8x4xf32> trainable from #nn.onnx<"tables.onnx", "sums">
  // CHECK: nn.parameter @both : tensor<8x4xf32> trainable from
  nn.parameter @both : tensor<8x4xf32> trainable from #nn.onnx<"tables.onnx", "both">
  // CHECK: nn.parameter @name : tensor<8x4xf32> trainable from
  nn.parameter @name : tensor<8x4xf32> trainable from #nn.onnx<"tables.onnx", "name">
  // CHECK: nn.parameter @other : tensor<8x4xf32> trainable from
  nn.parameter @other : tensor<8x4xf32> trainable from #nn.onnx<"tables.onnx", "other">
  // CHECK: nn.parameter @added : tensor<8x4xf32> trainable from
  nn.parameter @added : tensor<8x4xf32> trainable from #nn.onnx<"tables.onnx", "added">
  // CHECK: nn.parameter @unused : tensor<8x4xf32> trainable from
  nn.parameter @unused : tensor<8x4xf32> trainable from #nn.onnx<"tables.onnx", "unused">
  func.func @forward(%i: tensor<2xi64> {nn.name = "i"}, %image: tensor<2x4xf32> {nn.name = "image"}, %c: tensor<2x1xi1> {nn.name = "c"}, %to: tensor<2x1xi64> {nn.name = "to"}) -> (tensor<2x4xbf16> {nn.name = "h"}, tensor<2x4xbf16> {nn.name = "k"}, tensor<2x4xbf16> {nn.name = "l"}, tensor<2x4xbf16> {nn.name = "a"}, tensor<2x4xbf16> {nn.name = "b"}, tensor<2x4xbf16> {nn.name = "c"}, tensor<2x4xf32> {nn.name = "d"}, tensor<2x4xbf16> {nn.name = "e"}, tensor<2x4xf32> {nn.name = "f"}, tensor<2x4xbf16> {nn.name = "g"}) {
    // CHECK: nn.read @rows : tensor<8x4xbf16>
    %rows = nn.read @rows : tensor<8x4xf32>
    %0 = nn.gather %rows at %i {axis = 0 : i64} : tensor<8x4xf32>, tensor<2xi64>
    %a = nn.cast %0 : tensor<2x4xf32> to tensor<2x4xbf16>
    // CHECK: nn.read @frozen : tensor<2x4x4xbf16>
    %frozen = nn.read @frozen : tensor<2x4x4xf32>
    %1 = nn.reshape %frozen : tensor<2x4x4xf32> to tensor<8x4xf32>
    %2 = nn.gather %1 at %i {axis = 0 : i64} : tensor<8x4xf32>, tensor<2xi64>
    %b = nn.cast %2 : tensor<2x4xf32> to tensor<2x4xbf16>
    // CHECK: nn.read @both : tensor<8x4xf32>
    %both = nn.read @both : tensor<8x4xf32>
    %3 = nn.gather %both at %i {axis = 0 : i64} : tensor<8x4xf32>, tensor<2xi64>
    %row = nn.cast %3 : tensor<2x4xf32> to tensor<2x4xbf16>
    %d = nn.gather %both at %i {axis = 0 : i64} : tensor<8x4xf32>, tensor<2xi64>
    // CHECK: nn.read @name : tensor<8x4xf32>
    %name = nn.read @name : tensor<8x4xf32>
    %4 = nn.gather %name at %i {axis = 0 : i64} : tensor<8x4xf32>, tensor<2xi64>
    %e = nn.cast %4 : tensor<2x4xf32> to tensor<2x4xbf16>
    %other = nn.read @other : tensor<8x4xf32>
    %f = nn.gather %other at %i {axis = 0 : i64} : tensor<8x4xf32>, tensor<2xi64>
    %added = nn.read @added : tensor<8x4xf32>
    %5 = nn.gather %added at %i {axis = 0 : i64} : tensor<8x4xf32>, tensor<2xi64>
    %6 = nn.add %5, %f : tensor<2x4xf32>, tensor<2x4xf32>
    %g = nn.cast %6 : tensor<2x4xf32> to tensor<2x4xbf16>
    %mixed = nn.read @mixed : tensor<8x4xf32>
    %7 = nn.gather %mixed at %i {axis = 0 : i64} : tensor<8x4xf32>, tensor<2xi64>
    %8 = nn.where %c, %7, %image : tensor<2x1xi1>, tensor<2x4xf32>, tensor<2x4xf32>
    %h = nn.cast %8 : tensor<2x4xf32> to tensor<2x4xbf16>
    %places = nn.read @places : tensor<8x4xf32>
    %9 = nn.gather %places at %i {axis = 0 : i64} : tensor<8x4xf32>, tensor<2xi64>
    %10 = nn.scatter_nd set %9 at %to, %image : tensor<2x4xf32>, tensor<2x1xi64>, tensor<2x4xf32>
    %k = nn.cast %10 : tensor<2x4xf32> to tensor<2x4xbf16>
    %sums = nn.read @sums : tensor<8x4xf32>
    %11 = nn.gather %sums at %i {axis = 0 : i64} : tensor<8x4xf32>, tensor<2xi64>
    %12 = nn.scatter_nd add %11 at %to, %image : tensor<2x4xf32>, tensor<2x1xi64>, tensor<2x4xf32>
    %l = nn.cast %12 : tensor<2x4xf32> to tensor<2x4xbf16>
    %unused = nn.read @unused : tensor<8x4xf32>
    return %h, %k, %l, %a, %b, %row, %d, %e, %f, %g : tensor<2x4xbf16>, tensor<2x4xbf16>, tensor<2x4xbf16>, tensor<2x4xbf16>, tensor<2x4xbf16>, tensor<2x4xbf16>, tensor<2x4xf32>, tensor<2x4xbf16>, tensor<2x4xf32>, tensor<2x4xbf16>
  }
}
dist.tie @tables::@name = @tables::@other
