// RUN: dt-opt %s --pass-pipeline="builtin.module(dist.module(func.func(nn-group-experts,canonicalize,cse)))" | FileCheck %s

!x = tensor<?x6xf32, #nn.dims<t>>
!rows = tensor<?x6xf32, #nn.dims<2*t>>
!inner = tensor<?x8xf32, #nn.dims<2*t>>
!half = tensor<?x4xf32, #nn.dims<2*t>>
!ids = tensor<?xi64, #nn.dims<2*t>>
!share = tensor<?x1xf32, #nn.dims<2*t>>
!tokens = tensor<?x2x6xf32, #nn.dims<t>>

dist.module @m {
  nn.dim @t

// Tokens are dispatched once, their shares too, and rows go back as sums.
// CHECK-LABEL: func.func @layer
// CHECK: %[[ORDER:.*]], %[[PLACE:.*]], %[[OFFSETS:.*]] = nn.route %arg1 of 4
// CHECK: %[[X:.*]] = nn.dispatch %arg0 by %[[ORDER]], %[[PLACE]]
// CHECK: %[[UP:.*]] = nn.grouped_linear %[[X]], %arg2 at %[[OFFSETS]]
// CHECK: nn.slice %[[UP]]
// CHECK: nn.silu
// CHECK: %[[H:.*]] = nn.mul
// CHECK: %[[S:.*]] = nn.dispatch %arg4 by %[[ORDER]], %[[PLACE]]
// CHECK: %[[HS:.*]] = nn.mul %[[H]], %[[S]]
// CHECK: %[[Y:.*]] = nn.grouped_linear %[[HS]], %arg3 at %[[OFFSETS]]
// CHECK: %[[SUM:.*]] = nn.combine %[[Y]] by %[[ORDER]], %[[PLACE]] each 2
// CHECK-NEXT: return %[[SUM]]
  func.func @layer(%x: !x, %ids: !ids, %up: tensor<4x8x6xf32>, %down: tensor<4x6x4xf32>, %share: !share) -> !x {
    %0 = nn.reshape %x : !x to tensor<?x1x6xf32, #nn.dims<t>>
    %1 = nn.broadcast %0 : tensor<?x1x6xf32, #nn.dims<t>> to !tokens
    %2 = nn.reshape %1 : !tokens to !rows
    %3 = nn.expert_linear %2 by %ids, %up : !rows, !ids, tensor<4x8x6xf32>
    %4 = nn.slice %3 [0, 0] step [1, 1] : !inner to !half
    %5 = nn.slice %3 [0, 4] step [1, 1] : !inner to !half
    %6 = nn.silu %4 : !half
    %7 = nn.mul %6, %5 : !half, !half
    %8 = nn.mul %7, %share : !half, !share
    %9 = nn.expert_linear %8 by %ids, %down : !half, !ids, tensor<4x6x4xf32>
    %10 = nn.reshape %9 : !rows to !tokens
    %11 = nn.reduce sum %10 {axes = array<i64: 1>} : !tokens
    return %11 : !x
  }

// Rows in bf16 are widened for their sum only: it is taken where they lie.
// CHECK-LABEL: func.func @narrow
// CHECK: %[[Y:.*]] = nn.grouped_linear
// CHECK: %[[SUM:.*]] = nn.combine %[[Y]] by {{.*}} each 2 : tensor<?x6xbf16
// CHECK: %[[WIDE:.*]] = nn.cast %[[SUM]]
// CHECK-NEXT: return %[[WIDE]]
  func.func @narrow(%x: tensor<?x4xbf16, #nn.dims<2*t>>, %ids: !ids, %down: tensor<4x6x4xbf16>) -> !x {
    %0 = nn.expert_linear %x by %ids, %down : tensor<?x4xbf16, #nn.dims<2*t>>, !ids, tensor<4x6x4xbf16>
    %1 = nn.reshape %0 : tensor<?x6xbf16, #nn.dims<2*t>> to tensor<?x2x6xbf16, #nn.dims<t>>
    %2 = nn.cast %1 : tensor<?x2x6xbf16, #nn.dims<t>> to !tokens
    %3 = nn.reduce sum %2 {axes = array<i64: 1>} : !tokens
    return %3 : !x
  }

// Of a choice within a capacity number 4 is of no expert: such a row has no place.
// CHECK-LABEL: func.func @limited
// CHECK: %[[FIRST:.*]] = nn.constant dense<0> : tensor<i64>
// CHECK: %[[ORDER:.*]], %[[PLACE:.*]], %[[OFFSETS:.*]] = nn.route %arg1 of 5 from %[[FIRST]] take 4
// CHECK: %[[X:.*]] = nn.dispatch %arg0 by %[[ORDER]], %[[PLACE]] each 1 {parts = 1 : i64}
// CHECK: %[[Y:.*]] = nn.grouped_linear %[[X]], %arg2 at %[[OFFSETS]] {parts = 1 : i64}
// CHECK: nn.combine %[[Y]] by %[[ORDER]], %[[PLACE]] each 1 {parts = 1 : i64}
  func.func @limited(%x: !rows, %ids: !ids, %w: tensor<4x8x6xf32>) -> !inner {
    %0 = nn.expert_linear %x by %ids, %w {limited} : !rows, !ids, tensor<4x8x6xf32>
    return %0 : !inner
  }

// Of 3 tokens of a sample each expert has at most 2 rows: there is room for no more than 8 a sample.
// CHECK-LABEL: func.func @room
// CHECK: nn.route %{{.*}} of 5 from %{{.*}} take 4 {room = #nn.dim<8*t>} : tensor<?xi64, #nn.dims<6*t>>
// CHECK: nn.dispatch {{.*}} {parts = 1 : i64, room = #nn.dim<8*t>} : {{.*}}, tensor<?xi32, #nn.dims<6*t>>, tensor<?xi32, #nn.dims<6*t>>
  func.func @room(%x: tensor<?x6xf32, #nn.dims<6*t>>, %ids: tensor<?x2xi64, #nn.dims<3*t>>, %w: tensor<4x8x6xf32>) -> tensor<?x8xf32, #nn.dims<6*t>> {
    %none = nn.constant dense<4> : tensor<i64>
    %choices = nn.reshape %ids : tensor<?x2xi64, #nn.dims<3*t>> to tensor<?x6xi64, #nn.dims<t>>
    %kept = nn.limit_choices %choices of 4 within 1.25 : tensor<?x6xi64, #nn.dims<t>>
    %same = nn.reshape %kept : tensor<?x6xi1, #nn.dims<t>> to tensor<?x2xi1, #nn.dims<3*t>>
    %limited = nn.where %same, %ids, %none : tensor<?x2xi1, #nn.dims<3*t>>, tensor<?x2xi64, #nn.dims<3*t>>, tensor<i64>
    %rows = nn.reshape %limited : tensor<?x2xi64, #nn.dims<3*t>> to tensor<?xi64, #nn.dims<6*t>>
    %0 = nn.expert_linear %x by %rows, %w {limited} : tensor<?x6xf32, #nn.dims<6*t>>, tensor<?xi64, #nn.dims<6*t>>, tensor<4x8x6xf32>
    return %0 : tensor<?x8xf32, #nn.dims<6*t>>
  }

// A running sum over rows stays in the order of the tokens.
// CHECK-LABEL: func.func @mixing
// CHECK: %[[X:.*]] = nn.dispatch %arg0 by
// CHECK: %[[Y:.*]] = nn.grouped_linear %[[X]]
// CHECK: %[[BACK:.*]] = nn.combine %[[Y]] by {{.*}} each 1
// CHECK: nn.cumsum %[[BACK]]
  func.func @mixing(%x: !rows, %ids: !ids, %w: tensor<4x8x6xf32>) -> !inner {
    %0 = nn.expert_linear %x by %ids, %w : !rows, !ids, tensor<4x8x6xf32>
    %1 = nn.cumsum %0 {axis = 0} : !inner
    return %1 : !inner
  }

// Two choices have two orders.
// CHECK-LABEL: func.func @two
// CHECK: nn.route %arg1
// CHECK: nn.combine {{.*}} each 1
// CHECK: nn.route %arg2
// CHECK: nn.dispatch
  func.func @two(%x: !rows, %ids: !ids, %others: !ids, %w: tensor<4x6x6xf32>) -> !rows {
    %0 = nn.expert_linear %x by %ids, %w : !rows, !ids, tensor<4x6x6xf32>
    %1 = nn.expert_linear %0 by %others, %w : !rows, !ids, tensor<4x6x6xf32>
    return %1 : !rows
  }
}
