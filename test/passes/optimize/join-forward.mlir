// RUN: dt-opt %s --nn-join-products -split-input-file | FileCheck %s

// Products of one input with weights of one size are a batch, whose parts are
// views; those weights are neighbours in a group of three.
dist.module @m {
  nn.dim @batch of "sample" max 2
  nn.parameter @q : tensor<32x8xf32> from #nn.init<"zeros", "", "">
  nn.parameter @k : tensor<4x8xf32> from #nn.init<"zeros", "", "">
  nn.parameter @v : tensor<4x8xf32> from #nn.init<"zeros", "", "">
  // CHECK-LABEL: func.func @forward.fwd(
  // CHECK-SAME: %[[X:.*]]: tensor<?x5x8xf32, #nn.dims<batch>>)
  // CHECK: %[[W:.*]] = nn.read @k {nn.beside = [@v]} : tensor<8x8xf32>
  // CHECK: %[[ROWS:.*]] = nn.reshape %[[X]] : tensor<?x5x8xf32, #nn.dims<batch>> to tensor<1x?x8xf32, #nn.dims<5*batch>>
  // CHECK: %[[MATRICES:.*]] = nn.reshape %[[W]] : tensor<8x8xf32> to tensor<2x4x8xf32>
  // CHECK: %[[KV:.*]] = nn.matmul %[[ROWS]], %[[MATRICES]] {trans_b} : tensor<1x?x8xf32, #nn.dims<5*batch>>, tensor<2x4x8xf32>
  // CHECK: %[[K:.*]] = nn.slice %[[KV]] [0, 0, 0] step [1, 1, 1]
  // CHECK: nn.reshape %[[K]] : {{.*}} to tensor<?x5x4xf32, #nn.dims<batch>>
  // CHECK: %[[V:.*]] = nn.slice %[[KV]] [1, 0, 0] step [1, 1, 1]
  // CHECK: nn.linear %[[X]], %{{.*}} : tensor<?x5x8xf32, #nn.dims<batch>>, tensor<32x8xf32>
  func.func @forward.fwd(%x: tensor<?x5x8xf32, #nn.dims<batch>>) -> (tensor<?x5x4xf32, #nn.dims<batch>>, tensor<?x5x32xf32, #nn.dims<batch>>) {
    %wv = nn.read @v : tensor<4x8xf32>
    %0 = nn.linear %x, %wv : tensor<?x5x8xf32, #nn.dims<batch>>, tensor<4x8xf32>
    %wk = nn.read @k : tensor<4x8xf32>
    %1 = nn.linear %x, %wk : tensor<?x5x8xf32, #nn.dims<batch>>, tensor<4x8xf32>
    %wq = nn.read @q : tensor<32x8xf32>
    %2 = nn.linear %x, %wq : tensor<?x5x8xf32, #nn.dims<batch>>, tensor<32x8xf32>
    %3 = nn.mul %0, %1 : tensor<?x5x4xf32, #nn.dims<batch>>, tensor<?x5x4xf32, #nn.dims<batch>>
    return %3, %2 : tensor<?x5x4xf32, #nn.dims<batch>>, tensor<?x5x32xf32, #nn.dims<batch>>
  }
  // CHECK-LABEL: func.func @forward.bwd(
  // CHECK: nn.read @q {nn.beside = [@k, @v]} : tensor<40x8xf32>
  func.func @forward.bwd(%q: tensor<5x32xf32>, %k: tensor<5x4xf32>, %v: tensor<5x4xf32>) -> tensor<5x8xf32> {
    %wq = nn.read @q : tensor<32x8xf32>
    %wk = nn.read @k : tensor<4x8xf32>
    %wv = nn.read @v : tensor<4x8xf32>
    %dq = nn.exp %q : tensor<5x32xf32>
    %dk = nn.exp %k : tensor<5x4xf32>
    %dv = nn.exp %v : tensor<5x4xf32>
    %0 = nn.linear %dq, %wq {in_out} : tensor<5x32xf32>, tensor<32x8xf32>
    %1 = nn.linear %dk, %wk {in_out} : tensor<5x4xf32>, tensor<4x8xf32>
    %2 = nn.linear %dv, %wv {in_out} : tensor<5x4xf32>, tensor<4x8xf32>
    %3 = nn.add %0, %1 : tensor<5x8xf32>, tensor<5x8xf32>
    %4 = nn.add %3, %2 : tensor<5x8xf32>, tensor<5x8xf32>
    return %4 : tensor<5x8xf32>
  }
}

// -----

