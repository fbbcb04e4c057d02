// RUN: dt-opt %s --pass-pipeline="builtin.module(func.func(nn-raise-attention,cse))" --split-input-file | FileCheck %s

// Attention with an axis for query heads that share keys: by products of which einsum has merged groups and queries.

// CHECK-LABEL: func.func @einsum
// CHECK-SAME: %[[Q:.*]]: tensor<?x6x4x8xf32{{.*}}>, %[[K:.*]]: tensor<?x7x2x8xf32{{.*}}>, %[[V:.*]]: tensor<?x7x2x8xf32
func.func @einsum(%q: tensor<?x6x4x8xf32, #nn.dims<batch>>, %k: tensor<?x7x2x8xf32, #nn.dims<batch>>, %v: tensor<?x7x2x8xf32, #nn.dims<batch>>, %visible: tensor<?x1x1x6x7xi1, #nn.dims<batch>>) -> tensor<?x6x32xf32, #nn.dims<batch>> {
  // CHECK: %[[M:.*]] = nn.reshape %arg3 : {{.*}} to tensor<?x1x6x7xi1
  // CHECK: %[[O:.*]], %{{.*}} = nn.attention %[[Q]], %[[K]], %[[V]] mask %[[M]] {empty_row = 1 : i32, scale = 5.000000e-01 : f64}
  // CHECK: %[[R:.*]] = nn.reshape %[[O]] : {{.*}} to tensor<?x6x32xf32
  // CHECK: return %[[R]]
  %half = nn.constant dense<0.5> : tensor<f32>
  %qt = nn.transpose %q [0, 2, 1, 3] : tensor<?x6x4x8xf32, #nn.dims<batch>>
  %qg = nn.reshape %qt : tensor<?x4x6x8xf32, #nn.dims<batch>> to tensor<?x2x12x8xf32, #nn.dims<batch>>
  %kt = nn.transpose %k [0, 2, 3, 1] : tensor<?x7x2x8xf32, #nn.dims<batch>>
  %s = nn.matmul %qg, %kt : tensor<?x2x12x8xf32, #nn.dims<batch>>, tensor<?x2x8x7xf32, #nn.dims<batch>>
  %s5 = nn.reshape %s : tensor<?x2x12x7xf32, #nn.dims<batch>> to tensor<?x2x2x6x7xf32, #nn.dims<batch>>
  %scaled = nn.mul %s5, %half : tensor<?x2x2x6x7xf32, #nn.dims<batch>>, tensor<f32>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %least = nn.constant dense<0xFF800000> : tensor<f32>
  %mask = nn.where %visible, %zero, %least : tensor<?x1x1x6x7xi1, #nn.dims<batch>>, tensor<f32>, tensor<f32>
  %masked = nn.add %scaled, %mask : tensor<?x2x2x6x7xf32, #nn.dims<batch>>, tensor<?x1x1x6x7xf32, #nn.dims<batch>>
  %p = nn.softmax %masked {axis = 4 : i64} : tensor<?x2x2x6x7xf32, #nn.dims<batch>>
  %pg = nn.reshape %p : tensor<?x2x2x6x7xf32, #nn.dims<batch>> to tensor<?x2x12x7xf32, #nn.dims<batch>>
  %vt = nn.transpose %v [0, 2, 1, 3] : tensor<?x7x2x8xf32, #nn.dims<batch>>
  %o = nn.matmul %pg, %vt : tensor<?x2x12x7xf32, #nn.dims<batch>>, tensor<?x2x7x8xf32, #nn.dims<batch>>
  %oh = nn.reshape %o : tensor<?x2x12x8xf32, #nn.dims<batch>> to tensor<?x4x6x8xf32, #nn.dims<batch>>
  %ot = nn.transpose %oh [0, 2, 1, 3] : tensor<?x4x6x8xf32, #nn.dims<batch>>
  %r = nn.reshape %ot : tensor<?x6x4x8xf32, #nn.dims<batch>> to tensor<?x6x32xf32, #nn.dims<batch>>
  return %r : tensor<?x6x32xf32, #nn.dims<batch>>
}

// -----

// By products that broadcast keys and values over an axis of one element.

