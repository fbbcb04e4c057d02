// What --emit=kernels says of a program by hand, and how accesses are printed that it counts. n is 64 at most, w of the width 96 begins at a multiple of 4 bytes only.
// RUN: dt-opt %s --emit=kernels --from=codegen | FileCheck %s --check-prefix=COST --implicit-check-not='{{[a-z0-9]}}'
// RUN: dt-opt %s --emit=kernels --from=codegen -o %t.json
// RUN: %python -c "import json, sys; k = {k['name']: k for k in json.load(open(sys.argv[1]))['kernels']}; s = k['m_g_softmax']; assert (s['launches'], s['read'], s['written'], s['least'], s['wide']) == (2, 32768, 32768, 65536, 65536); assert 'read' not in k['m_f_window']" %t.json
// RUN: dt-opt %s --dt-print-program=target=cuda -o /dev/null | FileCheck %s

// Bytes of x: 64 * 128 * 4 = 32,768.
// softmax reads its row in three loops and writes it twice, of which once each reaches memory. Of a call there are two, one of them in a callee.
// COST: launches blocks threads read written least ratio 16-byte shared shape kernel
// COST-NEXT: 2 16 128 32,768 32,768 65,536 1.00 100% 0 row m_g_softmax
// A label's element of each row, a sector of 32 bytes: 64 * 8 of labels, 64 * 32 of x; what it needs is 64 * 8 + 64 * 4, and 64 * 4 written.
// COST-NEXT: 1 1 256 2,560 256 1,024 2.75 0% 0 point m_f_pick
// Rows of 96 from a place that is no multiple of 16: 64 * 96 * 4 = 24,576 read and written by elements. A block of 32 lanes does 4 rows.
// COST-NEXT: 1 16 128 24,576 24,576 49,152 1.00 0% 0 row m_f_shifted
// Two squares of 32 by 32 a matrix, 32 * 33 * 4 bytes of shared memory each; x again.
// COST-NEXT: 1 8 256 32,768 32,768 65,536 1.00 0% 4,224 point m_f_transpose
// Sums of 64 rows: two parts, each with 128 sums, 128 * 4 * 2 = 1,024 bytes that are written and read again, and 128 cells that are read and written. (32,768 + 1,024 + 512) + (1,024 + 512), of which 32,768 + 2 * 512.
// COST-NEXT: 2 8 256 34,304 1,536 33,792 1.06 0% 1,024 column m_f_sum
// A sum to a cell that begins as 0 is stored once and not read: 64 * 4 bytes of each of two rows, 32 * 4 of sums a block.
// COST-NEXT: 1 2 256 512 256 768 1.00 0% 1,024 column m_f_mean
// Iterations that follow from data.
// COST-NEXT: 1 1 256 - - - - - 0 point m_f_window

