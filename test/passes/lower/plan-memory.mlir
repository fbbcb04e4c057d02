// RUN: dt-opt %s --lower-nn-to-rt --cse --rt-plan-memory --rt-verify-lowered | FileCheck %s

nn.dim @batch of "sample" max 4

// Elementwise results take the place of what dies there; products cannot.
// CHECK-LABEL: rt.func private @chain(
// CHECK-SAME: scratch_bytes = 2048
func.func private @chain(%x: tensor<?x64xf32, #nn.dims<batch>>, %w: tensor<64x64xf32>) -> tensor<?x64xf32, #nn.dims<batch>> {
  // CHECK: rt.alloc "linear" at [[A:.*]] :
  %0 = nn.linear %x, %w : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
  // CHECK: rt.alloc "exp" at [[A]] :
  %1 = nn.exp %0 : tensor<?x64xf32, #nn.dims<batch>>
  // CHECK: rt.alloc "linear" at [[B:.*]] :
  %2 = nn.linear %1, %w : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
  // CHECK: rt.alloc "linear" at [[A]] :
  %3 = nn.linear %2, %w : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
  %4 = nn.neg %3 : tensor<?x64xf32, #nn.dims<batch>>
  return %4 : tensor<?x64xf32, #nn.dims<batch>>
}

// An operand that repeats is read again at other points: it keeps its place.
// CHECK-LABEL: rt.func @repeated(
// CHECK-SAME: scratch_bytes = 16640
func.func @repeated(%x: tensor<64xf32>) -> tensor<64x64xf32> {
  %0 = nn.exp %x : tensor<64xf32>
  %1 = nn.broadcast %0 : tensor<64xf32> to tensor<64x64xf32>
  %2 = nn.transpose %1 [1, 0] : tensor<64x64xf32>
  return %2 : tensor<64x64xf32>
}

// A call's locals are a local of the caller, of both calls the same.
// CHECK-LABEL: rt.func @caller(
// CHECK-SAME: scratch_bytes = 3072
// CHECK: rt.alloc "chain.scratch" at [[S:.*]] : <i8, [2048]>
// CHECK: rt.call @chain({{.*}}) scratch
// CHECK: rt.alloc "chain.scratch" at [[S]] : <i8, [2048]>
func.func @caller(%x: tensor<?x64xf32, #nn.dims<batch>>, %w: tensor<64x64xf32>) -> tensor<?x64xf32, #nn.dims<batch>> {
  %0 = call @chain(%x, %w) : (tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>) -> tensor<?x64xf32, #nn.dims<batch>>
  %1 = call @chain(%0, %w) : (tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>) -> tensor<?x64xf32, #nn.dims<batch>>
  return %1 : tensor<?x64xf32, #nn.dims<batch>>
}
