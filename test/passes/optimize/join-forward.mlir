// RUN: dt-opt %s --nn-join-products -split-input-file | FileCheck %s

// Products of one input are one product, its columns what they give: also of
// weights of several sizes, in the order of the parameters.
dist.module @m {
  dist.forward @forward.fwd backward @forward.bwd
  nn.dim @batch of "sample" max 2
  nn.parameter @q : tensor<32x8xf32> from #nn.init<"zeros", "", "">
  nn.parameter @k : tensor<4x8xf32> from #nn.init<"zeros", "", "">
  nn.parameter @v : tensor<4x8xf32> from #nn.init<"zeros", "", "">
  // CHECK-LABEL: func.func @forward.fwd(
  // CHECK-SAME: %[[X:.*]]: tensor<?x5x8xf32, #nn.dims<batch>>)
  // CHECK: %[[W:.*]] = nn.read @q {beside = [@k, @v]} : tensor<40x8xf32>
  // CHECK: %[[QKV:.*]] = nn.linear %[[X]], %[[W]] : tensor<?x5x8xf32, #nn.dims<batch>>, tensor<40x8xf32>
  // CHECK-DAG: %[[Q:.*]] = nn.slice %[[QKV]] [0, 0, 0] step [1, 1, 1] : {{.*}} to tensor<?x5x32xf32, #nn.dims<batch>>
  // CHECK-DAG: %[[K:.*]] = nn.slice %[[QKV]] [0, 0, 32] step [1, 1, 1] : {{.*}} to tensor<?x5x4xf32, #nn.dims<batch>>
  // CHECK-DAG: %[[V:.*]] = nn.slice %[[QKV]] [0, 0, 36] step [1, 1, 1]
  // CHECK: %[[KV:.*]] = nn.mul %[[V]], %[[K]]
  // CHECK: %[[E:.*]] = nn.exp %[[Q]]
  // CHECK: return %[[KV]], %[[E]]
  func.func @forward.fwd(%x: tensor<?x5x8xf32, #nn.dims<batch>>) -> (tensor<?x5x4xf32, #nn.dims<batch>>, tensor<?x5x32xf32, #nn.dims<batch>>) {
    %wv = nn.read @v : tensor<4x8xf32>
    %0 = nn.linear %x, %wv : tensor<?x5x8xf32, #nn.dims<batch>>, tensor<4x8xf32>
    %wk = nn.read @k : tensor<4x8xf32>
    %1 = nn.linear %x, %wk : tensor<?x5x8xf32, #nn.dims<batch>>, tensor<4x8xf32>
    %wq = nn.read @q : tensor<32x8xf32>
    %2 = nn.linear %x, %wq : tensor<?x5x8xf32, #nn.dims<batch>>, tensor<32x8xf32>
    %3 = nn.mul %0, %1 : tensor<?x5x4xf32, #nn.dims<batch>>, tensor<?x5x4xf32, #nn.dims<batch>>
    %4 = nn.exp %2 : tensor<?x5x32xf32, #nn.dims<batch>>
    return %3, %4 : tensor<?x5x4xf32, #nn.dims<batch>>, tensor<?x5x32xf32, #nn.dims<batch>>
  }
  // CHECK-LABEL: func.func @forward.bwd(
  // CHECK: nn.read @q {beside = [@k, @v]} : tensor<40x8xf32>
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

// What leaves the function, if others do not, and what nobody reads as columns
// is copied: of three of the input's width one may be, as much is not read
// again; of two none, but one that is narrow. Where all leave the whole does.
dist.module @returned {
  nn.parameter @a : tensor<8x8xf32> from #nn.init<"zeros", "", "">
  nn.parameter @b : tensor<8x8xf32> from #nn.init<"zeros", "", "">
  nn.parameter @c : tensor<8x8xf32> from #nn.init<"zeros", "", "">
  nn.parameter @w : tensor<32x8xf32> from #nn.init<"zeros", "", "">
  nn.parameter @d : tensor<4x16xf32> from #nn.init<"zeros", "", "">
  nn.parameter @e : tensor<4x16xf32> from #nn.init<"zeros", "", "">
  // CHECK-LABEL: func.func @three(
  // CHECK: nn.read @a {beside = [@b, @c]} : tensor<24x8xf32>
  // CHECK: nn.linear {{.*}} : tensor<5x8xf32>, tensor<24x8xf32>
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
  // CHECK-LABEL: func.func @wide(
  // CHECK: nn.read @a {beside = [@b]} : tensor<16x8xf32>
  // CHECK: nn.linear {{.*}} : tensor<5x8xf32>, tensor<16x8xf32>
  // CHECK: nn.linear {{.*}} : tensor<5x8xf32>, tensor<32x8xf32>
  // CHECK: return
  func.func @wide(%x: tensor<5x8xf32>) -> (tensor<5x8xf32>, tensor<5x32xf32>) {
    %a = nn.read @a : tensor<8x8xf32>
    %b = nn.read @b : tensor<8x8xf32>
    %w = nn.read @w : tensor<32x8xf32>
    %0 = nn.linear %x, %a : tensor<5x8xf32>, tensor<8x8xf32>
    %1 = nn.linear %x, %b : tensor<5x8xf32>, tensor<8x8xf32>
    %2 = nn.linear %x, %w : tensor<5x8xf32>, tensor<32x8xf32>
    %3 = nn.mul %0, %1 : tensor<5x8xf32>, tensor<5x8xf32>
    return %3, %2 : tensor<5x8xf32>, tensor<5x32xf32>
  }
  // CHECK-LABEL: func.func @two(
  // CHECK-NOT: beside
  // CHECK: return
  func.func @two(%x: tensor<5x8xf32>) -> (tensor<5x8xf32>, tensor<5x8xf32>) {
    %a = nn.read @a : tensor<8x8xf32>
    %b = nn.read @b : tensor<8x8xf32>
    %0 = nn.linear %x, %a : tensor<5x8xf32>, tensor<8x8xf32>
    %1 = nn.linear %x, %b : tensor<5x8xf32>, tensor<8x8xf32>
    %2 = nn.mul %0, %1 : tensor<5x8xf32>, tensor<5x8xf32>
    return %0, %2 : tensor<5x8xf32>, tensor<5x8xf32>
  }
  // CHECK-LABEL: func.func @narrow(
  // CHECK: nn.linear {{.*}} : tensor<5x16xf32>, tensor<8x16xf32>
  // CHECK-NOT: nn.linear
  // CHECK: return
  func.func @narrow(%x: tensor<5x16xf32>) -> (tensor<5x4xf32>, tensor<5x4xf32>) {
    %d = nn.read @d : tensor<4x16xf32>
    %e = nn.read @e : tensor<4x16xf32>
    %0 = nn.linear %x, %d : tensor<5x16xf32>, tensor<4x16xf32>
    %1 = nn.linear %x, %e : tensor<5x16xf32>, tensor<4x16xf32>
    %2 = nn.mul %0, %1 : tensor<5x4xf32>, tensor<5x4xf32>
    return %0, %2 : tensor<5x4xf32>, tensor<5x4xf32>
  }
  // CHECK-LABEL: func.func @all(
  // CHECK: nn.linear {{.*}} : tensor<5x8xf32>, tensor<16x8xf32>
  // CHECK-NOT: nn.linear
  // CHECK: return
  func.func @all(%x: tensor<5x8xf32>) -> (tensor<5x8xf32>, tensor<5x2x4xf32>, tensor<5x8xf32>) {
    %a = nn.read @a : tensor<8x8xf32>
    %b = nn.read @b : tensor<8x8xf32>
    %0 = nn.linear %x, %a : tensor<5x8xf32>, tensor<8x8xf32>
    %1 = nn.linear %x, %b : tensor<5x8xf32>, tensor<8x8xf32>
    %2 = nn.mul %0, %1 : tensor<5x8xf32>, tensor<5x8xf32>
    %3 = nn.reshape %0 : tensor<5x8xf32> to tensor<5x2x4xf32>
    return %1, %3, %2 : tensor<5x8xf32>, tensor<5x2x4xf32>, tensor<5x8xf32>
  }
}

// -----

// Biases stand side by side, too; one product without a bias stays apart.
dist.module @biases {
  nn.parameter @a : tensor<8x8xf32> from #nn.init<"zeros", "", "">
  nn.parameter @a.b : tensor<32xf32> from #nn.init<"zeros", "", "">
  nn.parameter @b : tensor<32x8xf32> from #nn.init<"zeros", "", "">
  nn.parameter @b.b : tensor<32xf32> from #nn.init<"zeros", "", "">
  nn.parameter @c : tensor<32x8xf32> from #nn.init<"zeros", "", "">
  nn.parameter @c.b : tensor<32xf32> from #nn.init<"zeros", "", "">
  // CHECK-LABEL: func.func @with(
  // CHECK-DAG: %[[W:.*]] = nn.read @b {beside = [@c]} : tensor<64x8xf32>
  // CHECK-DAG: %[[B:.*]] = nn.read @b.b {beside = [@c.b]} : tensor<64xf32>
  // CHECK: nn.linear %{{.*}}, %[[W]], %[[B]] : tensor<5x8xf32>, tensor<64x8xf32>, tensor<64xf32>
  // CHECK: nn.linear %{{.*}}, %{{.*}} : tensor<5x8xf32>, tensor<8x8xf32>
  // CHECK-NOT: nn.linear
  func.func @with(%x: tensor<5x8xf32>) -> (tensor<5x32xf32>, tensor<5x8xf32>) {
    %b = nn.read @b : tensor<32x8xf32>
    %bb = nn.read @b.b : tensor<32xf32>
    %c = nn.read @c : tensor<32x8xf32>
    %cb = nn.read @c.b : tensor<32xf32>
    %a = nn.read @a : tensor<8x8xf32>
    %0 = nn.linear %x, %b, %bb : tensor<5x8xf32>, tensor<32x8xf32>, tensor<32xf32>
    %1 = nn.linear %x, %c, %cb : tensor<5x8xf32>, tensor<32x8xf32>, tensor<32xf32>
    %2 = nn.linear %x, %a : tensor<5x8xf32>, tensor<8x8xf32>
    %3 = nn.mul %0, %1 : tensor<5x32xf32>, tensor<5x32xf32>
    return %3, %2 : tensor<5x32xf32>, tensor<5x8xf32>
  }
}

// -----

// What stays apart: products with a bias that is no parameter or may not stand
// beside another, of two inputs, of a tensor that is gathered in strips; what
// is transposed is copied.
dist.module @apart {
  nn.parameter @a : tensor<8x8xf32> from #nn.init<"zeros", "", "">
  nn.parameter @b : tensor<8x8xf32> from #nn.init<"zeros", "", "">
  nn.parameter @ab : tensor<8xf32> from #nn.init<"zeros", "", "">
  nn.parameter @bb : tensor<8xf32> from #nn.init<"zeros", "", "">
  // CHECK-LABEL: dist.module @apart
  // CHECK-NOT: beside
  func.func @bias(%x: tensor<5x8xf32>, %bias: tensor<8xf32>) -> tensor<5x8xf32> {
    %a = nn.read @a : tensor<8x8xf32>
    %b = nn.read @b : tensor<8x8xf32>
    %0 = nn.linear %x, %a, %bias : tensor<5x8xf32>, tensor<8x8xf32>, tensor<8xf32>
    %1 = nn.linear %x, %b, %bias : tensor<5x8xf32>, tensor<8x8xf32>, tensor<8xf32>
    %2 = nn.mul %0, %1 : tensor<5x8xf32>, tensor<5x8xf32>
    return %2 : tensor<5x8xf32>
  }
  func.func @small_bias(%x: tensor<5x8xf32>) -> tensor<5x8xf32> {
    %a = nn.read @a : tensor<8x8xf32>
    %b = nn.read @b : tensor<8x8xf32>
    %ab = nn.read @ab : tensor<8xf32>
    %bb = nn.read @bb : tensor<8xf32>
    %0 = nn.linear %x, %a, %ab : tensor<5x8xf32>, tensor<8x8xf32>, tensor<8xf32>
    %1 = nn.linear %x, %b, %bb : tensor<5x8xf32>, tensor<8x8xf32>, tensor<8xf32>
    %2 = nn.mul %0, %1 : tensor<5x8xf32>, tensor<5x8xf32>
    return %2 : tensor<5x8xf32>
  }
  func.func @inputs(%x: tensor<5x8xf32>, %y: tensor<5x8xf32>) -> tensor<5x8xf32> {
    %a = nn.read @a : tensor<8x8xf32>
    %b = nn.read @b : tensor<8x8xf32>
    %0 = nn.linear %x, %a : tensor<5x8xf32>, tensor<8x8xf32>
    %1 = nn.linear %y, %b : tensor<5x8xf32>, tensor<8x8xf32>
    %2 = nn.mul %0, %1 : tensor<5x8xf32>, tensor<5x8xf32>
    return %2 : tensor<5x8xf32>
  }
  func.func @transposed(%x: tensor<5x8xf32>) -> (tensor<8x5xf32>, tensor<8x5xf32>) {
    %a = nn.read @a : tensor<8x8xf32>
    %b = nn.read @b : tensor<8x8xf32>
    %0 = nn.linear %x, %a : tensor<5x8xf32>, tensor<8x8xf32>
    %1 = nn.linear %x, %b : tensor<5x8xf32>, tensor<8x8xf32>
    %2 = nn.transpose %0 [1, 0] : tensor<5x8xf32>
    %3 = nn.transpose %1 [1, 0] : tensor<5x8xf32>
    return %2, %3 : tensor<8x5xf32>, tensor<8x5xf32>
  }
  func.func @strips(%part: tensor<4x8xf32>) -> tensor<8x8xf32> {
    %x = dist.all_gather %part axis 0 chunk 4 over 2 stride 1 {strips = 2 : i64} : tensor<4x8xf32> to tensor<8x8xf32>
    %a = nn.read @a : tensor<8x8xf32>
    %b = nn.read @b : tensor<8x8xf32>
    %0 = nn.linear %x, %a : tensor<8x8xf32>, tensor<8x8xf32>
    %1 = nn.linear %x, %b : tensor<8x8xf32>, tensor<8x8xf32>
    %2 = nn.mul %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}
