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

inline __device__ int64_t segmentAt(const void *numbers, SegmentKind kind,
                                    int64_t at) {
  return kind == SegmentKind::Int32 ? static_cast<const int32_t *>(numbers)[at]
                                    : static_cast<const int64_t *>(numbers)[at];
}
inline __device__ int64_t querySegment(const AttentionMask &mask,
                                       const AttentionShape &s, int64_t b,
                                       int64_t i) {
  return segmentAt(mask.ofQueries, s.segments,
                   b * s.querySegmentB + i * s.querySegmentT);
}
inline __device__ int64_t keySegment(const AttentionMask &mask,
                                     const AttentionShape &s, int64_t b,
                                     int64_t j) {
  return segmentAt(mask.ofKeys, s.segments, b * s.keySegmentB + j);
}

/// Whether the causal rule, the window and segments let query i see key j.
inline __device__ bool isVisible(const AttentionMask &mask,
                                 const AttentionShape &s, int64_t b, int64_t i,
                                 int64_t j) {
  int64_t behind = s.getPlace(i) - s.keyStripes.getPlace(j);
  if ((s.causal && behind < 0) ||
      (s.window && (behind >= s.window || (!s.causal && -behind >= s.window))))
    return false;
  return s.segments == SegmentKind::None ||
         querySegment(mask, s, b, i) == keySegment(mask, s, b, j);
}

/// What the mask adds to the score of query i and key j; -inf hides it.
inline __device__ float maskOf(const AttentionMask &mask,
                               const AttentionShape &s, int64_t b, int64_t h,
                               int64_t i, int64_t j) {
  int64_t at = b * s.maskB + h * s.maskH + i * s.maskT + j * s.maskS;
  switch (s.mask) {
  case MaskKind::None:
    return 0;
  case MaskKind::Additive:
    return static_cast<const float *>(mask.mask)[at];
  case MaskKind::AdditiveNarrow:
    return static_cast<const bf16 *>(mask.mask)[at];
  case MaskKind::Boolean:
    return static_cast<const uint8_t *>(mask.mask)[at] ? 0.f : -INFINITY;
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
