// Biases with a routing_rate: behind the shares of what they helped to choose stands nn.balance.
// RUN: dt-opt %s --pass-pipeline='builtin.module(dist.module(nn-balance-choices))' --split-input-file --verify-diagnostics | FileCheck %s

// Groups of experts are chosen first, whose choice is none among all.
dist.module @m {
  nn.parameter @bias : tensor<8xf32> trainable from #nn.onnx<"m.onnx", "bias"> {no_decay, routing_rate = 1.0e-3}
  // CHECK-LABEL: func.func @forward(
  // CHECK: %[[BIAS:.*]] = nn.read @bias
  // CHECK: %{{[a-z0-9_]+}}, %[[IDS:[a-z0-9_]+]] = nn.top_k {{.*}} : (tensor<5x8xf32>) -> (tensor<5x3xf32>, tensor<5x3xi64>)
  // CHECK-NEXT: %[[SHARES:.*]] = nn.gather_elements %{{.*}} at %[[IDS]]
  // CHECK-NEXT: %[[SAME:.*]] = nn.balance %[[SHARES]], %[[BIAS]] by %[[IDS]] : tensor<5x3xf32>, tensor<8xf32>, tensor<5x3xi64>
  // CHECK-NEXT: nn.exp %[[SAME]]
  func.func @forward(%scores: tensor<5x8xf32> {nn.name = "scores"}) -> (tensor<5x3xf32> {nn.name = "y"}, tensor<5x2xi64> {nn.name = "groups"}) {
    %bias = nn.read @bias : tensor<8xf32>
    %choice = nn.add %scores, %bias : tensor<5x8xf32>, tensor<8xf32>
    %halves = nn.reshape %choice : tensor<5x8xf32> to tensor<5x2x4xf32>
    %best, %places = nn.top_k %halves {axis = 2 : i64} : (tensor<5x2x4xf32>) -> (tensor<5x2x2xf32>, tensor<5x2x2xi64>)
    %sums = nn.reduce sum %best {axes = array<i64: 2>} : tensor<5x2x2xf32>
    %values, %groups = nn.top_k %sums {axis = 1 : i64} : (tensor<5x2xf32>) -> (tensor<5x2xf32>, tensor<5x2xi64>)
    %top, %ids = nn.top_k %choice {axis = 1 : i64} : (tensor<5x8xf32>) -> (tensor<5x3xf32>, tensor<5x3xi64>)
    %shares = nn.gather_elements %scores at %ids {axis = 1 : i64} : tensor<5x8xf32>, tensor<5x3xi64>
    %y = nn.exp %shares : tensor<5x3xf32>
    return %y, %groups : tensor<5x3xf32>, tensor<5x2xi64>
  }
}

// -----

// One group holds all experts: of its best ones only the scores are taken.
dist.module @m {
  nn.parameter @bias : tensor<8xf32> trainable from #nn.onnx<"m.onnx", "bias"> {routing_rate = 1.0e-3}
  // CHECK-LABEL: func.func @forward(
  // CHECK: %{{[a-z0-9_]+}}, %[[IDS:[a-z0-9_]+]] = nn.top_k {{.*}} : (tensor<5x8xf32>) -> (tensor<5x3xf32>, tensor<5x3xi64>)
  // CHECK: nn.balance %{{.*}}, %{{.*}} by %[[IDS]] : tensor<5x3xf32>, tensor<8xf32>, tensor<5x3xi64>
  func.func @forward(%scores: tensor<5x8xf32> {nn.name = "scores"}) -> (tensor<5x3xf32> {nn.name = "y"}) {
    %bias = nn.read @bias : tensor<8xf32>
    %choice = nn.add %scores, %bias : tensor<5x8xf32>, tensor<8xf32>
    %group = nn.reshape %choice : tensor<5x8xf32> to tensor<5x1x8xf32>
    %best, %places = nn.top_k %group {axis = 2 : i64} : (tensor<5x1x8xf32>) -> (tensor<5x1x2xf32>, tensor<5x1x2xi64>)
    %sums = nn.reduce sum %best {axes = array<i64: 2>} : tensor<5x1x2xf32>
    %all = nn.broadcast %sums : tensor<5x1xf32> to tensor<5x8xf32>
    %kept = nn.add %choice, %all : tensor<5x8xf32>, tensor<5x8xf32>
    %top, %ids = nn.top_k %kept {axis = 1 : i64} : (tensor<5x8xf32>) -> (tensor<5x3xf32>, tensor<5x3xi64>)
    %shares = nn.gather_elements %scores at %ids {axis = 1 : i64} : tensor<5x8xf32>, tensor<5x3xi64>
    return %shares : tensor<5x3xf32>
  }
}

// -----

