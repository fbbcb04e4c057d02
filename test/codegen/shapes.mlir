// Kernels of each shape for CUDA: who works on what, and how threads' values meet.
// RUN: dt-opt %s --dt-print-program=target=cuda -o /dev/null | FileCheck %s

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.rank 0 {
  }
  rt.module @m ranks [0] arena 0 scratch 0 parameters 0 trainable 0 {
    rt.symbol @n of "sample" max 512

    rt.func @f(%x: !rt.buffer<f32, [n, 64]> {rt.name = "x"}, %y: !rt.buffer<f32, [n]> {rt.access = "inout", rt.name = "y"}, %c: !rt.buffer<f32, [64]> {rt.access = "inout", rt.name = "c"},
               %s: !rt.buffer<f32, []> {rt.access = "out", rt.name = "s"}, %wide: !rt.buffer<f32, [n, 4096]> {rt.access = "inout", rt.name = "wide"},
               %huge: !rt.buffer<f32, [n, 4194304]> {rt.access = "inout", rt.name = "huge"}, %ids: !rt.buffer<i64, [n]> {rt.name = "ids"}) attributes {scratch_bytes = 0 : i64} {
      // A warp a row. Lanes stride over it, all get the sum, one stores; what one lane stores and others may read stands between barriers.
      // CHECK-LABEL: // [n] row{{$}}
      // CHECK-NEXT: __global__ void m_f_row(
      // CHECK: const int point = blockIdx.x * int(4) + threadIdx.x / 32, lane = threadIdx.x % 32;
      // CHECK-NEXT: if (point >= n) {
      // CHECK-NEXT: return;
      // CHECK: float [[SUM:v[0-9]+]] = 0.0f;
      // CHECK-NEXT: if (lane != 0) {
      // CHECK-NEXT: [[SUM]] = 0.0f;
      // CHECK-NEXT: }
      // CHECK-NEXT: #pragma unroll
      // CHECK-NEXT: for (int{{.*}} {{.*}} = 0; {{.*}} < 2; {{.*}} += 1) {
      // CHECK: const int [[R:.*]] = k * 32 + lane;
      // CHECK: x[i * 64 + [[R]]]
      // CHECK: }
      // CHECK-NEXT: [[SUM]] = dt::rt::cuda::reduceWarp<dt::rt::cuda::Add>([[SUM]]);
      // CHECK: __syncwarp();
      // CHECK-NEXT: if (lane == 0) {
      // CHECK-NEXT: y[i] =
      // CHECK-NEXT: }
      // CHECK-NEXT: __syncwarp();
      rt.kernel @row row [%i < n] (%a = %x : !rt.buffer<f32, [n, 64]>, %b = %y : !rt.buffer<f32, [n]>) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c64 = arith.constant 64 : index
        %zero = arith.constant 0.0 : f32
        %sum = scf.for %r = %c0 to %c64 step %c1 iter_args(%p = %zero) -> (f32) {
          %v = rt.load %a[%i, %r] : !rt.buffer<f32, [n, 64]>
          %t = arith.addf %p, %v : f32
          scf.yield %t : f32
        } {rt.simd}
        %o = rt.load %b[%i] : !rt.buffer<f32, [n]>
        %t = arith.addf %o, %sum : f32
        rt.store %t, %b[%i] : !rt.buffer<f32, [n]>
      }
      // A block a long row, of which a lane keeps 8 elements. They are its own: no barrier.
      // CHECK-LABEL: // [n] block{{$}}
      // CHECK-NEXT: __global__ __launch_bounds__(512) void m_f_block(
      // CHECK: const int point = blockIdx.x, lane = threadIdx.x;
      // CHECK: float [[KEPT:.*]][8];
      // CHECK: const int [[R:.*]] = k * 512 + lane;
      // CHECK-NEXT: [[KEPT]][k] = wide[i * 4096 + [[R]]];
      // CHECK: = dt::rt::cuda::reduceBlock<dt::rt::cuda::Maximum, 512>(
      // CHECK-NOT: __syncthreads
      // CHECK: = [[KEPT]][k_2] -
      // CHECK-NEXT: wide[
      // CHECK-NOT: __syncthreads
      // CHECK: return;
      rt.kernel @block row [%i < n] (%a = %wide : !rt.buffer<f32, [n, 4096]>) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %end = arith.constant 4096 : index
        %low = arith.constant 0xFF800000 : f32
        %most = scf.for %r = %c0 to %end step %c1 iter_args(%p = %low) -> (f32) {
          %v = rt.load %a[%i, %r] : !rt.buffer<f32, [n, 4096]>
          %t = arith.maximumf %p, %v : f32
          scf.yield %t : f32
        } {rt.simd}
        scf.for %r = %c0 to %end step %c1 {
          %v = rt.load %a[%i, %r] : !rt.buffer<f32, [n, 4096]>
          %t = arith.subf %v, %most : f32
          rt.store %t, %a[%i, %r] : !rt.buffer<f32, [n, 4096]>
        } {rt.simd}
      }
      // Threads take a column and every eighth row of their part; the first tile goes on with what all have.
      // CHECK-LABEL: // [4] column{{$}}
      // CHECK-NEXT: __global__ void m_f_column({{.*}}, dt::rt::cuda::Parts
      // CHECK: const bool inside = place < parts.places && column < 16;
      // CHECK-NEXT: float total;
      // CHECK-NEXT: total = 0.0f;
      // CHECK-NEXT: const auto at = {{.*}} + column;
      // CHECK-NEXT: for (int{{.*}} {{.*}} = part * 8 + tile; {{.*}} < (inside && !parts.last ? n : 0); {{.*}} += 8 * int(parts.parts)) {
      // CHECK: total = dt::rt::cuda::Add::of<float>(total, {{.*}});
      // CHECK: #pragma unroll 4
      // CHECK-NEXT: for (int{{.*}} {{.*}} = tile; {{.*}} < (inside && parts.last ? int(parts.parts) : 0); {{.*}} += 8) {
      // CHECK: total = dt::rt::cuda::reduceTiles<dt::rt::cuda::Add>(total);
      // CHECK-NEXT: if (!inside || tile != 0) {
      // CHECK-NEXT: return;
      // CHECK: c[at] + total;
      rt.kernel @column column [%i < 4] (%a = %x : !rt.buffer<f32, [n, 64]>, %b = %c : !rt.buffer<f32, [64]>) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c16 = arith.constant 16 : index
        %n = rt.size <n>
        %first = arith.muli %i, %c16 : index
        scf.for %r = %c0 to %n step %c1 {
          scf.for %j = %c0 to %c16 step %c1 {
            %at = arith.addi %first, %j : index
            %v = rt.load %a[%r, %at] : !rt.buffer<f32, [n, 64]>
            %o = rt.load %b[%at] : !rt.buffer<f32, [64]>
            %t = arith.addf %o, %v : f32
            rt.store %t, %b[%at] : !rt.buffer<f32, [64]>
          } {rt.simd}
        }
      }
      // A part of the loop a block.
      // CHECK-LABEL: // [] all{{$}}
      // CHECK-NEXT: __global__ void m_f_all({{.*}}, dt::rt::cuda::Parts
      // CHECK: if (first != 0 || parts.last) {
      // CHECK-NEXT: [[SUM:v[0-9]+]] = 0.0f;
      // CHECK-NEXT: }
      // CHECK-NEXT: for (int{{.*}} [[T:.*]] = first; {{.*}} < (parts.last ? 0 : n * 64); {{.*}} += 256 * int(parts.parts)) {
      // CHECK: const int {{r.*}} = {{r.*}} % 64;
      // CHECK: [[SUM]] = dt::rt::cuda::reduceBlock<dt::rt::cuda::Add, 256>([[SUM]]);
      // CHECK-NEXT: if (!parts.last && parts.parts > 1) {
      // CHECK-NEXT: if (lane == 0) {
      // CHECK-NEXT: static_cast<float *>(parts.values)[(blockIdx.x / parts.blocks) * parts.places + point] = [[SUM]];
      // CHECK-NEXT: }
      // CHECK-NEXT: return;
      rt.kernel @all all [] (%a = %x : !rt.buffer<f32, [n, 64]>, %b = %s : !rt.buffer<f32, []>) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c64 = arith.constant 64 : index
        %n = rt.size <n>
        %zero = arith.constant 0.0 : f32
        %sum = scf.for %i = %c0 to %n step %c1 iter_args(%q = %zero) -> (f32) {
          %part = scf.for %r = %c0 to %c64 step %c1 iter_args(%p = %q) -> (f32) {
            %v = rt.load %a[%i, %r] : !rt.buffer<f32, [n, 64]>
            %t = arith.addf %p, %v : f32
            scf.yield %t : f32
          } {rt.simd}
          scf.yield %part : f32
        }
        rt.store %sum, %b[] : !rt.buffer<f32, []>
      }
      // Indices that may not fit an int, and ones that come from data.
      // CHECK-LABEL: // [n, 4194304] huge{{$}}
      // CHECK: const int64_t point = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
      rt.kernel @huge point [%i < n, %j < 4194304] (%a = %huge : !rt.buffer<f32, [n, 4194304]>) {
        %v = rt.load %a[%i, %j] : !rt.buffer<f32, [n, 4194304]>
        %t = arith.addf %v, %v : f32
        rt.store %t, %a[%i, %j] : !rt.buffer<f32, [n, 4194304]>
      }
      // CHECK-LABEL: // [n] gather{{$}}
      // CHECK: const int point =
      // CHECK: const int64_t row =
      // CHECK: int64_t(i)
      rt.kernel @gather [%i < n] (%k = %ids : !rt.buffer<i64, [n]>, %a = %x : !rt.buffer<f32, [n, 64]>, %b = %y : !rt.buffer<f32, [n]>) {
        %c0 = arith.constant 0 : index
        %id = rt.load %k[%i] : !rt.buffer<i64, [n]>
        %row = arith.index_cast %id : i64 to index
        %v = rt.load %a[%row, %c0] : !rt.buffer<f32, [n, 64]>
        %n = arith.index_cast %i : index to i64
        %f = arith.sitofp %n : i64 to f32
        %t = arith.mulf %v, %f : f32
        rt.store %t, %b[%i] : !rt.buffer<f32, [n]>
      }
    }
  }
  rt.optimizer {kind = "sgd", lr = 0.1}
}

// CHECK-LABEL: //===--- m.cu
// CHECK: dt::rt::cuda::launch("m_f_row", m_f_row, dt::rt::cuda::gridFor(size.n, 4), 128, 0, context.stream, x, dt::rt::cuda::out(y, size.n), size.n);
// CHECK: dt::rt::cuda::launch("m_f_block", m_f_block, dt::rt::cuda::gridFor(size.n, 1), 512, 0, context.stream, dt::rt::cuda::out(wide, 4096 * size.n), size.n);
// CHECK: dt::rt::cuda::launchColumns<float, 1>("m_f_column", m_f_column, 4 * 16, size.n, context.stream, x, dt::rt::cuda::out(c, 64), size.n);
// CHECK: dt::rt::cuda::launchPoints<float>("m_f_all", m_f_all, 1, size.n * 64, context.stream, x, dt::rt::cuda::out(s, 1), size.n);
