//===- Floats.h - floats that may be stored narrow --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_FLOATS_H
#define DT_RUNTIME_DEVICE_FLOATS_H

#include "runtime/device/BFloat16.h"

#include <cstddef>

#ifdef __CUDACC__
#define DT_FLOATS __host__ __device__
#else
#define DT_FLOATS
#endif

namespace dt::rt {

/// The address of floats or of narrow ones, or null: what is read in either
/// type, a bias or gradients.
struct Floats {
  const float *wide = nullptr;
  const bf16 *narrow = nullptr;

  Floats(std::nullptr_t) {}
  Floats(const float *wide) : wide(wide) {}
  Floats(const bf16 *narrow) : narrow(narrow) {}

  DT_FLOATS explicit operator bool() const { return wide || narrow; }
  /// Those from the n-th on.
  Floats operator+(size_t n) const {
    return wide ? Floats(wide + n) : Floats(narrow + n);
  }
  const void *address() const {
    return wide ? static_cast<const void *>(wide) : narrow;
  }
  /// Of those that are not null.
  DT_FLOATS float operator[](int64_t i) const {
    return wide ? wide[i] : float(narrow[i]);
  }
};

} // namespace dt::rt

#undef DT_FLOATS

#endif // DT_RUNTIME_DEVICE_FLOATS_H
