//===- RankRows.h - The rows of every rank's step ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// From a schedule (every rank's tasks and messages, passes/schedule) to rows:
// tasks and messages of a microbatch become those of its pieces, receives are
// posted early, sends and copies stand behind what they move, and pieces in
// flight get slots.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LOWER_RANKROWS_H
#define PASSES_LOWER_RANKROWS_H

#include "passes/lower/StepPlan.h"
#include "passes/scheduler/core/Problem.h"

#include <tuple>

namespace dt::lower {

/// A TaskRow of runtime/Program.h.
struct Row {
  rt::TaskKind kind;
  unsigned index; ///< loss, edge or module
  int64_t microbatch;
  bool gradient = false;
  int64_t piece = 0, peer = 0;
  int64_t slot = 0, received = 0, early = 0, late = 0;

  bool operator==(const Row &other) const {
    auto key = [](const Row &row) {
      return std::tie(row.kind, row.index, row.microbatch, row.gradient,
                      row.piece, row.peer, row.slot, row.received, row.early,
                      row.late);
    };
    return key(*this) == key(other);
  }
};

/// What some ranks do in a step.
struct RankRows {
  llvm::SmallVector<int64_t> ranks;
  std::vector<Row> rows;
};

/// A step's schedule in terms of the plan: stages are indices of modules.
struct StepOrder {
  std::vector<std::vector<scheduler::Instruction>> programs;
  /// Messages whose two ends have the same ranks; the programs have none.
  std::vector<scheduler::Message> local;
  std::string name;
  /// Microbatches whose forward messages are posted, of edges that do not say.
  int64_t depth = 2;
};

/// What the program's sched.solution says or, without one, the order of one
/// rank: a microbatch goes forward and back before the next begins; what a
/// whole-batch module needs comes first, for all microbatches.
mlir::FailureOr<StepOrder> readOrder(const StepPlan &plan);

/// Fills the slots of a rank's rows and raises the modules' numbers of slots to
/// what these rows need.
void assignRowSlots(StepPlan &plan, std::vector<Row> &rows);

/// Rows of every rank, those of equal ranks once. Sets the modules' numbers of
/// slots.
mlir::FailureOr<std::vector<RankRows>> makeRows(StepPlan &plan,
                                                const StepOrder &order);

} // namespace dt::lower

#endif // PASSES_LOWER_RANKROWS_H
