// RUN: dt-opt %s --pass-pipeline="builtin.module(dist.module(nn-differentiate,func.func(cse)))" | FileCheck %s

// Gradients of norms, reductions, losses.

dist.module @m {
  nn.dim @batch
  nn.dim @seq
  nn.dim @a
  nn.dim @b

// CHECK-LABEL: func.func @layer_norm.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[X2:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.layer_norm_dx %[[X]] scale %[[X2]], %[[DY]] {eps = 1.000000e-05 : f64}
// CHECK-NEXT: %[[V1:.*]] = nn.layer_norm_dscale %[[X]], %[[DY]] {eps = 1.000000e-05 : f64}
// CHECK-NEXT: %[[V2:.*]] = nn.reduce sum %[[DY]] {axes = array<i64: 0, 1>}
// CHECK-NEXT: return %[[V0]], %[[V1]], %[[V2]]
  func.func @layer_norm(%x: tensor<2x5x4xf32> {nn.wants_grad}, %g: tensor<4xf32> {nn.wants_grad}, %b: tensor<4xf32> {nn.wants_grad}) -> (tensor<2x5x4xf32> {nn.gradients = [#nn.gradient<edge = "m.layer_norm">]}) {
    %0 = nn.layer_norm %x scale %g bias %b {eps = 1.0e-5 : f64} : tensor<2x5x4xf32>, tensor<4xf32>, tensor<4xf32>
    return %0 : tensor<2x5x4xf32>
  }

// Without scale the bias is the second operand.
// CHECK-LABEL: func.func @layer_norm_bias.bwd(
// CHECK-SAME: %[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.reduce sum %[[DY]] {axes = array<i64: 0, 1>}
// CHECK-NEXT: return %[[V0]]
  func.func @layer_norm_bias(%x: tensor<2x5x4xf32>, %b: tensor<4xf32> {nn.wants_grad}) -> (tensor<2x5x4xf32> {nn.gradients = [#nn.gradient<edge = "m.layer_norm_bias">]}) {
    %0 = nn.layer_norm %x bias %b {eps = 1.0e-5 : f64} : tensor<2x5x4xf32>, tensor<4xf32>
    return %0 : tensor<2x5x4xf32>
  }

// CHECK-LABEL: func.func @rms_norm.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[X2:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.rms_norm_dx %[[X]] scale %[[X2]], %[[DY]] {eps = 9.9999999999999995E-7 : f64}
// CHECK-NEXT: %[[V1:.*]] = nn.rms_norm_dscale %[[X]], %[[DY]] {eps = 9.9999999999999995E-7 : f64}
// CHECK-NEXT: return %[[V0]], %[[V1]]
  func.func @rms_norm(%x: tensor<2x5x4xf32> {nn.wants_grad}, %g: tensor<4xf32> {nn.wants_grad}) -> (tensor<2x5x4xf32> {nn.gradients = [#nn.gradient<edge = "m.rms_norm">]}) {
    %0 = nn.rms_norm %x scale %g {eps = 1.0e-6 : f64} : tensor<2x5x4xf32>, tensor<4xf32>
    return %0 : tensor<2x5x4xf32>
  }

// CHECK-LABEL: func.func @group_norm.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[X2:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.group_norm_dx %[[X]] scale %[[X2]], %[[DY]] {eps = 1.000000e-05 : f64, groups = 2 : i64}
// CHECK-NEXT: %[[V1:.*]] = nn.group_norm_dscale %[[X]], %[[DY]] {eps = 1.000000e-05 : f64, groups = 2 : i64}
// CHECK-NEXT: %[[V2:.*]] = nn.reduce sum %[[DY]] {axes = array<i64: 0, 2, 3>}
// CHECK-NEXT: return %[[V0]], %[[V1]], %[[V2]]
  func.func @group_norm(%x: tensor<2x4x3x3xf32> {nn.wants_grad}, %g: tensor<4xf32> {nn.wants_grad}, %b: tensor<4xf32> {nn.wants_grad}) -> (tensor<2x4x3x3xf32> {nn.gradients = [#nn.gradient<edge = "m.group_norm">]}) {
    %0 = nn.group_norm %x scale %g bias %b {eps = 1.0e-5 : f64, groups = 2 : i64} : tensor<2x4x3x3xf32>, tensor<4xf32>, tensor<4xf32>
    return %0 : tensor<2x4x3x3xf32>
  }

// CHECK-LABEL: func.func @softmax.bwd(
// CHECK-SAME: %[[R:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.softmax_grad %[[R]], %[[DY]] {axis = 2 : i64}
// CHECK-NEXT: return %[[V0]]
  func.func @softmax(%x: tensor<2x5x4xf32> {nn.wants_grad}) -> (tensor<2x5x4xf32> {nn.gradients = [#nn.gradient<edge = "m.softmax">]}) {
    %0 = nn.softmax %x {axis = 2 : i64} : tensor<2x5x4xf32>
    return %0 : tensor<2x5x4xf32>
  }

// CHECK-LABEL: func.func @log_softmax.bwd(
// CHECK-SAME: %[[R:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.log_softmax_grad %[[R]], %[[DY]] {axis = 2 : i64}
// CHECK-NEXT: return %[[V0]]
  func.func @log_softmax(%x: tensor<2x5x4xf32> {nn.wants_grad}) -> (tensor<2x5x4xf32> {nn.gradients = [#nn.gradient<edge = "m.log_softmax">]}) {
    %0 = nn.log_softmax %x {axis = 2 : i64} : tensor<2x5x4xf32>
    return %0 : tensor<2x5x4xf32>
  }

// CHECK-LABEL: func.func @reduce_sum.bwd(
// CHECK-SAME: %[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.reshape %[[DY]] : tensor<2x4xf32> to tensor<2x1x4xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.broadcast %[[V0]] : tensor<2x1x4xf32> to tensor<2x5x4xf32>
// CHECK-NEXT: return %[[V1]]
  func.func @reduce_sum(%x: tensor<2x5x4xf32> {nn.wants_grad}) -> (tensor<2x4xf32> {nn.gradients = [#nn.gradient<edge = "m.reduce_sum">]}) {
    %0 = nn.reduce sum %x {axes = array<i64: 1>} : tensor<2x5x4xf32>
    return %0 : tensor<2x4xf32>
  }

// CHECK-LABEL: func.func @reduce_mean.bwd(
// CHECK-SAME: %[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.reshape %[[DY]] : tensor<2x4xf32> to tensor<2x1x4xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.constant dense<2.000000e-01> : tensor<f32>
// CHECK-NEXT: %[[V2:.*]] = nn.mul %[[V0]], %[[V1]]
// CHECK-NEXT: %[[V3:.*]] = nn.broadcast %[[V2]] : tensor<2x1x4xf32> to tensor<2x5x4xf32>
// CHECK-NEXT: return %[[V3]]
  func.func @reduce_mean(%x: tensor<2x5x4xf32> {nn.wants_grad}) -> (tensor<2x4xf32> {nn.gradients = [#nn.gradient<edge = "m.reduce_mean">]}) {
    %0 = nn.reduce mean %x {axes = array<i64: 1>} : tensor<2x5x4xf32>
    return %0 : tensor<2x4xf32>
  }

// CHECK-LABEL: func.func @reduce_max.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[R:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.reshape %[[DY]] : tensor<2x4xf32> to tensor<2x1x4xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.reshape %[[R]] : tensor<2x4xf32> to tensor<2x1x4xf32>
// CHECK-NEXT: %[[V2:.*]] = nn.cmp eq %[[X]], %[[V1]]
// CHECK-NEXT: %[[V3:.*]] = nn.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V4:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V5:.*]] = nn.where %[[V2]], %[[V3]], %[[V4]]
// CHECK-NEXT: %[[V6:.*]] = nn.reduce sum %[[V5]] {axes = array<i64: 1>, keepdims}
// CHECK-NEXT: %[[V7:.*]] = nn.div %[[V0]], %[[V6]]
// CHECK-NEXT: %[[V8:.*]] = nn.mul %[[V7]], %[[V5]]
// CHECK-NEXT: return %[[V8]]
  func.func @reduce_max(%x: tensor<2x5x4xf32> {nn.wants_grad}) -> (tensor<2x4xf32> {nn.gradients = [#nn.gradient<edge = "m.reduce_max">]}) {
    %0 = nn.reduce max %x {axes = array<i64: 1>} : tensor<2x5x4xf32>
    return %0 : tensor<2x4xf32>
  }

// CHECK-LABEL: func.func @reduce_min.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[R:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.reshape %[[DY]] : tensor<2x4xf32> to tensor<2x1x4xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.reshape %[[R]] : tensor<2x4xf32> to tensor<2x1x4xf32>
// CHECK-NEXT: %[[V2:.*]] = nn.cmp eq %[[X]], %[[V1]]
// CHECK-NEXT: %[[V3:.*]] = nn.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V4:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V5:.*]] = nn.where %[[V2]], %[[V3]], %[[V4]]
// CHECK-NEXT: %[[V6:.*]] = nn.reduce sum %[[V5]] {axes = array<i64: 1>, keepdims}
// CHECK-NEXT: %[[V7:.*]] = nn.div %[[V0]], %[[V6]]
// CHECK-NEXT: %[[V8:.*]] = nn.mul %[[V7]], %[[V5]]
// CHECK-NEXT: return %[[V8]]
  func.func @reduce_min(%x: tensor<2x5x4xf32> {nn.wants_grad}) -> (tensor<2x4xf32> {nn.gradients = [#nn.gradient<edge = "m.reduce_min">]}) {
    %0 = nn.reduce min %x {axes = array<i64: 1>} : tensor<2x5x4xf32>
    return %0 : tensor<2x4xf32>
  }

// CHECK-LABEL: func.func @reduce_prod.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.reshape %[[DY]] : tensor<2x4xf32> to tensor<2x1x4xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V2:.*]] = nn.cmp eq %[[X]], %[[V1]]
// CHECK-NEXT: %[[V3:.*]] = nn.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V4:.*]] = nn.where %[[V2]], %[[V3]], %[[X]]
// CHECK-NEXT: %[[V5:.*]] = nn.reduce prod %[[V4]] {axes = array<i64: 1>, keepdims}
// CHECK-NEXT: %[[V6:.*]] = nn.where %[[V2]], %[[V3]], %[[V1]]
// CHECK-NEXT: %[[V7:.*]] = nn.reduce sum %[[V6]] {axes = array<i64: 1>, keepdims}
// CHECK-NEXT: %[[V8:.*]] = nn.cmp eq %[[V7]], %[[V3]]
// CHECK-NEXT: %[[V9:.*]] = nn.where %[[V8]], %[[V5]], %[[V1]]
// CHECK-NEXT: %[[V10:.*]] = nn.cmp eq %[[V7]], %[[V1]]
// CHECK-NEXT: %[[V11:.*]] = nn.div %[[V5]], %[[V4]]
// CHECK-NEXT: %[[V12:.*]] = nn.where %[[V10]], %[[V11]], %[[V1]]
// CHECK-NEXT: %[[V13:.*]] = nn.where %[[V2]], %[[V9]], %[[V12]]
// CHECK-NEXT: %[[V14:.*]] = nn.mul %[[V0]], %[[V13]]
// CHECK-NEXT: return %[[V14]]
  func.func @reduce_prod(%x: tensor<2x5x4xf32> {nn.wants_grad}) -> (tensor<2x4xf32> {nn.gradients = [#nn.gradient<edge = "m.reduce_prod">]}) {
    %0 = nn.reduce prod %x {axes = array<i64: 1>} : tensor<2x5x4xf32>
    return %0 : tensor<2x4xf32>
  }

// CHECK-LABEL: func.func @reduce_all.bwd(
// CHECK-SAME: %[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.broadcast %[[DY]] : tensor<1x1x1xf32> to tensor<2x5x4xf32>
// CHECK-NEXT: return %[[V0]]
  func.func @reduce_all(%x: tensor<2x5x4xf32> {nn.wants_grad}) -> (tensor<1x1x1xf32> {nn.gradients = [#nn.gradient<edge = "m.reduce_all">]}) {
    %0 = nn.reduce sum %x {axes = array<i64: 0, 1, 2>, keepdims} : tensor<2x5x4xf32>
    return %0 : tensor<1x1x1xf32>
  }

// How many there are is known at run time.
// CHECK-LABEL: func.func @mean_symbolic.bwd(
// CHECK-SAME: %[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.reshape %[[DY]] : tensor<4xf32> to tensor<1x4xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.generate : tensor<f32> {
// CHECK-NEXT: %[[V4:.*]] = nn.size <batch>
// CHECK-NEXT: %[[V5:.*]] = arith.index_cast %[[V4]]
// CHECK-NEXT: %[[V6:.*]] = arith.sitofp %[[V5]]
// CHECK-NEXT: nn.yield %[[V6]]
// CHECK-NEXT: }
// CHECK-NEXT: %[[V2:.*]] = nn.div %[[V0]], %[[V1]]
// CHECK-NEXT: %[[V3:.*]] = nn.broadcast %[[V2]] : tensor<1x4xf32> to tensor<?x4xf32, #nn.dims<batch>>
// CHECK-NEXT: return %[[V3]]
  func.func @mean_symbolic(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.mean_symbolic">]}) {
    %0 = nn.reduce mean %x {axes = array<i64: 0>} : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @cumsum.bwd(
// CHECK-SAME: %[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.cumsum %[[DY]] {axis = 1 : i64, exclusive, reverse}
// CHECK-NEXT: return %[[V0]]
  func.func @cumsum(%x: tensor<2x5x4xf32> {nn.wants_grad}) -> (tensor<2x5x4xf32> {nn.gradients = [#nn.gradient<edge = "m.cumsum">]}) {
    %0 = nn.cumsum %x {axis = 1 : i64, exclusive} : tensor<2x5x4xf32>
    return %0 : tensor<2x5x4xf32>
  }

// CHECK-LABEL: func.func @cross_entropy.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[X2:[a-z0-9]+]]:{{.*}}%[[LOSS:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.cross_entropy_grad %[[X]], %[[X2]], %[[DY]], %[[LOSS]] {ignore_index = -1 : i64}
// CHECK-NEXT: return %[[V0]]
  func.func @cross_entropy(%x: tensor<2x5x4xf32> {nn.wants_grad}, %t: tensor<2x5xi64>) -> (tensor<2x5xf32> {nn.gradients = [#nn.gradient<edge = "m.cross_entropy">]}) {
    %0 = nn.cross_entropy %x, %t {ignore_index = -1 : i64} : tensor<2x5x4xf32>, tensor<2x5xi64>
    return %0 : tensor<2x5xf32>
  }
}
