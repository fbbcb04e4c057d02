// RUN: dt-opt %s --pass-pipeline="builtin.module(func.func(nn-raise-losses,canonicalize))" --split-input-file | FileCheck %s

// log_softmax, gather at clamped labels, times the mask of valid ones. A label of
// -1 counts, as class 0: the clamp stays.
// CHECK-LABEL: @masked
// CHECK: %[[VALID:.*]] = nn.cmp
// CHECK: %[[CLAMPED:.*]] = nn.max %arg1
// CHECK: %[[LABELS:.*]] = nn.where %[[VALID]], %{{.*}}
// CHECK: %[[L:.*]] = nn.cross_entropy %arg0, %[[LABELS]]
// CHECK: nn.neg %[[L]]
// CHECK-NOT: nn.gather_elements
func.func @masked(%x: tensor<2x3x7xf32>, %labels: tensor<2x3xi64>) -> tensor<2x3xf32> {
  %ignore = nn.constant dense<-100> : tensor<i64>
  %zero = nn.constant dense<0> : tensor<i64>
  %0 = nn.log_softmax %x {axis = 2} : tensor<2x3x7xf32>
  %1 = nn.cmp eq %labels, %ignore : tensor<2x3xi64>, tensor<i64>
  %2 = nn.not %1 : tensor<2x3xi1>
  %3 = nn.max %labels, %zero : tensor<2x3xi64>, tensor<i64>
  %4 = nn.reshape %3 : tensor<2x3xi64> to tensor<2x3x1xi64>
  %5 = nn.gather_elements %0 at %4 {axis = 2} : tensor<2x3x7xf32>, tensor<2x3x1xi64>
  %6 = nn.reshape %5 : tensor<2x3x1xf32> to tensor<2x3xf32>
  %7 = nn.cast %2 : tensor<2x3xi1> to tensor<2x3xf32>
  %8 = nn.mul %6, %7 : tensor<2x3xf32>, tensor<2x3xf32>
  return %8 : tensor<2x3xf32>
}

// -----

// The mask is that of other labels: it says which of the clamped ones count.
// CHECK-LABEL: @other_mask
// CHECK: %[[VALID:.*]] = nn.cmp ne %arg2
// CHECK: %[[CLAMPED:.*]] = nn.max %arg1
// CHECK: %[[LABELS:.*]] = nn.where %[[VALID]], %[[CLAMPED]]
// CHECK: nn.cross_entropy %arg0, %[[LABELS]]
func.func @other_mask(%x: tensor<2x3x7xf32>, %labels: tensor<2x3xi64>, %others: tensor<2x3xi64>) -> tensor<2x3xf32> {
  %ignore = nn.constant dense<-100> : tensor<i64>
  %zero = nn.constant dense<0> : tensor<i64>
  %0 = nn.log_softmax %x {axis = 2} : tensor<2x3x7xf32>
  %1 = nn.cmp ne %others, %ignore : tensor<2x3xi64>, tensor<i64>
  %3 = nn.max %labels, %zero : tensor<2x3xi64>, tensor<i64>
  %4 = nn.reshape %3 : tensor<2x3xi64> to tensor<2x3x1xi64>
  %5 = nn.gather_elements %0 at %4 {axis = 2} : tensor<2x3x7xf32>, tensor<2x3x1xi64>
  %6 = nn.reshape %5 : tensor<2x3x1xf32> to tensor<2x3xf32>
  %7 = nn.cast %1 : tensor<2x3xi1> to tensor<2x3xf32>
  %8 = nn.mul %6, %7 : tensor<2x3xf32>, tensor<2x3xf32>
  return %8 : tensor<2x3xf32>
}

// -----

// The index is the label exactly where the mask is 1.
// CHECK-LABEL: @where
// CHECK: nn.cross_entropy %arg0, %arg1
func.func @where(%x: tensor<2x3x7xf32>, %labels: tensor<2x3xi64>) -> tensor<2x3xf32> {
  %ignore = nn.constant dense<-100> : tensor<i64>
  %zero = nn.constant dense<0> : tensor<i64>
  %five = nn.constant dense<5> : tensor<i64>
  %0 = nn.log_softmax %x {axis = 2} : tensor<2x3x7xf32>
  %1 = nn.cmp ne %labels, %ignore : tensor<2x3xi64>, tensor<i64>
  %3 = nn.where %1, %labels, %zero : tensor<2x3xi1>, tensor<2x3xi64>, tensor<i64>
  %4 = nn.reshape %3 : tensor<2x3xi64> to tensor<2x3x1xi64>
  %5 = nn.gather_elements %0 at %4 {axis = 2} : tensor<2x3x7xf32>, tensor<2x3x1xi64>
  %6 = nn.reshape %5 : tensor<2x3x1xf32> to tensor<2x3xf32>
  %7 = nn.cast %1 : tensor<2x3xi1> to tensor<2x3xf32>
  %8 = nn.mul %6, %7 : tensor<2x3xf32>, tensor<2x3xf32>
  return %8 : tensor<2x3xf32>
}

