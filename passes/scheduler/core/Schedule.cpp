//===- Schedule.cpp - Schedules by name -----------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/Schedule.h"

#include "passes/scheduler/core/Spans.h"

#include "passes/scheduler/messages/Communicate.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;

namespace dt::scheduler {

// One declaration and one call for each file in schedules/, written by CMake.
#include "passes/scheduler/Schedules.inc"

Registry::Registry() {
  addAll(*this);
  llvm::sort(entries,
             [](const Entry &a, const Entry &b) { return a.name < b.name; });
}

void Registry::add(StringRef name, StringRef summary, Solver solve,
                   Traits traits) {
  entries.push_back({name.str(), summary.str(), solve, traits});
}

const Registry &Registry::get() {
  static const Registry registry;
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
  std::string names;
  for (const Entry &entry : entries)
    names += (names.empty() ? "" : ", ") + entry.name;
  return names;
}

/// Schedules order single microbatches.
static Expected<Solution> solveSingly(const TaskGraph &graph,
                                      const Registry::Entry &entry,
                                      const SolveOptions &options) {
  const Problem &problem = graph.getProblem();
  if (!hasSpans(problem))
    return entry.solve(graph, options);
  Problem single = withoutSpans(problem);
  Expected<Solution> solution = entry.solve(TaskGraph(single), options);
  if (solution)
    joinTasks(problem, *solution);
  return solution;
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
