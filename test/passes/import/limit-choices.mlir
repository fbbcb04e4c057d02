// A capacity of experts: choices beyond it get a number that is no expert's, before rows are cut in any way.
// RUN: dt-opt %s --nn-limit-choices --split-input-file | FileCheck %s

// Of each sample's 5 tokens; products of one choice share what is limited, and shares stay as they are.
// CHECK-LABEL: dist.module @m {
dist.module @m attributes {expert_capacity = 1.25 : f64} {
  nn.dim @batch of "sample" max 3
  nn.parameter @up : tensor<4x8x6xf32> trainable from #nn.onnx<"m.onnx", "up">
  nn.parameter @down : tensor<4x6x8xf32> trainable from #nn.onnx<"m.onnx", "down">
  // CHECK: func.func @forward
  // CHECK-SAME: tensor<f32> {nn.name = "loss.m.dropped"})
  // CHECK: %{{.*}}, %[[IDS:.*]] = nn.top_k
  // CHECK-NEXT: %[[CHOICES:.*]] = nn.reshape %[[IDS]] : tensor<?x5x2xi64, #nn.dims<batch>> to tensor<?x10xi64, #nn.dims<batch>>
  // CHECK-NEXT: %[[STAY:.*]] = nn.limit_choices %[[CHOICES]] of 4 within 1.250000e+00 : tensor<?x10xi64, #nn.dims<batch>>
  // CHECK-NEXT: %[[ONES:.*]] = nn.cast %[[STAY]] : {{.*}} to tensor<?x10xi64, #nn.dims<batch>>
  // CHECK-NEXT: %[[SUM:.*]] = nn.reduce sum %[[ONES]] {axes = array<i64: 1>}
  // CHECK-NEXT: %[[ALL:.*]] = nn.constant dense<10> : tensor<i64>
  // CHECK-NEXT: %[[OUT:.*]] = nn.sub %[[ALL]], %[[SUM]]
  // CHECK-NEXT: %[[NONE:.*]] = nn.constant dense<4> : tensor<i64>
  // CHECK-NEXT: %[[SAME:.*]] = nn.reshape %[[STAY]] : {{.*}} to tensor<?x5x2xi1, #nn.dims<batch>>
  // CHECK-NEXT: %[[LIMITED:.*]] = nn.where %[[SAME]], %[[IDS]], %[[NONE]]
  // CHECK: %[[ROWS:.*]] = nn.reshape %[[LIMITED]] : {{.*}} to tensor<?xi64, #nn.dims<10*batch>>
  // CHECK-NEXT: nn.expert_linear %{{.*}} by %[[ROWS]], %{{.*}} {limited}
  // CHECK: nn.mul %{{.*}}, %arg2
  // CHECK: %[[AGAIN:.*]] = nn.reshape %[[LIMITED]]
  // CHECK-NEXT: nn.expert_linear %{{.*}} by %[[AGAIN]], %{{.*}} {limited}
  // CHECK-NEXT: %[[FLOATS:.*]] = nn.cast %[[OUT]] : {{.*}} to tensor<?xf32, #nn.dims<batch>>
  // CHECK-NEXT: %[[DROPPED:.*]] = nn.reduce sum %[[FLOATS]] {axes = array<i64: 0>}
  // CHECK-NEXT: return %{{.*}}, %[[DROPPED]]
  // CHECK: dist.loss "m.dropped" in @m numerator "loss.m.dropped" weight 0.000000e+00 {ignores_padding}
  func.func @forward(%x: tensor<?x6xf32, #nn.dims<10*batch>> {nn.name = "x"}, %scores: tensor<?x5x4xf32, #nn.dims<batch>> {nn.name = "scores"}, %shares: tensor<?x1xf32, #nn.dims<10*batch>> {nn.name = "shares"}) -> (tensor<?x6xf32, #nn.dims<10*batch>> {nn.name = "y"}) {
    %up = nn.read @up : tensor<4x8x6xf32>
    %down = nn.read @down : tensor<4x6x8xf32>
    %top, %ids = nn.top_k %scores {axis = 2 : i64} : (tensor<?x5x4xf32, #nn.dims<batch>>) -> (tensor<?x5x2xf32, #nn.dims<batch>>, tensor<?x5x2xi64, #nn.dims<batch>>)
    %rows = nn.reshape %ids : tensor<?x5x2xi64, #nn.dims<batch>> to tensor<?xi64, #nn.dims<10*batch>>
    %0 = nn.expert_linear %x by %rows, %up : tensor<?x6xf32, #nn.dims<10*batch>>, tensor<?xi64, #nn.dims<10*batch>>, tensor<4x8x6xf32>
    %1 = nn.mul %0, %shares : tensor<?x8xf32, #nn.dims<10*batch>>, tensor<?x1xf32, #nn.dims<10*batch>>
    %2 = nn.expert_linear %1 by %rows, %down : tensor<?x8xf32, #nn.dims<10*batch>>, tensor<?xi64, #nn.dims<10*batch>>, tensor<4x6x8xf32>
    return %2 : tensor<?x6xf32, #nn.dims<10*batch>>
  }
}

// -----

// Packed rows: of one sample are those that attention keeps apart. Rows that are no item's are not counted. A second layer adds to the count of the first.
// CHECK-LABEL: dist.module @packed {
dist.module @packed attributes {expert_capacity = 2.0 : f64} {
  nn.dim @seq of "sample" measure "tokens" largest 16 max 16
  nn.parameter @w : tensor<4x6x6xf32> trainable from #nn.onnx<"m.onnx", "w">
  // CHECK: func.func @forward
  // CHECK: %{{.*}}, %[[IDS:.*]] = nn.top_k
  // CHECK-NEXT: %[[SEGMENTS:.*]] = nn.cast %arg2 : {{.*}} to tensor<1x?xi64, #nn.dims<seq>>
  // CHECK-NEXT: %[[CHOICES:.*]] = nn.reshape %[[IDS]] : {{.*}} to tensor<1x?xi64, #nn.dims<2*seq>>
  // CHECK-NEXT: %[[STAY:.*]] = nn.limit_choices %[[CHOICES]] of 4 within 2.000000e+00 apart %[[SEGMENTS]]
  // CHECK: %[[OUT:.*]] = nn.sub
  // CHECK: %[[LOWEST:.*]] = nn.constant dense<-2147483648> : tensor<i64>
  // CHECK: %[[PADDED:.*]] = nn.cmp eq %{{.*}}, %[[LOWEST]]
  // CHECK: %[[FIRST:.*]] = nn.where %[[PADDED]], %{{.*}}, %[[OUT]]
  // CHECK: nn.limit_choices
  // CHECK: %[[SECOND:.*]] = nn.where {{.*}}: tensor<?xi1, #nn.dims<seq>>, tensor<i64>, tensor<?xi64, #nn.dims<seq>>
  // CHECK: %[[BOTH:.*]] = nn.add %[[FIRST]], %[[SECOND]]
  // CHECK: nn.cast %[[BOTH]] : tensor<?xi64, #nn.dims<seq>> to tensor<?xf32, #nn.dims<seq>>
  func.func @forward(%q: tensor<1x?x2x3xf32, #nn.dims<seq>> {nn.name = "q"}, %scores: tensor<?x4xf32, #nn.dims<seq>> {nn.name = "scores"}, %segments: tensor<1x?xi32, #nn.dims<seq>> {nn.name = "segments"}) -> (tensor<?x6xf32, #nn.dims<2*seq>> {nn.name = "y"}) {
    %w = nn.read @w : tensor<4x6x6xf32>
    %a, %lse = nn.attention %q, %q, %q segments %segments by %segments {causal, scale = 0.5 : f64} : tensor<1x?x2x3xf32, #nn.dims<seq>>, tensor<1x?x2x3xf32, #nn.dims<seq>>, tensor<1x?x2x3xf32, #nn.dims<seq>>, tensor<1x?xi32, #nn.dims<seq>>, tensor<1x?xi32, #nn.dims<seq>>
    %one = nn.reshape %a : tensor<1x?x2x3xf32, #nn.dims<seq>> to tensor<?x1x6xf32, #nn.dims<seq>>
    %two = nn.broadcast %one : tensor<?x1x6xf32, #nn.dims<seq>> to tensor<?x2x6xf32, #nn.dims<seq>>
    %x = nn.reshape %two : tensor<?x2x6xf32, #nn.dims<seq>> to tensor<?x6xf32, #nn.dims<2*seq>>
    %top, %ids = nn.top_k %scores {axis = 1 : i64} : (tensor<?x4xf32, #nn.dims<seq>>) -> (tensor<?x2xf32, #nn.dims<seq>>, tensor<?x2xi64, #nn.dims<seq>>)
    %rows = nn.reshape %ids : tensor<?x2xi64, #nn.dims<seq>> to tensor<?xi64, #nn.dims<2*seq>>
    %0 = nn.expert_linear %x by %rows, %w : tensor<?x6xf32, #nn.dims<2*seq>>, tensor<?xi64, #nn.dims<2*seq>>, tensor<4x6x6xf32>
    %least = nn.neg %scores : tensor<?x4xf32, #nn.dims<seq>>
    %last, %others = nn.top_k %least {axis = 1 : i64} : (tensor<?x4xf32, #nn.dims<seq>>) -> (tensor<?x2xf32, #nn.dims<seq>>, tensor<?x2xi64, #nn.dims<seq>>)
    %next = nn.reshape %others : tensor<?x2xi64, #nn.dims<seq>> to tensor<?xi64, #nn.dims<2*seq>>
    %1 = nn.expert_linear %0 by %next, %w : tensor<?x6xf32, #nn.dims<2*seq>>, tensor<?xi64, #nn.dims<2*seq>>, tensor<4x6x6xf32>
    return %1 : tensor<?x6xf32, #nn.dims<2*seq>>
  }
}

// -----

// Nothing is said of other modules.
// CHECK-LABEL: dist.module @other
// CHECK-NOT: nn.limit_choices
// CHECK-NOT: dist.loss
dist.module @other {
  nn.dim @batch of "sample" max 3
  nn.parameter @w : tensor<4x6x6xf32> trainable from #nn.onnx<"m.onnx", "w">
  func.func @forward(%x: tensor<?x6xf32, #nn.dims<batch>> {nn.name = "x"}, %scores: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "scores"}) -> (tensor<?x6xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %w = nn.read @w : tensor<4x6x6xf32>
    %top, %ids = nn.top_k %scores {axis = 1 : i64} : (tensor<?x4xf32, #nn.dims<batch>>) -> (tensor<?x1xf32, #nn.dims<batch>>, tensor<?x1xi64, #nn.dims<batch>>)
    %rows = nn.reshape %ids : tensor<?x1xi64, #nn.dims<batch>> to tensor<?xi64, #nn.dims<batch>>
    %0 = nn.expert_linear %x by %rows, %w : tensor<?x6xf32, #nn.dims<batch>>, tensor<?xi64, #nn.dims<batch>>, tensor<4x6x6xf32>
    return %0 : tensor<?x6xf32, #nn.dims<batch>>
  }
}
