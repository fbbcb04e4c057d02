//===- Wide.h - narrow operands as floats, for a call -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Where a processor multiplies floats only: operands are widened into scratch
// memory, the call is made in float, results are rounded.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CPU_WIDE_H
#define DT_RUNTIME_DEVICE_CPU_WIDE_H

#include "runtime/device/Floats.h"

#include <vector>

namespace dt::rt {

/// Float views of memory that one call reads and writes; floats are seen where
/// they are. One at a time, by the thread that runs the step.
class Wide {
public:
  Wide();
  /// Rounds results into their places.
  ~Wide();
  Wide(const Wide &) = delete;
  Wide &operator=(const Wide &) = delete;

  /// `n` elements to be read.
  const float *in(const bf16 *from, int64_t n);
  const float *in(const float *from, int64_t) { return from; }
  const float *in(Floats from, int64_t n) {
    return from.narrow ? in(from.narrow, n) : from.wide;
  }
  /// `n` elements to be written; `keep`: not all of them, or added to.
  float *out(bf16 *to, int64_t n, bool keep = false);
  float *out(float *to, int64_t, bool = false) { return to; }
  /// `count` pieces of `n` elements to be written, piece i at place(i).
  template <typename Place>
  float *out(bf16 *to, int64_t count, int64_t n, Place place) {
    float *from = to ? allocate(count * n) : nullptr;
    for (int64_t i = 0; from && i < count; ++i)
      results.push_back({from + i * n, to + place(i), n});
    return from;
  }

private:
  static float *allocate(int64_t n);
  struct Result {
    const float *from;
    bf16 *to;
    int64_t count;
  };
  std::vector<Result> results;
};

} // namespace dt::rt

#endif // DT_RUNTIME_DEVICE_CPU_WIDE_H
