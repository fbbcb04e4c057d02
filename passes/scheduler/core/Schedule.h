//===- Schedule.h - Schedules by name ---------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A schedule turns a problem into an order of tasks on every rank. Each is one
// file in schedules/ that defines `void add<File>(Registry &)`; the build finds
// the files, so that adding one changes nothing else.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULER_CORE_SCHEDULE_H
#define PASSES_SCHEDULER_CORE_SCHEDULE_H

#include "passes/scheduler/core/TaskGraph.h"

#include "llvm/ADT/StringRef.h"

namespace dt::scheduler {

/// What is minimised by schedules that search: the end of everything, or the
/// longest span of a rank (Evaluate.h).
enum class Objective { Wall, Span };

struct SolveOptions {
  Objective objective = Objective::Wall;
  /// Work of a search, in tasks placed; 0 is the schedule's own default. A
  /// count, not a time, so that results are the same everywhere.
  int64_t effort = 0;
  /// Whether to construct the order of communication too. Who only wants times
  /// saves most of the work without it.
  bool communicate = true;
};

using Solver = llvm::Expected<Solution> (*)(const TaskGraph &,
                                            const SolveOptions &);

/// What the order of a schedule's tasks follows from.
enum class OrderOf {
  Shape, ///< stages and microbatches: a closed form, whatever tasks take
  Times, ///< also what tasks take, and the memory of ranks
  Search ///< a search within that memory
};

/// What a schedule says of itself. Planner and passes ask for this, never for
/// its name.
struct Traits {
  /// It has I and W tasks: modules need both halves of their backward.
  bool splitsBackward = false;
  /// A unit has two stages a rank that go there and back (0 1 1 0).
  bool goesBack = false;
  /// A unit has two stages a rank or more, round and round (0 1 0 1).
  bool interleaves = false;
  /// It is for losses over a group of microbatches only.
  bool needsBatchSync = false;
  /// It is for units on the same ranks.
  bool sharesRanks = false;
  /// Units take turns once a step: those in front of the largest keep the
  /// activations of the whole batch.
  bool runsInPhases = false;
  OrderOf order = OrderOf::Shape;
  /// Planners try it. Others are for comparison, or never better than one that
  /// is tried.
  bool planned = false;

  /// Whether the backward of a unit's stages comes in halves. Weight gradients
  /// that are put off hold more than what recomputation saves, and nobody waits
  /// long enough for the input gradients of a unit of one stage.
  bool splits(int64_t stages, bool keepsNothing) const {
    return splitsBackward && stages > 1 && !keepsNothing;
  }
};

/// The pipeline position of `pp` whose ranks run a stage: round and round, or
/// there and back (Traits::goesBack).
template <typename Int> Int positionOf(Int stage, Int pp, bool goesBack) {
  Int i = stage % pp;
  return goesBack && stage / pp % 2 ? pp - 1 - i : i;
}

class Registry {
public:
  struct Entry {
    std::string name, summary;
    Solver solve;
    Traits traits;
  };

  /// All schedules of schedules/, by name.
  Registry();
  /// The one that has been made. Plugins add theirs (tools/plugin/Plugin.h)
  /// before anybody asks for one.
  static Registry &get();
  /// Of two with one name tools/plugin/Load.h makes an error.
  void add(llvm::StringRef name, llvm::StringRef summary, Solver solve,
           Traits traits = {});
  /// Null if there is none of that name.
  const Entry *find(llvm::StringRef name) const;
  const std::vector<Entry> &getEntries() const { return entries; }
  /// "1f1b, gpipe, …" for messages.
  std::string getNames() const;

private:
  std::vector<Entry> entries;
};

/// Of the schedule of that name; of an unknown one those of a plain one.
const Traits &traitsOf(llvm::StringRef schedule);

/// Checks the problem, runs the schedule of that name, adds communication.
llvm::Expected<Solution> solve(const Problem &problem, llvm::StringRef name,
                               const SolveOptions &options = {});
/// The same for whoever has the graph of a problem that passed check().
llvm::Expected<Solution> solve(const TaskGraph &graph, llvm::StringRef name,
                               const SolveOptions &options = {});

} // namespace dt::scheduler

#endif // PASSES_SCHEDULER_CORE_SCHEDULE_H
