// Sums of many rows: threads load packs as long as there are four blocks for each of 132 SMs, 528; a narrower tensor has fewer neighbours a thread, or none.
// RUN: dt-opt %s --emit=kernels --from=codegen | FileCheck %s --check-prefix=COST
// RUN: dt-opt %s --dt-print-program=target=cuda -o /dev/null | FileCheck %s

// 8 blocks of 128 columns, in 128 parts of 32 rows.
// COST: 1,024 256 {{.*}} column m_f_columns
// 16,384 rows of 32 columns: a thread has 1, in 512 parts.
// COST: 512 256 {{.*}} 0% {{.*}} column m_f_narrow
// COST: 1,024 256 {{.*}} 100% {{.*}} all m_f_all

rt.program @p batch 4096 micro 4096 seed 0 pace @m {
  rt.module @m ranks [0] arena 16781376 scratch 0 parameters 0 trainable 0 {
    rt.symbol @n of "sample" max 4096
    rt.buffer_decl @x : !rt.buffer<f32, [n, 1024]> at 0 stride 0
    rt.buffer_decl @c : !rt.buffer<f32, [1024]> at 16777216 stride 0
    rt.entry forward @f [@x, @c]

    rt.func @f(%x: !rt.buffer<f32, [n, 1024]> {rt.name = "x"}, %c: !rt.buffer<f32, [1024]> {rt.access = "inout", rt.name = "c"}) attributes {scratch_bytes = 0 : i64} {
      // CHECK-LABEL: // [] columns{{$}}
      // CHECK: const int place = (blockIdx.x % parts.blocks) * int(128) + (threadIdx.x % 32) * 4,
      // CHECK: float total[4];
      // CHECK: dt::rt::cuda::loadPacks<4, 4>([[X:.*]], x + ({{.*}} * 1024 + column));
      // CHECK: float [[V:v[0-9]+]] = (float) [[X]][[[C:[c_0-9]+]]];
      // CHECK-NEXT: total[[[C]]] = dt::rt::cuda::Add::of<float>(total[[[C]]], [[V]]);
      // CHECK: loadPacks<4, 4>(other, static_cast<float *>(parts.values) + k * parts.places + place);
      // CHECK: total[[[E:c_[0-9]+]]] = dt::rt::cuda::reduceTiles<dt::rt::cuda::Add>(total[[[E]]]);
      // CHECK: storePacks<4, 4>(static_cast<float *>(parts.values) + part * parts.places + place, total);
      // CHECK: const int own = column + [[D:.*]];
      // CHECK: float [[W:v[0-9]+]] = c[own] + total[[[D]]];
      // CHECK-NEXT: c[own] = [[W]];
      rt.kernel @columns column [] (%a = %x : !rt.buffer<f32, [n, 1024]>, %b = %c : !rt.buffer<f32, [1024]>) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %end = arith.constant 1024 : index
        %n = rt.size <n>
        scf.for %r = %c0 to %n step %c1 {
          scf.for %j = %c0 to %end step %c1 {
            %v = rt.load %a[%r, %j] : !rt.buffer<f32, [n, 1024]>
            %o = rt.load %b[%j] : !rt.buffer<f32, [1024]>
            %t = arith.addf %o, %v : f32
            rt.store %t, %b[%j] : !rt.buffer<f32, [1024]>
          } {rt.simd}
        }
      }
      // CHECK-LABEL: // [] narrow{{$}}
      // CHECK-NOT: loadPacks<{{[2-9]}}
      rt.kernel @narrow column [] (%a = %x : !rt.buffer<f32, [n, 1024]> as !rt.buffer<f32, [4*n, 256]>, %b = %c : !rt.buffer<f32, [1024]>) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %end = arith.constant 32 : index
        %n = rt.size <4*n>
        scf.for %r = %c0 to %n step %c1 {
          scf.for %j = %c0 to %end step %c1 {
            %v = rt.load %a[%r, %j] : !rt.buffer<f32, [4*n, 256]>
            %o = rt.load %b[%j] : !rt.buffer<f32, [1024]>
            %t = arith.addf %o, %v : f32
            rt.store %t, %b[%j] : !rt.buffer<f32, [1024]>
          } {rt.simd}
        }
      }
      // CHECK-LABEL: // [] all{{$}}
      // CHECK: = first * 4; {{.*}} += (256 * int(parts.parts)) * 4)
      // CHECK: dt::rt::cuda::loadPacks<4, 4>(
      rt.kernel @all all [] (%a = %x : !rt.buffer<f32, [n, 1024]>, %b = %c : !rt.buffer<f32, [1024]>) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %end = arith.constant 1024 : index
        %n = rt.size <n>
        %zero = arith.constant 0.0 : f32
        %sum = scf.for %i = %c0 to %n step %c1 iter_args(%q = %zero) -> (f32) {
          %part = scf.for %r = %c0 to %end step %c1 iter_args(%p = %q) -> (f32) {
            %v = rt.load %a[%i, %r] : !rt.buffer<f32, [n, 1024]>
            %t = arith.addf %p, %v : f32
            scf.yield %t : f32
          } {rt.simd}
          scf.yield %part : f32
        }
        rt.store %sum, %b[%c0] : !rt.buffer<f32, [1024]>
      }
    }
  }
  rt.optimizer {kind = "sgd", lr = 0.1}
  rt.rank 0 {
    rt.task forward @m microbatch 0 slot 0
  }
}
// CHECK-LABEL: //===--- m.cu
// CHECK: launchColumns<float, 4>("m_f_columns"
// CHECK: launchColumns<float, 1>("m_f_narrow"
