// RUN: dt-opt %s --pass-pipeline="builtin.module(func.func(nn-raise-attention,cse))" --split-input-file | FileCheck %s

// Masks that are computed with numbers, and get their other axes last, say what
// those of bools say.

// -inf or 0 of what is hidden, whose axes of batch and heads come last.
// CHECK-LABEL: @axes_last
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} segments %{{.*}} by %{{.*}} {causal, empty_row = 1 : i32, scale = 1.000000e+00 : f64, window = 3 : i64}
func.func @axes_last(%q: tensor<1x4x5x16xf32>, %k: tensor<1x4x5x16xf32>, %v: tensor<1x4x5x16xf32>, %s: tensor<1x5xi64>) -> tensor<1x4x5x16xf32> {
  %far = nn.generate : tensor<5x5xi1> {
  ^bb0(%i: index, %j: index):
    %two = arith.constant 2 : index
    %last = arith.addi %j, %two : index
    %past = arith.cmpi sle, %j, %i : index
    %near = arith.cmpi sle, %i, %last : index
    %both = arith.andi %past, %near : i1
    %true = arith.constant true
    %c = arith.xori %both, %true : i1
    nn.yield %c : i1
  }
  %sr = nn.reshape %s : tensor<1x5xi64> to tensor<5x1xi64>
  %other = nn.cmp ne %sr, %s : tensor<5x1xi64>, tensor<1x5xi64>
  %m = nn.or %other, %far : tensor<5x5xi1>, tensor<5x5xi1>
  %zero = nn.constant dense<0.0> : tensor<1x1xf32>
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %chosen = nn.where %m, %hidden, %zero : tensor<5x5xi1>, tensor<f32>, tensor<1x1xf32>
  %added = nn.reshape %chosen : tensor<5x5xf32> to tensor<1x1x5x5xf32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<1x4x5x16xf32>, tensor<1x4x5x16xf32>
  %masked = nn.add %scores, %added : tensor<1x4x5x5xf32>, tensor<1x1x5x5xf32>
  %p = nn.softmax %masked {axis = 3} : tensor<1x4x5x5xf32>
  %nan = nn.is_nan %p : tensor<1x4x5x5xf32>
  %none = nn.constant dense<0.0> : tensor<f32>
  %guarded = nn.where %nan, %none, %p : tensor<1x4x5x5xi1>, tensor<f32>, tensor<1x4x5x5xf32>
  %o = nn.matmul %guarded, %v : tensor<1x4x5x5xf32>, tensor<1x4x5x16xf32>
  return %o : tensor<1x4x5x16xf32>
}

// -----

