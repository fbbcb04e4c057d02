// What a kernel's shape follows from: its loops and sizes, not its name.
// RUN: dt-opt %s --rt-shape-kernels | FileCheck %s

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.rank 0 {
  }
  rt.module @m ranks [0] arena 0 scratch 0 parameters 0 trainable 0 {
    rt.symbol @n of "sample" max 512

    rt.func @f(%x: !rt.buffer<f32, [n, 64]>, %y: !rt.buffer<f32, [n]> {rt.access = "inout"}, %c: !rt.buffer<f32, [64]> {rt.access = "inout"}, %s: !rt.buffer<f32, []> {rt.access = "out"}) {
      // CHECK: rt.kernel @a point [
      rt.kernel @a [%i < n] (%b = %y : !rt.buffer<f32, [n]>) {
        %v = rt.load %b[%i] : !rt.buffer<f32, [n]>
        %w = arith.addf %v, %v : f32
        rt.store %w, %b[%i] : !rt.buffer<f32, [n]>
      }
      // A point's row, along memory.
      // CHECK: rt.kernel @b row [
      rt.kernel @b [%i < n] (%a = %x : !rt.buffer<f32, [n, 64]>, %b = %y : !rt.buffer<f32, [n]>) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c64 = arith.constant 64 : index
        %zero = arith.constant 0.0 : f32
        %sum = scf.for %r = %c0 to %c64 step %c1 iter_args(%p = %zero) -> (f32) {
          %v = rt.load %a[%i, %r] : !rt.buffer<f32, [n, 64]>
          %t = arith.addf %p, %v : f32
          scf.yield %t : f32
        } {rt.simd}
        rt.store %sum, %b[%i] : !rt.buffer<f32, [n]>
      }
      // The same loop across memory: a thread a point reads along it.
      // CHECK: rt.kernel @c point [
      rt.kernel @c [%i < 64] (%a = %x : !rt.buffer<f32, [n, 64]>, %b = %c : !rt.buffer<f32, [64]>) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %n = rt.size <n>
        %zero = arith.constant 0.0 : f32
        %sum = scf.for %r = %c0 to %n step %c1 iter_args(%p = %zero) -> (f32) {
          %v = rt.load %a[%r, %i] : !rt.buffer<f32, [n, 64]>
          %t = arith.addf %p, %v : f32
          scf.yield %t : f32
        } {rt.simd}
        rt.store %sum, %b[%i] : !rt.buffer<f32, [64]>
      }
      // Too short for a warp.
      // CHECK: rt.kernel @d point [
      rt.kernel @d [%i < 8*n] (%a = %x : !rt.buffer<f32, [n, 64]> as !rt.buffer<f32, [8*n, 8]>) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c8 = arith.constant 8 : index
        scf.for %r = %c0 to %c8 step %c1 {
          %v = rt.load %a[%i, %r] : !rt.buffer<f32, [8*n, 8]>
          %w = arith.addf %v, %v : f32
          rt.store %w, %a[%i, %r] : !rt.buffer<f32, [8*n, 8]>
        } {rt.simd}
      }
      // A running sum: its order matters.
      // CHECK: rt.kernel @e point [
      rt.kernel @e [%i < n] (%a = %x : !rt.buffer<f32, [n, 64]>) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c64 = arith.constant 64 : index
        %zero = arith.constant 0.0 : f32
        %sum = scf.for %r = %c0 to %c64 step %c1 iter_args(%p = %zero) -> (f32) {
          %v = rt.load %a[%i, %r] : !rt.buffer<f32, [n, 64]>
          %t = arith.addf %p, %v : f32
          rt.store %t, %a[%i, %r] : !rt.buffer<f32, [n, 64]>
          scf.yield %t : f32
        }
      }
      // Rows are added up in memory, a cell a column.
      // CHECK: rt.kernel @f column [
      rt.kernel @f [%i < 4] (%a = %x : !rt.buffer<f32, [n, 64]>, %b = %c : !rt.buffer<f32, [64]>) {
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
      // All in one value, over a loop of two dims.
      // CHECK: rt.kernel @g all [
      rt.kernel @g [] (%a = %x : !rt.buffer<f32, [n, 64]>, %b = %s : !rt.buffer<f32, []>) {
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
    }
  }
}
