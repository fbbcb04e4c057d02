//===- Orthogonal.h - Muon's update of matrices -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A parameter at a time: its means into `whole`, which ranks that have parts
// add up (state/Wholes.h); Newton-Schulz iterations of each of its matrices, in
// place; and the update of what this rank has. The iterations are
// torch.optim.Muon's: in bf16, products summed in float and rounded once.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_ORTHOGONAL_H
#define DT_RUNTIME_DEVICE_ORTHOGONAL_H

#include "runtime/device/Device.h"
#include "runtime/device/cpu/Matmul.h"

namespace dt::rt::device {

/// Elements that this rank updates and that follow one another in the whole.
struct OrthogonalRun {
  UpdateRun run; ///< its one moment: the mean
  size_t count;
  size_t place; ///< of the first, in the whole
  bool counts;  ///< in the sum over ranks; else another rank has them as well
};

/// Memory of the largest matrix of a rank: `narrow` [rows * columns], of the
/// shorter side squared `gram` and `square`.
struct OrthogonalScratch {
  bf16 *narrow, *gram;
  float *square;
  double *norm; ///< [1]
};

/// Means, and from them what is to be orthogonal; `whole` has zeros.
void orthogonalMeans(const UpdateStep &step, const Runs<OrthogonalRun> &runs,
                     float *whole, const Verdict *verdict);
/// A matrix becomes nearly orthogonal. `values`: it as a table of one run.
void orthogonalize(const UpdateStep &step, const Runs<FloatRun> &values,
                   float *matrix, size_t rows, size_t columns,
                   const OrthogonalScratch &scratch);
/// Parameters, of a parameter [rows, columns] without padding.
void orthogonalUpdate(const UpdateStep &step, const Runs<OrthogonalRun> &runs,
                      const float *whole, double rows, double columns,
                      const Verdict *verdict);

DT_HOST_DEVICE inline void meanElement(const optimizers::Muon &rule,
                                       const OrthogonalRun &r, size_t i,
                                       float scale, float *whole) {
  float u = rule.mean(r.run.moments.at[0][i], r.run.gradients[i] * scale);
  if (r.counts)
    whole[r.place + i] = u;
}

DT_HOST_DEVICE inline void applyElement(const optimizers::Muon &rule,
                                        const OrthogonalRun &r, size_t i,
                                        float rate, float weight,
                                        const float *whole) {
  rule.apply(r.run.parameters[i], whole[r.place + i], rate);
  if (r.run.working)
    r.run.working[i] = r.run.parameters[i];
  if (r.run.average)
    averageElement(r.run.average + i, r.run.parameters[i], weight);
}

/// The iterations of `scratch.narrow`, X, with a target's calls:
///   multiply(A, B, C, shape), C in bf16 or float
///   combine(n, out, a, x, b, y): out[i] = a x[i] + b y[i], in bf16
/// G = X X^T or, where that is smaller, X^T X; X <- a X + (b G + c G G) X, or
/// from the other side. `matrix` is written meanwhile.
template <typename Multiply, typename Combine>
void newtonSchulz(const optimizers::Muon &rule, float *matrix, size_t rows,
                  size_t columns, const OrthogonalScratch &s,
                  const Multiply &multiply, const Combine &combine) {
  auto m = int64_t(rows), n = int64_t(columns);
  bool wide = m <= n;
  int64_t side = wide ? m : n, length = wide ? n : m;
  auto product = [](int64_t m, int64_t n, int64_t k, bool transA, bool transB) {
    return MatmulShape{1, m, n, k, transA, transB, 0, 0, 0, 0, 0, 0};
  };
  for (int i = 0; i < rule.iterations; ++i) {
    multiply(s.narrow, s.narrow, s.gram,
             product(side, side, length, !wide, wide));
    multiply(s.gram, s.gram, s.square, product(side, side, side, false, false));
    combine(size_t(side * side), s.gram, rule.b, s.gram, rule.c, s.square);
    if (wide)
      multiply(s.gram, s.narrow, matrix, product(m, n, m, false, false));
    else
      multiply(s.narrow, s.gram, matrix, product(m, n, n, false, false));
    combine(rows * columns, s.narrow, rule.a, s.narrow, 1.f, matrix);
  }
}

} // namespace dt::rt::device

#endif // DT_RUNTIME_DEVICE_ORTHOGONAL_H