// CHECK-LABEL: func.func @broadcast
// CHECK-SAME: %[[Q:.*]]: tensor<?x6x4x8xf32{{.*}}>, %[[K:.*]]: tensor<?x7x2x8xf32{{.*}}>, %[[V:.*]]: tensor<?x7x2x8xf32
func.func @broadcast(%q: tensor<?x6x4x8xf32, #nn.dims<batch>>, %k: tensor<?x7x2x8xf32, #nn.dims<batch>>, %v: tensor<?x7x2x8xf32, #nn.dims<batch>>) -> tensor<?x6x32xf32, #nn.dims<batch>> {
  // CHECK: %[[O:.*]], %{{.*}} = nn.attention %[[Q]], %[[K]], %[[V]] {scale = 1.000000e+00 : f64}
  // CHECK-NEXT: %[[R:.*]] = nn.reshape %[[O]] : {{.*}} to tensor<?x6x32xf32
  // CHECK-NEXT: return %[[R]]
  %qt = nn.transpose %q [0, 2, 1, 3] : tensor<?x6x4x8xf32, #nn.dims<batch>>
  %qg = nn.reshape %qt : tensor<?x4x6x8xf32, #nn.dims<batch>> to tensor<?x2x2x6x8xf32, #nn.dims<batch>>
  %kt = nn.transpose %k [0, 2, 1, 3] : tensor<?x7x2x8xf32, #nn.dims<batch>>
  %k5 = nn.reshape %kt : tensor<?x2x7x8xf32, #nn.dims<batch>> to tensor<?x2x1x7x8xf32, #nn.dims<batch>>
  %kd = nn.transpose %k5 [0, 1, 2, 4, 3] : tensor<?x2x1x7x8xf32, #nn.dims<batch>>
  %s = nn.matmul %qg, %kd : tensor<?x2x2x6x8xf32, #nn.dims<batch>>, tensor<?x2x1x8x7xf32, #nn.dims<batch>>
  %p = nn.softmax %s {axis = 4 : i64} : tensor<?x2x2x6x7xf32, #nn.dims<batch>>
  %vt = nn.transpose %v [0, 2, 1, 3] : tensor<?x7x2x8xf32, #nn.dims<batch>>
  %v5 = nn.reshape %vt : tensor<?x2x7x8xf32, #nn.dims<batch>> to tensor<?x2x1x7x8xf32, #nn.dims<batch>>
  %o = nn.matmul %p, %v5 : tensor<?x2x2x6x7xf32, #nn.dims<batch>>, tensor<?x2x1x7x8xf32, #nn.dims<batch>>
  %ot = nn.transpose %o [0, 3, 1, 2, 4] : tensor<?x2x2x6x8xf32, #nn.dims<batch>>
  %r = nn.reshape %ot : tensor<?x6x2x2x8xf32, #nn.dims<batch>> to tensor<?x6x32xf32, #nn.dims<batch>>
  return %r : tensor<?x6x32xf32, #nn.dims<batch>>
}

// -----

// A mask that tells heads apart stays what it is.

// CHECK-LABEL: func.func @by_head
// CHECK-NOT: nn.attention
func.func @by_head(%q: tensor<?x2x2x6x8xf32, #nn.dims<batch>>, %k: tensor<?x2x1x8x7xf32, #nn.dims<batch>>, %v: tensor<?x2x1x7x8xf32, #nn.dims<batch>>, %mask: tensor<2x1x6x7xf32>) -> tensor<?x2x2x6x8xf32, #nn.dims<batch>> {
  %s = nn.matmul %q, %k : tensor<?x2x2x6x8xf32, #nn.dims<batch>>, tensor<?x2x1x8x7xf32, #nn.dims<batch>>
  %masked = nn.add %s, %mask : tensor<?x2x2x6x7xf32, #nn.dims<batch>>, tensor<2x1x6x7xf32>
  %p = nn.softmax %masked {axis = 4 : i64} : tensor<?x2x2x6x7xf32, #nn.dims<batch>>
  %o = nn.matmul %p, %v : tensor<?x2x2x6x7xf32, #nn.dims<batch>>, tensor<?x2x1x7x8xf32, #nn.dims<batch>>
  return %o : tensor<?x2x2x6x8xf32, #nn.dims<batch>>
}

// -----

// Values of their own for each group are no shared ones.

// CHECK-LABEL: func.func @own_values
// CHECK-NOT: nn.attention
func.func @own_values(%q: tensor<?x2x2x6x8xf32, #nn.dims<batch>>, %k: tensor<?x2x1x8x7xf32, #nn.dims<batch>>, %v: tensor<?x2x2x7x8xf32, #nn.dims<batch>>) -> tensor<?x2x2x6x8xf32, #nn.dims<batch>> {
  %s = nn.matmul %q, %k : tensor<?x2x2x6x8xf32, #nn.dims<batch>>, tensor<?x2x1x8x7xf32, #nn.dims<batch>>
  %p = nn.softmax %s {axis = 4 : i64} : tensor<?x2x2x6x7xf32, #nn.dims<batch>>
  %o = nn.matmul %p, %v : tensor<?x2x2x6x7xf32, #nn.dims<batch>>, tensor<?x2x2x7x8xf32, #nn.dims<batch>>
  return %o : tensor<?x2x2x6x8xf32, #nn.dims<batch>>
}
