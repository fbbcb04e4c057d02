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

// What is also read through a view of a part keeps its place: the row is read again at other points.
// CHECK-LABEL: rt.func @row(
// CHECK: rt.alloc "linear" at [[H:[0-9]+]] :
// CHECK-NOT: rt.alloc "add" at [[H]] :
// CHECK: rt.kernel @add
func.func @row(%x: tensor<?x64xf32, #nn.dims<batch>>, %w: tensor<64x64xf32>) -> tensor<?xf32, #nn.dims<batch>> {
  %h = nn.linear %x, %w : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
  %r = nn.slice %h [0, 0] step [1, 1] {from_end = array<i1>} : tensor<?x64xf32, #nn.dims<batch>> to tensor<1x64xf32>
  %s = nn.add %h, %r : tensor<?x64xf32, #nn.dims<batch>>, tensor<1x64xf32>
  %y = nn.reduce sum %s {axes = array<i64: 1>} : tensor<?x64xf32, #nn.dims<batch>>
  return %y : tensor<?xf32, #nn.dims<batch>>
}

// The same where the local has already taken another one's place, and the part is a view of a view.
// CHECK-LABEL: rt.func @chain_row(
// CHECK: rt.alloc "linear" at [[H:[0-9]+]] :
// CHECK: rt.alloc "exp" at [[H]] :
// CHECK-NOT: rt.alloc "add" at [[H]] :
// CHECK: rt.kernel @add
func.func @chain_row(%x: tensor<?x64xf32, #nn.dims<batch>>, %w: tensor<64x64xf32>) -> tensor<?xf32, #nn.dims<batch>> {
  %g = nn.linear %x, %w : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
  %h = nn.exp %g : tensor<?x64xf32, #nn.dims<batch>>
  %p = nn.slice %h [0, 0] step [1, 1] {from_end = array<i1>} : tensor<?x64xf32, #nn.dims<batch>> to tensor<2x64xf32>
  %r = nn.slice %p [1, 0] step [1, 1] {from_end = array<i1>} : tensor<2x64xf32> to tensor<1x64xf32>
  %s = nn.add %h, %r : tensor<?x64xf32, #nn.dims<batch>>, tensor<1x64xf32>
  %y = nn.reduce sum %s {axes = array<i64: 1>} : tensor<?x64xf32, #nn.dims<batch>>
  return %y : tensor<?xf32, #nn.dims<batch>>
}

// Other integers than floats: C++ takes them for different memory even where it is not told so.
// CHECK-LABEL: rt.func @other_type(
// CHECK: rt.alloc "cast" at [[H:[0-9]+]] : <i32
// CHECK-NOT: at [[H]] : <f32
// CHECK: rt.kernel @cast
func.func @other_type(%x: tensor<64x64xf32>) -> tensor<64xf32> {
  %h = nn.cast %x : tensor<64x64xf32> to tensor<64x64xi32>
  %s = nn.cast %h : tensor<64x64xi32> to tensor<64x64xf32>
  %y = nn.reduce sum %s {axes = array<i64: 1>} : tensor<64x64xf32>
  return %y : tensor<64xf32>
}
