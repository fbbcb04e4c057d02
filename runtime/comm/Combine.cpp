//===- Combine.cpp - reductions of what MPI has no type for ---------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Combine.h"

#include <algorithm>

namespace dt::rt {

namespace {

constexpr int64_t kCombined = 2048; ///< elements at a time, in the cache

template <typename Op>
void combineBlocks(Op op, const bf16 *blocks, int count, bf16 *out, int64_t n) {
#pragma omp parallel for schedule(static) if (n > 8 * kCombined)
  for (int64_t at = 0; at < n; at += kCombined) {
    float sums[kCombined];
    int64_t size = std::min(kCombined, n - at);
#pragma omp simd
    for (int64_t i = 0; i < size; ++i)
      sums[i] = blocks[at + i];
    for (int b = 1; b < count; ++b) {
      const bf16 *block = blocks + b * n + at;
#pragma omp simd
      for (int64_t i = 0; i < size; ++i)
        sums[i] = op(sums[i], float(block[i]));
    }
#pragma omp simd
    for (int64_t i = 0; i < size; ++i)
      out[at + i] = sums[i];
  }
}

} // namespace

void combine(Reduction kind, const bf16 *blocks, int count, bf16 *out,
             int64_t n) {
  switch (kind) {
  case Reduction::Sum:
    return combineBlocks([](float a, float b) { return a + b; }, blocks, count,
                         out, n);
  case Reduction::Max:
    return combineBlocks([](float a, float b) { return a < b ? b : a; }, blocks,
                         count, out, n);
  case Reduction::Min:
    return combineBlocks([](float a, float b) { return b < a ? b : a; }, blocks,
                         count, out, n);
  }
}

} // namespace dt::rt
