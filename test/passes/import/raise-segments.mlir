// RUN: dt-opt %s --pass-pipeline="builtin.module(func.func(nn-raise-attention,cse))" --split-input-file | FileCheck %s

// Masks of which nn.attention says what hides keys without a mask: numbers of
// segments, windows, padding.

// Numbers of one sequence, for all of the batch.
// CHECK-LABEL: @one_row
// CHECK-DAG: %[[S:.*]] = nn.reshape %arg3 : tensor<5xi64> to tensor<1x5xi64>
// CHECK-DAG: %[[R:.*]] = nn.reshape %arg4 : tensor<7xi64> to tensor<1x7xi64>
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} segments %[[S]] by %[[R]] {empty_row = 2 : i32, scale = 1.000000e+00 : f64}
func.func @one_row(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x7x16xf32>, %v: tensor<2x4x7x16xf32>, %s: tensor<5xi64>, %r: tensor<7xi64>) -> tensor<2x4x5x16xf32> {
  %sr = nn.reshape %s : tensor<5xi64> to tensor<5x1xi64>
  %rr = nn.reshape %r : tensor<7xi64> to tensor<1x7xi64>
  %m = nn.cmp eq %sr, %rr : tensor<5x1xi64>, tensor<1x7xi64>
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x7x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<5x7xi1>, tensor<2x4x5x7xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x7xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x7xf32>, tensor<2x4x7x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// Expanded before they are compared, of rank 3, and causal.
// CHECK-LABEL: @expanded
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} segments %arg3 by %arg4 {causal, empty_row = 2 : i32, scale = 1.000000e+00 : f64}
func.func @expanded(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x7x16xf32>, %v: tensor<2x4x7x16xf32>, %s: tensor<2x5xi64>, %r: tensor<2x7xi64>) -> tensor<2x4x5x16xf32> {
  %causal = nn.generate : tensor<5x7xi1> {
  ^bb0(%i: index, %j: index):
    %two = arith.constant 2 : index
    %own = arith.addi %i, %two : index
    %c = arith.cmpi sle, %j, %own : index
    nn.yield %c : i1
  }
  %sr = nn.reshape %s : tensor<2x5xi64> to tensor<2x5x1xi64>
  %se = nn.broadcast %sr : tensor<2x5x1xi64> to tensor<2x5x7xi64>
  %rr = nn.reshape %r : tensor<2x7xi64> to tensor<2x1x7xi64>
  %re = nn.broadcast %rr : tensor<2x1x7xi64> to tensor<2x5x7xi64>
  %same = nn.cmp eq %re, %se : tensor<2x5x7xi64>, tensor<2x5x7xi64>
  %both = nn.and %causal, %same : tensor<5x7xi1>, tensor<2x5x7xi1>
  %m = nn.reshape %both : tensor<2x5x7xi1> to tensor<2x1x5x7xi1>
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x7x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<2x1x5x7xi1>, tensor<2x4x5x7xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x7xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x7xf32>, tensor<2x4x7x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// What is hidden, negated; the other condition stays a mask.
// CHECK-LABEL: @negated
// CHECK: %[[M:.*]] = nn.not %arg5
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} mask %[[M]] segments %arg3 by %arg4 {empty_row
func.func @negated(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x7x16xf32>, %v: tensor<2x4x7x16xf32>, %s: tensor<2x5xi32>, %r: tensor<2x7xi32>, %d: tensor<2x4x5x7xi1>) -> tensor<2x4x5x16xf32> {
  %sr = nn.reshape %s : tensor<2x5xi32> to tensor<2x1x5x1xi32>
  %rr = nn.reshape %r : tensor<2x7xi32> to tensor<2x1x1x7xi32>
  %other = nn.cmp ne %sr, %rr : tensor<2x1x5x1xi32>, tensor<2x1x1x7xi32>
  %either = nn.or %other, %d : tensor<2x1x5x7xi1>, tensor<2x4x5x7xi1>
  %m = nn.not %either : tensor<2x4x5x7xi1>
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x7x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<2x4x5x7xi1>, tensor<2x4x5x7xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x7xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x7xf32>, tensor<2x4x7x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// Bools are numbers, too.
// CHECK-LABEL: @bools
// CHECK-DAG: %[[S:.*]] = nn.cast %arg3 : tensor<2x5xi1> to tensor<2x5xi32>
// CHECK-DAG: %[[R:.*]] = nn.cast %arg4 : tensor<2x7xi1> to tensor<2x7xi32>
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} segments %[[S]] by %[[R]]
func.func @bools(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x7x16xf32>, %v: tensor<2x4x7x16xf32>, %s: tensor<2x5xi1>, %r: tensor<2x7xi1>) -> tensor<2x4x5x16xf32> {
  %sr = nn.reshape %s : tensor<2x5xi1> to tensor<2x1x5x1xi1>
  %rr = nn.reshape %r : tensor<2x7xi1> to tensor<2x1x1x7xi1>
  %m = nn.cmp eq %sr, %rr : tensor<2x1x5x1xi1>, tensor<2x1x1x7xi1>
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x7x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<2x1x5x7xi1>, tensor<2x4x5x7xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x7xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x7xf32>, tensor<2x4x7x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// The last 4 keys, as transformers writes it: j > i - 4 and j <= i.
// CHECK-LABEL: @window
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} {causal, empty_row = 2 : i32, scale = 1.000000e+00 : f64, window = 4 : i64}
func.func @window(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x7x16xf32>, %v: tensor<2x4x7x16xf32>) -> tensor<2x4x5x16xf32> {
  %m = nn.generate : tensor<5x7xi1> {
  ^bb0(%i: index, %j: index):
    %four = arith.constant 4 : index
    %two = arith.constant 2 : index
    %own = arith.addi %i, %two : index
    %first = arith.subi %own, %four : index
    %w = arith.cmpi sgt, %j, %first : index
    %past = arith.cmpi sle, %j, %own : index
    %c = arith.andi %w, %past : i1
    nn.yield %c : i1
  }
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x7x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<5x7xi1>, tensor<2x4x5x7xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x7xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x7xf32>, tensor<2x4x7x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// The same as two masks: i - j < 2 of i + 2 is a window of 4.
// CHECK-LABEL: @window_apart
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} {causal, empty_row = 2 : i32, scale = 1.000000e+00 : f64, window = 4 : i64}
func.func @window_apart(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x7x16xf32>, %v: tensor<2x4x7x16xf32>) -> tensor<2x4x5x16xf32> {
  %w = nn.generate : tensor<5x7xi1> {
  ^bb0(%i: index, %j: index):
    %d = arith.subi %i, %j : index
    %two = arith.constant 2 : index
    %c = arith.cmpi slt, %d, %two : index
    nn.yield %c : i1
  }
  %causal = nn.generate : tensor<5x7xi1> {
  ^bb0(%i: index, %j: index):
    %two = arith.constant 2 : index
    %own = arith.addi %i, %two : index
    %c = arith.cmpi sle, %j, %own : index
    nn.yield %c : i1
  }
  %m = nn.and %causal, %w : tensor<5x7xi1>, tensor<5x7xi1>
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x7x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<5x7xi1>, tensor<2x4x5x7xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x7xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x7xf32>, tensor<2x4x7x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// To both sides.
// CHECK-LABEL: @window_around
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} {empty_row = 2 : i32, scale = 1.000000e+00 : f64, window = 3 : i64}
func.func @window_around(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>) -> tensor<2x4x5x16xf32> {
  %m = nn.generate : tensor<5x5xi1> {
  ^bb0(%i: index, %j: index):
    %three = arith.constant 3 : index
    %d = arith.subi %i, %j : index
    %e = arith.subi %j, %i : index
    %x = arith.cmpi slt, %d, %three : index
    %y = arith.cmpi slt, %e, %three : index
    %c = arith.andi %x, %y : i1
    nn.yield %c : i1
  }
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<5x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// All keys that come later, and some that came before: a mask.
// CHECK-LABEL: @window_one_side
// CHECK: %[[M:.*]] = nn.generate
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} mask %[[M]] {empty_row = 2 : i32, scale = 1.000000e+00 : f64}
func.func @window_one_side(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>) -> tensor<2x4x5x16xf32> {
  %m = nn.generate : tensor<5x5xi1> {
  ^bb0(%i: index, %j: index):
    %three = arith.constant 3 : index
    %d = arith.subi %i, %j : index
    %c = arith.cmpi slt, %d, %three : index
    nn.yield %c : i1
  }
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<5x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// Further back than ahead: a mask.
// CHECK-LABEL: @window_uneven
// CHECK: %[[M:.*]] = nn.generate
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} mask %[[M]] {empty_row = 2 : i32, scale = 1.000000e+00 : f64}
func.func @window_uneven(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>) -> tensor<2x4x5x16xf32> {
  %m = nn.generate : tensor<5x5xi1> {
  ^bb0(%i: index, %j: index):
    %three = arith.constant 3 : index
    %two = arith.constant 2 : index
    %d = arith.subi %i, %j : index
    %e = arith.subi %j, %i : index
    %x = arith.cmpi slt, %d, %three : index
    %y = arith.cmpi slt, %e, %two : index
    %c = arith.andi %x, %y : i1
    nn.yield %c : i1
  }
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<5x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// Keys that are padding: all queries are of segment 1, padding of segment 2.
// CHECK-LABEL: @padding
// CHECK-DAG: %[[S:.*]] = nn.constant dense<1> : tensor<1x1xi32>
// CHECK-DAG: %[[ONE:.*]] = nn.constant dense<1> : tensor<i32>
// CHECK-DAG: %[[TWO:.*]] = nn.constant dense<2> : tensor<i32>
// CHECK-DAG: %[[R:.*]] = nn.where %{{.*}}, %[[ONE]], %[[TWO]]
// CHECK-DAG: %[[K:.*]] = nn.reshape %[[R]] : {{.*}} to tensor<2x7xi32>
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} segments %[[S]] by %[[K]] {empty_row = 2
func.func @padding(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x7x16xf32>, %v: tensor<2x4x7x16xf32>, %pad: tensor<2x7xi64>) -> tensor<2x4x5x16xf32> {
  %zero = nn.constant dense<0> : tensor<i64>
  %seen = nn.cmp ne %pad, %zero : tensor<2x7xi64>, tensor<i64>
  %row = nn.reshape %seen : tensor<2x7xi1> to tensor<2x1x1x7xi1>
  %all = nn.broadcast %row : tensor<2x1x1x7xi1> to tensor<2x1x5x7xi1>
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x7x16xf32>
  %masked = nn.where %all, %scores, %hidden : tensor<2x1x5x7xi1>, tensor<2x4x5x7xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x7xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x7xf32>, tensor<2x4x7x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// Queries that are padding see none.
// CHECK-LABEL: @padding_of_both
// CHECK-DAG: %[[ZERO:.*]] = nn.constant dense<0> : tensor<i32>
// CHECK-DAG: %[[Q:.*]] = nn.where %{{.*}}, %{{.*}}, %[[ZERO]]
// CHECK-DAG: %[[S:.*]] = nn.reshape %[[Q]] : {{.*}} to tensor<2x5xi32>
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} segments %[[S]] by %{{.*}} {empty_row = 2
func.func @padding_of_both(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x7x16xf32>, %v: tensor<2x4x7x16xf32>, %pad: tensor<2x7xi1>, %rows: tensor<2x5xi1>) -> tensor<2x4x5x16xf32> {
  %row = nn.reshape %pad : tensor<2x7xi1> to tensor<2x1x1x7xi1>
  %column = nn.reshape %rows : tensor<2x5xi1> to tensor<2x1x5x1xi1>
  %m = nn.and %row, %column : tensor<2x1x1x7xi1>, tensor<2x1x5x1xi1>
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x7x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<2x1x5x7xi1>, tensor<2x4x5x7xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x7xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x7xf32>, tensor<2x4x7x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// What is always true goes, the rest stays as it is.
// CHECK-LABEL: @true_beside
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} mask %arg3 {empty_row = 2
func.func @true_beside(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x7x16xf32>, %v: tensor<2x4x7x16xf32>, %d: tensor<2x1x5x7xi1>) -> tensor<2x4x5x16xf32> {
  %all = nn.constant dense<true> : tensor<1x1x1x7xi1>
  %m = nn.and %all, %d : tensor<1x1x1x7xi1>, tensor<2x1x5x7xi1>
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x7x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<2x1x5x7xi1>, tensor<2x4x5x7xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x7xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x7xf32>, tensor<2x4x7x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// Any number may be a segment's, so none is left for padding: it stays a mask, of one row.
// CHECK-LABEL: @padding_beside
// CHECK: %[[M:.*]] = nn.reshape %arg5 : tensor<2x7xi1> to tensor<2x1x1x7xi1>
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} mask %[[M]] segments %arg3 by %arg4 {empty_row = 2
func.func @padding_beside(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x7x16xf32>, %v: tensor<2x4x7x16xf32>, %s: tensor<2x5xi64>, %r: tensor<2x7xi64>, %pad: tensor<2x7xi1>) -> tensor<2x4x5x16xf32> {
  %sr = nn.reshape %s : tensor<2x5xi64> to tensor<2x1x5x1xi64>
  %rr = nn.reshape %r : tensor<2x7xi64> to tensor<2x1x1x7xi64>
  %same = nn.cmp eq %sr, %rr : tensor<2x1x5x1xi64>, tensor<2x1x1x7xi64>
  %row = nn.reshape %pad : tensor<2x7xi1> to tensor<2x1x1x7xi1>
  %m = nn.and %row, %same : tensor<2x1x1x7xi1>, tensor<2x1x5x7xi1>
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x7x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<2x1x5x7xi1>, tensor<2x4x5x7xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x7xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x7xf32>, tensor<2x4x7x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// Floats are no numbers of segments.
// CHECK-LABEL: @floats
// CHECK: %[[M:.*]] = nn.cmp eq
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} mask %[[M]] {empty_row = 2
func.func @floats(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x7x16xf32>, %v: tensor<2x4x7x16xf32>, %s: tensor<2x5xf32>, %r: tensor<2x7xf32>) -> tensor<2x4x5x16xf32> {
  %sr = nn.reshape %s : tensor<2x5xf32> to tensor<2x1x5x1xf32>
  %rr = nn.reshape %r : tensor<2x7xf32> to tensor<2x1x1x7xf32>
  %m = nn.cmp eq %sr, %rr : tensor<2x1x5x1xf32>, tensor<2x1x1x7xf32>
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x7x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<2x1x5x7xi1>, tensor<2x4x5x7xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x7xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x7xf32>, tensor<2x4x7x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// Each head has segments of its own: a mask.
// CHECK-LABEL: @heads
// CHECK: %[[M:.*]] = nn.cmp eq
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} mask %[[M]] {empty_row = 2
func.func @heads(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x7x16xf32>, %v: tensor<2x4x7x16xf32>, %s: tensor<2x4x5xi64>, %r: tensor<2x4x7xi64>) -> tensor<2x4x5x16xf32> {
  %sr = nn.reshape %s : tensor<2x4x5xi64> to tensor<2x4x5x1xi64>
  %rr = nn.reshape %r : tensor<2x4x7xi64> to tensor<2x4x1x7xi64>
  %m = nn.cmp eq %sr, %rr : tensor<2x4x5x1xi64>, tensor<2x4x1x7xi64>
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x7x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<2x4x5x7xi1>, tensor<2x4x5x7xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x7xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x7xf32>, tensor<2x4x7x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// Causal, or of the same segment (tokens of an image that see each other): a mask.
// CHECK-LABEL: @either
// CHECK: %[[M:.*]] = nn.or
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} mask %[[M]] {empty_row = 2
func.func @either(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x7x16xf32>, %v: tensor<2x4x7x16xf32>, %s: tensor<2x5xi64>, %r: tensor<2x7xi64>) -> tensor<2x4x5x16xf32> {
  %causal = nn.generate : tensor<5x7xi1> {
  ^bb0(%i: index, %j: index):
    %two = arith.constant 2 : index
    %own = arith.addi %i, %two : index
    %c = arith.cmpi sle, %j, %own : index
    nn.yield %c : i1
  }
  %sr = nn.reshape %s : tensor<2x5xi64> to tensor<2x1x5x1xi64>
  %rr = nn.reshape %r : tensor<2x7xi64> to tensor<2x1x1x7xi64>
  %same = nn.cmp eq %sr, %rr : tensor<2x1x5x1xi64>, tensor<2x1x1x7xi64>
  %m = nn.or %causal, %same : tensor<5x7xi1>, tensor<2x1x5x7xi1>
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x7x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<2x1x5x7xi1>, tensor<2x4x5x7xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x7xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x7xf32>, tensor<2x4x7x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// Earlier segments, too: a mask.
// CHECK-LABEL: @less
// CHECK: %[[M:.*]] = nn.cmp ge
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} mask %[[M]] {empty_row = 2
func.func @less(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x7x16xf32>, %v: tensor<2x4x7x16xf32>, %s: tensor<2x5xi64>, %r: tensor<2x7xi64>) -> tensor<2x4x5x16xf32> {
  %sr = nn.reshape %s : tensor<2x5xi64> to tensor<2x1x5x1xi64>
  %rr = nn.reshape %r : tensor<2x7xi64> to tensor<2x1x1x7xi64>
  %m = nn.cmp ge %sr, %rr : tensor<2x1x5x1xi64>, tensor<2x1x1x7xi64>
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x7x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<2x1x5x7xi1>, tensor<2x4x5x7xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x7xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x7xf32>, tensor<2x4x7x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// Turned as a whole: not read, a mask.
// CHECK-LABEL: @turned
// CHECK: %[[M:.*]] = nn.transpose
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} mask %[[M]] {empty_row = 2
func.func @turned(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>, %s: tensor<5xi64>, %r: tensor<5xi64>) -> tensor<2x4x5x16xf32> {
  %sr = nn.reshape %s : tensor<5xi64> to tensor<5x1xi64>
  %rr = nn.reshape %r : tensor<5xi64> to tensor<1x5xi64>
  %t = nn.cmp eq %sr, %rr : tensor<5x1xi64>, tensor<1x5xi64>
  %m = nn.transpose %t [1, 0] : tensor<5x5xi1>
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<5x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// A table of fixed size: the last 3 keys.
// CHECK-LABEL: @table(
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} {causal, empty_row = 2 : i32, scale = 1.000000e+00 : f64, window = 3 : i64}
func.func @table(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x7x16xf32>, %v: tensor<2x4x7x16xf32>) -> tensor<2x4x5x16xf32> {
  %m = nn.constant dense<[[true, true, true, false, false, false, false], [false, true, true, true, false, false, false], [false, false, true, true, true, false, false], [false, false, false, true, true, true, false], [false, false, false, false, true, true, true]]> : tensor<5x7xi1>
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x7x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<5x7xi1>, tensor<2x4x5x7xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x7xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x7xf32>, tensor<2x4x7x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// A table of what is hidden.
// CHECK-LABEL: @table_negated(
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} {causal, empty_row = 2 : i32, scale = 1.000000e+00 : f64}
func.func @table_negated(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x7x16xf32>, %v: tensor<2x4x7x16xf32>) -> tensor<2x4x5x16xf32> {
  %h = nn.constant dense<[[false, false, false, true, true, true, true], [false, false, false, false, true, true, true], [false, false, false, false, false, true, true], [false, false, false, false, false, false, true], [false, false, false, false, false, false, false]]> : tensor<5x7xi1>
  %m = nn.not %h : tensor<5x7xi1>
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x7x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<5x7xi1>, tensor<2x4x5x7xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x7xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x7xf32>, tensor<2x4x7x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// A table of blocks, of windows of an image: segments. Query 3 sees none, key 6 is seen by none.
// CHECK-LABEL: @blocks(
// CHECK-DAG: %[[S:.*]] = nn.constant dense<{{\[\[}}0, 0, 1, -1, 3]]> : tensor<1x5xi32>
// CHECK-DAG: %[[R:.*]] = nn.constant dense<{{\[\[}}0, 0, 0, 1, 3, 3, -2]]> : tensor<1x7xi32>
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} segments %[[S]] by %[[R]] {empty_row = 2
func.func @blocks(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x7x16xf32>, %v: tensor<2x4x7x16xf32>) -> tensor<2x4x5x16xf32> {
  %m = nn.constant dense<[[true, true, true, false, false, false, false], [true, true, true, false, false, false, false], [false, false, false, true, false, false, false], [false, false, false, false, false, false, false], [false, false, false, false, true, true, false]]> : tensor<5x7xi1>
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x7x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<5x7xi1>, tensor<2x4x5x7xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x7xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x7xf32>, tensor<2x4x7x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// Query 0 sees a key of another block: a mask.
// CHECK-LABEL: @table_of_more(
// CHECK: %[[M:.*]] = nn.constant dense<{{.*}} : tensor<5x7xi1>
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} mask %[[M]] {empty_row = 2
func.func @table_of_more(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x7x16xf32>, %v: tensor<2x4x7x16xf32>) -> tensor<2x4x5x16xf32> {
  %m = nn.constant dense<[[true, true, true, true, false, false, false], [true, true, true, false, false, false, false], [false, false, false, true, false, false, false], [false, false, false, false, false, false, false], [false, false, false, false, true, true, false]]> : tensor<5x7xi1>
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x7x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<5x7xi1>, tensor<2x4x5x7xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x7xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x7xf32>, tensor<2x4x7x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// Documents numbered by where positions start again, and rules of positions inside them, as transformers writes packed rows: rules of indices.
// CHECK-LABEL: @packed(
// CHECK: %[[S:.*]] = nn.cumsum
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} segments %[[S]] by %[[S]] {causal, empty_row = 2 : i32, scale = 1.000000e+00 : f64, window = 3 : i64}
func.func @packed(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>, %pos: tensor<2x5xi64>) -> tensor<2x4x5x16xf32> {
  %one = nn.constant dense<1> : tensor<i64>
  %step = nn.constant dense<1> : tensor<i64>
  %three = nn.constant dense<3> : tensor<i64>
  %first = nn.slice %pos [0, 0] step [1, 1] : tensor<2x5xi64> to tensor<2x1xi64>
  %before = nn.sub %first, %one : tensor<2x1xi64>, tensor<i64>
  %all = nn.concat %before, %pos {axis = 1 : i64} : tensor<2x1xi64>, tensor<2x5xi64>
  %x = nn.slice %all [0, 0] step [1, 1] : tensor<2x6xi64> to tensor<2x5xi64>
  %y = nn.slice %all [0, 1] step [1, 1] : tensor<2x6xi64> to tensor<2x5xi64>
  %d = nn.sub %y, %x : tensor<2x5xi64>, tensor<2x5xi64>
  %goes = nn.cmp eq %d, %step : tensor<2x5xi64>, tensor<i64>
  %new = nn.not %goes : tensor<2x5xi1>
  %count = nn.cast %new : tensor<2x5xi1> to tensor<2x5xi64>
  %ids = nn.cumsum %count {axis = 1 : i64} : tensor<2x5xi64>
  %sr = nn.reshape %ids : tensor<2x5xi64> to tensor<2x1x5x1xi64>
  %rr = nn.reshape %ids : tensor<2x5xi64> to tensor<2x1x1x5xi64>
  %same = nn.cmp eq %sr, %rr : tensor<2x1x5x1xi64>, tensor<2x1x1x5xi64>
  %pq = nn.reshape %pos : tensor<2x5xi64> to tensor<2x1x5x1xi64>
  %pk = nn.reshape %pos : tensor<2x5xi64> to tensor<2x1x1x5xi64>
  %past = nn.cmp le %pk, %pq : tensor<2x1x1x5xi64>, tensor<2x1x5x1xi64>
  %low = nn.sub %pq, %three : tensor<2x1x5x1xi64>, tensor<i64>
  %near = nn.cmp gt %pk, %low : tensor<2x1x1x5xi64>, tensor<2x1x5x1xi64>
  %both = nn.and %past, %near : tensor<2x1x5x5xi1>, tensor<2x1x5x5xi1>
  %m = nn.and %both, %same : tensor<2x1x5x5xi1>, tensor<2x1x5x5xi1>
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<2x1x5x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// Positions that go on by 2 do not differ as indices do.
// CHECK-LABEL: @packed_by_two(
// CHECK: %[[S:.*]] = nn.cumsum
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} segments %[[S]] by %[[S]] {empty_row = 2 : i32
func.func @packed_by_two(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>, %pos: tensor<2x5xi64>) -> tensor<2x4x5x16xf32> {
  %one = nn.constant dense<1> : tensor<i64>
  %step = nn.constant dense<2> : tensor<i64>
  %three = nn.constant dense<3> : tensor<i64>
  %first = nn.slice %pos [0, 0] step [1, 1] : tensor<2x5xi64> to tensor<2x1xi64>
  %before = nn.sub %first, %one : tensor<2x1xi64>, tensor<i64>
  %all = nn.concat %before, %pos {axis = 1 : i64} : tensor<2x1xi64>, tensor<2x5xi64>
  %x = nn.slice %all [0, 0] step [1, 1] : tensor<2x6xi64> to tensor<2x5xi64>
  %y = nn.slice %all [0, 1] step [1, 1] : tensor<2x6xi64> to tensor<2x5xi64>
  %d = nn.sub %y, %x : tensor<2x5xi64>, tensor<2x5xi64>
  %goes = nn.cmp eq %d, %step : tensor<2x5xi64>, tensor<i64>
  %new = nn.not %goes : tensor<2x5xi1>
  %count = nn.cast %new : tensor<2x5xi1> to tensor<2x5xi64>
  %ids = nn.cumsum %count {axis = 1 : i64} : tensor<2x5xi64>
  %sr = nn.reshape %ids : tensor<2x5xi64> to tensor<2x1x5x1xi64>
  %rr = nn.reshape %ids : tensor<2x5xi64> to tensor<2x1x1x5xi64>
  %same = nn.cmp eq %sr, %rr : tensor<2x1x5x1xi64>, tensor<2x1x1x5xi64>
  %pq = nn.reshape %pos : tensor<2x5xi64> to tensor<2x1x5x1xi64>
  %pk = nn.reshape %pos : tensor<2x5xi64> to tensor<2x1x1x5xi64>
  %past = nn.cmp le %pk, %pq : tensor<2x1x1x5xi64>, tensor<2x1x5x1xi64>
  %low = nn.sub %pq, %three : tensor<2x1x5x1xi64>, tensor<i64>
  %near = nn.cmp gt %pk, %low : tensor<2x1x1x5xi64>, tensor<2x1x5x1xi64>
  %both = nn.and %past, %near : tensor<2x1x5x5xi1>, tensor<2x1x5x5xi1>
  %m = nn.and %both, %same : tensor<2x1x5x5xi1>, tensor<2x1x5x5xi1>
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<2x1x5x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// Other positions than those that number the documents.
// CHECK-LABEL: @packed_otherwise(
// CHECK: %[[S:.*]] = nn.cumsum
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} segments %[[S]] by %[[S]] {empty_row = 2 : i32
func.func @packed_otherwise(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>, %pos: tensor<2x5xi64>, %other: tensor<2x5xi64>) -> tensor<2x4x5x16xf32> {
  %one = nn.constant dense<1> : tensor<i64>
  %step = nn.constant dense<1> : tensor<i64>
  %three = nn.constant dense<3> : tensor<i64>
  %first = nn.slice %pos [0, 0] step [1, 1] : tensor<2x5xi64> to tensor<2x1xi64>
  %before = nn.sub %first, %one : tensor<2x1xi64>, tensor<i64>
  %all = nn.concat %before, %pos {axis = 1 : i64} : tensor<2x1xi64>, tensor<2x5xi64>
  %x = nn.slice %all [0, 0] step [1, 1] : tensor<2x6xi64> to tensor<2x5xi64>
  %y = nn.slice %all [0, 1] step [1, 1] : tensor<2x6xi64> to tensor<2x5xi64>
  %d = nn.sub %y, %x : tensor<2x5xi64>, tensor<2x5xi64>
  %goes = nn.cmp eq %d, %step : tensor<2x5xi64>, tensor<i64>
  %new = nn.not %goes : tensor<2x5xi1>
  %count = nn.cast %new : tensor<2x5xi1> to tensor<2x5xi64>
  %ids = nn.cumsum %count {axis = 1 : i64} : tensor<2x5xi64>
  %sr = nn.reshape %ids : tensor<2x5xi64> to tensor<2x1x5x1xi64>
  %rr = nn.reshape %ids : tensor<2x5xi64> to tensor<2x1x1x5xi64>
  %same = nn.cmp eq %sr, %rr : tensor<2x1x5x1xi64>, tensor<2x1x1x5xi64>
  %pq = nn.reshape %other : tensor<2x5xi64> to tensor<2x1x5x1xi64>
  %pk = nn.reshape %other : tensor<2x5xi64> to tensor<2x1x1x5xi64>
  %past = nn.cmp le %pk, %pq : tensor<2x1x1x5xi64>, tensor<2x1x5x1xi64>
  %low = nn.sub %pq, %three : tensor<2x1x5x1xi64>, tensor<i64>
  %near = nn.cmp gt %pk, %low : tensor<2x1x1x5xi64>, tensor<2x1x5x1xi64>
  %both = nn.and %past, %near : tensor<2x1x5x5xi1>, tensor<2x1x5x5xi1>
  %m = nn.and %both, %same : tensor<2x1x5x5xi1>, tensor<2x1x5x5xi1>
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<2x1x5x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}
