//===- Memory.h - fills and copies of generated code ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CPU_MEMORY_H
#define DT_RUNTIME_DEVICE_CPU_MEMORY_H

#include <cstdint>

namespace dt::rt {

/// to[i] = value, i < n.
template <typename T> void fill(T *to, T value, int64_t n) {
#pragma omp parallel for simd schedule(static) if (parallel : n > 65536)
  for (int64_t i = 0; i < n; ++i)
    to[i] = value;
}

/// to[i] = from[i], i < n; the arrays do not overlap.
template <typename T>
void copy(T *__restrict to, const T *__restrict from, int64_t n) {
#pragma omp parallel for simd schedule(static) if (parallel : n > 65536)
  for (int64_t i = 0; i < n; ++i)
    to[i] = from[i];
}

} // namespace dt::rt

#endif // DT_RUNTIME_DEVICE_CPU_MEMORY_H
