// RUN: dt-opt %s --pass-pipeline="builtin.module(func.func(nn-raise-attention,cse))" --split-input-file | FileCheck %s

// One layer of Llama as PyTorch's exporter writes it: K transposed between reshapes, scale split over both, an additive mask
// that is a function of its indices, the IsNaN guard, KV heads repeated.
// CHECK-LABEL: @llama
// CHECK-SAME: %[[Q:.*]]: tensor<2x5x4x16xf32>, %[[K:.*]]: tensor<2x5x2x16xf32>, %[[V:.*]]: tensor<2x5x2x16xf32>
// CHECK: %[[R:.*]], %{{.*}} = nn.attention %[[Q]], %[[K]], %[[V]] {causal, empty_row = 1 : i32, scale = 2.500000e-01 : f64}
// CHECK: return %[[R]]
func.func @llama(%q: tensor<2x5x4x16xf32>, %k: tensor<2x5x2x16xf32>, %v: tensor<2x5x2x16xf32>) -> tensor<2x5x4x16xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %qt = nn.transpose %q [0, 2, 1, 3] : tensor<2x5x4x16xf32>
  %kt = nn.transpose %k [0, 2, 1, 3] : tensor<2x5x2x16xf32>
  %vt = nn.transpose %v [0, 2, 1, 3] : tensor<2x5x2x16xf32>
  %k5 = nn.reshape %kt : tensor<2x2x5x16xf32> to tensor<2x2x1x5x16xf32>
  %ke = nn.broadcast %k5 : tensor<2x2x1x5x16xf32> to tensor<2x2x2x5x16xf32>
  %kh = nn.reshape %ke : tensor<2x2x2x5x16xf32> to tensor<2x4x5x16xf32>
  %v5 = nn.reshape %vt : tensor<2x2x5x16xf32> to tensor<2x2x1x5x16xf32>
  %ve = nn.broadcast %v5 : tensor<2x2x1x5x16xf32> to tensor<2x2x2x5x16xf32>
  %vh = nn.reshape %ve : tensor<2x2x2x5x16xf32> to tensor<2x4x5x16xf32>
  %k3 = nn.reshape %kh : tensor<2x4x5x16xf32> to tensor<8x5x16xf32>
  %k3t = nn.transpose %k3 [0, 2, 1] : tensor<8x5x16xf32>
  %k4 = nn.reshape %k3t : tensor<8x16x5xf32> to tensor<2x4x16x5xf32>
  %qs = nn.mul %qt, %half : tensor<2x4x5x16xf32>, tensor<f32>
  %ks = nn.mul %k4, %half : tensor<2x4x16x5xf32>, tensor<f32>
  %s = nn.matmul %qs, %ks : tensor<2x4x5x16xf32>, tensor<2x4x16x5xf32>
  %mask = nn.generate : tensor<2x1x5x5xf32> {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %visible = arith.constant 0.0 : f32
    %hidden = arith.constant -3.40282347E+38 : f32
    %c = arith.cmpi sle, %j, %i : index
    %m = arith.select %c, %visible, %hidden : f32
    nn.yield %m : f32
  }
  %sm = nn.add %s, %mask : tensor<2x4x5x5xf32>, tensor<2x1x5x5xf32>
  %p = nn.softmax %sm {axis = 3} : tensor<2x4x5x5xf32>
  %nan = nn.is_nan %p : tensor<2x4x5x5xf32>
  %pg = nn.where %nan, %zero, %p : tensor<2x4x5x5xi1>, tensor<f32>, tensor<2x4x5x5xf32>
  %o = nn.matmul %pg, %vh : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  %ot = nn.transpose %o [0, 2, 1, 3] : tensor<2x4x5x16xf32>
  return %ot : tensor<2x5x4x16xf32>
}

// -----

