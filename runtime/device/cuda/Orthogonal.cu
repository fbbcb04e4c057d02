//===- Orthogonal.cu - Muon on the GPU ------------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Products are cuBLASLt's, of bf16 on tensor cores.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/Orthogonal.h"
#include "runtime/device/cuda/Calls.h"
#include "runtime/device/cuda/Cuda.h"

#include <algorithm>
#include <cmath>

namespace dt::rt {

namespace {

using device::OrthogonalRun;
using device::Runs;
using optimizers::Muon;

constexpr int kThreads = 256;
constexpr unsigned kBlocks = 1024;

__global__ void meansKernel(Muon rule, Runs<OrthogonalRun> runs, float *whole,
                            const Verdict *verdict) {
  if (!verdict->applies)
    return;
  const float scale = float(verdict->scale);
  for (size_t r = 0; r < runs.count; ++r) {
    const OrthogonalRun run = runs.table[r];
    for (size_t i = blockIdx.x * size_t(kThreads) + threadIdx.x; i < run.count;
         i += size_t(gridDim.x) * kThreads)
      device::meanElement(rule, run, i, scale, whole);
  }
}

__global__ void divideKernel(bf16 *narrow, const float *matrix, size_t n,
                             const double *squares, float leastNorm) {
  const float root = float(sqrt(*squares)),
              norm = root < leastNorm ? leastNorm : root;
  for (size_t i = blockIdx.x * size_t(kThreads) + threadIdx.x; i < n;
       i += size_t(gridDim.x) * kThreads)
    narrow[i] = matrix[i] / norm;
}

/// `out` may be `x`.
__global__ void combineKernel(bf16 *out, size_t n, float a, const bf16 *x,
                              float b, const float *y) {
  for (size_t i = blockIdx.x * size_t(kThreads) + threadIdx.x; i < n;
       i += size_t(gridDim.x) * kThreads)
    out[i] = a * float(x[i]) + b * y[i];
}

__global__ void applyKernel(Muon rule, float rate, float weight,
                            Runs<OrthogonalRun> runs, const float *whole,
                            const Verdict *verdict) {
  if (!verdict->applies)
    return;
  for (size_t r = 0; r < runs.count; ++r) {
    const OrthogonalRun run = runs.table[r];
    for (size_t i = blockIdx.x * size_t(kThreads) + threadIdx.x; i < run.count;
         i += size_t(gridDim.x) * kThreads)
      device::applyElement(rule, run, i, rate, weight, whole);
  }
}

unsigned blocksOf(size_t n) {
  return std::min(cuda::blocksFor(int64_t(n), kThreads), kBlocks);
}

} // namespace

namespace device {

void orthogonalMeans(const UpdateStep &step, const Runs<OrthogonalRun> &runs,
                     float *whole, const Verdict *verdict) {
  cuda::awaitSnapshot();
  cuda::launch("muon, means", meansKernel, blocksOf(runs.longest), kThreads, 0,
               stream(), Muon(step), runs, whole, verdict);
}

void orthogonalize(const UpdateStep &step, const Runs<FloatRun> &values,
                   float *matrix, size_t rows, size_t columns,
                   const OrthogonalScratch &s) {
  Muon rule(step);
  size_t n = rows * columns;
  sumOfSquares(s.norm, values);
  cuda::launch("muon, norm", divideKernel, blocksOf(n), kThreads, 0, stream(),
               s.narrow, matrix, n, s.norm, rule.leastNorm);
  newtonSchulz(
      rule, matrix, rows, columns, s,
      [](const bf16 *a, const bf16 *b, auto *c, const MatmulShape &shape) {
        matmul(a, b, Floats(nullptr), c, shape, 0, stream());
      },
      [](size_t count, bf16 *out, float a, const bf16 *x, float b,
         const float *y) {
        cuda::launch("muon, iteration", combineKernel, blocksOf(count),
                     kThreads, 0, stream(), out, count, a, x, b, y);
      });
  widen(matrix, s.narrow, n);
}

void orthogonalUpdate(const UpdateStep &step, const Runs<OrthogonalRun> &runs,
                      const float *whole, double rows, double columns,
                      const Verdict *verdict) {
  Muon rule(step);
  cuda::launch("muon", applyKernel, blocksOf(runs.longest), kThreads, 0,
               stream(), rule, rule.rate(rows, columns),
               float(1 - step.averageDecay), runs, whole, verdict);
}

} // namespace device
} // namespace dt::rt
