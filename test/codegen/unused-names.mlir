// What a kernel's body does not use has no name there: compilers warn of such names. The place of each neighbour, a size that only shapes have, a pointer.
// RUN: dt-opt %s --dt-print-program=target=cuda -o /dev/null | FileCheck %s

rt.program @p batch 64 micro 64 seed 0 pace @m {
  rt.module @m ranks [0] arena 49152 scratch 0 parameters 0 trainable 0 {
    rt.symbol @n of "sample" max 64
    rt.buffer_decl @x : !rt.buffer<f32, [64, n]> at 0 stride 0
    rt.buffer_decl @y : !rt.buffer<f32, [64]> at 16384 stride 0
    rt.buffer_decl @z : !rt.buffer<f32, [64]> at 32768 stride 0
    rt.entry forward @f [@x, @y, @z]

    rt.func @f(%x: !rt.buffer<f32, [64, n]> {rt.name = "x"}, %y: !rt.buffer<f32, [64]> {rt.access = "out", rt.name = "y"}, %z: !rt.buffer<f32, [64]> {rt.name = "z"}) attributes {scratch_bytes = 0 : i64} {
      // CHECK-LABEL: // [64] packs{{$}}
      // CHECK-NEXT: __global__ void m_f_packs(
      // CHECK-NEXT: float *__restrict const y = v2;
      // CHECK-NEXT: const float *__restrict const z = v3;
      // CHECK-NEXT: const int point =
      // CHECK-NEXT: if (point >= 64) {
      // CHECK-NEXT: return;
      // CHECK-NEXT: }
      // CHECK-NEXT: const int i = point;
      // CHECK-NEXT: float z_2[4];
      // CHECK-NEXT: loadPacks
      // CHECK-NEXT: float y_2[4];
      // CHECK-NEXT: #pragma unroll
      // CHECK-NEXT: for (
      // CHECK-NEXT: const int c = {{.*}};
      // CHECK-NEXT: y_2[c] = -z_2[c];
      // CHECK-NEXT: }
      rt.kernel @packs point [%i < 64] (%a = %x : !rt.buffer<f32, [64, n]>, %b = %y : !rt.buffer<f32, [64]>, %c = %z : !rt.buffer<f32, [64]>) {
        %v = rt.load %c[%i] : !rt.buffer<f32, [64]>
        %t = arith.negf %v : f32
        rt.store %t, %b[%i] : !rt.buffer<f32, [64]>
      }
    }
  }
  rt.optimizer {kind = "sgd", lr = 0.1}
  rt.rank 0 {
    rt.task forward @m microbatch 0 slot 0
  }
}
