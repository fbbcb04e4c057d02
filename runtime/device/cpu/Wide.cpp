//===- Wide.cpp - narrow operands as floats, for a call ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu/Wide.h"
#include "runtime/device/cpu/Dnnl.h"

namespace dt::rt {

namespace {

/// Not threadScratch(), which the float calls begin anew.
Scratch &wideScratch() {
  static thread_local Scratch scratch;
  return scratch;
}

template <typename To, typename From>
void convert(To *__restrict to, const From *__restrict from, int64_t n) {
#pragma omp parallel for simd schedule(static) if (parallel : n >= 65536)
  for (int64_t i = 0; i < n; ++i)
    to[i] = float(from[i]);
}

} // namespace

Wide::Wide() { wideScratch().reset(); }

Wide::~Wide() {
  for (const Result &result : results)
    convert(result.to, result.from, result.count);
}

float *Wide::allocate(int64_t n) { return wideScratch().floats(size_t(n)); }

const float *Wide::in(const bf16 *from, int64_t n) {
  if (!from)
    return nullptr;
  float *to = allocate(n);
  convert(to, from, n);
  return to;
}

float *Wide::out(bf16 *to, int64_t n, bool keep) {
  if (!to)
    return nullptr;
  float *from = allocate(n);
  if (keep)
    convert(from, to, n);
  results.push_back({from, to, n});
  return from;
}

} // namespace dt::rt
