//===- Schedule.cpp - Schedules by name -----------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/Schedule.h"

#include "passes/scheduler/core/Evaluate.h"
#include "passes/scheduler/core/Footprint.h"
#include "passes/scheduler/core/Spans.h"
#include "passes/scheduler/messages/Communicate.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;

namespace dt::scheduler {

// One declaration and one call for each file in schedules/, written by CMake.
#include "passes/scheduler/Schedules.inc"

Registry::Registry() { addAll(*this); }

void Registry::add(StringRef name, StringRef summary, Solver solve,
                   Traits traits) {
  auto at = llvm::upper_bound(
      entries, name, [](StringRef a, const Entry &b) { return a < b.name; });
  entries.insert(at, {name.str(), summary.str(), solve, traits});
}

Registry &Registry::get() {
  static Registry registry;
  return registry;
}

const Traits &traitsOf(StringRef schedule) {
  static const Traits plain;
  const Registry::Entry *entry = Registry::get().find(schedule);
  return entry ? entry->traits : plain;
}

const Registry::Entry *Registry::find(StringRef name) const {
  auto it = llvm::lower_bound(
      entries, name, [](const Entry &a, StringRef b) { return a.name < b; });
  return it != entries.end() && it->name == name ? &*it : nullptr;
}

std::string Registry::getNames() const {
  auto nameOf = [](const Entry &entry) { return entry.name; };
  return join(map_range(entries, nameOf), ", ");
}

/// Takes from `memory` what ranks hold beyond the problem's, so many times, but
/// leaves them what one microbatch of `single` needs. False: nothing.
static bool lowerMemory(const TaskGraph &graph, const Solution &solution,
                        int times, const TaskGraph &single,
                        std::vector<Bytes> &memory) {
  Footprint footprint(single);
  bool lower = false;
  std::vector<Bytes> held = getMostHeld(graph, solution);
  for (size_t rank = 0; rank < memory.size(); ++rank)
    if (Bytes over = held[rank] - graph.getProblem().memory[rank]; over > 0) {
      Bytes least = footprint.begin(single.getPlacesOfRank(int(rank)));
      memory[rank] =
          std::max(std::min(least, memory[rank]), memory[rank] - times * over);
      lower = true;
    }
  return lower;
}

/// Schedules that keep to memory try so often with less of it.
constexpr int kLowerings = 5;

/// Schedules order single microbatches. Tasks that serve several hold more at
/// once than these would.
static Expected<Solution> solveSingly(const TaskGraph &graph,
                                      const Registry::Entry &entry,
                                      const SolveOptions &options) {
  const Problem &problem = graph.getProblem();
  if (!hasSpans(problem))
    return entry.solve(graph, options);
  Problem single = withoutSpans(problem);
  bool bounded =
      !problem.memory.empty() && entry.traits.order != OrderOf::Shape;
  TaskGraph singleGraph(single);
  for (int tries = 0;; ++tries) {
    Expected<Solution> solution = entry.solve(singleGraph, options);
    if (!solution)
      return solution;
    joinTasks(problem, *solution);
    if (!bounded ||
        !lowerMemory(graph, *solution, 1 << tries, singleGraph, single.memory))
      return solution;
    if (tries == kLowerings)
      return checkMemory(graph, *solution);
  }
}

Expected<Solution> solve(const Problem &problem, StringRef name,
                         const SolveOptions &options) {
  if (Error error = problem.check())
    return error;
  return solve(TaskGraph(problem), name, options);
}

Expected<Solution> solve(const TaskGraph &graph, StringRef name,
                         const SolveOptions &options) {
  const Registry::Entry *entry = Registry::get().find(name);
  if (!entry)
    return createStringError("no schedule '" + name + "'; expected one of " +
                             Registry::get().getNames());
  Expected<Solution> solution = solveSingly(graph, *entry, options);
  if (!solution)
    return solution.takeError();
  if (!options.communicate)
    return solution;
  if (Error error = communicate(graph, *solution))
    return createStringError(name + ": " + toString(std::move(error)));
  return solution;
}

} // namespace dt::scheduler
