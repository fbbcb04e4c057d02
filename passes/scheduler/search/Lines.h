//===- Lines.h - Building blocks of schedules -------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A line is a list of tasks in a fixed order, usually those of one stage. A
// rank with one line runs it; where several lines meet on a rank (colocated
// stages, tensor-parallel groups of different sizes) they are merged by
// simulating them. A merge takes only tasks whose inputs exist, so it adds no
// deadlock.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULER_SEARCH_LINES_H
#define PASSES_SCHEDULER_SEARCH_LINES_H

#include "passes/scheduler/core/TaskGraph.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

namespace dt::scheduler {

/// Nodes in order. A backward is split if its weight gradient is in some line.
using Line = std::vector<TaskGraph::Node>;

/// Microbatches whose forwards a stage runs before its first backward, for
/// 1F1B on any DAG: one at a sink, one more than the largest successor's
/// elsewhere, plus the unit's run-ahead; a whole group before a batch-sync; at
/// most n. `given`: what stages that have an order of their own run, else 0.
std::vector<int> getInFlight(const Problem &problem,
                             const std::vector<int> &given = {});

/// Per stage of a unit: microbatches that must have passed it before it waits
/// for a gradient, for the sake of stages of other units after it. `inFlight`:
/// what those run ahead.
std::vector<int> getNeeds(const Problem &problem,
                          const std::vector<int> &stages,
                          const std::vector<int> &inFlight);

/// The stages of every unit that has two on a rank, in order; error unless they
/// all come back the way they went, and there is such a unit.
llvm::Expected<std::vector<std::vector<int>>>
getStagesThereAndBack(const Problem &problem, llvm::StringRef schedule);

/// The unit with the most work over all its tasks: the backbone.
int findLargestUnit(const TaskGraph &graph);

/// Forwards one after another, then backwards.
void appendForwards(const TaskGraph &graph, int place, Line &line);
void appendBackwards(const TaskGraph &graph, int place, Line &line);
/// `inFlight` - 1 forwards, then a forward and a backward in turn, then the
/// remaining backwards. The weight gradient of a microbatch follows `delay`
/// backwards later; -1: not split.
Line makeOneFOneB(const TaskGraph &graph, int place, int inFlight,
                  int delay = -1);
/// 1F1B of all stages that have no order of their own (`given`, as above), and
/// the batch-sync stages' lines.
void appendOneFOneB(const TaskGraph &graph, const std::vector<int> &given,
                    std::vector<Line> &lines);
/// The batch-sync stages' lines.
void appendSyncLines(const TaskGraph &graph, std::vector<Line> &lines);

/// The order of tasks on every rank. If the lines wait for one another, the
/// solution holds them nevertheless, and evaluating it reports the cycle.
/// `phases` by node: a rank starts a phase when it has finished those before
/// it.
Solution mergeLines(const TaskGraph &graph, const std::vector<Line> &lines,
                    const std::vector<int> &phases = {});
/// Of the batch-sync stages' lines and, for every other place, what `makeLine`
/// gives (which may fill in `phases`).
Solution mergeLines(const TaskGraph &graph,
                    llvm::function_ref<Line(int place, int stage)> makeLine,
                    const std::vector<int> &phases = {});
/// 1F1B with split backwards: a stage that is i stages from the first puts
/// weight gradients off by `delay` * i microbatches, and one that is d stages
/// from the last runs (`delay` - 1) * d forwards more ahead.
Solution mergeSplitOneFOneB(const TaskGraph &graph, int delay);

/// A microbatch forward and back before the next, with gradients of inputs and
/// weights apart if `split`: the least memory, and nothing overlaps.
Solution takeTurns(const TaskGraph &graph, bool split);

} // namespace dt::scheduler

#endif // PASSES_SCHEDULER_SEARCH_LINES_H
