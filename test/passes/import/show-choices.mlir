// What chose the experts of each layer is an output, as it was before a capacity.
// RUN: dt-opt %s --pass-pipeline='builtin.module(dist.module(nn-show-choices),nn-limit-choices)' --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: dist.module @m {
dist.module @m attributes {show_choices, expert_capacity = 1.25 : f64} {
  nn.dim @batch of "sample" max 3
  nn.parameter @w : tensor<4x6x6xf32> trainable from #nn.onnx<"m.onnx", "w">
  nn.parameter @v : tensor<8x6x6xf32> trainable from #nn.onnx<"m.onnx", "v">
  // CHECK: func.func @forward
  // CHECK-SAME: tensor<?x1xi64, #nn.dims<batch>> {nn.name = "choices.0.of.4"}, tensor<?x1xi64, #nn.dims<batch>> {nn.name = "choices.1.of.8"}, tensor<f32> {nn.name = "loss.m.dropped"}
  // CHECK: %{{.*}}, %[[FIRST:.*]] = nn.top_k
  // CHECK: %{{.*}}, %[[SECOND:.*]] = nn.top_k
  // CHECK: return %{{.*}}, %[[FIRST]], %[[SECOND]], %{{.*}}
  func.func @forward(%x: tensor<?x6xf32, #nn.dims<batch>> {nn.name = "x"}, %scores: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "scores"}, %others: tensor<?x8xf32, #nn.dims<batch>> {nn.name = "others"}) -> (tensor<?x6xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %w = nn.read @w : tensor<4x6x6xf32>
    %v = nn.read @v : tensor<8x6x6xf32>
    %top, %ids = nn.top_k %scores {axis = 1 : i64} : (tensor<?x4xf32, #nn.dims<batch>>) -> (tensor<?x1xf32, #nn.dims<batch>>, tensor<?x1xi64, #nn.dims<batch>>)
    %rows = nn.reshape %ids : tensor<?x1xi64, #nn.dims<batch>> to tensor<?xi64, #nn.dims<batch>>
    %0 = nn.expert_linear %x by %rows, %w : tensor<?x6xf32, #nn.dims<batch>>, tensor<?xi64, #nn.dims<batch>>, tensor<4x6x6xf32>
    %1 = nn.expert_linear %0 by %rows, %w : tensor<?x6xf32, #nn.dims<batch>>, tensor<?xi64, #nn.dims<batch>>, tensor<4x6x6xf32>
    %next, %numbers = nn.top_k %others {axis = 1 : i64} : (tensor<?x8xf32, #nn.dims<batch>>) -> (tensor<?x1xf32, #nn.dims<batch>>, tensor<?x1xi64, #nn.dims<batch>>)
    %narrow = nn.cast %numbers : tensor<?x1xi64, #nn.dims<batch>> to tensor<?x1xi32, #nn.dims<batch>>
    %chosen = nn.reshape %narrow : tensor<?x1xi32, #nn.dims<batch>> to tensor<?xi32, #nn.dims<batch>>
    %2 = nn.expert_linear %1 by %chosen, %v : tensor<?x6xf32, #nn.dims<batch>>, tensor<?xi32, #nn.dims<batch>>, tensor<8x6x6xf32>
    return %2 : tensor<?x6xf32, #nn.dims<batch>>
  }
}

// -----

// expected-error@+1 {{'m' is to show the choices of experts (experts.choices), but it has no layer of experts}}
dist.module @m attributes {show_choices} {
  func.func @forward(%x: tensor<3x6xf32> {nn.name = "x"}) -> (tensor<3x6xf32> {nn.name = "y"}) {
    return %x : tensor<3x6xf32>
  }
}
