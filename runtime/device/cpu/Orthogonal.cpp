//===- Orthogonal.cpp - Muon on the CPU -----------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/Orthogonal.h"
#include "runtime/device/cpu/Snapshot.h"

#include <cmath>

namespace dt::rt::device {

namespace {

constexpr size_t kParallel = 16384; ///< elements, for threads to be woken

template <typename F> void forRange(size_t n, const F &f) {
#pragma omp parallel for schedule(static) if (n > kParallel)
  for (int64_t i = 0; i < int64_t(n); ++i)
    f(size_t(i));
}

} // namespace

void orthogonalMeans(const UpdateStep &step, const Runs<OrthogonalRun> &runs,
                     float *whole, const Verdict *verdict) {
  if (!verdict->applies)
    return;
  awaitSnapshot();
  optimizers::Muon rule(step);
  auto scale = float(verdict->scale);
  for (size_t r = 0; r < runs.count; ++r)
    forRange(runs.table[r].count, [&](size_t i) {
      meanElement(rule, runs.table[r], i, scale, whole);
    });
}

void orthogonalize(const UpdateStep &step, const Runs<FloatRun> &values,
                   float *matrix, size_t rows, size_t columns,
                   const OrthogonalScratch &s) {
  optimizers::Muon rule(step);
  sumOfSquares(s.norm, values);
  float norm = std::max(float(std::sqrt(*s.norm)), rule.leastNorm);
  size_t n = rows * columns;
  forRange(n, [&](size_t i) { s.narrow[i] = matrix[i] / norm; });
  newtonSchulz(
      rule, matrix, rows, columns, s,
      [](const bf16 *a, const bf16 *b, auto *c, const MatmulShape &shape) {
        matmul(a, b, Floats(nullptr), c, shape);
      },
      [](size_t count, bf16 *out, float a, const bf16 *x, float b,
         const float *y) {
        forRange(count, [&](size_t i) { out[i] = a * float(x[i]) + b * y[i]; });
      });
  widen(matrix, s.narrow, n);
}

void orthogonalUpdate(const UpdateStep &step, const Runs<OrthogonalRun> &runs,
                      const float *whole, double rows, double columns,
                      const Verdict *verdict) {
  if (!verdict->applies)
    return;
  optimizers::Muon rule(step);
  float rate = rule.rate(rows, columns), weight = float(1 - step.averageDecay);
  for (size_t r = 0; r < runs.count; ++r)
    forRange(runs.table[r].count, [&](size_t i) {
      applyElement(rule, runs.table[r], i, rate, weight, whole);
    });
}

} // namespace dt::rt::device
