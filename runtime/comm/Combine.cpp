//===- Combine.cpp - what elements of several ranks give ------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Combine.h"
#include "runtime/base/Error.h"
#include "runtime/device/BFloat16.h"

#include <algorithm>

namespace dt::rt {

namespace {

constexpr int64_t kCombined = 2048; ///< elements at a time, in the cache

/// `Sum`: what elements of type T are combined in.
template <typename Sum, typename T, typename Op>
void combineBlocks(Op op, const T *blocks, int count, T *out, int64_t n) {
#pragma omp parallel for schedule(static) if (n > 8 * kCombined)
  for (int64_t at = 0; at < n; at += kCombined) {
    Sum sums[kCombined];
    int64_t size = std::min(kCombined, n - at);
#pragma omp simd
    for (int64_t i = 0; i < size; ++i)
      sums[i] = blocks[at + i];
    for (int b = 1; b < count; ++b) {
      const T *block = blocks + b * n + at;
#pragma omp simd
      for (int64_t i = 0; i < size; ++i)
        sums[i] = op(sums[i], Sum(block[i]));
    }
#pragma omp simd
    for (int64_t i = 0; i < size; ++i)
      out[at + i] = sums[i];
  }
}

template <typename Sum, typename T>
void combineAll(Reduction kind, const void *blocks, int count, void *out,
                int64_t n) {
  auto *from = static_cast<const T *>(blocks);
  auto *to = static_cast<T *>(out);
  switch (kind) {
  case Reduction::Sum:
    return combineBlocks<Sum>([](Sum a, Sum b) { return a + b; }, from, count,
                              to, n);
  case Reduction::Max:
    return combineBlocks<Sum>([](Sum a, Sum b) { return a < b ? b : a; }, from,
                              count, to, n);
  case Reduction::Min:
    return combineBlocks<Sum>([](Sum a, Sum b) { return b < a ? b : a; }, from,
                              count, to, n);
  }
}

} // namespace

void expectCombined(DType type) {
  if (type != DType::F32 && type != DType::F64 && type != DType::I64 &&
      type != DType::BF16)
    throw Error("ranks combine f32, f64, i64 or bf16");
}

void combine(Reduction kind, DType type, const void *blocks, int count,
             void *out, int64_t n) {
  switch (type) {
  case DType::BF16:
    return combineAll<float, bf16>(kind, blocks, count, out, n);
  case DType::F32:
    return combineAll<float, float>(kind, blocks, count, out, n);
  case DType::F64:
    return combineAll<double, double>(kind, blocks, count, out, n);
  case DType::I64:
    return combineAll<int64_t, int64_t>(kind, blocks, count, out, n);
  default:
    expectCombined(type);
  }
}

} // namespace dt::rt