// (1 - m) * the lowest number, where m is a product.
// CHECK-LABEL: @lowest
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} segments %arg3 by %arg3 {causal, scale = 1.000000e+00 : f64}
func.func @lowest(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>, %s: tensor<2x5xi64>) -> tensor<2x4x5x16xf32> {
  %causal = nn.generate : tensor<5x5xf32> {
  ^bb0(%i: index, %j: index):
    %one = arith.constant 1.0 : f32
    %zero = arith.constant 0.0 : f32
    %past = arith.cmpi sle, %j, %i : index
    %c = arith.select %past, %one, %zero : f32
    nn.yield %c : f32
  }
  %sr = nn.reshape %s : tensor<2x5xi64> to tensor<2x5x1xi64>
  %rr = nn.reshape %s : tensor<2x5xi64> to tensor<2x1x5xi64>
  %same = nn.cmp eq %sr, %rr : tensor<2x5x1xi64>, tensor<2x1x5xi64>
  %number = nn.cast %same : tensor<2x5x5xi1> to tensor<2x5x5xf32>
  %both = nn.mul %number, %causal : tensor<2x5x5xf32>, tensor<5x5xf32>
  %axes = nn.reshape %both : tensor<2x5x5xf32> to tensor<2x1x5x5xf32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %lowest = nn.constant dense<-3.40282347E+38> : tensor<f32>
  %away = nn.sub %one, %axes : tensor<f32>, tensor<2x1x5x5xf32>
  %added = nn.mul %away, %lowest : tensor<2x1x5x5xf32>, tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %masked = nn.add %scores, %added : tensor<2x4x5x5xf32>, tensor<2x1x5x5xf32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// -1e4 is a number like others, and a product with another one is no mask.
// CHECK-LABEL: @number
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} {empty_row
func.func @number(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>, %same: tensor<2x1x5x5xi1>) -> tensor<2x4x5x16xf32> {
  %number = nn.cast %same : tensor<2x1x5x5xi1> to tensor<2x1x5x5xf32>
  %low = nn.constant dense<-1.0e+04> : tensor<f32>
  %added = nn.mul %number, %low : tensor<2x1x5x5xf32>, tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %masked = nn.add %scores, %added : tensor<2x4x5x5xf32>, tensor<2x1x5x5xf32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// A lower triangle of a mask; the mask from a difference, a product and a cast.
// CHECK-LABEL: @triangle
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} segments %arg3 by %arg3 {causal, empty_row = 2 : i32, scale = 1.000000e+00 : f64, window = 2 : i64}
func.func @triangle(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>, %s: tensor<2x5xi64>) -> tensor<2x4x5x16xf32> {
  %past = nn.generate : tensor<5x5xi1> {
  ^bb0(%i: index, %j: index):
    %c = arith.cmpi sle, %j, %i : index
    nn.yield %c : i1
  }
  %near = nn.generate : tensor<5x5xi64> {
  ^bb0(%i: index, %j: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %next = arith.addi %j, %c1 : index
    %c = arith.cmpi sle, %i, %next : index
    %one = arith.select %c, %c1, %c0 : index
    %whole = arith.index_cast %one : index to i64
    nn.yield %whole : i64
  }
  %sr = nn.reshape %s : tensor<2x5xi64> to tensor<2x1x5x1xi64>
  %rr = nn.reshape %s : tensor<2x5xi64> to tensor<2x1x1x5xi64>
  %zero = nn.constant dense<0> : tensor<i64>
  %difference = nn.sub %sr, %rr : tensor<2x1x5x1xi64>, tensor<2x1x1x5xi64>
  %same = nn.cmp eq %difference, %zero : tensor<2x1x5x5xi64>, tensor<i64>
  %number = nn.cast %same : tensor<2x1x5x5xi1> to tensor<2x1x5x5xi64>
  %product = nn.mul %number, %near : tensor<2x1x5x5xi64>, tensor<5x5xi64>
  %again = nn.cast %product : tensor<2x1x5x5xi64> to tensor<2x1x5x5xi1>
  %false = nn.constant dense<false> : tensor<i1>
  %m = nn.where %past, %again, %false : tensor<5x5xi1>, tensor<2x1x5x5xi1>, tensor<i1>
  %hidden = nn.constant dense<0xFF800000> : tensor<f32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %masked = nn.where %m, %scores, %hidden : tensor<2x1x5x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// A mask where m is not 0, and its sum with another one.
// CHECK-LABEL: @sum
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} segments %arg3 by %arg3 {causal, empty_row = 1 : i32, scale = 1.000000e+00 : f64}
func.func @sum(%q: tensor<2x4x5x16xf32>, %k: tensor<2x4x5x16xf32>, %v: tensor<2x4x5x16xf32>, %s: tensor<2x5xi64>) -> tensor<2x4x5x16xf32> {
  %ahead = nn.generate : tensor<5x5xf32> {
  ^bb0(%i: index, %j: index):
    %zero = arith.constant 0.0 : f32
    %low = arith.constant 0xFF800000 : f32
    %past = arith.cmpi sle, %j, %i : index
    %c = arith.select %past, %zero, %low : f32
    nn.yield %c : f32
  }
  %sr = nn.reshape %s : tensor<2x5xi64> to tensor<2x1x5x1xi64>
  %rr = nn.reshape %s : tensor<2x5xi64> to tensor<2x1x1x5xi64>
  %same = nn.cmp eq %sr, %rr : tensor<2x1x5x1xi64>, tensor<2x1x1x5xi64>
  %number = nn.cast %same : tensor<2x1x5x5xi1> to tensor<2x1x5x5xf32>
  %half = nn.constant dense<0.5> : tensor<f32>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %low = nn.constant dense<0xFF800000> : tensor<f32>
  %seen = nn.cmp gt %number, %half : tensor<2x1x5x5xf32>, tensor<f32>
  %apart = nn.where %seen, %zero, %low : tensor<2x1x5x5xi1>, tensor<f32>, tensor<f32>
  %added = nn.add %ahead, %apart : tensor<5x5xf32>, tensor<2x1x5x5xf32>
  %scores = nn.matmul %q, %k {trans_b} : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %masked = nn.add %scores, %added : tensor<2x4x5x5xf32>, tensor<2x1x5x5xf32>
  %p = nn.softmax %masked {axis = 3} : tensor<2x4x5x5xf32>
  %nan = nn.is_nan %p : tensor<2x4x5x5xf32>
  %none = nn.constant dense<0.0> : tensor<f32>
  %guarded = nn.where %nan, %none, %p : tensor<2x4x5x5xi1>, tensor<f32>, tensor<2x4x5x5xf32>
  %o = nn.matmul %guarded, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}
