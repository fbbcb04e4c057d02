// RUN: dt-opt %s | dt-opt | FileCheck %s

// bf16 is a type of stored elements: scalar code loads and stores f32.

// CHECK-LABEL: rt.func @kernel(
// CHECK: %[[V:.*]] = rt.load %{{.*}} : !rt.buffer<bf16, [4]>
// CHECK: %[[E:.*]] = math.exp %[[V]] : f32
// CHECK: rt.store %[[E]], %{{.*}} : !rt.buffer<bf16, [4]>
rt.func @kernel(%a: !rt.buffer<bf16, [4]>, %b: !rt.buffer<bf16, [4]> {rt.access = "out"}) {
  rt.kernel @exp [%i < 4] (%x = %a : !rt.buffer<bf16, [4]>, %y = %b : !rt.buffer<bf16, [4]>) {
    %v = rt.load %x[%i] : !rt.buffer<bf16, [4]>
    %e = math.exp %v : f32
    rt.store %e, %y[%i] : !rt.buffer<bf16, [4]>
  }
  // CHECK: rt.constant dense<[1.000000e+00, 2.500000e+00]> : tensor<2xbf16> : <bf16, [2]>
  %c = rt.constant dense<[1.0, 2.5]> : tensor<2xbf16> : !rt.buffer<bf16, [2]>
  // CHECK: rt.fill %{{.*}} with 0.000000e+00 : bf16 : <bf16, [4]>
  rt.fill %b with 0.0 : bf16 : !rt.buffer<bf16, [4]>
  rt.copy %a to %b : !rt.buffer<bf16, [4]>, !rt.buffer<bf16, [4]>
  rt.collective all_reduce by sum %b to %b over 2 stride 1 : !rt.buffer<bf16, [4]>, !rt.buffer<bf16, [4]>
}

