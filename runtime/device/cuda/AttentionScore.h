//===- AttentionScore.h - what a mask does to a score -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CUDA_ATTENTIONSCORE_H
#define DT_RUNTIME_DEVICE_CUDA_ATTENTIONSCORE_H

#include "runtime/device/cuda/AttentionMask.h"
#include "runtime/device/cuda/Cuda.h"

#include <cmath>

namespace dt::rt {

/// Whether the causal rule lets query i see key j.
inline __device__ bool isVisible(const AttentionShape &s, int64_t i,
                                 int64_t j) {
  return !s.causal || j <= i + (s.s - s.t);
}

/// What the mask adds to the score of query i and key j; -inf hides it.
inline __device__ float maskOf(const void *mask, const AttentionShape &s,
                               int64_t b, int64_t h, int64_t i, int64_t j) {
  int64_t at = b * s.maskB + h * s.maskH + i * s.maskT + j * s.maskS;
  switch (s.mask) {
  case MaskKind::None:
    return 0;
  case MaskKind::Additive:
    return static_cast<const float *>(mask)[at];
  case MaskKind::AdditiveNarrow:
    return static_cast<const bf16 *>(mask)[at];
  case MaskKind::Boolean:
    return static_cast<const uint8_t *>(mask)[at] ? 0.f : -INFINITY;
  }
  return 0;
}

/// The set's queries in a tile, a bit each.
inline __device__ uint64_t getWord(const Queries &set, int64_t b, int64_t h,
                                   int64_t tile) {
  return set.words ? set.words[b * set.ofBatch + h * set.ofHead + tile]
                   : ~uint64_t(0);
}

inline __device__ bool contains(const Queries &set, int64_t b, int64_t h,
                                int64_t i) {
  return getWord(set, b, h, i / kQueryTile) >> (i % kQueryTile) & 1;
}

} // namespace dt::rt

#endif // DT_RUNTIME_DEVICE_CUDA_ATTENTIONSCORE_H
