// RUN: dt-opt %s --nn-limit-choices --split-input-file --verify-diagnostics

// expected-error@+1 {{'m' has a capacity of experts (experts.capacity), but it has no layer of experts}}
dist.module @m attributes {expert_capacity = 1.25 : f64} {
  func.func @forward(%x: tensor<3x6xf32> {nn.name = "x"}) -> (tensor<3x6xf32> {nn.name = "y"}) {
    return %x : tensor<3x6xf32>
  }
}

// -----

// expected-error@+1 {{'m' has a capacity of experts (experts.capacity), but the numbers of the 4 experts of a layer are not those of the largest scores (top_k) of a token, along the last axis}}
dist.module @m attributes {expert_capacity = 1.25 : f64} {
  nn.dim @batch of "sample" max 3
  nn.parameter @w : tensor<4x6x6xf32> trainable from #nn.onnx<"m.onnx", "w">
  func.func @forward(%x: tensor<?x6xf32, #nn.dims<batch>> {nn.name = "x"}, %ids: tensor<?xi64, #nn.dims<batch>> {nn.name = "ids"}) -> (tensor<?x6xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %w = nn.read @w : tensor<4x6x6xf32>
    %0 = nn.expert_linear %x by %ids, %w : tensor<?x6xf32, #nn.dims<batch>>, tensor<?xi64, #nn.dims<batch>>, tensor<4x6x6xf32>
    return %0 : tensor<?x6xf32, #nn.dims<batch>>
  }
}

// -----

// expected-error@+1 {{'m' has a capacity of experts (experts.capacity), but which of a layer's 3 rows are of which sample is not known; expected a dim that counts samples, as the first one}}
dist.module @m attributes {expert_capacity = 1.25 : f64} {
  nn.parameter @w : tensor<4x6x6xf32> trainable from #nn.onnx<"m.onnx", "w">
  func.func @forward(%x: tensor<3x6xf32> {nn.name = "x"}, %scores: tensor<3x4xf32> {nn.name = "scores"}) -> (tensor<3x6xf32> {nn.name = "y"}) {
    %w = nn.read @w : tensor<4x6x6xf32>
    %top, %ids = nn.top_k %scores {axis = 1 : i64} : (tensor<3x4xf32>) -> (tensor<3x1xf32>, tensor<3x1xi64>)
    %rows = nn.reshape %ids : tensor<3x1xi64> to tensor<3xi64>
    %0 = nn.expert_linear %x by %rows, %w : tensor<3x6xf32>, tensor<3xi64>, tensor<4x6x6xf32>
    return %0 : tensor<3x6xf32>
  }
}

// -----

// expected-error@+1 {{'m' has a capacity of experts (experts.capacity), but which of a layer's seq packed rows are of which sample is said by 0 tensors of segments; expected one that its attention compares}}
dist.module @m attributes {expert_capacity = 1.25 : f64} {
  nn.dim @seq of "sample" measure "tokens" largest 16 max 16
  nn.parameter @w : tensor<4x6x6xf32> trainable from #nn.onnx<"m.onnx", "w">
  func.func @forward(%x: tensor<?x6xf32, #nn.dims<seq>> {nn.name = "x"}, %scores: tensor<?x4xf32, #nn.dims<seq>> {nn.name = "scores"}) -> (tensor<?x6xf32, #nn.dims<seq>> {nn.name = "y"}) {
    %w = nn.read @w : tensor<4x6x6xf32>
    %top, %ids = nn.top_k %scores {axis = 1 : i64} : (tensor<?x4xf32, #nn.dims<seq>>) -> (tensor<?x1xf32, #nn.dims<seq>>, tensor<?x1xi64, #nn.dims<seq>>)
    %rows = nn.reshape %ids : tensor<?x1xi64, #nn.dims<seq>> to tensor<?xi64, #nn.dims<seq>>
    %0 = nn.expert_linear %x by %rows, %w : tensor<?x6xf32, #nn.dims<seq>>, tensor<?xi64, #nn.dims<seq>>, tensor<4x6x6xf32>
    return %0 : tensor<?x6xf32, #nn.dims<seq>>
  }
}
