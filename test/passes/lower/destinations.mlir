// RUN: dt-opt %s --lower-nn-to-rt --cse | FileCheck %s

nn.parameter @w : tensor<128x64xf32> trainable from #nn.onnx<"a.onnx", "w">

// Results are arguments, named as the source names them.
// CHECK-LABEL: rt.func @names(
// CHECK-SAME: %[[X:.*]]: !rt.buffer<f32, [4]> {rt.access = "in", rt.name = "x"}
// CHECK-SAME: %[[Y:.*]]: !rt.buffer<f32, [4]> {rt.access = "out", rt.name = "y"}
// CHECK-NOT: rt.alloc
func.func @names(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
  %0 = nn.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Through a reshape as well; an argument that is returned is copied.
// CHECK-LABEL: rt.func @through_reshape(
// CHECK-NOT: rt.alloc
// CHECK: rt.kernel @exp {{.*}} = %arg1
// CHECK: rt.copy %arg0 to %arg2
func.func @through_reshape(%x: tensor<2x2xf32>) -> (tensor<4xf32>, tensor<2x2xf32>) {
  %0 = nn.exp %x : tensor<2x2xf32>
  %1 = nn.reshape %0 : tensor<2x2xf32> to tensor<4xf32>
  return %1, %x : tensor<4xf32>, tensor<2x2xf32>
}

// A layer adds to its argument; its caller passes the parameter's gradient.
// CHECK-LABEL: rt.func private @layer.bwd(
// CHECK-SAME: rt.access = "inout"
// CHECK: rt.matmul {{.*}} {accumulate
func.func private @layer.bwd(%x: tensor<80x64xf32>, %dy: tensor<80x128xf32>) -> (tensor<128x64xf32> {nn.param_grad}) {
  %0 = nn.linear_dw %x, %dy : tensor<80x64xf32>, tensor<80x128xf32>
  return %0 : tensor<128x64xf32>
}
// CHECK-LABEL: rt.func @stage.bwd(
// CHECK: %[[G:.*]] = rt.gradient @w
// CHECK: rt.call @layer.bwd(%arg0, %arg1, %[[G]])
// CHECK-NOT: rt.kernel
func.func @stage.bwd(%x: tensor<80x64xf32>, %dy: tensor<80x128xf32>) {
  %0 = call @layer.bwd(%x, %dy) : (tensor<80x64xf32>, tensor<80x128xf32>) -> tensor<128x64xf32>
  nn.accumulate @w, %0 : tensor<128x64xf32>
  return
}

// A product that somebody else reads as well cannot be added in place.
// CHECK-LABEL: rt.func @shared(
// CHECK: rt.matmul {{.*}} {batch
// CHECK: rt.kernel @accumulate
func.func @shared(%x: tensor<80x64xf32>, %dy: tensor<80x128xf32>) -> tensor<128x64xf32> {
  %0 = nn.linear_dw %x, %dy : tensor<80x64xf32>, tensor<80x128xf32>
  nn.accumulate @w, %0 : tensor<128x64xf32>
  %1 = nn.neg %0 : tensor<128x64xf32>
  return %1 : tensor<128x64xf32>
}

// The seed of a loss is not an argument: the task brings it.
// CHECK-LABEL: rt.func @seeded(
// CHECK-SAME: %arg0: !rt.buffer<f32, [4]> {rt.access = "in"}, %arg1: !rt.buffer<f32, [4]> {rt.access = "out"})
// CHECK: %[[S:.*]] = rt.alloc "seed"
// CHECK: rt.seed @text to %[[S]]
func.func @seeded(%x: tensor<4xf32>, %seed: tensor<f32> {nn.gradient = #nn.gradient<of = "num", loss = "text">}) -> tensor<4xf32> {
  %0 = nn.mul %x, %seed : tensor<4xf32>, tensor<f32>
  return %0 : tensor<4xf32>
}

// A callee's arguments are different memory: what adds to one gradient twice does so through a local.
// CHECK-LABEL: rt.func @twice(
// CHECK: %[[G:.*]] = rt.gradient @w
// CHECK: %[[L:.*]] = rt.alloc "gradient"
// CHECK: rt.fill %[[L]] with 0.0
// CHECK: rt.call @two.bwd(%arg0, %arg1, %[[G]], %[[L]])
// CHECK: rt.kernel @accumulate {{.*}} = %[[L]] {{.*}} = %[[G]]
func.func private @two.bwd(%x: tensor<80x64xf32>, %dy: tensor<80x128xf32>) -> (tensor<128x64xf32> {nn.param_grad}, tensor<128x64xf32> {nn.param_grad}) {
  %0 = nn.linear_dw %x, %dy : tensor<80x64xf32>, tensor<80x128xf32>
  %1 = nn.linear_dw %x, %dy : tensor<80x64xf32>, tensor<80x128xf32>
  return %0, %1 : tensor<128x64xf32>, tensor<128x64xf32>
}
func.func @twice(%x: tensor<80x64xf32>, %dy: tensor<80x128xf32>) {
  %0:2 = call @two.bwd(%x, %dy) : (tensor<80x64xf32>, tensor<80x128xf32>) -> (tensor<128x64xf32>, tensor<128x64xf32>)
  nn.accumulate @w, %0#0 : tensor<128x64xf32>
  nn.accumulate @w, %0#1 : tensor<128x64xf32>
  return
}