// What leaves the function would be copied: of three of the input's width only
// those two stay that do not, and of two none; one that is narrow is copied.
dist.module @returned {
  nn.parameter @a : tensor<8x8xf32> from #nn.init<"zeros", "", "">
  nn.parameter @b : tensor<8x8xf32> from #nn.init<"zeros", "", "">
  nn.parameter @c : tensor<8x8xf32> from #nn.init<"zeros", "", "">
  nn.parameter @d : tensor<4x16xf32> from #nn.init<"zeros", "", "">
  nn.parameter @e : tensor<4x16xf32> from #nn.init<"zeros", "", "">
  // CHECK-LABEL: func.func @three(
  // CHECK: nn.read @a {nn.beside = [@b]} : tensor<16x8xf32>
  // CHECK: nn.matmul {{.*}} : tensor<1x5x8xf32>, tensor<2x8x8xf32>
  // CHECK: nn.linear
  func.func @three(%x: tensor<5x8xf32>) -> (tensor<5x8xf32>, tensor<5x2x4xf32>) {
    %a = nn.read @a : tensor<8x8xf32>
    %b = nn.read @b : tensor<8x8xf32>
    %c = nn.read @c : tensor<8x8xf32>
    %0 = nn.linear %x, %a : tensor<5x8xf32>, tensor<8x8xf32>
    %1 = nn.linear %x, %b : tensor<5x8xf32>, tensor<8x8xf32>
    %2 = nn.linear %x, %c : tensor<5x8xf32>, tensor<8x8xf32>
    %3 = nn.mul %0, %1 : tensor<5x8xf32>, tensor<5x8xf32>
    %4 = nn.reshape %2 : tensor<5x8xf32> to tensor<5x2x4xf32>
    return %3, %4 : tensor<5x8xf32>, tensor<5x2x4xf32>
  }
  // CHECK-LABEL: func.func @two(
  // CHECK-NOT: nn.beside
  func.func @two(%x: tensor<5x8xf32>) -> (tensor<5x8xf32>, tensor<5x8xf32>) {
    %a = nn.read @a : tensor<8x8xf32>
    %b = nn.read @b : tensor<8x8xf32>
    %0 = nn.linear %x, %a : tensor<5x8xf32>, tensor<8x8xf32>
    %1 = nn.linear %x, %b : tensor<5x8xf32>, tensor<8x8xf32>
    %2 = nn.mul %0, %1 : tensor<5x8xf32>, tensor<5x8xf32>
    return %0, %2 : tensor<5x8xf32>, tensor<5x8xf32>
  }
  // CHECK-LABEL: func.func @narrow(
  // CHECK: nn.matmul
  // CHECK-NOT: nn.linear
  func.func @narrow(%x: tensor<5x16xf32>) -> (tensor<5x4xf32>, tensor<5x4xf32>) {
    %d = nn.read @d : tensor<4x16xf32>
    %e = nn.read @e : tensor<4x16xf32>
    %0 = nn.linear %x, %d : tensor<5x16xf32>, tensor<4x16xf32>
    %1 = nn.linear %x, %e : tensor<5x16xf32>, tensor<4x16xf32>
    %2 = nn.mul %0, %1 : tensor<5x4xf32>, tensor<5x4xf32>
    return %0, %2 : tensor<5x4xf32>, tensor<5x4xf32>
  }
}

// -----

// What stays apart: products with biases, of weights of two sizes, of two
// inputs, of a tensor that is gathered in strips.
dist.module @apart {
  nn.parameter @a : tensor<8x8xf32> from #nn.init<"zeros", "", "">
  nn.parameter @b : tensor<8x8xf32> from #nn.init<"zeros", "", "">
  nn.parameter @c : tensor<16x8xf32> from #nn.init<"zeros", "", "">
  // CHECK-LABEL: dist.module @apart
  // CHECK-NOT: nn.beside
  func.func @biases(%x: tensor<5x8xf32>, %bias: tensor<8xf32>) -> tensor<5x8xf32> {
    %a = nn.read @a : tensor<8x8xf32>
    %b = nn.read @b : tensor<8x8xf32>
    %0 = nn.linear %x, %a, %bias : tensor<5x8xf32>, tensor<8x8xf32>, tensor<8xf32>
    %1 = nn.linear %x, %b, %bias : tensor<5x8xf32>, tensor<8x8xf32>, tensor<8xf32>
    %2 = nn.mul %0, %1 : tensor<5x8xf32>, tensor<5x8xf32>
    return %2 : tensor<5x8xf32>
  }
  func.func @sizes(%x: tensor<5x8xf32>) -> (tensor<5x8xf32>, tensor<5x16xf32>) {
    %a = nn.read @a : tensor<8x8xf32>
    %c = nn.read @c : tensor<16x8xf32>
    %0 = nn.linear %x, %a : tensor<5x8xf32>, tensor<8x8xf32>
    %1 = nn.linear %x, %c : tensor<5x8xf32>, tensor<16x8xf32>
    %2 = nn.exp %0 : tensor<5x8xf32>
    %3 = nn.exp %1 : tensor<5x16xf32>
    return %2, %3 : tensor<5x8xf32>, tensor<5x16xf32>
  }
  func.func @inputs(%x: tensor<5x8xf32>, %y: tensor<5x8xf32>) -> tensor<5x8xf32> {
    %a = nn.read @a : tensor<8x8xf32>
    %b = nn.read @b : tensor<8x8xf32>
    %0 = nn.linear %x, %a : tensor<5x8xf32>, tensor<8x8xf32>
    %1 = nn.linear %y, %b : tensor<5x8xf32>, tensor<8x8xf32>
    %2 = nn.mul %0, %1 : tensor<5x8xf32>, tensor<5x8xf32>
    return %2 : tensor<5x8xf32>
  }
  func.func @strips(%part: tensor<4x8xf32>) -> tensor<8x8xf32> {
    %x = dist.all_gather %part axis 0 chunk 4 over 2 stride 1 {dist.strips = 2 : i64} : tensor<4x8xf32> to tensor<8x8xf32>
    %a = nn.read @a : tensor<8x8xf32>
    %b = nn.read @b : tensor<8x8xf32>
    %0 = nn.linear %x, %a : tensor<8x8xf32>, tensor<8x8xf32>
    %1 = nn.linear %x, %b : tensor<8x8xf32>, tensor<8x8xf32>
    %2 = nn.mul %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}