// Sums are f32 inside; who takes them says what is stored.
// CHECK-LABEL: rt.func @matmul(
rt.func @matmul(%a: !rt.buffer<bf16, [2, 3]>, %b: !rt.buffer<bf16, [3, 4]>, %wide: !rt.buffer<f32, [4]>, %narrow: !rt.buffer<bf16, [4]>,
                %c: !rt.buffer<bf16, [2, 4]> {rt.access = "out"}, %f: !rt.buffer<f32, [2, 4]> {rt.access = "inout"}, %g: !rt.buffer<bf16, [2, 4]> {rt.access = "inout"}) {
  // CHECK: rt.matmul
  rt.matmul %a, %b bias %wide to %c {batch = #nn.dim<1>, m = #nn.dim<2>, n = #nn.dim<4>, k = #nn.dim<3>} : !rt.buffer<bf16, [2, 3]>, !rt.buffer<bf16, [3, 4]>, !rt.buffer<f32, [4]>, !rt.buffer<bf16, [2, 4]>
  // CHECK: rt.matmul
  rt.matmul %a, %b bias %narrow to %c {batch = #nn.dim<1>, m = #nn.dim<2>, n = #nn.dim<4>, k = #nn.dim<3>} : !rt.buffer<bf16, [2, 3]>, !rt.buffer<bf16, [3, 4]>, !rt.buffer<bf16, [4]>, !rt.buffer<bf16, [2, 4]>
  // CHECK: rt.matmul %{{.*}}, %{{.*}} to %{{.*}} {accumulate
  rt.matmul %a, %b to %f {accumulate, batch = #nn.dim<1>, m = #nn.dim<2>, n = #nn.dim<4>, k = #nn.dim<3>} : !rt.buffer<bf16, [2, 3]>, !rt.buffer<bf16, [3, 4]>, !rt.buffer<f32, [2, 4]>
  // CHECK: rt.matmul %{{.*}}, %{{.*}} to %{{.*}} {accumulate
  rt.matmul %a, %b to %g {accumulate, batch = #nn.dim<1>, m = #nn.dim<2>, n = #nn.dim<4>, k = #nn.dim<3>} : !rt.buffer<bf16, [2, 3]>, !rt.buffer<bf16, [3, 4]>, !rt.buffer<bf16, [2, 4]>
}

// CHECK-LABEL: rt.func @conv(
rt.func @conv(%x: !rt.buffer<bf16, [2, 3, 8]>, %w: !rt.buffer<bf16, [4, 3, 3]>, %bias: !rt.buffer<f32, [4]>, %y: !rt.buffer<bf16, [2, 4, 6]> {rt.access = "out"},
              %dx: !rt.buffer<bf16, [2, 3, 8]> {rt.access = "out"}, %dw: !rt.buffer<f32, [4, 3, 3]> {rt.access = "inout"}, %db: !rt.buffer<f32, [4]> {rt.access = "inout"}) {
  // CHECK: rt.conv
  rt.conv %x, %w bias %bias to %y {n = #nn.dim<2>, c = 3, o = 4, groups = 1, in = #nn.dims<8>, kernel = array<i64: 3>, strides = array<i64: 1>, dilations = array<i64: 1>, pad_begin = array<i64: 0>, pad_end = array<i64: 0>}
    : !rt.buffer<bf16, [2, 3, 8]>, !rt.buffer<bf16, [4, 3, 3]>, !rt.buffer<f32, [4]>, !rt.buffer<bf16, [2, 4, 6]>
  // CHECK: rt.conv_dx
  rt.conv_dx %y, %w to %dx {n = #nn.dim<2>, c = 3, o = 4, groups = 1, in = #nn.dims<8>, kernel = array<i64: 3>, strides = array<i64: 1>, dilations = array<i64: 1>, pad_begin = array<i64: 0>, pad_end = array<i64: 0>}
    : !rt.buffer<bf16, [2, 4, 6]>, !rt.buffer<bf16, [4, 3, 3]>, !rt.buffer<bf16, [2, 3, 8]>
  // CHECK: rt.conv_dw
  rt.conv_dw %x, %y to %dw bias %db {accumulate, n = #nn.dim<2>, c = 3, o = 4, groups = 1, in = #nn.dims<8>, kernel = array<i64: 3>, strides = array<i64: 1>, dilations = array<i64: 1>, pad_begin = array<i64: 0>, pad_end = array<i64: 0>}
    : !rt.buffer<bf16, [2, 3, 8]>, !rt.buffer<bf16, [2, 4, 6]>, !rt.buffer<f32, [4, 3, 3]>, !rt.buffer<f32, [4]>
}

// CHECK-LABEL: rt.func @attention(
rt.func @attention(%q: !rt.buffer<bf16, [1, 2, 1, 4]>, %mask: !rt.buffer<bf16, [2]>, %o: !rt.buffer<bf16, [1, 2, 1, 4]> {rt.access = "out"}, %lse: !rt.buffer<f32, [1, 1, 2]> {rt.access = "out"}) {
  // CHECK: rt.attention
  rt.attention %q, %q, %q mask %mask to %o, %lse {b = #nn.dim<1>, t = #nn.dim<2>, s = #nn.dim<2>, h = #nn.dim<1>, hk = #nn.dim<1>, d = #nn.dim<4>, dv = #nn.dim<4>, q_strides = #nn.dims<8, 4, 4>, k_strides = #nn.dims<8, 4, 4>, v_strides = #nn.dims<8, 4, 4>,
    o_strides = #nn.dims<8, 4, 4>, mask_strides = #nn.dims<0, 0, 0, 1>, scale = 0.5, empty_row = 0 : i32}
    : !rt.buffer<bf16, [1, 2, 1, 4]>, !rt.buffer<bf16, [1, 2, 1, 4]>, !rt.buffer<bf16, [1, 2, 1, 4]>, !rt.buffer<bf16, [2]>, !rt.buffer<bf16, [1, 2, 1, 4]>, !rt.buffer<f32, [1, 1, 2]>
}

// Gradients are f32 in a region of their own, which may be larger than that of
// what is stored.
// CHECK-LABEL: rt.module @m
rt.module @m ranks [0] arena 0 scratch 0 parameters 192 trainable 256 {
  // CHECK: rt.parameter_decl @w : !rt.buffer<bf16, [32]> index 0 at 0 trainable gradient from []
  rt.parameter_decl @w : !rt.buffer<bf16, [32]> index 0 at 0 trainable gradient from []
  // CHECK: rt.parameter_decl @b : !rt.buffer<f32, [4]> index 1 at 64 trainable at 128 gradient from []
  rt.parameter_decl @b : !rt.buffer<f32, [4]> index 1 at 64 trainable at 128 gradient from []
}
