// RUN: dt-opt %s --pass-pipeline="builtin.module(dist.module(nn-differentiate,func.func(cse)))" | FileCheck %s

// Gradients of data movement.

dist.module @m {
  nn.dim @batch
  nn.dim @seq
  nn.dim @a
  nn.dim @b

// CHECK-LABEL: func.func @reshape.bwd(
// CHECK-SAME: %[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.reshape %[[DY]] : tensor<3x4xf32> to tensor<2x6xf32>
// CHECK-NEXT: return %[[V0]]
  func.func @reshape(%x: tensor<2x6xf32> {nn.wants_grad}) -> (tensor<3x4xf32> {nn.gradients = [#nn.gradient<edge = "m.reshape">]}) {
    %0 = nn.reshape %x : tensor<2x6xf32> to tensor<3x4xf32>
    return %0 : tensor<3x4xf32>
  }

// CHECK-LABEL: func.func @broadcast.bwd(
// CHECK-SAME: %[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.reduce sum %[[DY]] {axes = array<i64: 0, 2>}
// CHECK-NEXT: %[[V1:.*]] = nn.reshape %[[V0]] : tensor<2xf32> to tensor<2x1xf32>
// CHECK-NEXT: return %[[V1]]
  func.func @broadcast(%x: tensor<2x1xf32> {nn.wants_grad}) -> (tensor<3x2x4xf32> {nn.gradients = [#nn.gradient<edge = "m.broadcast">]}) {
    %0 = nn.broadcast %x : tensor<2x1xf32> to tensor<3x2x4xf32>
    return %0 : tensor<3x2x4xf32>
  }

// CHECK-LABEL: func.func @transpose.bwd(
// CHECK-SAME: %[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.transpose %[[DY]] [1, 2, 0]
// CHECK-NEXT: return %[[V0]]
  func.func @transpose(%x: tensor<2x3x4xf32> {nn.wants_grad}) -> (tensor<4x2x3xf32> {nn.gradients = [#nn.gradient<edge = "m.transpose">]}) {
    %0 = nn.transpose %x [2, 0, 1] : tensor<2x3x4xf32>
    return %0 : tensor<4x2x3xf32>
  }

// CHECK-LABEL: func.func @slice.bwd(
// CHECK-SAME: %[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.pad %[[DY]] low [1, 0] interior [1, 0] : tensor<3x6xf32> to tensor<8x6xf32>
// CHECK-NEXT: return %[[V0]]
  func.func @slice(%x: tensor<8x6xf32> {nn.wants_grad}) -> (tensor<3x6xf32> {nn.gradients = [#nn.gradient<edge = "m.slice">]}) {
    %0 = nn.slice %x [1, 0] step [2, 1] : tensor<8x6xf32> to tensor<3x6xf32>
    return %0 : tensor<3x6xf32>
  }

// Backwards: 6, 4, 2.
// CHECK-LABEL: func.func @slice_back.bwd(
// CHECK-SAME: %[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.pad %[[DY]] low [2] interior [1] {reverse = array<i1: true>} : tensor<3xf32> to tensor<8xf32>
// CHECK-NEXT: return %[[V0]]
  func.func @slice_back(%x: tensor<8xf32> {nn.wants_grad}) -> (tensor<3xf32> {nn.gradients = [#nn.gradient<edge = "m.slice_back">]}) {
    %0 = nn.slice %x [6] step [-2] : tensor<8xf32> to tensor<3xf32>
    return %0 : tensor<3xf32>
  }

// CHECK-LABEL: func.func @slice_symbolic.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.pad %[[X]] low [1, 0] interior [0, 0] : tensor<?x4xf32, #nn.dims<seq - 2>> to tensor<?x4xf32, #nn.dims<seq>>
// CHECK-NEXT: return %[[V0]]
  func.func @slice_symbolic(%x: tensor<?x4xf32, #nn.dims<seq>> {nn.wants_grad}) -> (tensor<?x4xf32, #nn.dims<seq - 2>> {nn.gradients = [#nn.gradient<edge = "m.slice_symbolic">]}) {
    %0 = nn.slice %x [1, 0] step [1, 1] : tensor<?x4xf32, #nn.dims<seq>> to tensor<?x4xf32, #nn.dims<seq - 2>>
    return %0 : tensor<?x4xf32, #nn.dims<seq - 2>>
  }

// A place that is no number goes by index.
// CHECK-LABEL: func.func @slice_last.bwd(
// CHECK-SAME: %[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.generate : tensor<1xi64> {
// CHECK-NEXT: ^bb0({{.*}}: index):
// CHECK-NEXT: %[[V2:.*]] = nn.size <seq - 1>
// CHECK-NEXT: %[[V3:.*]] = arith.addi {{.*}}, %[[V2]]
// CHECK-NEXT: %[[V4:.*]] = arith.index_cast %[[V3]]
// CHECK-NEXT: nn.yield %[[V4]]
// CHECK-NEXT: }
// CHECK-NEXT: %[[V1:.*]] = nn.gather_grad %[[DY]] at %[[V0]] {axis = 0 : i64} : (tensor<1x4xf32>, tensor<1xi64>) -> tensor<?x4xf32, #nn.dims<seq>>
// CHECK-NEXT: return %[[V1]]
  func.func @slice_last(%x: tensor<?x4xf32, #nn.dims<seq>> {nn.wants_grad}) -> (tensor<1x4xf32> {nn.gradients = [#nn.gradient<edge = "m.slice_last">]}) {
    %0 = nn.slice %x [1, 0] step [1, 1] {from_end = array<i1: true, false>} : tensor<?x4xf32, #nn.dims<seq>> to tensor<1x4xf32>
    return %0 : tensor<1x4xf32>
  }

// CHECK-LABEL: func.func @flip.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.pad %[[X]] low [0] interior [0] {reverse = array<i1: true>} : tensor<?xf32, #nn.dims<seq>> to tensor<?xf32, #nn.dims<seq>>
// CHECK-NEXT: return %[[V0]]
  func.func @flip(%x: tensor<?xf32, #nn.dims<seq>> {nn.wants_grad}) -> (tensor<?xf32, #nn.dims<seq>> {nn.gradients = [#nn.gradient<edge = "m.flip">]}) {
    %0 = nn.slice %x [1] step [-1] {from_end = array<i1: true>} : tensor<?xf32, #nn.dims<seq>> to tensor<?xf32, #nn.dims<seq>>
    return %0 : tensor<?xf32, #nn.dims<seq>>
  }

// CHECK-LABEL: func.func @pad.bwd(
// CHECK-SAME: %[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.slice %[[DY]] [1, 0] step [2, 1] : tensor<8x4xf32> to tensor<3x4xf32>
// CHECK-NEXT: return %[[V0]]
  func.func @pad(%x: tensor<3x4xf32> {nn.wants_grad}) -> (tensor<8x4xf32> {nn.gradients = [#nn.gradient<edge = "m.pad">]}) {
    %0 = nn.pad %x low [1, 0] interior [1, 0] : tensor<3x4xf32> to tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }

// CHECK-LABEL: func.func @concat.bwd(
// CHECK-SAME: %[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.slice %[[DY]] [0, 0] step [1, 1] : tensor<2x12xf32> to tensor<2x3xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.slice %[[DY]] [0, 7] step [1, 1] : tensor<2x12xf32> to tensor<2x5xf32>
// CHECK-NEXT: return %[[V0]], %[[V1]]
  func.func @concat(%x: tensor<2x3xf32> {nn.wants_grad}, %y: tensor<2x4xf32>, %z: tensor<2x5xf32> {nn.wants_grad}) -> (tensor<2x12xf32> {nn.gradients = [#nn.gradient<edge = "m.concat">]}) {
    %0 = nn.concat %x, %y, %z {axis = 1 : i64} : tensor<2x3xf32>, tensor<2x4xf32>, tensor<2x5xf32>
    return %0 : tensor<2x12xf32>
  }

// CHECK-LABEL: func.func @concat_symbolic.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.slice %[[X]] [0] step [1] : tensor<?xf32, #nn.dims<a + b + 3>> to tensor<?xf32, #nn.dims<a>>
// CHECK-NEXT: %[[V1:.*]] = nn.generate : tensor<?xi64, #nn.dims<b>> {
// CHECK-NEXT: ^bb0({{.*}}: index):
// CHECK-NEXT: %[[V4:.*]] = nn.size <a>
// CHECK-NEXT: %[[V5:.*]] = arith.addi {{.*}}, %[[V4]]
// CHECK-NEXT: %[[V6:.*]] = arith.index_cast %[[V5]]
// CHECK-NEXT: nn.yield %[[V6]]
// CHECK-NEXT: }
// CHECK-NEXT: %[[V2:.*]] = nn.gather %[[X]] at %[[V1]] {axis = 0 : i64}
// CHECK-NEXT: %[[V3:.*]] = nn.slice %[[X]] [3] step [1] {from_end = array<i1: true>} : tensor<?xf32, #nn.dims<a + b + 3>> to tensor<3xf32>
// CHECK-NEXT: return %[[V0]], %[[V2]], %[[V3]]
  func.func @concat_symbolic(%x: tensor<?xf32, #nn.dims<a>> {nn.wants_grad}, %y: tensor<?xf32, #nn.dims<b>> {nn.wants_grad}, %z: tensor<3xf32> {nn.wants_grad}) -> (tensor<?xf32, #nn.dims<a + b + 3>> {nn.gradients = [#nn.gradient<edge = "m.concat_symbolic">]}) {
    %0 = nn.concat %x, %y, %z {axis = 0 : i64} : tensor<?xf32, #nn.dims<a>>, tensor<?xf32, #nn.dims<b>>, tensor<3xf32>
    return %0 : tensor<?xf32, #nn.dims<a + b + 3>>
  }

// CHECK-LABEL: func.func @gather.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.gather_grad %[[DY]] at %[[X]] {axis = 0 : i64} : (tensor<2x5x4xf32>, tensor<2x5xi64>) -> tensor<7x4xf32>
// CHECK-NEXT: return %[[V0]]
  func.func @gather(%x: tensor<7x4xf32> {nn.wants_grad}, %i: tensor<2x5xi64>) -> (tensor<2x5x4xf32> {nn.gradients = [#nn.gradient<edge = "m.gather">]}) {
    %0 = nn.gather %x at %i {axis = 0 : i64} : tensor<7x4xf32>, tensor<2x5xi64>
    return %0 : tensor<2x5x4xf32>
  }

// CHECK-LABEL: func.func @gather_elements.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.gather_elements_grad %[[DY]] at %[[X]] {axis = 0 : i64} : (tensor<2x4xf32>, tensor<2x4xi64>) -> tensor<7x4xf32>
// CHECK-NEXT: return %[[V0]]
  func.func @gather_elements(%x: tensor<7x4xf32> {nn.wants_grad}, %i: tensor<2x4xi64>) -> (tensor<2x4xf32> {nn.gradients = [#nn.gradient<edge = "m.gather_elements">]}) {
    %0 = nn.gather_elements %x at %i {axis = 0 : i64} : tensor<7x4xf32>, tensor<2x4xi64>
    return %0 : tensor<2x4xf32>
  }

// What is taken gives its gradient back to where it was; nothing goes through the indices.
// CHECK-LABEL: func.func @top_k.fwd(
// CHECK: %[[V:.*]], %[[I:.*]] = nn.top_k
// CHECK: return %[[V]], %[[I]]
// CHECK-LABEL: func.func @top_k.bwd(
// CHECK-SAME: %[[I:[a-z0-9]+]]: tensor<3x2xi64>{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.gather_elements_grad %[[DY]] at %[[I]] {axis = 1 : i64} : (tensor<3x2xf32>, tensor<3x2xi64>) -> tensor<3x7xf32>
// CHECK-NEXT: return %[[V0]]
  func.func @top_k(%x: tensor<3x7xf32> {nn.wants_grad}) -> (tensor<3x2xf32> {nn.gradients = [#nn.gradient<edge = "m.top_k">]}) {
    %0, %1 = nn.top_k %x {axis = 1 : i64} : (tensor<3x7xf32>) -> (tensor<3x2xf32>, tensor<3x2xi64>)
    return %0 : tensor<3x2xf32>
  }

// CHECK-LABEL: func.func @gather_nd.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V1:.*]] = nn.broadcast %[[V0]] : tensor<f32> to tensor<7x5x4xf32>
// CHECK-NEXT: %[[V2:.*]] = nn.scatter_nd add %[[V1]] at %[[X]], %[[DY]]
// CHECK-NEXT: return %[[V2]]
  func.func @gather_nd(%x: tensor<7x5x4xf32> {nn.wants_grad}, %i: tensor<3x2xi64>) -> (tensor<3x4xf32> {nn.gradients = [#nn.gradient<edge = "m.gather_nd">]}) {
    %0 = nn.gather_nd %x at %i : tensor<7x5x4xf32>, tensor<3x2xi64>
    return %0 : tensor<3x4xf32>
  }

// The tuples name the batch too.
// CHECK-LABEL: func.func @gather_nd_batch.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.generate : tensor<2x3x1xi64> {
// CHECK-NEXT: ^bb0({{.*}}: index, {{.*}}: index, {{.*}}: index):
// CHECK-NEXT: %[[V5:.*]] = arith.index_cast {{.*}}
// CHECK-NEXT: nn.yield %[[V5]]
// CHECK-NEXT: }
// CHECK-NEXT: %[[V1:.*]] = nn.concat %[[V0]], %[[X]] {axis = 2 : i64}
// CHECK-NEXT: %[[V2:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V3:.*]] = nn.broadcast %[[V2]] : tensor<f32> to tensor<2x5x4xf32>
// CHECK-NEXT: %[[V4:.*]] = nn.scatter_nd add %[[V3]] at %[[V1]], %[[DY]]
// CHECK-NEXT: return %[[V4]]
  func.func @gather_nd_batch(%x: tensor<2x5x4xf32> {nn.wants_grad}, %i: tensor<2x3x1xi64>) -> (tensor<2x3x4xf32> {nn.gradients = [#nn.gradient<edge = "m.gather_nd_batch">]}) {
    %0 = nn.gather_nd %x at %i {batch_dims = 1 : i64} : tensor<2x5x4xf32>, tensor<2x3x1xi64>
    return %0 : tensor<2x3x4xf32>
  }

// CHECK-LABEL: func.func @scatter_nd.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V1:.*]] = nn.broadcast %[[V0]] : tensor<f32> to tensor<3x4xf32>
// CHECK-NEXT: %[[V2:.*]] = nn.scatter_nd set %[[DY]] at %[[X]], %[[V1]]
// CHECK-NEXT: %[[V3:.*]] = nn.gather_nd %[[DY]] at %[[X]]
// CHECK-NEXT: return %[[V2]], %[[V3]]
  func.func @scatter_nd(%x: tensor<7x4xf32> {nn.wants_grad}, %i: tensor<3x1xi64>, %u: tensor<3x4xf32> {nn.wants_grad}) -> (tensor<7x4xf32> {nn.gradients = [#nn.gradient<edge = "m.scatter_nd">]}) {
    %0 = nn.scatter_nd set %x at %i, %u : tensor<7x4xf32>, tensor<3x1xi64>, tensor<3x4xf32>
    return %0 : tensor<7x4xf32>
  }

// CHECK-LABEL: func.func @scatter_nd_add.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.gather_nd %[[DY]] at %[[X]]
// CHECK-NEXT: return %[[DY]], %[[V0]]
  func.func @scatter_nd_add(%x: tensor<7x4xf32> {nn.wants_grad}, %i: tensor<3x1xi64>, %u: tensor<3x4xf32> {nn.wants_grad}) -> (tensor<7x4xf32> {nn.gradients = [#nn.gradient<edge = "m.scatter_nd_add">]}) {
    %0 = nn.scatter_nd add %x at %i, %u : tensor<7x4xf32>, tensor<3x1xi64>, tensor<3x4xf32>
    return %0 : tensor<7x4xf32>
  }

// CHECK-LABEL: func.func @scatter_nd_mul.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<7x4xf32>, %[[I:[a-z0-9]+]]: {{.*}}, %[[U:[a-z0-9]+]]: tensor<3x4xf32>, %[[DY:[a-z0-9]+]]:
// CHECK: %[[P:.*]] = nn.scatter_nd mul %{{.*}} at %[[I]], %[[U]]
// CHECK-NEXT: %[[DX:.*]] = nn.mul %[[DY]], %[[P]]
// CHECK: %[[ZERO:.*]] = nn.cmp eq %[[U]], %{{.*}}
// CHECK-NEXT: %[[OTHERS:.*]] = nn.where %[[ZERO]], %{{.*}}, %[[U]]
// CHECK-NEXT: %[[Q:.*]] = nn.scatter_nd mul %[[X]] at %[[I]], %[[OTHERS]]
// CHECK-NEXT: %[[DQ:.*]] = nn.mul %[[DY]], %[[Q]]
// CHECK-NEXT: %[[WHOLE:.*]] = nn.gather_nd %[[DQ]] at %[[I]]
// CHECK: nn.scatter_nd add
// CHECK: nn.div %[[WHOLE]], %[[U]]
// CHECK: %[[DU:.*]] = nn.where %[[ZERO]], %{{.*}}, %{{.*}}
// CHECK-NEXT: return %[[DX]], %[[DU]]
  func.func @scatter_nd_mul(%x: tensor<7x4xf32> {nn.wants_grad}, %i: tensor<3x1xi64>, %u: tensor<3x4xf32> {nn.wants_grad}) -> (tensor<7x4xf32> {nn.gradients = [#nn.gradient<edge = "m.scatter_nd_mul">]}) {
    %0 = nn.scatter_nd mul %x at %i, %u : tensor<7x4xf32>, tensor<3x1xi64>, tensor<3x4xf32>
    return %0 : tensor<7x4xf32>
  }

// CHECK-LABEL: func.func @scatter_nd_max.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<7x4xf32>, %[[I:[a-z0-9]+]]: {{.*}}, %[[U:[a-z0-9]+]]: tensor<3x4xf32>, %[[Y:[a-z0-9]+]]: tensor<7x4xf32> {nn.residual}, %[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[OFX:.*]] = nn.cmp eq %[[X]], %[[Y]]
// CHECK-NEXT: %[[YI:.*]] = nn.gather_nd %[[Y]] at %[[I]]
// CHECK-NEXT: %[[OFU:.*]] = nn.cmp eq %[[U]], %[[YI]]
// CHECK: nn.scatter_nd add
// CHECK-NEXT: %[[EQUALS:.*]] = nn.add
// CHECK-NEXT: %[[SHARE:.*]] = nn.div %[[DY]], %[[EQUALS]]
// CHECK-NEXT: %[[DX:.*]] = nn.where %[[OFX]], %[[SHARE]]
// CHECK-NEXT: %[[OF:.*]] = nn.gather_nd %[[SHARE]] at %[[I]]
// CHECK-NEXT: %[[DU:.*]] = nn.where %[[OFU]], %[[OF]]
// CHECK-NEXT: return %[[DX]], %[[DU]]
  func.func @scatter_nd_max(%x: tensor<7x4xf32> {nn.wants_grad}, %i: tensor<3x1xi64>, %u: tensor<3x4xf32> {nn.wants_grad}) -> (tensor<7x4xf32> {nn.gradients = [#nn.gradient<edge = "m.scatter_nd_max">]}) {
    %0 = nn.scatter_nd max %x at %i, %u : tensor<7x4xf32>, tensor<3x1xi64>, tensor<3x4xf32>
    return %0 : tensor<7x4xf32>
  }
}
