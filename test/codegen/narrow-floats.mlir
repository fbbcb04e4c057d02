// Elements of 2 bytes: the runtime's type in memory, floats in scalar code. A result is rounded in the assignment to its element, which vectorises.
// RUN: dt-opt %s --dt-print-program -o /dev/null | FileCheck %s
// RUN: dt-opt %s --dt-print-program=target=cuda -o /dev/null | FileCheck %s --check-prefix=CUDA

// CHECK-LABEL: //===--- m.h
// CHECK: class MParameters {
// CHECK: // [32]
// CHECK-NEXT: const dt::rt::bf16* w;
// CHECK: // [4]
// CHECK-NEXT: const float* b;
// Gradients are floats.
// CHECK: class MGradients {
// CHECK: // [32]
// CHECK-NEXT: float* w;
// CHECK: class MArena {
// CHECK: // [4]
// CHECK-NEXT: dt::rt::bf16* saved;

// CHECK-LABEL: //===--- m_kernels.cpp
// CHECK-LABEL: void m_forward_scale(const dt::rt::bf16* v1, const float* v2, dt::rt::bf16* v3) {
// CHECK: dt::rt::bf16 *__restrict const y = v3;
// CHECK: float [[V:v[0-9]+]] = (float) x[i] * f[i] + (float) x[i];
// CHECK-NEXT: y[i] = [[V]];
// CUDA-LABEL: void m_forward_scale(const dt::rt::bf16* v1, const float* v2, dt::rt::bf16* v3) {
// CUDA: y[{{.}}] = v{{[0-9]+}};

// CHECK-LABEL: //===--- m.cpp
// CHECK: context.parameters.b = reinterpret_cast<float *>(task.parameters + 64);
// CHECK: context.gradients.b = reinterpret_cast<float *>(task.gradients + 128);
// CHECK: static const dt::rt::bf16 m_constant[2] = {dt::rt::bf16(1.0f), dt::rt::bf16((-2.5f))};
// CHECK: dt::rt::bf16* local = reinterpret_cast<dt::rt::bf16 *>(scratch);
// CHECK: dt::rt::fill(y, dt::rt::bf16(0.5f), 4);
// CHECK: dt::rt::copy(local, y, 4);
// CHECK: dt::rt::matmul(a, a, nullptr, c, {.batch = 1, .m = 2, .n = 2, .k = 2}, 0);
// CHECK: dt::rt::collective(context.group, {.kind = dt::rt::CollectiveKind::AllReduce, .reduction = dt::rt::Reduction::Sum, .type = dt::rt::DType::BF16,
// CHECK: .mask = dt::rt::MaskKind::AdditiveNarrow

// CHECK-LABEL: //===--- program.cpp
// CHECK: {.tensor = {"m.w", dt::rt::DType::BF16, 1, kShape_32}, .module = 0, .offset = 0, .gradient = 0, .trainable = true
// CHECK: {.tensor = {"m.b", dt::rt::DType::F32, 1, kShape_4}, .module = 0, .offset = 64, .gradient = 128, .trainable = true
// CHECK: .parameterBytes = 192, .trainableBytes = 256

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.rank 0 {
  }
  rt.module @m ranks [0] arena 64 scratch 64 parameters 192 trainable 256 {
    rt.parameter_decl @w : !rt.buffer<bf16, [32]> index 0 at 0 trainable gradient init "zeros" from []
    rt.parameter_decl @b : !rt.buffer<f32, [4]> index 1 at 64 trainable at 128 gradient init "zeros" from []
    rt.buffer_decl @saved : !rt.buffer<bf16, [4]> at 0 stride 0
    rt.func @forward(%x: !rt.buffer<bf16, [4]> {rt.name = "x"}, %f: !rt.buffer<f32, [4]> {rt.name = "f"}, %y: !rt.buffer<bf16, [4]> {rt.name = "y", rt.access = "out"},
                     %a: !rt.buffer<bf16, [2, 2]> {rt.name = "a"}, %c: !rt.buffer<f32, [2, 2]> {rt.name = "c", rt.access = "out"},
                     %q: !rt.buffer<bf16, [1, 2, 1, 4]> {rt.name = "q"}, %o: !rt.buffer<bf16, [1, 2, 1, 4]> {rt.name = "o", rt.access = "out"}, %lse: !rt.buffer<f32, [1, 1, 2]> {rt.name = "lse", rt.access = "out"}) attributes {scratch_bytes = 64 : i64} {
      rt.kernel @scale [%i < 4] (%k = %x : !rt.buffer<bf16, [4]>, %g = %f : !rt.buffer<f32, [4]>, %r = %y : !rt.buffer<bf16, [4]>) {
        %v = rt.load %k[%i] : !rt.buffer<bf16, [4]>
        %w = rt.load %g[%i] : !rt.buffer<f32, [4]>
        %again = rt.load %k[%i] : !rt.buffer<bf16, [4]>
        %p = arith.mulf %v, %w : f32
        %s = arith.addf %p, %again : f32
        rt.store %s, %r[%i] : !rt.buffer<bf16, [4]>
      }
      %local = rt.alloc "local" at 0 : !rt.buffer<bf16, [4]>
      rt.fill %y with 0.5 : bf16 : !rt.buffer<bf16, [4]>
      rt.copy %y to %local : !rt.buffer<bf16, [4]>, !rt.buffer<bf16, [4]>
      rt.matmul %a, %a to %c {batch = #nn.dim<1>, m = #nn.dim<2>, n = #nn.dim<2>, k = #nn.dim<2>} : !rt.buffer<bf16, [2, 2]>, !rt.buffer<bf16, [2, 2]>, !rt.buffer<f32, [2, 2]>
      rt.collective all_reduce by sum %y to %y over 1 stride 1 : !rt.buffer<bf16, [4]>, !rt.buffer<bf16, [4]>
      %t = rt.constant dense<[1.0, -2.5]> : tensor<2xbf16> : !rt.buffer<bf16, [2]>
      rt.attention %q, %q, %q mask %t to %o, %lse {b = #nn.dim<1>, t = #nn.dim<2>, s = #nn.dim<2>, h = #nn.dim<1>, hk = #nn.dim<1>, d = #nn.dim<4>, dv = #nn.dim<4>, q_strides = #nn.dims<8, 4, 4>, k_strides = #nn.dims<8, 4, 4>, v_strides = #nn.dims<8, 4, 4>,
        o_strides = #nn.dims<8, 4, 4>, mask_strides = #nn.dims<0, 0, 0, 1>, scale = 0.5, empty_row = 0 : i32}
        : !rt.buffer<bf16, [1, 2, 1, 4]>, !rt.buffer<bf16, [1, 2, 1, 4]>, !rt.buffer<bf16, [1, 2, 1, 4]>, !rt.buffer<bf16, [2]>, !rt.buffer<bf16, [1, 2, 1, 4]>, !rt.buffer<f32, [1, 1, 2]>
    }
  }
  rt.optimizer {kind = "sgd", lr = 0.1}
}
