//===- PlanSamples.cpp - Samples as a program counts them -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/PlanModel.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

namespace dt::plan {

namespace {

/// Sizes of items as data say them, made those that a program counts.
class SizeFit {
public:
  SizeFit(const ItemBound &kind, llvm::ArrayRef<std::string> names)
      : most(kind.largest) {
    auto find = [&](size_t measure) {
      const auto *found = measure < kind.measures.size()
                              ? llvm::find(names, kind.measures[measure])
                              : names.end();
      return found == names.end() ? -1 : int(found - names.begin());
    };
    other = find(1);
    tokens = find(0);
    // What has a name of its own stands for tokens, unless it is the other.
    if (tokens < 0 && other != 0)
      tokens = 0;
    else if (tokens < 0 && names.size() == 2)
      tokens = 1;
  }

  planner::ItemSize of(const planner::ItemSize &size) const {
    auto get = [&](int place) { return place == 0 ? size.tokens : size.other; };
    // What is not said grows with what is.
    int32_t first =
        tokens >= 0 ? get(tokens) : scale(get(other), most.other, most.tokens);
    int32_t second =
        other >= 0 ? get(other) : scale(first, most.tokens, most.other);
    return {std::min(first, most.tokens), std::min(second, most.other)};
  }

private:
  static int32_t scale(int32_t value, int32_t from, int32_t to) {
    double scaled = double(value) * to / std::max(1, from);
    return int32_t(std::min(std::ceil(scaled), double(to)));
  }

  planner::ItemSize most;
  int tokens, other; ///< places in the data's sizes; -1: not said
};

llvm::ArrayRef<std::string> namesOf(const planner::Data::Measures &measures,
                                    size_t kind) {
  return kind < measures.size() ? llvm::ArrayRef(measures[kind])
                                : llvm::ArrayRef<std::string>();
}

} // namespace

std::vector<planner::Sample>
fitToProgram(const std::vector<planner::Sample> &samples,
             llvm::ArrayRef<std::string> names,
             const planner::Data::Measures &measures,
             const PlannedProgram &program) {
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
  SizeFit ofSamples(program.sample, namesOf(measures, 0));
  std::vector<SizeFit> ofKinds;
  for (auto [k, source] : llvm::enumerate(sources))
    ofKinds.emplace_back(program.kinds[k], namesOf(measures, source + 1));
  std::vector<planner::Sample> result;
  for (const planner::Sample &sample : samples) {
    planner::Sample &fit = result.emplace_back();
    static_cast<planner::ItemSize &>(fit) = ofSamples.of(sample);
    for (auto [k, source] : llvm::enumerate(sources)) {
      const ItemBound &kind = program.kinds[k];
      auto items = sample.getSizes(planner::ItemKind(source + 1));
      std::vector<planner::ItemSize> &own = fit.of(planner::ItemKind(k + 1));
      for (const planner::ItemSize &size : items.take_front(size_t(kind.most)))
        own.push_back(ofKinds[k].of(size));
    }
  }
  return result;
}

std::vector<planner::Sample> fullBatch(const PlannedProgram &program) {
  planner::Sample sample;
  auto sizeOf = [&](const ItemBound &kind, planner::ItemKind item) {
    double tokens = kind.largest.tokens, other = kind.largest.other;
    double items = double(program.microbatches.rbegin()->second * kind.most);
    for (const planner::Module &module : program.model.modules)
      for (const planner::PartBound &bound : module.bounds)
        if (bound.kind == item) {
          double &size = bound.isOther ? other : tokens;
          size = std::min(size, bound.most / items);
        }
    return planner::ItemSize(int32_t(std::max(1.0, tokens)),
                             other > 0 ? int32_t(std::max(1.0, other)) : 0);
  };
  static_cast<planner::ItemSize &>(sample) =
      sizeOf(program.sample, planner::ItemKind::Sample);
  for (auto [k, kind] : llvm::enumerate(program.kinds)) {
    auto item = planner::ItemKind(k + 1);
    sample.of(item).assign(kind.most, sizeOf(kind, item));
  }
  if (program.parts) {
    static_cast<planner::ItemSize &>(sample) = program.sample.largest;
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
