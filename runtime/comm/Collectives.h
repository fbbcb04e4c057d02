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

/// This rank's place on an axis, or that of the rank so many behind it.
int64_t placeOnAxis(const TensorParallel *group, int64_t over, int64_t stride,
                    int64_t behind = 0);

/// What generated code asks of an axis. A block has [outer][chunk] elements;
/// `chunk` counts those of all inner dims together. What the kind scatters
/// (`in`) or gathers (`out`) is [outer][over][chunk]: a block for, or of, every
/// rank of the axis in their order (CollectiveForm). With `pitch`, of kinds
/// that do one of the two, chunks of the other side's block are so far apart.
struct Collective {
  CollectiveKind kind;
  Reduction reduction = Reduction::Sum; ///< of kinds that combine
  DType type;
  int64_t outer = 1, chunk, pitch = 0;
  int64_t over, stride;
};

/// `in` may be `out` if the kind combines and does not scatter. What is
/// combined has the same bits in every run and, of one block, on all ranks of
/// the axis; of BF16 it is combined in float32 and rounded once (over NCCL:
/// each partial sum). `stream`: where it is queued; null: device::stream().
void collective(TensorParallel *group, const Collective &what, const void *in,
                void *out, void *stream = nullptr);

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
