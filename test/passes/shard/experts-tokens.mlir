// Which rows a rank of tokens has (docs/experts.md): those of its own tokens, if all that works on rows can.
// RUN: dt-opt %s --split-input-file --pass-pipeline='builtin.module(dist.module(dist-shard))' 2>/dev/null | FileCheck %s

// CHECK-LABEL: dist.module @own
// CHECK: nn.attention {{.*}}stripes
// CHECK-NOT: dist.all
// CHECK: nn.route %{{.*}} of 4 : tensor<64xi64>
// CHECK: nn.grouped_linear {{.*}} : tensor<64x64xf32>, tensor<4x64x64xf32>, tensor<5xi32>
// CHECK: nn.relu {{.*}} : tensor<64x64xf32>
// CHECK: nn.combine {{.*}} : tensor<64x64xf32>
// CHECK-NOT: dist.all
dist.module @own attributes {cp = 2 : i64} {
  nn.parameter @w : tensor<4x64x64xf32> from #nn.onnx<"m.onnx", "w">
  nn.parameter @r : tensor<4x64xf32> from #nn.onnx<"m.onnx", "r">
  func.func @forward(%x: tensor<2x64x2x32xf32> {nn.name = "x"}, %k: tensor<2x64x2x32xf32> {nn.name = "k"}) -> (tensor<128x64xf32> {nn.name = "y"}) {
    %w = nn.read @w : tensor<4x64x64xf32>
    %r = nn.read @r : tensor<4x64xf32>
    %a, %lse = nn.attention %x, %k, %k {causal, scale = 0.5 : f64} : tensor<2x64x2x32xf32>, tensor<2x64x2x32xf32>, tensor<2x64x2x32xf32>
    %t = nn.reshape %a : tensor<2x64x2x32xf32> to tensor<128x64xf32>
    %s = nn.linear %t, %r : tensor<128x64xf32>, tensor<4x64xf32>
    %v, %i = nn.top_k %s {axis = 1 : i64} : (tensor<128x4xf32>) -> (tensor<128x1xf32>, tensor<128x1xi64>)
    %n = nn.reshape %i : tensor<128x1xi64> to tensor<128xi64>
    %0, %1, %2 = nn.route %n of 4 : tensor<128xi64>
    %3 = nn.dispatch %t by %0, %1 each 1 : tensor<128x64xf32>, tensor<128xi32>, tensor<128xi32>
    %4 = nn.grouped_linear %3, %w at %2 : tensor<128x64xf32>, tensor<4x64x64xf32>, tensor<5xi32>
    %5 = nn.relu %4 : tensor<128x64xf32>
    %6 = nn.combine %5 by %0, %1 each 1 : tensor<128x64xf32>, tensor<128xi32>, tensor<128xi32>
    %7 = nn.add %6, %t : tensor<128x64xf32>, tensor<128x64xf32>
    return %7 : tensor<128x64xf32>
  }
}

// -----

// A sum over all rows: tokens are gathered before they are routed.
// CHECK-LABEL: dist.module @all
// CHECK: nn.route %{{.*}} of 4 : tensor<128xi64>
// CHECK: nn.combine {{.*}} : tensor<128x64xf32>
dist.module @all attributes {cp = 2 : i64} {
  nn.parameter @w : tensor<4x64x64xf32> from #nn.onnx<"m.onnx", "w">
  nn.parameter @r : tensor<4x64xf32> from #nn.onnx<"m.onnx", "r">
  func.func @forward(%x: tensor<2x64x2x32xf32> {nn.name = "x"}, %k: tensor<2x64x2x32xf32> {nn.name = "k"}) -> (tensor<128x64xf32> {nn.name = "y"}, tensor<64xf32> {nn.name = "z"}) {
    %w = nn.read @w : tensor<4x64x64xf32>
    %r = nn.read @r : tensor<4x64xf32>
    %a, %lse = nn.attention %x, %k, %k {causal, scale = 0.5 : f64} : tensor<2x64x2x32xf32>, tensor<2x64x2x32xf32>, tensor<2x64x2x32xf32>
    %t = nn.reshape %a : tensor<2x64x2x32xf32> to tensor<128x64xf32>
    %s = nn.linear %t, %r : tensor<128x64xf32>, tensor<4x64xf32>
    %v, %i = nn.top_k %s {axis = 1 : i64} : (tensor<128x4xf32>) -> (tensor<128x1xf32>, tensor<128x1xi64>)
    %n = nn.reshape %i : tensor<128x1xi64> to tensor<128xi64>
    %0, %1, %2 = nn.route %n of 4 : tensor<128xi64>
    %3 = nn.dispatch %t by %0, %1 each 1 : tensor<128x64xf32>, tensor<128xi32>, tensor<128xi32>
    %4 = nn.grouped_linear %3, %w at %2 : tensor<128x64xf32>, tensor<4x64x64xf32>, tensor<5xi32>
    %5 = nn.reduce sum %4 {axes = array<i64: 0>} : tensor<128x64xf32>
    %6 = nn.combine %4 by %0, %1 each 1 : tensor<128x64xf32>, tensor<128xi32>, tensor<128xi32>
    %7 = nn.add %6, %t : tensor<128x64xf32>, tensor<128x64xf32>
    return %7, %5 : tensor<128x64xf32>, tensor<64xf32>
  }
}
