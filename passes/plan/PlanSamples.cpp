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
  for (const ItemBound &kind : program.kinds)
    sources.push_back(llvm::find(names, kind.name) - names.begin());
  size_t next = 0;
  for (auto [k, source] : llvm::enumerate(sources)) {
    if (isKnown(program.kinds[k].name))
      continue;
    while (next < names.size() &&
           llvm::any_of(
               program.kinds,
               [&](const ItemBound &kind) { return kind.name == names[next]; }))
      ++next;
    source = next++;
  }
  std::vector<planner::Sample> result;
  for (const planner::Sample &sample : samples) {
    planner::Sample &fit = result.emplace_back();
    fit.tokens = std::min(sample.tokens, program.sample.tokens);
    for (auto [k, source] : llvm::enumerate(sources)) {
      const ItemBound &kind = program.kinds[k];
      auto items = sample.get(planner::ItemKind(source + 1));
      std::vector<int32_t> &own = fit.of(planner::ItemKind(k + 1));
      for (int32_t tokens : items.take_front(size_t(kind.most)))
        own.push_back(std::min(tokens, kind.tokens));
    }
  }
  return result;
}

std::vector<planner::Sample> fullBatch(const PlannedProgram &program) {
  planner::Sample sample;
  auto tokensOf = [&](const ItemBound &kind, planner::ItemKind item) {
    double tokens = kind.tokens;
    double items = double(program.microbatches.rbegin()->second * kind.most);
    for (const planner::Module &module : program.model.modules)
      if (module.item == item && module.partTokens > 0)
        tokens = std::min(tokens, module.partTokens / items);
    return int32_t(std::max(1.0, tokens));
  };
  sample.tokens = tokensOf(program.sample, planner::ItemKind::Sample);
  for (auto [k, kind] : llvm::enumerate(program.kinds)) {
    auto item = planner::ItemKind(k + 1);
    sample.of(item).assign(kind.most, tokensOf(kind, item));
  }
  if (program.parts) {
    sample.tokens = program.sample.tokens;
    return takeStep(program, [&](int64_t) { return sample; });
  }
  return std::vector<planner::Sample>(program.global, sample);
}

std::vector<planner::Sample>
takeStep(const PlannedProgram &program,
         llvm::function_ref<planner::Sample(int64_t)> sample) {
  std::vector<planner::Sample> result;
  if (!program.parts) {
    for (int64_t i = 0; i < program.global; ++i)
      result.push_back(sample(i));
    return result;
  }
  // As the program fills parts (runtime/data/Manifest.h).
  int64_t part = 0, tokens = 0, samples = 0,
          most = program.global / program.parts;
  while (true) {
    planner::Sample next = sample(int64_t(result.size()));
    if (tokens + next.tokens > program.partTokens || samples == most) {
      if (++part == program.parts)
        return result;
      tokens = samples = 0;
    }
    tokens += next.tokens;
    ++samples;
    result.push_back(std::move(next));
  }
}

} // namespace dt::plan
