// RUN: dt-opt %s --pass-pipeline="builtin.module(dist.module(nn-differentiate,func.func(cse)))" | FileCheck %s

// Gradients of rows by expert: dispatch and combine are each other's.

dist.module @m {

// CHECK-LABEL: func.func @dispatch.bwd(
// CHECK-SAME: %[[ORDER:[a-z0-9]+]]: tensor<6xi32>{{.*}}%[[PLACE:[a-z0-9]+]]: tensor<6xi32>{{.*}}%[[DY:[a-z0-9]+]]: tensor<6x4xf32>
// CHECK-NEXT: %[[DX:.*]] = nn.combine %[[DY]] by %[[ORDER]], %[[PLACE]] each 2
// CHECK-NEXT: return %[[DX]]
  func.func @dispatch(%x: tensor<3x4xf32> {nn.wants_grad}, %order: tensor<6xi32>, %place: tensor<6xi32>) -> (tensor<6x4xf32> {nn.gradients = [#nn.gradient<edge = "m.dispatch">]}) {
    %0 = nn.dispatch %x by %order, %place each 2 : tensor<3x4xf32>, tensor<6xi32>, tensor<6xi32>
    return %0 : tensor<6x4xf32>
  }

// CHECK-LABEL: func.func @combine.bwd(
// CHECK-SAME: %[[ORDER:[a-z0-9]+]]: tensor<6xi32>{{.*}}%[[PLACE:[a-z0-9]+]]: tensor<6xi32>{{.*}}%[[DY:[a-z0-9]+]]: tensor<3x4xf32>
// CHECK-NEXT: %[[DX:.*]] = nn.dispatch %[[DY]] by %[[ORDER]], %[[PLACE]] each 2
// CHECK-NEXT: return %[[DX]]
  func.func @combine(%x: tensor<6x4xf32> {nn.wants_grad}, %order: tensor<6xi32>, %place: tensor<6xi32>) -> (tensor<3x4xf32> {nn.gradients = [#nn.gradient<edge = "m.combine">]}) {
    %0 = nn.combine %x by %order, %place each 2 : tensor<6x4xf32>, tensor<6xi32>, tensor<6xi32>
    return %0 : tensor<3x4xf32>
  }

// CHECK-LABEL: func.func @grouped.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<6x4xf32>{{.*}}%[[W:[a-z0-9]+]]: tensor<2x5x4xf32>{{.*}}%[[OFFSETS:[a-z0-9]+]]: tensor<3xi32>{{.*}}%[[DY:[a-z0-9]+]]: tensor<6x5xf32>
// CHECK-NEXT: %[[DX:.*]] = nn.grouped_linear %[[DY]], %[[W]] at %[[OFFSETS]] {in_out}
// CHECK-NEXT: %[[DW:.*]] = nn.grouped_linear_dw %[[X]], %[[DY]] at %[[OFFSETS]] :
// CHECK-NEXT: %[[DB:.*]] = nn.grouped_sum %[[DY]] at %[[OFFSETS]]
// CHECK-NEXT: return %[[DX]], %[[DW]], %[[DB]]
  func.func @grouped(%x: tensor<6x4xf32> {nn.wants_grad}, %w: tensor<2x5x4xf32> {nn.wants_grad}, %offsets: tensor<3xi32>, %b: tensor<2x5xf32> {nn.wants_grad}) -> (tensor<6x5xf32> {nn.gradients = [#nn.gradient<edge = "m.grouped">]}) {
    %0 = nn.grouped_linear %x, %w at %offsets bias %b : tensor<6x4xf32>, tensor<2x5x4xf32>, tensor<3xi32>, tensor<2x5xf32>
    return %0 : tensor<6x5xf32>
  }

// Of each expert: how often it was chosen times the number of experts, minus the number of choices, whatever the result's gradient.
// CHECK-LABEL: func.func @balance.fwd(
// CHECK-NOT: nn.balance
// CHECK-LABEL: func.func @balance.bwd(
// CHECK-SAME: %[[IDS:[a-z0-9]+]]: tensor<3x2xi64>{{.*}}%[[DY:[a-z0-9]+]]: tensor<3x2xf32>
// CHECK: %[[ONES:.*]] = nn.broadcast %{{.*}} : tensor<f32> to tensor<3x2xf32>
// CHECK: %[[CHOSEN:.*]] = nn.gather_elements_grad %[[ONES]] at %[[IDS]] {axis = 1 : i64} : (tensor<3x2xf32>, tensor<3x2xi64>) -> tensor<3x4xf32>
// CHECK: %[[TIMES:.*]] = nn.constant dense<4.0
// CHECK: %[[EACH:.*]] = nn.mul %[[CHOSEN]], %[[TIMES]]
// CHECK: %[[ROW:.*]] = nn.constant dense<-2.0
// CHECK: %[[ABOVE:.*]] = nn.add %[[EACH]], %[[ROW]]
// CHECK: %[[DB:.*]] = nn.reduce sum %[[ABOVE]] {axes = array<i64: 0>} : tensor<3x4xf32>
// CHECK: return %[[DY]], %[[DB]]
  func.func @balance(%x: tensor<3x2xf32> {nn.wants_grad}, %b: tensor<4xf32> {nn.wants_grad}, %ids: tensor<3x2xi64>) -> (tensor<3x2xf32> {nn.gradients = [#nn.gradient<edge = "m.balance">]}) {
    %0 = nn.balance %x, %b by %ids : tensor<3x2xf32>, tensor<4xf32>, tensor<3x2xi64>
    return %0 : tensor<3x2xf32>
  }
}
