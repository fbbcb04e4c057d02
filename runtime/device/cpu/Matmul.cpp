//===- Matmul.cpp - matrix products for generated code ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// oneDNN's sgemm, not its matmul primitive: on plain layouts both reach the
// same speed (measured at 264 x 192 x 192 up to 1024 x 50257 x 768), and sgemm
// needs no primitive for each new number of rows, which with ragged data
// changes every step.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu/Matmul.h"
#include "runtime/device/cpu/Dnnl.h"

#include <omp.h>

namespace dt::rt {

namespace {

/// Below this many elements waking the threads costs more than the loop.
constexpr int64_t kParallelElements = 32768;

/// c = bias (or 0) + beta * c, for the terms that sgemm has no place for.
void presetRows(const float *bias, float *c, int64_t m, int64_t n, int64_t ldc,
                float beta) {
#pragma omp parallel for schedule(static) if (m * n >= kParallelElements)
  for (int64_t i = 0; i < m; ++i) {
    float *row = c + i * ldc;
    if (beta == 0) {
#pragma omp simd
      for (int64_t j = 0; j < n; ++j)
        row[j] = bias ? bias[j] : 0.f;
    } else if (bias) {
#pragma omp simd
      for (int64_t j = 0; j < n; ++j)
        row[j] += bias[j];
    }
  }
}

} // namespace

void matmul(const float *a, const float *b, const float *bias, float *c,
            const MatmulShape &shape, float beta) {
  const MatmulShape &s = shape;
  if (s.batch == 0 || s.m == 0 || s.n == 0)
    return;
  int64_t lda = s.lda ? s.lda : s.transA ? s.m : s.k;
  int64_t ldb = s.ldb ? s.ldb : s.transB ? s.k : s.n;
  int64_t ldc = s.ldc ? s.ldc : s.n;
  auto one = [&](int64_t i) {
    const float *ai = a + i * s.strideA, *bi = b + i * s.strideB;
    float *ci = c + i * s.strideC;
    if (bias || s.k == 0)
      presetRows(bias, ci, s.m, s.n, ldc, beta);
    if (s.k == 0)
      return;
    dnnl_status_t status =
        dnnl_sgemm(s.transA ? 'T' : 'N', s.transB ? 'T' : 'N', s.m, s.n, s.k,
                   1.f, ai, lda, bi, ldb, bias ? 1.f : beta, ci, ldc);
    if (status != dnnl_success)
      libraryFailure("dnnl_sgemm", "invalid arguments");
  };
  // Many small products: one a thread. Few: all threads in each.
  if (s.batch >= omp_get_max_threads() && s.batch > 1) {
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < s.batch; ++i)
      one(i);
    return;
  }
  for (int64_t i = 0; i < s.batch; ++i)
    one(i);
}

} // namespace dt::rt
