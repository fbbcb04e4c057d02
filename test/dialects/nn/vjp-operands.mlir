// RUN: dt-opt %s --pass-pipeline="builtin.module(dist.module(nn-differentiate,func.func(cse)))" | FileCheck %s

// Gradients of elementwise ops of several operands.

dist.module @m {
  nn.dim @batch

// Both operands are broadcast: their gradients are sums.
// CHECK-LABEL: func.func @add.bwd(
// CHECK-SAME: %[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.reduce sum %[[DY]] {axes = array<i64: 1>}
// CHECK-NEXT: %[[V1:.*]] = nn.reshape %[[V0]] : tensor<3xf32> to tensor<3x1xf32>
// CHECK-NEXT: %[[V2:.*]] = nn.reduce sum %[[DY]] {axes = array<i64: 0>}
// CHECK-NEXT: return %[[V1]], %[[V2]]
  func.func @add(%x: tensor<3x1xf32> {nn.wants_grad}, %y: tensor<4xf32> {nn.wants_grad}) -> (tensor<3x4xf32> {nn.gradients = [#nn.gradient<edge = "m.add">]}) {
    %0 = nn.add %x, %y : tensor<3x1xf32>, tensor<4xf32>
    return %0 : tensor<3x4xf32>
  }

// CHECK-LABEL: func.func @sub.bwd(
// CHECK-SAME: %[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.reduce sum %[[DY]] {axes = array<i64: 1>}
// CHECK-NEXT: %[[V1:.*]] = nn.reshape %[[V0]] : tensor<3xf32> to tensor<3x1xf32>
// CHECK-NEXT: %[[V2:.*]] = nn.reduce sum %[[DY]] {axes = array<i64: 0>}
// CHECK-NEXT: %[[V3:.*]] = nn.neg %[[V2]]
// CHECK-NEXT: return %[[V1]], %[[V3]]
  func.func @sub(%x: tensor<3x1xf32> {nn.wants_grad}, %y: tensor<4xf32> {nn.wants_grad}) -> (tensor<3x4xf32> {nn.gradients = [#nn.gradient<edge = "m.sub">]}) {
    %0 = nn.sub %x, %y : tensor<3x1xf32>, tensor<4xf32>
    return %0 : tensor<3x4xf32>
  }

// CHECK-LABEL: func.func @mul.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[X2:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.mul %[[DY]], %[[X2]]
// CHECK-NEXT: %[[V1:.*]] = nn.reduce sum %[[V0]] {axes = array<i64: 1>}
// CHECK-NEXT: %[[V2:.*]] = nn.reshape %[[V1]] : tensor<3xf32> to tensor<3x1xf32>
// CHECK-NEXT: %[[V3:.*]] = nn.mul %[[DY]], %[[X]]
// CHECK-NEXT: %[[V4:.*]] = nn.reduce sum %[[V3]] {axes = array<i64: 0>}
// CHECK-NEXT: return %[[V2]], %[[V4]]
  func.func @mul(%x: tensor<3x1xf32> {nn.wants_grad}, %y: tensor<4xf32> {nn.wants_grad}) -> (tensor<3x4xf32> {nn.gradients = [#nn.gradient<edge = "m.mul">]}) {
    %0 = nn.mul %x, %y : tensor<3x1xf32>, tensor<4xf32>
    return %0 : tensor<3x4xf32>
  }

// CHECK-LABEL: func.func @div.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[X2:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.div %[[DY]], %[[X2]]
// CHECK-NEXT: %[[V1:.*]] = nn.reduce sum %[[V0]] {axes = array<i64: 1>}
// CHECK-NEXT: %[[V2:.*]] = nn.reshape %[[V1]] : tensor<3xf32> to tensor<3x1xf32>
// CHECK-NEXT: %[[V3:.*]] = nn.div %[[X]], %[[X2]]
// CHECK-NEXT: %[[V4:.*]] = nn.mul %[[V0]], %[[V3]]
// CHECK-NEXT: %[[V5:.*]] = nn.neg %[[V4]]
// CHECK-NEXT: %[[V6:.*]] = nn.reduce sum %[[V5]] {axes = array<i64: 0>}
// CHECK-NEXT: return %[[V2]], %[[V6]]
  func.func @div(%x: tensor<3x1xf32> {nn.wants_grad}, %y: tensor<4xf32> {nn.wants_grad}) -> (tensor<3x4xf32> {nn.gradients = [#nn.gradient<edge = "m.div">]}) {
    %0 = nn.div %x, %y : tensor<3x1xf32>, tensor<4xf32>
    return %0 : tensor<3x4xf32>
  }

// CHECK-LABEL: func.func @pow.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[X2:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.mul %[[DY]], %[[X2]]
// CHECK-NEXT: %[[V1:.*]] = nn.constant dense<-1.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V2:.*]] = nn.add %[[X2]], %[[V1]]
// CHECK-NEXT: %[[V3:.*]] = nn.pow %[[X]], %[[V2]]
// CHECK-NEXT: %[[V4:.*]] = nn.mul %[[V0]], %[[V3]]
// CHECK-NEXT: %[[V5:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V6:.*]] = nn.cmp eq %[[X2]], %[[V5]]
// CHECK-NEXT: %[[V7:.*]] = nn.where %[[V6]], %[[V5]], %[[V4]]
// CHECK-NEXT: %[[V8:.*]] = nn.reduce sum %[[V7]] {axes = array<i64: 1>}
// CHECK-NEXT: %[[V9:.*]] = nn.reshape %[[V8]] : tensor<3xf32> to tensor<3x1xf32>
// CHECK-NEXT: %[[V10:.*]] = nn.pow %[[X]], %[[X2]]
// CHECK-NEXT: %[[V11:.*]] = nn.mul %[[DY]], %[[V10]]
// CHECK-NEXT: %[[V12:.*]] = nn.log %[[X]]
// CHECK-NEXT: %[[V13:.*]] = nn.mul %[[V11]], %[[V12]]
// CHECK-NEXT: %[[V14:.*]] = nn.cmp eq %[[X]], %[[V5]]
// CHECK-NEXT: %[[V15:.*]] = nn.cmp ge %[[X2]], %[[V5]]
// CHECK-NEXT: %[[V16:.*]] = nn.and %[[V14]], %[[V15]]
// CHECK-NEXT: %[[V17:.*]] = nn.where %[[V16]], %[[V5]], %[[V13]]
// CHECK-NEXT: %[[V18:.*]] = nn.reduce sum %[[V17]] {axes = array<i64: 0>}
// CHECK-NEXT: return %[[V9]], %[[V18]]
  func.func @pow(%x: tensor<3x1xf32> {nn.wants_grad}, %y: tensor<4xf32> {nn.wants_grad}) -> (tensor<3x4xf32> {nn.gradients = [#nn.gradient<edge = "m.pow">]}) {
    %0 = nn.pow %x, %y : tensor<3x1xf32>, tensor<4xf32>
    return %0 : tensor<3x4xf32>
  }

// CHECK-LABEL: func.func @max.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[X2:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.cmp eq %[[X]], %[[X2]]
// CHECK-NEXT: %[[V1:.*]] = nn.cmp gt %[[X]], %[[X2]]
// CHECK-NEXT: %[[V2:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V3:.*]] = nn.where %[[V1]], %[[DY]], %[[V2]]
// CHECK-NEXT: %[[V4:.*]] = nn.constant dense<5.000000e-01> : tensor<f32>
// CHECK-NEXT: %[[V5:.*]] = nn.mul %[[DY]], %[[V4]]
// CHECK-NEXT: %[[V6:.*]] = nn.where %[[V0]], %[[V5]], %[[V3]]
// CHECK-NEXT: %[[V7:.*]] = nn.reduce sum %[[V6]] {axes = array<i64: 1>}
// CHECK-NEXT: %[[V8:.*]] = nn.reshape %[[V7]] : tensor<3xf32> to tensor<3x1xf32>
// CHECK-NEXT: %[[V9:.*]] = nn.cmp eq %[[X2]], %[[X]]
// CHECK-NEXT: %[[V10:.*]] = nn.cmp gt %[[X2]], %[[X]]
// CHECK-NEXT: %[[V11:.*]] = nn.where %[[V10]], %[[DY]], %[[V2]]
// CHECK-NEXT: %[[V12:.*]] = nn.where %[[V9]], %[[V5]], %[[V11]]
// CHECK-NEXT: %[[V13:.*]] = nn.reduce sum %[[V12]] {axes = array<i64: 0>}
// CHECK-NEXT: return %[[V8]], %[[V13]]
  func.func @max(%x: tensor<3x1xf32> {nn.wants_grad}, %y: tensor<4xf32> {nn.wants_grad}) -> (tensor<3x4xf32> {nn.gradients = [#nn.gradient<edge = "m.max">]}) {
    %0 = nn.max %x, %y : tensor<3x1xf32>, tensor<4xf32>
    return %0 : tensor<3x4xf32>
  }

// CHECK-LABEL: func.func @min.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[X2:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.cmp eq %[[X]], %[[X2]]
// CHECK-NEXT: %[[V1:.*]] = nn.cmp lt %[[X]], %[[X2]]
// CHECK-NEXT: %[[V2:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V3:.*]] = nn.where %[[V1]], %[[DY]], %[[V2]]
// CHECK-NEXT: %[[V4:.*]] = nn.constant dense<5.000000e-01> : tensor<f32>
// CHECK-NEXT: %[[V5:.*]] = nn.mul %[[DY]], %[[V4]]
// CHECK-NEXT: %[[V6:.*]] = nn.where %[[V0]], %[[V5]], %[[V3]]
// CHECK-NEXT: %[[V7:.*]] = nn.reduce sum %[[V6]] {axes = array<i64: 1>}
// CHECK-NEXT: %[[V8:.*]] = nn.reshape %[[V7]] : tensor<3xf32> to tensor<3x1xf32>
// CHECK-NEXT: %[[V9:.*]] = nn.cmp eq %[[X2]], %[[X]]
// CHECK-NEXT: %[[V10:.*]] = nn.cmp lt %[[X2]], %[[X]]
// CHECK-NEXT: %[[V11:.*]] = nn.where %[[V10]], %[[DY]], %[[V2]]
// CHECK-NEXT: %[[V12:.*]] = nn.where %[[V9]], %[[V5]], %[[V11]]
// CHECK-NEXT: %[[V13:.*]] = nn.reduce sum %[[V12]] {axes = array<i64: 0>}
// CHECK-NEXT: return %[[V8]], %[[V13]]
  func.func @min(%x: tensor<3x1xf32> {nn.wants_grad}, %y: tensor<4xf32> {nn.wants_grad}) -> (tensor<3x4xf32> {nn.gradients = [#nn.gradient<edge = "m.min">]}) {
    %0 = nn.min %x, %y : tensor<3x1xf32>, tensor<4xf32>
    return %0 : tensor<3x4xf32>
  }

// Only what is wanted.
// CHECK-LABEL: func.func @mul_one.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.mul %[[DY]], %[[X]]
// CHECK-NEXT: return %[[V0]]
  func.func @mul_one(%x: tensor<4xf32> {nn.wants_grad}, %y: tensor<4xf32>) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.mul_one">]}) {
    %0 = nn.mul %x, %y : tensor<4xf32>, tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// Both contributions of one value are added.
// CHECK-LABEL: func.func @square.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.mul %[[DY]], %[[X]]
// CHECK-NEXT: %[[V1:.*]] = nn.add %[[V0]], %[[V0]]
// CHECK-NEXT: return %[[V1]]
  func.func @square(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.square">]}) {
    %0 = nn.mul %x, %x : tensor<4xf32>, tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @pow_0.bwd(
// CHECK-SAME: %[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V1:.*]] = nn.broadcast %[[V0]] : tensor<f32> to tensor<4xf32>
// CHECK-NEXT: return %[[V1]]
  func.func @pow_0(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.pow_0">]}) {
    %c = nn.constant dense<0.0> : tensor<f32>
    %0 = nn.pow %x, %c : tensor<4xf32>, tensor<f32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @pow_1.bwd(
// CHECK-SAME: %[[DY:[a-z0-9]+]]:
// CHECK-NEXT: return %[[DY]]
  func.func @pow_1(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.pow_1">]}) {
    %c = nn.constant dense<1.0> : tensor<f32>
    %0 = nn.pow %x, %c : tensor<4xf32>, tensor<f32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @pow_2.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.constant dense<2.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V1:.*]] = nn.mul %[[DY]], %[[V0]]
// CHECK-NEXT: %[[V2:.*]] = nn.mul %[[V1]], %[[X]]
// CHECK-NEXT: return %[[V2]]
  func.func @pow_2(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.pow_2">]}) {
    %c = nn.constant dense<2.0> : tensor<f32>
    %0 = nn.pow %x, %c : tensor<4xf32>, tensor<f32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @pow_3.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.constant dense<2.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V1:.*]] = nn.pow %[[X]], %[[V0]]
// CHECK-NEXT: %[[V2:.*]] = nn.constant dense<3.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V3:.*]] = nn.mul %[[DY]], %[[V2]]
// CHECK-NEXT: %[[V4:.*]] = nn.mul %[[V3]], %[[V1]]
// CHECK-NEXT: return %[[V4]]
  func.func @pow_3(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.pow_3">]}) {
    %c = nn.constant dense<3.0> : tensor<f32>
    %0 = nn.pow %x, %c : tensor<4xf32>, tensor<f32>
    return %0 : tensor<4xf32>
  }

// What is clamped has no gradient at its bound.
// CHECK-LABEL: func.func @clamp.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.constant dense<6.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V1:.*]] = nn.cmp lt %[[X]], %[[V0]]
// CHECK-NEXT: %[[V2:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V3:.*]] = nn.where %[[V1]], %[[DY]], %[[V2]]
// CHECK-NEXT: return %[[V3]]
  func.func @clamp(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.clamp">]}) {
    %c = nn.constant dense<6.0> : tensor<f32>
    %0 = nn.min %x, %c {bound} : tensor<4xf32>, tensor<f32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @where.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V1:.*]] = nn.where %[[X]], %[[DY]], %[[V0]]
// CHECK-NEXT: %[[V2:.*]] = nn.where %[[X]], %[[V0]], %[[DY]]
// CHECK-NEXT: %[[V3:.*]] = nn.reduce sum %[[V2]] {axes = array<i64: 0>}
// CHECK-NEXT: return %[[V1]], %[[V3]]
  func.func @where(%c: tensor<4xi1>, %x: tensor<4xf32> {nn.wants_grad}, %y: tensor<f32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.where">]}) {
    %0 = nn.where %c, %x, %y : tensor<4xi1>, tensor<4xf32>, tensor<f32>
    return %0 : tensor<4xf32>
  }

// x - n y: n is a whole number, found again from the result.
// CHECK-LABEL: func.func @mod.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[Y:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.mod %[[X]], %[[Y]] {fmod}
// CHECK-NEXT: %[[V1:.*]] = nn.sub %[[X]], %[[V0]]
// CHECK-NEXT: %[[V2:.*]] = nn.div %[[V1]], %[[Y]]
// CHECK-NEXT: %[[V3:.*]] = nn.round %[[V2]]
// CHECK-NEXT: %[[V4:.*]] = nn.mul %[[DY]], %[[V3]]
// CHECK-NEXT: %[[V5:.*]] = nn.neg %[[V4]]
// CHECK-NEXT: %[[V6:.*]] = nn.reduce sum %[[V5]] {axes = array<i64: 0>}
// CHECK-NEXT: return %[[DY]], %[[V6]]
  func.func @mod(%x: tensor<3x4xf32> {nn.wants_grad}, %y: tensor<4xf32> {nn.wants_grad}) -> (tensor<3x4xf32> {nn.gradients = [#nn.gradient<edge = "m.mod">]}) {
    %0 = nn.mod %x, %y {fmod} : tensor<3x4xf32>, tensor<4xf32>
    return %0 : tensor<3x4xf32>
  }

// CHECK-LABEL: func.func @symbolic.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[X2:[a-z0-9]+]]:{{.*}}%[[X3:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.mul %[[X3]], %[[X2]]
// CHECK-NEXT: %[[V1:.*]] = nn.mul %[[X3]], %[[X]]
// CHECK-NEXT: %[[V2:.*]] = nn.reduce sum %[[V1]] {axes = array<i64: 0>}
// CHECK-NEXT: return %[[V0]], %[[V2]]
  func.func @symbolic(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.wants_grad}, %y: tensor<4xf32> {nn.wants_grad}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.gradients = [#nn.gradient<edge = "m.symbolic">]}) {
    %0 = nn.mul %x, %y : tensor<?x4xf32, #nn.dims<batch>>, tensor<4xf32>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
}
