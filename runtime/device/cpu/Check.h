//===- Check.h - are indices from data in range? ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CPU_CHECK_H
#define DT_RUNTIME_DEVICE_CPU_CHECK_H

#include "runtime/data/IndexCheck.h"

namespace dt::rt {

/// Takes down the first run of elements that has other than `extent` places.
template <typename T>
void checkPlaces(const T *indices, int64_t n, const IndexCheck &check,
                 Fault *fault) {
  for (int64_t i = check.per - 1; i < n; i += check.per)
    if (int64_t(indices[i]) + 1 != check.extent * ((i + 1) / check.per)) {
      *fault = {1, check, int64_t(indices[i]), i};
      return;
    }
}

/// Takes down the first of n indices that is out of range; see Fault.h. One
/// pass over the indices, which are few beside what they select.
template <typename T>
void checkIndices(const T *indices, int64_t n, const IndexCheck &check,
                  Fault *fault) {
  if (!fault || fault->found)
    return;
  if (check.per > 0)
    return checkPlaces(indices, n, check, fault);
  const int64_t low = check.wrap && !check.local ? -check.extent : 0;
  const int64_t high = check.extent, base = check.base;
  const int64_t ignored = check.ignores ? check.ignored : low;
  auto isWrong = [=](int64_t v) {
    return int((v < low) | (v >= high)) & int((v != ignored) | !check.ignores);
  };
  const int64_t begin = check.offset, step = check.stride;
  int wrong = 0;
#pragma omp simd reduction(| : wrong)
  for (int64_t i = begin; i < n; i += step)
    wrong |= isWrong(int64_t(indices[i]) + base);
  if (!wrong)
    return;
  for (int64_t i = begin; i < n; i += step)
    if (isWrong(int64_t(indices[i]) + base)) {
      *fault = {1, check, int64_t(indices[i]) + base, i};
      return;
    }
}

} // namespace dt::rt

#endif // DT_RUNTIME_DEVICE_CPU_CHECK_H
