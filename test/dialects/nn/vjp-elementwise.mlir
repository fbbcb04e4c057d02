// RUN: dt-opt %s --pass-pipeline="builtin.module(dist.module(nn-differentiate,func.func(cse)))" | FileCheck %s

// Gradients of elementwise ops of one operand, and where none goes through.

dist.module @m {
// CHECK-LABEL: func.func @neg.bwd(
// CHECK-SAME: %[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.neg %[[DY]]
// CHECK-NEXT: return %[[V0]]
  func.func @neg(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.neg">]}) {
    %0 = nn.neg %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @abs.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.sign %[[X]]
// CHECK-NEXT: %[[V1:.*]] = nn.mul %[[DY]], %[[V0]]
// CHECK-NEXT: return %[[V1]]
  func.func @abs(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.abs">]}) {
    %0 = nn.abs %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @exp.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.exp %[[X]]
// CHECK-NEXT: %[[V1:.*]] = nn.mul %[[DY]], %[[V0]]
// CHECK-NEXT: return %[[V1]]
  func.func @exp(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.exp">]}) {
    %0 = nn.exp %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @log.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.div %[[DY]], %[[X]]
// CHECK-NEXT: return %[[V0]]
  func.func @log(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.log">]}) {
    %0 = nn.log %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @sqrt.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.constant dense<5.000000e-01> : tensor<f32>
// CHECK-NEXT: %[[V1:.*]] = nn.mul %[[DY]], %[[V0]]
// CHECK-NEXT: %[[V2:.*]] = nn.sqrt %[[X]]
// CHECK-NEXT: %[[V3:.*]] = nn.div %[[V1]], %[[V2]]
// CHECK-NEXT: return %[[V3]]
  func.func @sqrt(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.sqrt">]}) {
    %0 = nn.sqrt %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @rsqrt.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.constant dense<-5.000000e-01> : tensor<f32>
// CHECK-NEXT: %[[V1:.*]] = nn.mul %[[DY]], %[[V0]]
// CHECK-NEXT: %[[V2:.*]] = nn.rsqrt %[[X]]
// CHECK-NEXT: %[[V3:.*]] = nn.mul %[[V2]], %[[V2]]
// CHECK-NEXT: %[[V4:.*]] = nn.mul %[[V2]], %[[V3]]
// CHECK-NEXT: %[[V5:.*]] = nn.mul %[[V1]], %[[V4]]
// CHECK-NEXT: return %[[V5]]
  func.func @rsqrt(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.rsqrt">]}) {
    %0 = nn.rsqrt %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @reciprocal.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.reciprocal %[[X]]
// CHECK-NEXT: %[[V1:.*]] = nn.mul %[[V0]], %[[V0]]
// CHECK-NEXT: %[[V2:.*]] = nn.mul %[[DY]], %[[V1]]
// CHECK-NEXT: %[[V3:.*]] = nn.neg %[[V2]]
// CHECK-NEXT: return %[[V3]]
  func.func @reciprocal(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.reciprocal">]}) {
    %0 = nn.reciprocal %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @sin.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.cos %[[X]]
// CHECK-NEXT: %[[V1:.*]] = nn.mul %[[DY]], %[[V0]]
// CHECK-NEXT: return %[[V1]]
  func.func @sin(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.sin">]}) {
    %0 = nn.sin %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @cos.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.sin %[[X]]
// CHECK-NEXT: %[[V1:.*]] = nn.mul %[[DY]], %[[V0]]
// CHECK-NEXT: %[[V2:.*]] = nn.neg %[[V1]]
// CHECK-NEXT: return %[[V2]]
  func.func @cos(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.cos">]}) {
    %0 = nn.cos %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @atan.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.mul %[[X]], %[[X]]
// CHECK-NEXT: %[[ONE:.*]] = nn.constant dense<1.000000e+00>
// CHECK-NEXT: %[[V1:.*]] = nn.add %[[V0]], %[[ONE]]
// CHECK-NEXT: %[[V2:.*]] = nn.div %[[DY]], %[[V1]]
// CHECK-NEXT: return %[[V2]]
  func.func @atan(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.atan">]}) {
    %0 = nn.atan %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// 1 - x * x would cancel beside -1 and 1.
// CHECK-LABEL: func.func @acos.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[ONE:.*]] = nn.constant dense<1.000000e+00>
// CHECK-NEXT: %[[V0:.*]] = nn.sub %[[ONE]], %[[X]]
// CHECK-NEXT: %[[V1:.*]] = nn.add %[[X]], %[[ONE]]
// CHECK-NEXT: %[[V2:.*]] = nn.mul %[[V0]], %[[V1]]
// CHECK-NEXT: %[[V3:.*]] = nn.rsqrt %[[V2]]
// CHECK-NEXT: %[[V4:.*]] = nn.mul %[[DY]], %[[V3]]
// CHECK-NEXT: %[[V5:.*]] = nn.neg %[[V4]]
// CHECK-NEXT: return %[[V5]]
  func.func @acos(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.acos">]}) {
    %0 = nn.acos %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @sinh.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.cosh %[[X]]
// CHECK-NEXT: %[[V1:.*]] = nn.mul %[[DY]], %[[V0]]
// CHECK-NEXT: return %[[V1]]
  func.func @sinh(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.sinh">]}) {
    %0 = nn.sinh %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @tanh.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.tanh %[[X]]
// CHECK-NEXT: %[[V1:.*]] = nn.mul %[[V0]], %[[V0]]
// CHECK-NEXT: %[[V2:.*]] = nn.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V3:.*]] = nn.sub %[[V2]], %[[V1]]
// CHECK-NEXT: %[[V4:.*]] = nn.mul %[[DY]], %[[V3]]
// CHECK-NEXT: return %[[V4]]
  func.func @tanh(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.tanh">]}) {
    %0 = nn.tanh %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @erf.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.constant dense<1.12837923> : tensor<f32>
// CHECK-NEXT: %[[V1:.*]] = nn.mul %[[DY]], %[[V0]]
// CHECK-NEXT: %[[V2:.*]] = nn.mul %[[X]], %[[X]]
// CHECK-NEXT: %[[V3:.*]] = nn.neg %[[V2]]
// CHECK-NEXT: %[[V4:.*]] = nn.exp %[[V3]]
// CHECK-NEXT: %[[V5:.*]] = nn.mul %[[V1]], %[[V4]]
// CHECK-NEXT: return %[[V5]]
  func.func @erf(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.erf">]}) {
    %0 = nn.erf %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @sigmoid.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V1:.*]] = nn.sigmoid %[[X]]
// CHECK-NEXT: %[[V2:.*]] = nn.sub %[[V0]], %[[V1]]
// CHECK-NEXT: %[[V3:.*]] = nn.mul %[[V1]], %[[V2]]
// CHECK-NEXT: %[[V4:.*]] = nn.mul %[[DY]], %[[V3]]
// CHECK-NEXT: return %[[V4]]
  func.func @sigmoid(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.sigmoid">]}) {
    %0 = nn.sigmoid %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @silu.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.silu_grad %[[X]], %[[DY]]
// CHECK-NEXT: return %[[V0]]
  func.func @silu(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.silu">]}) {
    %0 = nn.silu %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @softplus.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.sigmoid %[[X]]
// CHECK-NEXT: %[[V1:.*]] = nn.mul %[[DY]], %[[V0]]
// CHECK-NEXT: return %[[V1]]
  func.func @softplus(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.softplus">]}) {
    %0 = nn.softplus %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @relu.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V1:.*]] = nn.cmp gt %[[X]], %[[V0]]
// CHECK-NEXT: %[[V2:.*]] = nn.where %[[V1]], %[[DY]], %[[V0]]
// CHECK-NEXT: return %[[V2]]
  func.func @relu(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.relu">]}) {
    %0 = nn.relu %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @gelu.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.gelu_grad %[[X]], %[[DY]]
// CHECK-NEXT: return %[[V0]]
  func.func @gelu(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.gelu">]}) {
    %0 = nn.gelu %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @gelu_tanh.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.gelu_grad %[[X]], %[[DY]] {tanh}
// CHECK-NEXT: return %[[V0]]
  func.func @gelu_tanh(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.gelu_tanh">]}) {
    %0 = nn.gelu %x {tanh} : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @leaky_relu.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V1:.*]] = nn.cmp gt %[[X]], %[[V0]]
// CHECK-NEXT: %[[V2:.*]] = nn.constant dense<0.00999999977> : tensor<f32>
// CHECK-NEXT: %[[V3:.*]] = nn.mul %[[DY]], %[[V2]]
// CHECK-NEXT: %[[V4:.*]] = nn.where %[[V1]], %[[DY]], %[[V3]]
// CHECK-NEXT: return %[[V4]]
  func.func @leaky_relu(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.leaky_relu">]}) {
    %0 = nn.leaky_relu %x {alpha = 1.0e-2 : f64} : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @elu.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.constant dense<3.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V1:.*]] = nn.mul %[[DY]], %[[V0]]
// CHECK-NEXT: %[[V2:.*]] = nn.constant dense<6.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V3:.*]] = nn.mul %[[DY]], %[[V2]]
// CHECK-NEXT: %[[V4:.*]] = nn.exp %[[X]]
// CHECK-NEXT: %[[V5:.*]] = nn.mul %[[V3]], %[[V4]]
// CHECK-NEXT: %[[V6:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V7:.*]] = nn.cmp gt %[[X]], %[[V6]]
// CHECK-NEXT: %[[V8:.*]] = nn.where %[[V7]], %[[V1]], %[[V5]]
// CHECK-NEXT: return %[[V8]]
  func.func @elu(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.elu">]}) {
    %0 = nn.elu %x {alpha = 2.0 : f64, scale = 3.0 : f64} : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @hard_sigmoid.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V1:.*]] = nn.hard_sigmoid %[[X]] {alpha = 2.500000e-01 : f64, beta = 5.000000e-01 : f64}
// CHECK-NEXT: %[[V2:.*]] = nn.cmp gt %[[V1]], %[[V0]]
// CHECK-NEXT: %[[V3:.*]] = nn.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V4:.*]] = nn.cmp lt %[[V1]], %[[V3]]
// CHECK-NEXT: %[[V5:.*]] = nn.and %[[V2]], %[[V4]]
// CHECK-NEXT: %[[V6:.*]] = nn.constant dense<2.500000e-01> : tensor<f32>
// CHECK-NEXT: %[[V7:.*]] = nn.mul %[[DY]], %[[V6]]
// CHECK-NEXT: %[[V8:.*]] = nn.where %[[V5]], %[[V7]], %[[V0]]
// CHECK-NEXT: return %[[V8]]
  func.func @hard_sigmoid(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.hard_sigmoid">]}) {
    %0 = nn.hard_sigmoid %x {alpha = 0.25 : f64, beta = 0.5 : f64} : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// CHECK-LABEL: func.func @cast.bwd(
// CHECK-SAME: %[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.cast %[[DY]] : tensor<4xf32> to tensor<4xbf16>
// CHECK-NEXT: return %[[V0]]
  func.func @cast(%x: tensor<4xbf16> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.cast">]}) {
    %0 = nn.cast %x : tensor<4xbf16> to tensor<4xf32>
    return %0 : tensor<4xf32>
  }

// No gradient goes through floor.
// CHECK-LABEL: func.func @stops.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.floor %[[X]]
// CHECK-NEXT: %[[V1:.*]] = nn.mul %[[DY]], %[[V0]]
// CHECK-NEXT: return %[[V1]]
  func.func @stops(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.stops">]}) {
    %0 = nn.floor %x : tensor<4xf32>
    %1 = nn.mul %0, %x : tensor<4xf32>, tensor<4xf32>
    return %1 : tensor<4xf32>
  }

// None through stop_gradient, which is gone then.
// CHECK-LABEL: func.func @detached.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V1:.*]] = nn.mul %[[DY]], %[[X]]
// CHECK-NEXT: return %[[V1]]
  func.func @detached(%x: tensor<4xf32> {nn.wants_grad}) -> (tensor<4xf32> {nn.gradients = [#nn.gradient<edge = "m.detached">]}) {
    %0 = nn.stop_gradient %x : tensor<4xf32>
    %1 = nn.mul %0, %x : tensor<4xf32>, tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