rt.program @p batch 64 micro 64 seed 0 pace @m {
  rt.module @m ranks [0] arena 131072 scratch 65536 parameters 0 trainable 0 {
    rt.symbol @n of "sample" max 64
    rt.buffer_decl @x : !rt.buffer<f32, [n, 128]> at 0 stride 0
    rt.buffer_decl @y : !rt.buffer<f32, [n, 128]> at 32768 stride 0
    rt.buffer_decl @labels : !rt.buffer<i64, [n]> at 65536 stride 0
    rt.buffer_decl @z : !rt.buffer<f32, [n]> at 66048 stride 0
    rt.buffer_decl @w : !rt.buffer<f32, [96*n + 1]> at 66304 stride 0
    rt.buffer_decl @c : !rt.buffer<f32, [128]> at 98304 stride 0
    rt.entry forward @f [@x, @y, @labels, @z, @w, @c]

    // CHECK-LABEL: // [n] softmax{{$}}
    // One pack of 4 elements a lane, which the loops behind find in registers.
    // CHECK: float [[X:.*]][4];
    // CHECK: const int [[R:.*]] = lane * 4;
    // CHECK-NEXT: dt::rt::cuda::loadPacks<4, 4>([[X]], x + (i * 128 + [[R]]));
    // CHECK-NOT: x +
    // The exponential is not stored, though it is read again.
    // CHECK: float [[E:.*]][4];
    // CHECK: [[E]][{{.*}}] =
    // CHECK-NOT: storePacks
    // CHECK: reduceWarp<dt::rt::cuda::Add>
    // CHECK-NOT: loadPacks
    // CHECK: dt::rt::cuda::storePacks<4, 4>(y + (i * 128 + {{.*}}), {{.*}});
    // CHECK-NOT: y[
    // CHECK: return;
    rt.func @f(%x: !rt.buffer<f32, [n, 128]> {rt.name = "x"}, %y: !rt.buffer<f32, [n, 128]> {rt.access = "inout", rt.name = "y"}, %labels: !rt.buffer<i64, [n]> {rt.name = "labels"},
               %z: !rt.buffer<f32, [n]> {rt.access = "out", rt.name = "z"}, %w: !rt.buffer<f32, [96*n + 1]> {rt.access = "inout", rt.name = "w"}, %c: !rt.buffer<f32, [128]> {rt.access = "inout", rt.name = "c"}) attributes {scratch_bytes = 0 : i64} {
      rt.kernel @softmax row [%i < n] (%a = %x : !rt.buffer<f32, [n, 128]>, %b = %y : !rt.buffer<f32, [n, 128]>) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %end = arith.constant 128 : index
        %zero = arith.constant 0.0 : f32
        %low = arith.constant 0xFF800000 : f32
        %most = scf.for %r = %c0 to %end step %c1 iter_args(%p = %low) -> (f32) {
          %v = rt.load %a[%i, %r] : !rt.buffer<f32, [n, 128]>
          %t = arith.maximumf %p, %v : f32
          scf.yield %t : f32
        } {rt.simd}
        %sum = scf.for %r = %c0 to %end step %c1 iter_args(%p = %zero) -> (f32) {
          %v = rt.load %a[%i, %r] : !rt.buffer<f32, [n, 128]>
          %d = arith.subf %v, %most : f32
          %e = math.exp %d : f32
          rt.store %e, %b[%i, %r] : !rt.buffer<f32, [n, 128]>
          %t = arith.addf %p, %e : f32
          scf.yield %t : f32
        } {rt.simd}
        scf.for %r = %c0 to %end step %c1 {
          %e = rt.load %b[%i, %r] : !rt.buffer<f32, [n, 128]>
          %q = arith.divf %e, %sum : f32
          rt.store %q, %b[%i, %r] : !rt.buffer<f32, [n, 128]>
        } {rt.simd}
      }
      rt.kernel @pick point [%i < n] (%k = %labels : !rt.buffer<i64, [n]>, %a = %x : !rt.buffer<f32, [n, 128]>, %b = %z : !rt.buffer<f32, [n]>) {
        %id = rt.load %k[%i] : !rt.buffer<i64, [n]>
        %at = arith.index_cast %id : i64 to index
        %v = rt.load %a[%i, %at] : !rt.buffer<f32, [n, 128]>
        rt.store %v, %b[%i] : !rt.buffer<f32, [n]>
      }
      // CHECK-LABEL: // [n] shifted{{$}}
      // CHECK-NOT: Packs
      // CHECK: return;
      %shifted = rt.view %w {offset = #nn.dim<1>} : <f32, [96*n + 1]> to <f32, [n, 96]>
      rt.kernel @shifted row [%i < n] (%a = %shifted : !rt.buffer<f32, [n, 96]>) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %end = arith.constant 96 : index
        %zero = arith.constant 0.0 : f32
        %sum = scf.for %r = %c0 to %end step %c1 iter_args(%p = %zero) -> (f32) {
          %v = rt.load %a[%i, %r] : !rt.buffer<f32, [n, 96]>
          %t = arith.addf %p, %v : f32
          scf.yield %t : f32
        } {rt.simd}
        scf.for %r = %c0 to %end step %c1 {
          %v = rt.load %a[%i, %r] : !rt.buffer<f32, [n, 96]>
          %t = arith.subf %v, %sum : f32
          rt.store %t, %a[%i, %r] : !rt.buffer<f32, [n, 96]>
        } {rt.simd}
      }
      // Read along rows of x, written along rows of y.
      // CHECK-LABEL: // [128, n] transpose{{$}}
      // CHECK: __shared__ float tile[32][33];
      // CHECK: tile[threadIdx.x / 32 + k][threadIdx.x % 32] = x[
      // CHECK: __syncthreads();
      // CHECK: y[{{.*}}] = tile[threadIdx.x % 32][threadIdx.x / 32 + k_2];
      rt.kernel @transpose point [%i < 128, %j < n] (%a = %x : !rt.buffer<f32, [n, 128]>, %b = %y : !rt.buffer<f32, [n, 128]> as !rt.buffer<f32, [128, n]>) {
        %v = rt.load %a[%j, %i] : !rt.buffer<f32, [n, 128]>
        rt.store %v, %b[%i, %j] : !rt.buffer<f32, [128, n]>
      }
      rt.kernel @sum column [] (%a = %x : !rt.buffer<f32, [n, 128]>, %b = %c : !rt.buffer<f32, [128]>) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %end = arith.constant 128 : index
        %n = rt.size <n>
        scf.for %r = %c0 to %n step %c1 {
          scf.for %j = %c0 to %end step %c1 {
            %v = rt.load %a[%r, %j] : !rt.buffer<f32, [n, 128]>
            %o = rt.load %b[%j] : !rt.buffer<f32, [128]>
            %t = arith.addf %o, %v : f32
            rt.store %t, %b[%j] : !rt.buffer<f32, [128]>
          } {rt.simd}
        }
      }
      // The cell is a variable between its loops.
      // CHECK-LABEL: // [] mean{{$}}
      // CHECK: float cell;
      // CHECK-NEXT: cell = 0.0f;
      // CHECK-NEXT: const float before = cell;
      // CHECK-NEXT: cell = before + total;
      // CHECK-NEXT: const float before_2 = cell;
      // CHECK-NEXT: z[{{.*}}] = before_2 * 0.5f;
      rt.kernel @mean column [] (%a = %c : !rt.buffer<f32, [128]> as !rt.buffer<f32, [2, 64]>, %b = %z : !rt.buffer<f32, [n]>) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c2 = arith.constant 2 : index
        %end = rt.size <n>
        %zero = arith.constant 0.0 : f32
        %half = arith.constant 0.5 : f32
        scf.for %j = %c0 to %end step %c1 {
          rt.store %zero, %b[%j] : !rt.buffer<f32, [n]>
        } {rt.simd}
        scf.for %r = %c0 to %c2 step %c1 {
          scf.for %j = %c0 to %end step %c1 {
            %v = rt.load %a[%r, %j] : !rt.buffer<f32, [2, 64]>
            %o = rt.load %b[%j] : !rt.buffer<f32, [n]>
            %t = arith.addf %o, %v : f32
            rt.store %t, %b[%j] : !rt.buffer<f32, [n]>
          } {rt.simd}
        }
        scf.for %j = %c0 to %end step %c1 {
          %o = rt.load %b[%j] : !rt.buffer<f32, [n]>
          %t = arith.mulf %o, %half : f32
          rt.store %t, %b[%j] : !rt.buffer<f32, [n]>
        } {rt.simd}
      }
      rt.kernel @window point [%i < n] (%k = %labels : !rt.buffer<i64, [n]>, %a = %x : !rt.buffer<f32, [n, 128]>, %b = %z : !rt.buffer<f32, [n]>) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %zero = arith.constant 0.0 : f32
        %id = rt.load %k[%i] : !rt.buffer<i64, [n]>
        %end = arith.index_cast %id : i64 to index
        %sum = scf.for %r = %c0 to %end step %c1 iter_args(%p = %zero) -> (f32) {
          %v = rt.load %a[%i, %r] : !rt.buffer<f32, [n, 128]>
          %t = arith.addf %p, %v : f32
          scf.yield %t : f32
        }
        rt.store %sum, %b[%i] : !rt.buffer<f32, [n]>
      }
      rt.call @g(%x, %y) : !rt.buffer<f32, [n, 128]>, !rt.buffer<f32, [n, 128]>
    }
    rt.func private @g(%x: !rt.buffer<f32, [n, 128]> {rt.name = "x"}, %y: !rt.buffer<f32, [n, 128]> {rt.access = "out", rt.name = "y"}) attributes {scratch_bytes = 0 : i64} {
      rt.kernel @softmax row [%i < n] (%a = %x : !rt.buffer<f32, [n, 128]>, %b = %y : !rt.buffer<f32, [n, 128]>) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %end = arith.constant 128 : index
        %zero = arith.constant 0.0 : f32
        %low = arith.constant 0xFF800000 : f32
        %most = scf.for %r = %c0 to %end step %c1 iter_args(%p = %low) -> (f32) {
          %v = rt.load %a[%i, %r] : !rt.buffer<f32, [n, 128]>
          %t = arith.maximumf %p, %v : f32
          scf.yield %t : f32
        } {rt.simd}
        %sum = scf.for %r = %c0 to %end step %c1 iter_args(%p = %zero) -> (f32) {
          %v = rt.load %a[%i, %r] : !rt.buffer<f32, [n, 128]>
          %d = arith.subf %v, %most : f32
          %e = math.exp %d : f32
          rt.store %e, %b[%i, %r] : !rt.buffer<f32, [n, 128]>
          %t = arith.addf %p, %e : f32
          scf.yield %t : f32
        } {rt.simd}
        scf.for %r = %c0 to %end step %c1 {
          %e = rt.load %b[%i, %r] : !rt.buffer<f32, [n, 128]>
          %q = arith.divf %e, %sum : f32
          rt.store %q, %b[%i, %r] : !rt.buffer<f32, [n, 128]>
        } {rt.simd}
      }
    }
  }
  rt.optimizer {kind = "sgd", lr = 0.1}
  rt.rank 0 {
    rt.task forward @m microbatch 0 slot 0
  }
}