// The mask shows each query one key more than causal does.
// CHECK-LABEL: @shifted
// CHECK: nn.attention {{.*}} mask %{{.*}} {empty_row = 2 : i32, scale = 1.0{{.*}}}
func.func @shifted(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>) -> tensor<2x4x5x16xf32> {
  %mask = nn.generate : tensor<5x5xi1> {
  ^bb0(%i: index, %j: index):
    %one = arith.constant 1 : index
    %next = arith.addi %i, %one : index
    %c = arith.cmpi sle, %j, %next : index
    nn.yield %c : i1
  }
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %s = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %sm = nn.where %mask, %s, %hidden : tensor<5x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>
  %p = nn.softmax %sm {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// Causal within segments. Softmax over hidden scores of -inf is not a number, and nothing behind it says otherwise.
// CHECK-LABEL: @segments
// CHECK: %[[S:.*]] = nn.reshape %arg3 : tensor<2x1x1x5xi64> to tensor<2x5xi64>
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} segments %[[S]] by %[[S]] {causal, empty_row = 2 : i32
func.func @segments(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>, %seg: tensor<2x1x1x5xi64>) -> tensor<2x4x5x16xf32> {
  %causal = nn.generate : tensor<5x5xi1> {
  ^bb0(%i: index, %j: index):
    %c = arith.cmpi sge, %i, %j : index
    nn.yield %c : i1
  }
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %rows = nn.reshape %seg : tensor<2x1x1x5xi64> to tensor<2x1x5x1xi64>
  %same = nn.cmp eq %rows, %seg : tensor<2x1x5x1xi64>, tensor<2x1x1x5xi64>
  %mask = nn.and %same, %causal : tensor<2x1x5x5xi1>, tensor<5x5xi1>
  %s = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %sm = nn.where %mask, %s, %hidden : tensor<2x1x5x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>
  %p = nn.softmax %sm {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// A bias that may train has no gradient in nn.attention: left alone.
// CHECK-LABEL: @relative_bias
// CHECK-NOT: nn.attention
func.func @relative_bias(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>, %bias: tensor<1x4x5x5xf32>) -> tensor<2x4x5x16xf32> {
  %s = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %sm = nn.add %s, %bias : tensor<2x4x5x5xf32>, tensor<1x4x5x5xf32>
  %p = nn.softmax %sm {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// A softmax over queries is no attention.
// CHECK-LABEL: @other_axis
// CHECK-NOT: nn.attention
func.func @other_axis(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>) -> tensor<2x4x5x16xf32> {
  %s = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %p = nn.softmax %s {axis = 2} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// A query whose keys are all hidden by -1e4 sees them as if none was: the number is added, and is no condition.
// CHECK-LABEL: @finite_number
// CHECK: %[[M:.*]] = nn.where
// CHECK: nn.attention {{.*}} mask %[[M]] {empty_row = 1 : i32, scale = {{.*}}}
// CHECK-SAME: tensor<2x1x5x5xf32>
func.func @finite_number(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>, %c: tensor<2x1x5x5xi1>) -> tensor<2x4x5x16xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %hidden = nn.constant dense<-1.0e4> : tensor<f32>
  %m = nn.where %c, %zero, %hidden : tensor<2x1x5x5xi1>, tensor<f32>, tensor<f32>
  %s = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %sm = nn.add %s, %m : tensor<2x4x5x5xf32>, tensor<2x1x5x5xf32>
  %p = nn.softmax %sm {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// In place of scores, -1e9 is a score as any other: what is far below it would be hidden by it.
// CHECK-LABEL: @finite_in_place
// CHECK-NOT: nn.attention
func.func @finite_in_place(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>, %c: tensor<2x1x5x5xi1>) -> tensor<2x4x5x16xf32> {
  %hidden = nn.constant dense<-1.0e9> : tensor<f32>
  %s = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %sm = nn.where %c, %s, %hidden : tensor<2x1x5x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>
  %p = nn.softmax %sm {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// One mask of the lowest number: all scores of a query without a visible key become it, so it averages all values.
// CHECK-LABEL: @lowest
// CHECK: nn.attention {{.*}} mask %arg3 {scale = {{.*}}}
// CHECK-SAME: tensor<2x1x5x5xi1>
func.func @lowest(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>, %c: tensor<2x1x5x5xi1>) -> tensor<2x4x5x16xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %hidden = nn.constant dense<0xFF7FFFFF> : tensor<f32>
  %m = nn.where %c, %zero, %hidden : tensor<2x1x5x5xi1>, tensor<f32>, tensor<f32>
  %s = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %sm = nn.add %s, %m : tensor<2x4x5x5xf32>, tensor<2x1x5x5xf32>
  %p = nn.softmax %sm {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// Two of them add up to -inf: a query that one of them hides all keys from weighs those alike that the other shows.
// CHECK-LABEL: @two_lowest
// CHECK: %[[D:.*]] = nn.where %arg4
// CHECK: %[[M:.*]] = nn.where %arg3
// CHECK: %[[S:.*]] = nn.add %[[D]], %[[M]]
// CHECK: nn.attention {{.*}} mask %[[S]] {empty_row = 2 : i32, scale = {{.*}}}
func.func @two_lowest(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>, %c: tensor<2x1x5x5xi1>, %d: tensor<5x5xi1>) -> tensor<2x4x5x16xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %hidden = nn.constant dense<0xFF7FFFFF> : tensor<f32>
  %n = nn.where %d, %zero, %hidden : tensor<5x5xi1>, tensor<f32>, tensor<f32>
  %m = nn.where %c, %zero, %hidden : tensor<2x1x5x5xi1>, tensor<f32>, tensor<f32>
  %s = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %sn = nn.add %s, %n : tensor<2x4x5x5xf32>, tensor<5x5xf32>
  %sm = nn.add %sn, %m : tensor<2x4x5x5xf32>, tensor<2x1x5x5xf32>
  %p = nn.softmax %sm {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// Put for scores one after the other, the lowest number is the same everywhere: one condition.
// CHECK-LABEL: @two_in_place
// CHECK: %[[M:.*]] = nn.and
// CHECK: nn.attention {{.*}} mask %[[M]] {empty_row = 3 : i32, scale = {{.*}}}
func.func @two_in_place(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>, %c: tensor<2x1x5x5xi1>, %d: tensor<5x5xi1>) -> tensor<2x4x5x16xf32> {
  %hidden = nn.constant dense<0xFF7FFFFF> : tensor<f32>
  %s = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %sn = nn.where %d, %s, %hidden : tensor<5x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>
  %sm = nn.where %c, %sn, %hidden : tensor<2x1x5x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>
  %p = nn.softmax %sm {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// Behind a guard a query without a visible key gives 0.
// CHECK-LABEL: @guarded
// CHECK: nn.attention {{.*}} mask %arg3 {empty_row = 1 : i32, scale = {{.*}}}
func.func @guarded(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>, %c: tensor<2x1x5x5xi1>) -> tensor<2x4x5x16xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %m = nn.where %c, %zero, %hidden : tensor<2x1x5x5xi1>, tensor<f32>, tensor<f32>
  %s = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %sm = nn.add %s, %m : tensor<2x4x5x5xf32>, tensor<2x1x5x5xf32>
  %p = nn.softmax %sm {axis = 3} : tensor<2x4x5x5xf32>
  %z = nn.constant dense<0.0> : tensor<f32>
  %nan = nn.is_nan %p : tensor<2x4x5x5xf32>
  %w = nn.where %nan, %z, %p : tensor<2x4x5x5xi1>, tensor<f32>, tensor<2x4x5x5xf32>
  %o = nn.matmul %w, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// PyTorch's exporter writes a mask of bools as the lowest number, behind a guard: it was scaled_dot_product_attention, which gives 0.
// CHECK-LABEL: @guarded_lowest
// CHECK: nn.attention {{.*}} mask %arg3 {empty_row = 1 : i32, scale = {{.*}}}
func.func @guarded_lowest(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>, %c: tensor<2x1x5x5xi1>) -> tensor<2x4x5x16xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %hidden = nn.constant dense<0xFF7FFFFF> : tensor<f32>
  %m = nn.where %c, %zero, %hidden : tensor<2x1x5x5xi1>, tensor<f32>, tensor<f32>
  %s = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %sm = nn.add %s, %m : tensor<2x4x5x5xf32>, tensor<2x1x5x5xf32>
  %p = nn.softmax %sm {axis = 3} : tensor<2x4x5x5xf32>
  %nan = nn.is_nan %p : tensor<2x4x5x5xf32>
  %w = nn.where %nan, %zero, %p : tensor<2x4x5x5xi1>, tensor<f32>, tensor<2x4x5x5xf32>
  %o = nn.matmul %w, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// A guarded softmax that is no attention: a row of -inf does not go through it.
// CHECK-LABEL: @guarded_softmax
// CHECK: %[[TOP:.*]] = nn.reduce max %arg0 {axes = array<i64: 1>, keepdims}
// CHECK: %[[EMPTY:.*]] = nn.cmp eq %[[TOP]]
// CHECK: %[[SOME:.*]] = nn.where %[[EMPTY]], %{{.*}}, %arg0
// CHECK: %[[P:.*]] = nn.softmax %[[SOME]]
// CHECK: %[[NAN:.*]] = nn.is_nan %[[P]]
// CHECK: %[[NONE:.*]] = nn.or %[[EMPTY]], %[[NAN]]
// CHECK: nn.where %[[NONE]], %{{.*}}, %[[P]]
func.func @guarded_softmax(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %p = nn.softmax %x {axis = 1} : tensor<3x4xf32>
  %nan = nn.is_nan %p : tensor<3x4xf32>
  %w = nn.where %nan, %zero, %p : tensor<3x4xi1>, tensor<f32>, tensor<3x4xf32>
  return %w : tensor<3x4xf32>
}

// -----

// Where one mask is -inf and one finite, only numbers say both.
// CHECK-LABEL: @mixed
// CHECK: nn.attention {{.*}} {empty_row = 2 : i32, scale = {{.*}}}
// CHECK-SAME: tensor<2x1x5x5xf32>
func.func @mixed(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>, %c: tensor<2x1x5x5xi1>, %d: tensor<5x5xi1>) -> tensor<2x4x5x16xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %hidden = nn.constant dense<0xFF7FFFFF> : tensor<f32>
  %inf = nn.constant dense<0xFF800000> : tensor<f32>
  %m = nn.where %c, %zero, %hidden : tensor<2x1x5x5xi1>, tensor<f32>, tensor<f32>
  %s = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %sn = nn.where %d, %s, %inf : tensor<5x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>
  %sm = nn.add %sn, %m : tensor<2x4x5x5xf32>, tensor<2x1x5x5xf32>
  %p = nn.softmax %sm {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// The same as exporters write it now: batch, heads and their repetition are merged at once before K is transposed. One head for all, and none of what was
// around it is left.
// CHECK-LABEL: @merged_at_once
// CHECK-SAME: %[[Q:.*]]: tensor<2x5x4x16xf32>, %[[K:.*]]: tensor<2x5x1x16xf32>, %[[V:.*]]: tensor<2x5x1x16xf32>
// CHECK-NEXT: %[[R:.*]], %{{.*}} = nn.attention %[[Q]], %[[K]], %[[V]] {
// CHECK-NEXT: return %[[R]]
func.func @merged_at_once(%q: tensor<2x5x4x16xf32>, %k: tensor<2x5x1x16xf32>, %v: tensor<2x5x1x16xf32>) -> tensor<2x5x4x16xf32> {
  %qt = nn.transpose %q [0, 2, 1, 3] : tensor<2x5x4x16xf32>
  %kt = nn.transpose %k [0, 2, 1, 3] : tensor<2x5x1x16xf32>
  %vt = nn.transpose %v [0, 2, 1, 3] : tensor<2x5x1x16xf32>
  %k5 = nn.reshape %kt : tensor<2x1x5x16xf32> to tensor<2x1x1x5x16xf32>
  %ke = nn.broadcast %k5 : tensor<2x1x1x5x16xf32> to tensor<2x1x4x5x16xf32>
  %v5 = nn.reshape %vt : tensor<2x1x5x16xf32> to tensor<2x1x1x5x16xf32>
  %ve = nn.broadcast %v5 : tensor<2x1x1x5x16xf32> to tensor<2x1x4x5x16xf32>
  %vh = nn.reshape %ve : tensor<2x1x4x5x16xf32> to tensor<2x4x5x16xf32>
  %k3 = nn.reshape %ke : tensor<2x1x4x5x16xf32> to tensor<8x5x16xf32>
  %k3t = nn.transpose %k3 [0, 2, 1] : tensor<8x5x16xf32>
  %k4 = nn.reshape %k3t : tensor<8x16x5xf32> to tensor<2x4x16x5xf32>
  %s = nn.matmul %qt, %k4 : tensor<2x4x5x16xf32>, tensor<2x4x16x5xf32>
  %p = nn.softmax %s {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %vh : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  %ot = nn.transpose %o [0, 2, 1, 3] : tensor<2x4x5x16xf32>
  return %ot : tensor<2x5x4x16xf32>
}

// -----

// All heads one after another, and then all of them again: query heads that share one do not stand together.
// CHECK-LABEL: @heads_again
// CHECK: nn.broadcast
// CHECK: nn.attention
func.func @heads_again(%q: tensor<2x4x5x16xf32>, %k: tensor<2x2x5x16xf32>, %v: tensor<2x2x5x16xf32>) -> tensor<2x4x5x16xf32> {
  %k5 = nn.reshape %k : tensor<2x2x5x16xf32> to tensor<2x1x2x5x16xf32>
  %ke = nn.broadcast %k5 : tensor<2x1x2x5x16xf32> to tensor<2x2x2x5x16xf32>
  %kh = nn.reshape %ke : tensor<2x2x2x5x16xf32> to tensor<2x4x5x16xf32>
  %v5 = nn.reshape %v : tensor<2x2x5x16xf32> to tensor<2x1x2x5x16xf32>
  %ve = nn.broadcast %v5 : tensor<2x1x2x5x16xf32> to tensor<2x2x2x5x16xf32>
  %vh = nn.reshape %ve : tensor<2x2x2x5x16xf32> to tensor<2x4x5x16xf32>
  %s = nn.matmul %q, %kh {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %p = nn.softmax %s {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %vh : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// Repeated heads, but the rest is read as other sizes: five keys of 16 numbers
// become 16 keys of five.
// CHECK-LABEL: @reread_heads
// CHECK: nn.broadcast
// CHECK: nn.attention
func.func @reread_heads(%q: tensor<2x4x3x5xf32>, %k: tensor<2x2x5x16xf32>, %v: tensor<2x2x5x16xf32>) -> tensor<2x4x3x5xf32> {
  %k5 = nn.reshape %k : tensor<2x2x5x16xf32> to tensor<2x2x1x5x16xf32>
  %ke = nn.broadcast %k5 : tensor<2x2x1x5x16xf32> to tensor<2x2x2x5x16xf32>
  %kh = nn.reshape %ke : tensor<2x2x2x5x16xf32> to tensor<2x4x16x5xf32>
  %v5 = nn.reshape %v : tensor<2x2x5x16xf32> to tensor<2x2x1x5x16xf32>
  %ve = nn.broadcast %v5 : tensor<2x2x1x5x16xf32> to tensor<2x2x2x5x16xf32>
  %vh = nn.reshape %ve : tensor<2x2x2x5x16xf32> to tensor<2x4x16x5xf32>
  %s = nn.matmul %q, %kh {trans_b} : tensor<2x4x3x5xf32>, tensor<2x4x16x5xf32>
  %p = nn.softmax %s {axis = 3} : tensor<2x4x3x16xf32>
  %o = nn.matmul %p, %vh : tensor<2x4x3x16xf32>, tensor<2x4x16x5xf32>
  return %o : tensor<2x4x3x5xf32>
}

// -----

// Whole numbers have no scale that attention could take.
// CHECK-LABEL: @whole_numbers
// CHECK: nn.mul
// CHECK: nn.transpose
func.func @whole_numbers(%x: tensor<2x3xi64>) -> tensor<3x2xi64> {
  %two = nn.constant dense<2> : tensor<i64>
  %m = nn.mul %x, %two : tensor<2x3xi64>, tensor<i64>
  %t = nn.transpose %m [1, 0] : tensor<2x3xi64>
  return %t : tensor<3x2xi64>
}

// -----

// A mask that compares unsigned shows the key at i only: differences below 0 are
// large numbers.
// CHECK-LABEL: @unsigned
// CHECK: nn.attention {{.*}} mask %
// CHECK-NOT: causal
func.func @unsigned(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>) -> tensor<2x4x5x16xf32> {
  %mask = nn.generate : tensor<5x5xi1> {
  ^bb0(%i: index, %j: index):
    %zero = arith.constant 0 : index
    %d = arith.subi %j, %i : index
    %c = arith.cmpi ule, %d, %zero : index
    nn.yield %c : i1
  }
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %s = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %sm = nn.where %mask, %s, %hidden : tensor<5x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>
  %p = nn.softmax %sm {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// In a file of 16 bits the lowest float16 hides, and 1 / sqrt(8) is rounded.
// CHECK-LABEL: @narrow
// CHECK: nn.attention {{.*}} mask %arg3 {empty_row = 3 : i32, scale = 0.35355339059327373 : f64}
func.func @narrow(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x8xf32>, %c: tensor<2x1x5x5xi1>) -> tensor<2x4x5x8xf32> attributes {nn.narrow_numbers} {
  %hidden = nn.constant dense<-6.5504e4> : tensor<f32>
  %root = nn.constant dense<0.59375> : tensor<f32>
  %qs = nn.mul %q, %root : tensor<2x4x5x8xf32>, tensor<f32>
  %ks = nn.mul %k, %root : tensor<2x4x5x8xf32>, tensor<f32>
  %s = nn.matmul %qs, %ks {trans_b} : tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>
  %sm = nn.where %c, %s, %hidden : tensor<2x1x5x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>
  %p = nn.softmax %sm {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32>
  return %o : tensor<2x4x5x8xf32>
}

// -----

// 0.6 * 0.6 is no rounding of it.
// CHECK-LABEL: @narrow_scale
// CHECK: nn.attention {{.*}} {empty_row = 3 : i32, scale = 0.36
func.func @narrow_scale(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x8xf32>, %c: tensor<2x1x5x5xi1>) -> tensor<2x4x5x8xf32> attributes {nn.narrow_numbers} {
  %hidden = nn.constant dense<-6.5504e4> : tensor<f32>
  %root = nn.constant dense<0.6> : tensor<f32>
  %qs = nn.mul %q, %root : tensor<2x4x5x8xf32>, tensor<f32>
  %ks = nn.mul %k, %root : tensor<2x4x5x8xf32>, tensor<f32>
  %s = nn.matmul %qs, %ks {trans_b} : tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>
  %sm = nn.where %c, %s, %hidden : tensor<2x1x5x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>
  %p = nn.softmax %sm {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32>
  return %o : tensor<2x4x5x8xf32>
}

// -----

// CHECK-LABEL: @wide
// CHECK-NOT: nn.attention
func.func @wide(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x8xf32>, %c: tensor<2x1x5x5xi1>) -> tensor<2x4x5x8xf32> {
  %hidden = nn.constant dense<-6.5504e4> : tensor<f32>
  %root = nn.constant dense<0.59375> : tensor<f32>
  %qs = nn.mul %q, %root : tensor<2x4x5x8xf32>, tensor<f32>
  %ks = nn.mul %k, %root : tensor<2x4x5x8xf32>, tensor<f32>
  %s = nn.matmul %qs, %ks {trans_b} : tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>
  %sm = nn.where %c, %s, %hidden : tensor<2x1x5x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>
  %p = nn.softmax %sm {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32>
  return %o : tensor<2x4x5x8xf32>
}

// -----

// Gemma 2 bends scores before it masks them: scale and cap, wherever numbers stand.
// CHECK-LABEL: @capped
// CHECK: nn.attention {{.*}} {causal, empty_row = 2 : i32, scale = 2.500000e-01 : f64, soft_cap = 5.000000e+01 : f64}
func.func @capped(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>) -> tensor<2x4x5x16xf32> {
  %mask = nn.generate : tensor<5x5xi1> {
  ^bb0(%i: index, %j: index):
    %c = arith.cmpi sle, %j, %i : index
    nn.yield %c : i1
  }
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %quarter = nn.constant dense<0.25> : tensor<f32>
  %cap = nn.constant dense<50.0> : tensor<f32>
  %s = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %ss = nn.mul %s, %quarter : tensor<2x4x5x5xf32>, tensor<f32>
  %d = nn.div %ss, %cap : tensor<2x4x5x5xf32>, tensor<f32>
  %t = nn.tanh %d : tensor<2x4x5x5xf32>
  %b = nn.mul %t, %cap : tensor<2x4x5x5xf32>, tensor<f32>
  %sm = nn.where %mask, %b, %hidden : tensor<5x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>
  %p = nn.softmax %sm {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// A mask that is bent is no mask, and what is bent twice no score.
// CHECK-LABEL: @bent_mask
// CHECK-NOT: nn.attention
// CHECK-LABEL: @bent_twice
// CHECK-NOT: nn.attention
func.func @bent_mask(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>, %m: tensor<5x5xf32>) -> tensor<2x4x5x16xf32> {
  %s = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %sm = nn.add %s, %m : tensor<2x4x5x5xf32>, tensor<5x5xf32>
  %t = nn.tanh %sm : tensor<2x4x5x5xf32>
  %p = nn.softmax %t {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}
func.func @bent_twice(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>) -> tensor<2x4x5x16xf32> {
  %s = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %t = nn.tanh %s : tensor<2x4x5x5xf32>
  %u = nn.tanh %t : tensor<2x4x5x5xf32>
  %p = nn.softmax %u {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}
