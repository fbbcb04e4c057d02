//===- PlanSamples.cpp - Samples as a program counts them -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/PlanModel.h"

#include "llvm/ADT/STLExtras.h"

namespace dt::plan {

std::vector<planner::Sample>
fitToProgram(const std::vector<planner::Sample> &samples,
             llvm::ArrayRef<std::string> names, const PlannedProgram &program) {
  // By name; what is called otherwise in order.
  std::vector<size_t> sources;
  auto isKnown = [&](llvm::StringRef name) {
    return llvm::is_contained(names, name);
  };
  for (auto &[name, most] : program.kinds)
    sources.push_back(llvm::find(names, name) - names.begin());
  size_t next = 0;
  for (auto [k, source] : llvm::enumerate(sources)) {
    if (isKnown(program.kinds[k].first))
      continue;
    while (next < names.size() &&
           llvm::any_of(
               program.kinds,
               [&](auto &kind) { return kind.first == names[next]; }))
      ++next;
    source = next++;
  }
  std::vector<planner::Sample> result;
  for (const planner::Sample &sample : samples) {
    planner::Sample &fit = result.emplace_back();
    fit.tokens = 1;
    for (auto [k, source] : llvm::enumerate(sources)) {
      size_t items = sample.get(planner::ItemKind(source + 1)).size();
      fit.of(planner::ItemKind(k + 1))
          .assign(std::min<size_t>(items, program.kinds[k].second), 1);
    }
  }
  return result;
}

std::vector<planner::Sample> fullBatch(const PlannedProgram &program) {
  planner::Sample sample;
  sample.tokens = 1;
  for (auto [k, kind] : llvm::enumerate(program.kinds))
    sample.of(planner::ItemKind(k + 1)).assign(kind.second, 1);
  return std::vector<planner::Sample>(program.global, sample);
}

} // namespace dt::plan
