//===- Collectives.h - what ranks of one replica do together ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Called by generated functions, on all ranks of a tensor-parallel group in the
// same order. An axis is `over` n with `stride` s: ranks of the group that
// differ only in (rank / s) mod n (docs/sharding.md). Buffers are those of the
// device that the program is for; they do not overlap unless said. Sizes may be
// 0. Every call does nothing more than a copy where the axis has one rank.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_COLLECTIVES_H
#define DT_RUNTIME_COMM_COLLECTIVES_H

#include "runtime/Program.h"

namespace dt::rt {

/// This rank's place on an axis.
int64_t placeOnAxis(const TensorParallel *group, int64_t over, int64_t stride);

/// `out` (count elements) = the combination over the axis; `in` may be `out`.
/// F32 and I64; the same bits on all ranks of the axis, in every run.
void allReduce(TensorParallel *group, Reduction kind, DType type,
               const void *in, void *out, int64_t count, int64_t over,
               int64_t stride);

/// `in` is [outer][chunk], `out` [outer][over][chunk]; `chunk` counts elements
/// of all inner dims together.
void allGather(TensorParallel *group, DType type, const void *in, void *out,
               int64_t outer, int64_t chunk, int64_t over, int64_t stride);

/// `in` is [outer][over][chunk], `out` [outer][chunk]: this rank's part of the
/// sum.
void reduceScatter(TensorParallel *group, DType type, const void *in, void *out,
                   int64_t outer, int64_t chunk, int64_t over, int64_t stride);

/// `in` holds for every rank of the axis, one after another, `count` elements;
/// `out` receives as much from every rank in their order.
void allToAll(TensorParallel *group, DType type, const void *in, void *out,
              int64_t count, int64_t over, int64_t stride);

/// Who sums gradients while a backward function still computes others.
class GradientListener {
public:
  /// The gradients in bytes [begin, end) of the module's region are complete in
  /// this microbatch. Calls of one function follow one another from 0.
  virtual void ready(size_t begin, size_t end) = 0;

protected:
  ~GradientListener() = default;
};

inline void gradientsReady(GradientListener *listener, size_t begin,
                           size_t end) {
  if (listener)
    listener->ready(begin, end);
}

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_COLLECTIVES_H
