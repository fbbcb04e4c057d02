// RUN: dt-opt %s --pass-pipeline="builtin.module(func.func(nn-raise-losses,canonicalize))" --split-input-file | FileCheck %s

// log_softmax, gather at clamped labels, times the mask of valid ones.
// CHECK-LABEL: @masked
// CHECK: %[[L:.*]] = nn.cross_entropy %arg0, %arg1
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

// The mask is that of other labels.
// CHECK-LABEL: @other_mask
// CHECK-NOT: nn.cross_entropy
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
