// Integers of 8 bits: memory may be unsigned, scalars have no sign, and sums wrap around though C++ computes them as int.
// RUN: dt-opt %s --dt-print-program -o /dev/null | FileCheck %s

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.rank 0 {
  }
  rt.module @m ranks [0] arena 0 scratch 0 parameters 0 trainable 0 {
    // CHECK-LABEL: void m_forward_mean(const uint8_t* v1, uint8_t* v2) {
    // CHECK: int8_t [[HALF:v[0-9]+]] = (int8_t) ((uint8_t) ((int8_t) ((int8_t) a[i] + (int8_t) a[i])) / (uint8_t) 2);
    // CHECK-NEXT: uint8_t [[STORED:v[0-9]+]] = (uint8_t) [[HALF]];
    // CHECK-NEXT: b[i] = [[STORED]];
    rt.func @forward(%a: !rt.buffer<ui8, [4]> {rt.name = "a"}, %b: !rt.buffer<ui8, [4]> {rt.name = "b", rt.access = "out"}) {
      rt.kernel @mean [%i < 4] (%x = %a : !rt.buffer<ui8, [4]>, %y = %b : !rt.buffer<ui8, [4]>) {
        %v = rt.load %x[%i] : !rt.buffer<ui8, [4]>
        %w = rt.load %x[%i] : !rt.buffer<ui8, [4]>
        %two = arith.constant 2 : i8
        %sum = arith.addi %v, %w : i8
        %half = arith.divui %sum, %two : i8
        rt.store %half, %y[%i] : !rt.buffer<ui8, [4]>
      }
    }
  }
  rt.optimizer {kind = "sgd"}
}
