// RUN: dt-opt %s --lower-nn-to-rt --cse | FileCheck %s

// CHECK-LABEL: rt.func @softmax(
// CHECK: rt.kernel @softmax [%{{.*}} < 80]
// CHECK: arith.maxnumf
// CHECK: math.exp
// CHECK: rt.store
func.func @softmax(%x: tensor<2x40x16xf32>) -> tensor<2x40x16xf32> {
  %0 = nn.softmax %x {axis = -1 : i64} : tensor<2x40x16xf32>
  return %0 : tensor<2x40x16xf32>
}

// Along a middle axis: a point for each position around it.
// CHECK-LABEL: rt.func @log_softmax_middle(
// CHECK: rt.kernel @log_softmax [%{{.*}} < 2, %{{.*}} < 16]
// CHECK-SAME: as !rt.buffer<f32, [2, 40, 16]>
// CHECK: math.log
func.func @log_softmax_middle(%x: tensor<2x40x4x4xf32>) -> tensor<2x40x4x4xf32> {
  %0 = nn.log_softmax %x {axis = 1 : i64} : tensor<2x40x4x4xf32>
  return %0 : tensor<2x40x4x4xf32>
}

// CHECK-LABEL: rt.func @grads(
// CHECK: rt.kernel @softmax_grad
// CHECK: rt.kernel @log_softmax_grad
func.func @grads(%y: tensor<80x16xf32>, %dy: tensor<80x16xf32>) -> (tensor<80x16xf32>, tensor<80x16xf32>) {
  %0 = nn.softmax_grad %y, %dy {axis = 1 : i64} : tensor<80x16xf32>, tensor<80x16xf32>
  %1 = nn.log_softmax_grad %y, %dy {axis = 1 : i64} : tensor<80x16xf32>, tensor<80x16xf32>
  return %0, %1 : tensor<80x16xf32>, tensor<80x16xf32>
}

// CHECK-LABEL: rt.func @cross_entropy(
// CHECK: rt.kernel @cross_entropy [%{{.*}} < 40*batch]
// CHECK: scf.if
// CHECK: rt.kernel @cross_entropy_grad [%[[ROW:.*]] < 40*batch]
// CHECK: scf.if
func.func @cross_entropy(%x: tensor<?x40x512xf32, #nn.dims<batch>>, %l: tensor<?x40xi64, #nn.dims<batch>>, %dy: tensor<?x40xf32, #nn.dims<batch>>) -> (tensor<?x40xf32, #nn.dims<batch>>, tensor<?x40x512xf32, #nn.dims<batch>>) {
  %0 = nn.cross_entropy %x, %l {ignore_index = -100 : i64} : tensor<?x40x512xf32, #nn.dims<batch>>, tensor<?x40xi64, #nn.dims<batch>>
  %1 = nn.cross_entropy_grad %x, %l, %dy {ignore_index = -100 : i64} : tensor<?x40x512xf32, #nn.dims<batch>>, tensor<?x40xi64, #nn.dims<batch>>, tensor<?x40xf32, #nn.dims<batch>>
  return %0, %1 : tensor<?x40xf32, #nn.dims<batch>>, tensor<?x40x512xf32, #nn.dims<batch>>
}

// Logits behind the classes are there, but count as none.
// CHECK-LABEL: rt.func @padded_cross_entropy(
// CHECK: rt.kernel @cross_entropy
// CHECK: %[[CLASSES:.*]] = rt.load %{{.*}}[] : !rt.buffer<i64, []>
// CHECK: %[[BOUND:.*]] = arith.index_cast %[[CLASSES]] : i64 to index
// CHECK: scf.for
// CHECK: %[[REAL:.*]] = arith.cmpi slt, %{{.*}}, %[[BOUND]] : index
// CHECK: arith.select %[[REAL]], %{{.*}}, %{{.*}} : f32
func.func @padded_cross_entropy(%x: tensor<80x512xf32>, %l: tensor<80xi64>) -> tensor<80xf32> {
  %n = nn.constant dense<500> : tensor<i64>
  %0 = nn.cross_entropy %x, %l classes %n {ignore_index = -100 : i64} : tensor<80x512xf32>, tensor<80xi64>, tensor<i64>
  return %0 : tensor<80xf32>
}
