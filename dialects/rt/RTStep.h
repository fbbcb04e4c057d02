//===- RTStep.h - Which rows of a rank's step are ordered -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A rank's rows are work of its compute stream, one after another, but for
// messages and sums of gradients: these begin behind what the compute stream
// has at their row, and go on beside it. A message has ended for it from the
// first row on that waits for it (docs/streams.md).
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_RT_RTSTEP_H
#define DIALECTS_RT_RTSTEP_H

#include "dialects/rt/RTOps.h"

#include <map>
#include <tuple>

namespace dt::rt {

/// What the rows of a program touch in the arenas and gradients of modules.
class StepBytes {
public:
  explicit StepBytes(ProgramOp program);

  /// Is given a row's index and the earlier rows that go on beside the compute
  /// stream, touch bytes that the row touches (one of both writing) and have
  /// not ended for it; gives the rows that it waits for.
  using Decide = llvm::function_ref<llvm::SmallVector<int32_t>(
      int32_t row, llvm::ArrayRef<int32_t> open)>;
  /// Asks for every row of a rank, in order. A row that runs where the losses
  /// of a batch are asked for has waited for a message only if another such row
  /// has, since the others do not run then.
  void walk(RankOp rank, Decide decide);
  /// What a rank's rows touch, in order: of ranks with equal lists walk() asks
  /// the same.
  std::vector<int64_t> listTouched(RankOp rank);

private:
  /// A buffer, in all slots.
  struct Access {
    const void *region; ///< the module, or its table of gradients
    int64_t offset, stride, bytes;
    SlotKind slots;
    bool writes;
  };
  /// Bytes of a region that a row touches.
  struct Range {
    const void *region;
    int64_t begin, end;
    bool writes;
    bool conflicts(const Range &other) const {
      return region == other.region && begin < other.end && other.begin < end &&
             (writes || other.writes);
    }
  };
  using Ranges = llvm::SmallVector<Range, 2>;

  Access accessOf(dt::rt::ModuleOp module, mlir::FlatSymbolRefAttr buffer,
                  bool writes) const;
  void addEntry(EntryOp entry);
  void addEdge(EdgeOp edge);
  Ranges getRanges(TaskOp row);
  /// What rows touch that name the same buffers in the same slots.
  unsigned numberOf(TaskOp row);
  /// Whether rows of these numbers touch the same bytes, one of them writing.
  bool conflict(unsigned a, unsigned b);
  /// Messages of different items of one block.
  bool fillOneBlock(TaskOp a, TaskOp b);

  /// An edge's buffers on both ends, forward and back.
  struct Edge {
    Access output, input, produced, consumed;
    bool isBatch;                   ///< into a whole-batch module
    int64_t sourceSpan, targetSpan; ///< microbatches of a task
  };

  ProgramOp program;
  llvm::DenseMap<mlir::Operation *, int64_t> bytes; ///< of a buffer_decl
  std::vector<Edge> edges;
  /// By module (or loss) and kind.
  llvm::DenseMap<std::pair<mlir::Operation *, unsigned>,
                 llvm::SmallVector<Access>>
      entries;
  /// Ranks and microbatches repeat what few rows do.
  using Touched = std::tuple<const void *, unsigned, bool, int64_t, int64_t,
                             int64_t, int64_t, int64_t>;
  std::map<Touched, unsigned> numbers;
  std::vector<Ranges> touched; ///< by number
  llvm::DenseMap<std::pair<unsigned, unsigned>, bool> conflicts;
};

/// Every row of every rank comes after the messages and sums that touch its
/// bytes; says otherwise on the row.
llvm::LogicalResult verifyStep(ProgramOp program);

} // namespace dt::rt

#endif // DIALECTS_RT_RTSTEP_H
