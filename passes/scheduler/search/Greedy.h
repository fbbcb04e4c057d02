//===- Greedy.h - Schedules by simulating what ranks choose -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A list scheduler: time runs, and a rank that is free takes one of the tasks
// that could start, by rules. It serves schedules for which no closed order
// is known: zero bubble under a memory limit, V shape, work nested into
// bubbles.
//
// It never gets stuck for memory: a forward starts only if what every later
// stage of the same microbatch on its rank needs still fits, so that the oldest
// microbatch can always finish.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULER_SEARCH_GREEDY_H
#define PASSES_SCHEDULER_SEARCH_GREEDY_H

#include "passes/scheduler/core/TaskGraph.h"

#include <optional>

namespace dt::scheduler {

struct GreedyRules {
  /// Split backwards where stages allow it.
  bool split = true;
  /// A weight gradient starts in a gap only if the next task that is known to
  /// come needs at least this share (in 1/16) of its time.
  int patience = 8;
  /// The same once all forwards of the stage have run.
  int tailPatience = 16;
  /// If not 0, a weight gradient also starts in a gap that is too short for it
  /// as soon as the rank could not end in this time otherwise: counted from 0
  /// (`wall`), or from its first task.
  Time target = 0;
  bool wall = false;
  /// Forwards minus backwards that a place keeps up: [place]; empty: no matter.
  /// A place with fewer takes forwards only, then a backward, and so in turn.
  std::vector<int> level;
  /// Where there is a level: forwards that a place may run while its first
  /// backward has not come: [place]; empty: the level.
  std::vector<int> warmup;
  /// Until a rank's first backward, a forward waits if that of a later stage is
  /// known to come before this share (in 1/16) of its time has passed.
  int hold = 0;
  /// Most microbatches between forward and input gradient: [place]; empty: no
  /// bound.
  std::vector<int> inFlight;
  /// Places whose tasks only fill gaps: they start when no other task of the
  /// rank can, and `patience` holds for them as for weight gradients; [place];
  /// empty: none.
  std::vector<bool> filler;
  /// A filler's forward waits until what comes behind it on its rank, and is no
  /// filler, may begin another microbatch: `filler` and `inFlight` are given.
  bool inStep = false;
  /// Lower goes first among equal kinds on a rank: [place]; empty: stages with
  /// fewer stages behind them first.
  std::vector<int> rank;
};

/// The order, or nothing if memory holds not even one microbatch.
/// `memory`: bytes per rank; empty: no bound.
std::optional<Solution> runGreedy(const TaskGraph &graph,
                                  const std::vector<Bytes> &memory,
                                  const GreedyRules &rules);

} // namespace dt::scheduler

#endif // PASSES_SCHEDULER_SEARCH_GREEDY_H
