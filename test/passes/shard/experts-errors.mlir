// What a module with `ep` cannot have is one line.
// RUN: dt-opt %s --pass-pipeline='builtin.module(dist.module(dist-shard))' --split-input-file -verify-diagnostics

// expected-error @+1 {{ep = 3 neither divides the tensor-parallel group of 4 ranks (tp) nor is 4 times a divisor of cp = 1 (or all of both, times joined = 1)}}
dist.module @group attributes {tp = 4 : i64, ep = 3 : i64} {}

// -----

// expected-error @+1 {{ep = 6 neither divides the tensor-parallel group of 2 ranks (tp) nor is 2 times a divisor of cp = 4 (or all of both, times joined = 1)}}
dist.module @tokens attributes {tp = 2 : i64, cp = 4 : i64, ep = 6 : i64} {}

// -----

// expected-error @+1 {{ep = 4 neither divides the tensor-parallel group of 2 ranks (tp) nor is 2 times a divisor of cp = 2 (or all of both, times joined = 2)}}
dist.module @replicas attributes {tp = 2 : i64, cp = 2 : i64, joined = 2 : i64, ep = 4 : i64} {}

// -----

// expected-remark @+2 {{ep does nothing where no layer has experts: 'none' is cut by tp and cp}}
// expected-remark @+1 {{nothing of 'none' can be cut over 2 ranks: each computes all of it}}
dist.module @none attributes {tp = 2 : i64, ep = 2 : i64} {}

// -----

dist.module @few attributes {tp = 2 : i64, ep = 2 : i64} {
  func.func private @layer(%ids: tensor<6xi64>) {
    // expected-error @+1 {{'few' has layers of 3 experts, which ep = 2 does not divide}}
    %0, %1, %2 = nn.route %ids of 3 : tensor<6xi64>
    return
  }
}

// -----

// A sum over the rows of all experts: no rank has them.
dist.module @sum attributes {tp = 2 : i64, ep = 2 : i64} {
  nn.parameter @w : tensor<4x6x6xf32> from #nn.onnx<"m.onnx", "w">
  func.func @forward(%x: tensor<6x6xf32> {nn.name = "x"}, %ids: tensor<6xi64> {nn.name = "ids"}) -> (tensor<6xf32> {nn.name = "y"}) {
    %w = nn.read @w : tensor<4x6x6xf32>
    %0, %1, %2 = nn.route %ids of 4 : tensor<6xi64>
    %3 = nn.dispatch %x by %0, %1 each 1 : tensor<6x6xf32>, tensor<6xi32>, tensor<6xi32>
    %4 = nn.grouped_linear %3, %w at %2 : tensor<6x6xf32>, tensor<4x6x6xf32>, tensor<5xi32>
    // expected-error @+1 {{needs the rows of all experts, but by ep = 2 each rank has those of its own}}
    %5 = nn.reduce sum %4 {axes = array<i64: 0>} : tensor<6x6xf32>
    return %5 : tensor<6xf32>
  }
}