// Scores may be shown without a gradient, and what is shown may be counted.
dist.module @m {
  nn.parameter @bias : tensor<8xf32> trainable from #nn.onnx<"m.onnx", "bias"> {routing_rate = 1.0e-3}
  // CHECK-LABEL: func.func @forward(
  // CHECK: %{{[a-z0-9_]+}}, %[[IDS:[a-z0-9_]+]] = nn.top_k
  // CHECK: nn.balance %{{.*}}, %{{.*}} by %[[IDS]]
  func.func @forward(%scores: tensor<5x8xf32> {nn.name = "scores"}) -> (tensor<5x3xf32> {nn.name = "y"}, tensor<5x8xf32> {nn.name = "shown"}, tensor<5x3xf32> {nn.name = "counted"}) {
    %bias = nn.read @bias : tensor<8xf32>
    %choice = nn.add %scores, %bias : tensor<5x8xf32>, tensor<8xf32>
    %top, %ids = nn.top_k %choice {axis = 1 : i64} : (tensor<5x8xf32>) -> (tensor<5x3xf32>, tensor<5x3xi64>)
    %shares = nn.gather_elements %scores at %ids {axis = 1 : i64} : tensor<5x8xf32>, tensor<5x3xi64>
    %shown = nn.stop_gradient %choice : tensor<5x8xf32>
    %most, %which = nn.top_k %shown {axis = 1 : i64} : (tensor<5x8xf32>) -> (tensor<5x3xf32>, tensor<5x3xi64>)
    %counted = nn.cast %which : tensor<5x3xi64> to tensor<5x3xf32>
    return %shares, %shown, %counted : tensor<5x3xf32>, tensor<5x8xf32>, tensor<5x3xf32>
  }
}

// -----

dist.module @m {
  // expected-error@+1 {{'bias' is to even out experts' loads (optimizer.routing_bias), but more depends on it than which experts are chosen}}
  nn.parameter @bias : tensor<8xf32> trainable from #nn.onnx<"m.onnx", "bias"> {routing_rate = 1.0e-3}
  func.func @forward(%scores: tensor<5x8xf32> {nn.name = "scores"}) -> (tensor<5x3xf32> {nn.name = "y"}) {
    %bias = nn.read @bias : tensor<8xf32>
    %choice = nn.add %scores, %bias : tensor<5x8xf32>, tensor<8xf32>
    %top, %ids = nn.top_k %choice {axis = 1 : i64} : (tensor<5x8xf32>) -> (tensor<5x3xf32>, tensor<5x3xi64>)
    return %top : tensor<5x3xf32>
  }
}

// -----

dist.module @m {
  // expected-error@+1 {{'bias' is to even out experts' loads (optimizer.routing_bias), but 0 choices among 8 follow from it; expected one}}
  nn.parameter @bias : tensor<8xf32> trainable from #nn.onnx<"m.onnx", "bias"> {routing_rate = 1.0e-3}
  func.func @forward(%scores: tensor<5x8xf32> {nn.name = "scores"}) -> (tensor<5x8xi1> {nn.name = "y"}) {
    %bias = nn.read @bias : tensor<8xf32>
    %choice = nn.add %scores, %bias : tensor<5x8xf32>, tensor<8xf32>
    %y = nn.cmp gt %choice, %scores : tensor<5x8xf32>, tensor<5x8xf32>
    return %y : tensor<5x8xi1>
  }
}

// -----

dist.module @m {
  // expected-error@+1 {{'bias' is to even out experts' loads (optimizer.routing_bias), but nothing with a gradient follows from the choice}}
  nn.parameter @bias : tensor<8xf32> trainable from #nn.onnx<"m.onnx", "bias"> {routing_rate = 1.0e-3}
  func.func @forward(%scores: tensor<5x8xf32> {nn.name = "scores"}) -> (tensor<5x3xi64> {nn.name = "y"}) {
    %bias = nn.read @bias : tensor<8xf32>
    %choice = nn.add %scores, %bias : tensor<5x8xf32>, tensor<8xf32>
    %top, %ids = nn.top_k %choice {axis = 1 : i64} : (tensor<5x8xf32>) -> (tensor<5x3xf32>, tensor<5x3xi64>)
    return %ids : tensor<5x3xi64>
  }
}

// -----

dist.module @m {
  // expected-error@+1 {{'bias' is to even out experts' loads (optimizer.routing_bias), but nothing reads it}}
  nn.parameter @bias : tensor<8xf32> trainable from #nn.onnx<"m.onnx", "bias"> {routing_rate = 1.0e-3}
  func.func @forward(%scores: tensor<5x8xf32> {nn.name = "scores"}) -> (tensor<5x8xf32> {nn.name = "y"}) {
    return %scores : tensor<5x8xf32>
  }
}

// -----

dist.module @m {
  // expected-error@+1 {{'bias' is to even out experts' loads (optimizer.routing_bias), but is 'tensor<8x1xf32>'; expected one float32 for each expert}}
  nn.parameter @bias : tensor<8x1xf32> trainable from #nn.onnx<"m.onnx", "bias"> {routing_rate = 1.0e-3}
  func.func @forward(%scores: tensor<5x8xf32> {nn.name = "scores"}) -> (tensor<8x1xf32> {nn.name = "y"}) {
    %bias = nn.read @bias : tensor<8x1xf32>
    return %bias : tensor<8x1xf32>
  }
}