// -----

// The same the other way round.
// CHECK-LABEL: @where_not
// CHECK: nn.cross_entropy %arg0, %arg1
func.func @where_not(%x: tensor<2x3x7xf32>, %labels: tensor<2x3xi64>) -> tensor<2x3xf32> {
  %ignore = nn.constant dense<-100> : tensor<i64>
  %zero = nn.constant dense<0> : tensor<i64>
  %five = nn.constant dense<5> : tensor<i64>
  %0 = nn.log_softmax %x {axis = 2} : tensor<2x3x7xf32>
  %1 = nn.cmp ne %labels, %ignore : tensor<2x3xi64>, tensor<i64>
  %2 = nn.cmp eq %labels, %ignore : tensor<2x3xi64>, tensor<i64>
  %3 = nn.where %2, %zero, %labels : tensor<2x3xi1>, tensor<i64>, tensor<2x3xi64>
  %4 = nn.reshape %3 : tensor<2x3xi64> to tensor<2x3x1xi64>
  %5 = nn.gather_elements %0 at %4 {axis = 2} : tensor<2x3x7xf32>, tensor<2x3x1xi64>
  %6 = nn.reshape %5 : tensor<2x3x1xf32> to tensor<2x3xf32>
  %7 = nn.cast %1 : tensor<2x3xi1> to tensor<2x3xf32>
  %8 = nn.mul %6, %7 : tensor<2x3xf32>, tensor<2x3xf32>
  return %8 : tensor<2x3xf32>
}

// -----

// Labels from 5 on are looked up as class 0, but count.
// CHECK-LABEL: @other_condition
// CHECK-NOT: nn.cross_entropy
func.func @other_condition(%x: tensor<2x3x7xf32>, %labels: tensor<2x3xi64>) -> tensor<2x3xf32> {
  %ignore = nn.constant dense<-100> : tensor<i64>
  %zero = nn.constant dense<0> : tensor<i64>
  %five = nn.constant dense<5> : tensor<i64>
  %0 = nn.log_softmax %x {axis = 2} : tensor<2x3x7xf32>
  %1 = nn.cmp ne %labels, %ignore : tensor<2x3xi64>, tensor<i64>
  %2 = nn.cmp lt %labels, %five : tensor<2x3xi64>, tensor<i64>
  %3 = nn.where %2, %labels, %zero : tensor<2x3xi1>, tensor<2x3xi64>, tensor<i64>
  %4 = nn.reshape %3 : tensor<2x3xi64> to tensor<2x3x1xi64>
  %5 = nn.gather_elements %0 at %4 {axis = 2} : tensor<2x3x7xf32>, tensor<2x3x1xi64>
  %6 = nn.reshape %5 : tensor<2x3x1xf32> to tensor<2x3xf32>
  %7 = nn.cast %1 : tensor<2x3xi1> to tensor<2x3xf32>
  %8 = nn.mul %6, %7 : tensor<2x3xf32>, tensor<2x3xf32>
  return %8 : tensor<2x3xf32>
}

// -----

// The condition is the mask's, but the label stands on the other side.
// CHECK-LABEL: @wrong_side
// CHECK-NOT: nn.cross_entropy
func.func @wrong_side(%x: tensor<2x3x7xf32>, %labels: tensor<2x3xi64>) -> tensor<2x3xf32> {
  %ignore = nn.constant dense<-100> : tensor<i64>
  %zero = nn.constant dense<0> : tensor<i64>
  %five = nn.constant dense<5> : tensor<i64>
  %0 = nn.log_softmax %x {axis = 2} : tensor<2x3x7xf32>
  %1 = nn.cmp ne %labels, %ignore : tensor<2x3xi64>, tensor<i64>
  %3 = nn.where %1, %zero, %labels : tensor<2x3xi1>, tensor<i64>, tensor<2x3xi64>
  %4 = nn.reshape %3 : tensor<2x3xi64> to tensor<2x3x1xi64>
  %5 = nn.gather_elements %0 at %4 {axis = 2} : tensor<2x3x7xf32>, tensor<2x3x1xi64>
  %6 = nn.reshape %5 : tensor<2x3x1xf32> to tensor<2x3xf32>
  %7 = nn.cast %1 : tensor<2x3xi1> to tensor<2x3xf32>
  %8 = nn.mul %6, %7 : tensor<2x3xf32>, tensor<2x3xf32>
  return %8 : tensor<2x3xf32>
}
