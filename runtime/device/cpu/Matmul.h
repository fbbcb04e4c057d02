//===- Matmul.h - matrix products for generated code ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// One call for every product in a program: forward, input gradient and weight
// gradient differ by flags only. Backed by oneDNN; primitives are cached by
// shape, so that a steady step creates and allocates nothing.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CPU_MATMUL_H
#define DT_RUNTIME_DEVICE_CPU_MATMUL_H

#include "runtime/device/Floats.h"

#include <cstdint>

namespace dt::rt {

/// Row-major C[i] = op(A[i]) * op(B[i]) for i < batch; op(A) is m x k, op(B) is
/// k x n. lda, ldb, ldc are the row strides of the matrices *as stored* (of A,
/// not op(A)), in elements; 0: dense. strideX: elements from one batch item to
/// the next; 0 = the same matrix for all (A or B only). tf32: floats of A and B
/// may be rounded to TF32 (10 bits behind the point) where that is faster; a
/// CPU does not.
struct MatmulShape {
  int64_t batch, m, n, k;
  bool transA, transB;
  int64_t strideA, strideB, strideC;
  int64_t lda, ldb, ldc;
  bool tf32 = false;
};

/// c = op(a) * op(b) + bias + beta * c. `bias`: n floats or null. beta is 0
/// or 1. Zero m, n or batch: nothing. Zero k: c = bias + beta * c. y = x W^T (+
/// b): {1, rows, out, in, false, true, ...}; dx = dy W: {1, rows, in, out}; dW
/// += dy^T x: {1, out, in, rows, true, false, ...} with beta 1.
void matmul(const float *a, const float *b, const float *bias, float *c,
            const MatmulShape &shape, float beta = 0);
/// The same of narrow operands, summed in float; a narrow result is rounded
/// once.
void matmul(const bf16 *a, const bf16 *b, Floats bias, float *c,
            const MatmulShape &shape, float beta = 0);
void matmul(const bf16 *a, const bf16 *b, Floats bias, bf16 *c,
            const MatmulShape &shape, float beta = 0);

/// How oneDNN's primitive multiplies (of floats for tests only): T is float or
/// bf16, C too, and float where T is.
template <typename T, typename C>
void matmulPrimitive(const T *a, const T *b, Floats bias, C *c,
                     const MatmulShape &shape, float beta);

} // namespace dt::rt

#endif // DT_RUNTIME_DEVICE_CPU_MATMUL_H
