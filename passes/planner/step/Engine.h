//===- Engine.h - A step, event by event ------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Runs a schedule (passes/schedule) on hardware that is shared: messages queue
// for NICs, ranks on one machine share its cores, replicas wait for one another
// to reduce gradients, the optimizer for everybody. Without any of that it is
// the longest path that scheduler::evaluate computes, to the last digit.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_STEP_ENGINE_H
#define PASSES_PLANNER_STEP_ENGINE_H

#include "passes/scheduler/core/Evaluate.h"

namespace dt::planner {

using scheduler::Time;

/// Gradients of some ranks that are summed, and what follows from it.
struct GradientReduction {
  std::vector<int> ranks;
  /// Stages whose weight gradients must be done; empty: all of the ranks' work.
  std::vector<int> stages;
  Time duration = 0;
  /// Of the links that it goes over: how long it needs each, alone.
  std::vector<std::pair<int, Time>> takes;
  /// Parts of equal size that the last task is done with one after another, at
  /// equal times: each is summed as soon as it is complete.
  int buckets = 1;
};

struct EngineOptions {
  /// Cores that a group of ranks shares; a rank is in at most one group.
  struct Cores {
    std::vector<int> ranks;
    int cores = 1;
  };
  /// Cores that a rank uses while it works; empty: one. More where it stands
  /// for a tensor-parallel group.
  std::vector<int> width;
  std::vector<Cores> cores;
  /// NIC of every rank; empty or -1: messages wait for nobody. A message
  /// occupies the NICs of both ends while it is sent.
  std::vector<int> nic;
  /// A level of switches above the NICs. What goes from one switch to another
  /// takes the uplinks of both.
  struct Level {
    std::vector<int> uplink;   ///< by NIC: of its switch, a link
    std::vector<double> share; ///< time on that for one of the NIC
    int rails = 1;             ///< switches that NICs of a node take turns at
  };
  std::vector<Level> levels;
  /// NICs, and uplinks behind them.
  int links = 0;
  /// Node of every rank, where there are NICs: messages inside one need none.
  std::vector<int> node;
  /// By edge of the problem: the part of a message's latency that occupies no
  /// NIC (wire, software; all of it inside a node). The rest is time on NICs.
  std::vector<Time> overhead;
  /// By edge of the problem: NICs of a TP group that a message goes over;
  /// empty: one.
  std::vector<double> lanes;
  std::vector<GradientReduction> reductions;
  /// After all reductions of a rank: its share of the optimizer, and of
  /// bringing together what replicas have updated.
  std::vector<Time> optimizer;
  /// Added once everybody is done: the exchange of norms and its barrier.
  Time barrier = 0;
};

struct Simulation {
  /// By node of the graph; -1 where the schedule has no such task.
  std::vector<Time> start, end;
  /// By rank: time with a task, own first start to own last end, end of its
  /// last reduction and of its optimizer.
  std::vector<Time> busy, span, reduced, done;
  /// Start and end of every reduction.
  std::vector<std::pair<Time, Time>> reductions;
  Time tasks = 0; ///< end of the last task
  Time step = 0;  ///< wall time of the step

  double getSpanBubble() const;
};

/// Error if the lists wait for one another, naming a task that never starts.
llvm::Expected<Simulation> simulate(const scheduler::TaskGraph &graph,
                                    const scheduler::Solution &solution,
                                    const EngineOptions &options = {});

} // namespace dt::planner

#endif // PASSES_PLANNER_STEP_ENGINE_H
