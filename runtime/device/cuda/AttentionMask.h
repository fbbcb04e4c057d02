//===- AttentionMask.h - masks of attention for cuDNN -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// cuDNN adds a mask to the scores. It knows no query without a key, to which it
// gives a value of its own, and it keeps one number a query from which the
// gradients compute weights again: where a mask has moved all scores far from
// 0, that number is too coarse. Such queries are marked, cuDNN's results for
// them are overwritten, and its gradients do not see them.
//
// Functions queue kernels; shapes are those of the part that cuDNN computes.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CUDA_ATTENTIONMASK_H
#define DT_RUNTIME_DEVICE_CUDA_ATTENTIONMASK_H

#include "runtime/device/cuda/Cudnn.h"

#include <cstddef>

namespace dt::rt {

/// Queries of a tile.
constexpr int kQueryTile = 64;

/// A set of queries: of each head words with one bit a query. Null: all.
struct Queries {
  const uint64_t *words = nullptr;
  int64_t ofBatch = 0, ofHead = 0; ///< words from one to the next
};

namespace cudnn {

/// Bytes of the marks of a shape that has a bias.
size_t getMarkBytes(const AttentionShape &s);
Queries getMarked(const AttentionShape &s, const uint64_t *marks);

/// Whether a query may be marked: a causal rule and a window leave none without
/// a key where there are at least as many keys as queries, and all of them.
inline bool mayBeMarked(const AttentionShape &s) {
  return s.mask != MaskKind::None || s.segments != SegmentKind::None ||
         ((s.causal || s.window) && (s.partial || s.t * s.stripes.over > s.s));
}

/// Writes the mask, the window and segments as numbers to add, the causal rule
/// among them unless it is the graph's (BiasShape), and marks queries. Keys
/// that are hidden get a number so low that they weigh 0, no infinity; marked
/// queries get zeros.
void writeBias(const AttentionShape &s, AttentionMask mask, bf16 *bias,
               uint64_t *marks, void *stream);

/// to [b, h, t] = lse, and of marked queries a number by which all their
/// weights are 0.
void coverMarked(const AttentionShape &s, const float *lse, float *to,
                 const Queries &marked, void *stream);

} // namespace cudnn

/// Overwrites what cuDNN wrote of these queries: o, lse.
void mendForward(const bf16 *q, const bf16 *k, const bf16 *v,
                 AttentionMask mask, bf16 *o, float *lse,
                 const AttentionShape &s, const Queries &queries, void *stream);
/// Overwrites their dq, and adds what they give to dk and dv.
void mendBackward(const bf16 *q, const bf16 *k, const bf16 *v,
                  AttentionMask mask, const bf16 *o, const float *lse,
                  const bf16 *doutput, bf16 *dq, bf16 *dk, bf16 *dv,
                  const AttentionShape &s, const Queries &queries,
                  void *stream);

} // namespace dt::rt

#endif // DT_RUNTIME_DEVICE_CUDA_ATTENTIONMASK_H
