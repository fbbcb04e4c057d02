// Kernel bodies: what becomes an expression, what a variable, what text.
// RUN: dt-opt %s --dt-print-program -o /dev/null | FileCheck %s

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.rank 0 {
  }
  rt.module @m ranks [0] arena 0 scratch 256 parameters 0 trainable 0 {
    rt.symbol @n of "sample" max 4

    // Equal kernels are one function, named after the first.
    // CHECK-LABEL: void m_forward_scale(const float* v1, float* v2) {
    // CHECK-NOT: void m_forward_scale_again(
    rt.func @forward(%a: !rt.buffer<f32, [4, 4]> {rt.name = "a"}, %b: !rt.buffer<f32, [4, 4]> {rt.name = "b", rt.access = "out"}, %ids: !rt.buffer<i64, [n]> {rt.name = "ids"},
                     %table: !rt.buffer<f32, [10, 64]> {rt.name = "table"}, %rows: !rt.buffer<f32, [n, 64]> {rt.name = "rows", rt.access = "out"}, %mask: !rt.buffer<i1, [4]> {rt.name = "mask"},
                     %big: !rt.buffer<f32, [512, 768]> {rt.name = "big", rt.access = "inout"}) attributes {scratch_bytes = 256 : i64} {
      rt.kernel @scale [%i < 4, %j < 4] (%x = %a : !rt.buffer<f32, [4, 4]>, %y = %b : !rt.buffer<f32, [4, 4]>) {
        %v = rt.load %x[%i, %j] : !rt.buffer<f32, [4, 4]>
        %e = math.exp %v : f32
        rt.store %e, %y[%j, %i] : !rt.buffer<f32, [4, 4]>
      }
      rt.kernel @scale_again [%i < 4, %j < 4] (%x = %a : !rt.buffer<f32, [4, 4]>, %y = %b : !rt.buffer<f32, [4, 4]>) {
        %v = rt.load %x[%i, %j] : !rt.buffer<f32, [4, 4]>
        %e = math.exp %v : f32
        rt.store %e, %y[%j, %i] : !rt.buffer<f32, [4, 4]>
      }

      // An index that is loaded gets a name; index arithmetic stays text.
      // CHECK-LABEL: void m_forward_gather(
      // CHECK: int64_t [[ID:v[0-9]+]] = {{.*}}ids[i];
      // CHECK: const int64_t row = [[ID]];
      // CHECK: = table[row * 64 + j];
      // CHECK: rows[i * 64 + j] =
      rt.kernel @gather [%i < n, %j < 64] (%x = %ids : !rt.buffer<i64, [n]>, %t = %table : !rt.buffer<f32, [10, 64]>, %y = %rows : !rt.buffer<f32, [n, 64]>) {
        %id = rt.load %x[%i] : !rt.buffer<i64, [n]>
        %row = arith.index_cast %id : i64 to index
        %v = rt.load %t[%row, %j] : !rt.buffer<f32, [10, 64]>
        rt.store %v, %y[%i, %j] : !rt.buffer<f32, [n, 64]>
      }

      // A load that waits is made before a store that may change what it reads.
      // CHECK-LABEL: void m_forward_swap(
      // CHECK: float [[OLD:v[0-9]+]] = b[i * 4 + 1];
      // CHECK: b[i * 4 + 1] =
      // CHECK: b[i * 4] = [[OLD]]
      rt.kernel @swap [%i < 4] (%y = %b : !rt.buffer<f32, [4, 4]>) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %p = rt.load %y[%i, %c0] : !rt.buffer<f32, [4, 4]>
        %q = rt.load %y[%i, %c1] : !rt.buffer<f32, [4, 4]>
        rt.store %p, %y[%i, %c1] : !rt.buffer<f32, [4, 4]>
        rt.store %q, %y[%i, %c0] : !rt.buffer<f32, [4, 4]>
      }

      // The C++ form of an integer maximum reads its operands twice: a carried one too, and one that waits.
      // CHECK-LABEL: void m_forward_highest(
      // CHECK: int64_t [[MOST:v[0-9]+]] = INT64_MIN;
      // CHECK: int64_t [[ID:v[0-9]+]] = {{.*}}ids[
      // CHECK: [[MOST]] = [[MOST]] > [[ID]] ? [[MOST]] : [[ID]];
      // CHECK: rows[0] =
      rt.kernel @highest [] (%x = %ids : !rt.buffer<i64, [n]>, %y = %rows : !rt.buffer<f32, [n, 64]>) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %n = rt.size <n>
        %least = arith.constant -9223372036854775808 : i64
        %most = scf.for %r = %c0 to %n step %c1 iter_args(%m = %least) -> (i64) {
          %id = rt.load %x[%r] : !rt.buffer<i64, [n]>
          %next = arith.maxsi %m, %id : i64
          scf.yield %next : i64
        } {rt.simd}
        %f = arith.sitofp %most : i64 to f32
        rt.store %f, %y[%c0, %c0] : !rt.buffer<f32, [n, 64]>
      }

      // Two carried values, a branch, unordered comparison, NaN-aware maximum.
      // CHECK-LABEL: void m_forward_row_softmax_sums(
      // CHECK: = (-dt::rt::kInf);
      // CHECK: #pragma omp simd reduction(dt::rt::largest : v{{[0-9]+}})
      // CHECK: bool [[MASK:v[0-9]+]] = mask[r_2];
      // CHECK: if ([[MASK]]) {
      // CHECK: } else {
      // CHECK: !(
      rt.kernel @row_softmax_sums [%i < 4] (%x = %a : !rt.buffer<f32, [4, 4]>, %k = %mask : !rt.buffer<i1, [4]>, %y = %b : !rt.buffer<f32, [4, 4]>) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c4 = arith.constant 4 : index
        %low = arith.constant 0xFF800000 : f32
        %zero = arith.constant 0.0 : f32
        %max = scf.for %j = %c0 to %c4 step %c1 iter_args(%m = %low) -> f32 {
          %v = rt.load %x[%i, %j] : !rt.buffer<f32, [4, 4]>
          %n = arith.maxnumf %m, %v : f32
          scf.yield %n : f32
        } {rt.simd}
        %s:2 = scf.for %j = %c0 to %c4 step %c1 iter_args(%sum = %zero, %count = %zero) -> (f32, f32) {
          %keep = rt.load %k[%j] : !rt.buffer<i1, [4]>
          %t = scf.if %keep -> f32 {
            %v = rt.load %x[%i, %j] : !rt.buffer<f32, [4, 4]>
            %d = arith.subf %v, %max : f32
            %e = math.exp %d : f32
            scf.yield %e : f32
          } else {
            scf.yield %zero : f32
          }
          %p = arith.cmpf ugt, %t, %zero : f32
          %one = arith.uitofp %p : i1 to f32
          %a1 = arith.addf %sum, %t : f32
          %a2 = arith.addf %count, %one : f32
          scf.yield %a1, %a2 : f32, f32
        }
        %q = arith.divf %s#0, %s#1 : f32
        rt.store %q, %y[%i, %c0] : !rt.buffer<f32, [4, 4]>
      }

      // Work that is known at compile time needs no condition; bounds with loops inside collapse.
      // CHECK-LABEL: void m_forward_double(
      // CHECK: #pragma omp parallel for schedule(static){{$}}
      // CHECK: #pragma omp simd
      rt.kernel @double [%i < 512, %j < 768] (%x = %big : !rt.buffer<f32, [512, 768]>) {
        %v = rt.load %x[%i, %j] : !rt.buffer<f32, [512, 768]>
        %w = arith.addf %v, %v : f32
        rt.store %w, %x[%i, %j] : !rt.buffer<f32, [512, 768]>
      }

      // Views that share bytes promise nothing to the compiler, views that do not promise it.
      // CHECK-LABEL: void m_forward_shift(
      // CHECK: const float *const big = v1;
      // CHECK: float *const big_2 = v2;
      // CHECK-LABEL: void m_forward_apart(
      // CHECK: const float *__restrict const big = v1;
      // CHECK: float *__restrict const big_2 = v2;
      %first = rt.view %big {offset = #nn.dim<0>} : !rt.buffer<f32, [512, 768]> to !rt.buffer<f32, [768]>
      %second = rt.view %big {offset = #nn.dim<384>} : !rt.buffer<f32, [512, 768]> to !rt.buffer<f32, [768]>
      %third = rt.view %big {offset = #nn.dim<768>} : !rt.buffer<f32, [512, 768]> to !rt.buffer<f32, [768]>
      rt.kernel @shift [%j < 768] (%x = %first : !rt.buffer<f32, [768]>, %y = %second : !rt.buffer<f32, [768]>) {
        %v = rt.load %x[%j] : !rt.buffer<f32, [768]>
        rt.store %v, %y[%j] : !rt.buffer<f32, [768]>
      }
      rt.kernel @apart [%j < 768] (%x = %first : !rt.buffer<f32, [768]>, %y = %third : !rt.buffer<f32, [768]>) {
        %v = rt.load %x[%j] : !rt.buffer<f32, [768]>
        rt.store %v, %y[%j] : !rt.buffer<f32, [768]>
      }

      // Nor do two locals with one place.
      // CHECK-LABEL: void m_forward_in_place(
      // CHECK: const float *const before = v1;
      // CHECK: float *const after = v2;
      %before = rt.alloc "before" at 0 : <f32, [64]>
      %after = rt.alloc "after" at 0 : <f32, [64]>
      rt.kernel @in_place [%j < 64] (%x = %before : !rt.buffer<f32, [64]>, %y = %after : !rt.buffer<f32, [64]>) {
        %v = rt.load %x[%j] : !rt.buffer<f32, [64]>
        %w = arith.addf %v, %v : f32
        rt.store %w, %y[%j] : !rt.buffer<f32, [64]>
      }
      // CHECK: static const float m_constant[4] = {
      // CHECK: m_forward_scale(a, b);
      // CHECK-NEXT: m_forward_scale(a, b);
      // CHECK: m_forward_shift(big, big + 384);
      // CHECK: dt::rt::checkIndices(ids, size.n, {.what = "rows of gather 'embed'", .input = "ids", .extent = 10, .wrap = true, .stride = 1, .row = 1, .module = 0, .symbol = 0}, context.fault);
      rt.check_indices "rows of gather 'embed'" %ids below <10> {input = "ids", item = "n", wrap} : !rt.buffer<i64, [n]>
      // CHECK: .extent = 10, .local = true, .base = dt::rt::placeOnAxis(context.group, 2, 1) * 5, .stride = 1,
      rt.check_indices "rows" %ids below <10> {block = array<i64: 5, 2, 1>} : !rt.buffer<i64, [n]>
      // CHECK: dt::rt::checkIndices(ids, size.n, {.what = "classes", .input = nullptr, .extent = size.n, .ignores = true, .ignored = -100, .offset = 1, .stride = 2, .row = 1, .module = 0, .symbol = -1}, context.fault);
      rt.check_indices "classes" %ids below <n> {ignored = -100 : i64, offset = 1 : i64, stride = 2 : i64} : !rt.buffer<i64, [n]>
      %c = rt.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32> : !rt.buffer<f32, [4]>
      rt.kernel @table [%j < 4] (%x = %c : !rt.buffer<f32, [4]>, %y = %b : !rt.buffer<f32, [4, 4]>) {
        %c0 = arith.constant 0 : index
        %v = rt.load %x[%j] : !rt.buffer<f32, [4]>
        rt.store %v, %y[%c0, %j] : !rt.buffer<f32, [4, 4]>
      }
    }
  }
  rt.optimizer {kind = "sgd", lr = 0.1}
}
