//===- CutFill.cpp - parts made of the lists that a cut found -------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See Cut.h.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Error.h"
#include "runtime/data/Cut.h"

namespace dt::rt {

std::vector<std::vector<PartItems>>
StepCutter::fillWhole(int32_t module) const {
  const ModuleInfo &info = program.modules[size_t(module)];
  PartItems part;
  part.samples = everything(items.samples);
  for (size_t s = 0; s < info.symbols.size; ++s) {
    int kind = symbolKinds[size_t(module)][s];
    part.symbols.push_back(kind < 0 ? Items() : everything(countOf(kind)));
    part.dims.push_back(roundUp(
        info.symbols[s],
        ItemRows{&part.symbols.back(), symbolMeasures[size_t(module)][s].get()}
            .total()));
  }
  return {std::vector<PartItems>(size_t(replicasOf(info)), part)};
}

const Lists &StepCutter::listsOf(int32_t module, int kind, const char *symbol,
                                 PieceLists &pieces) const {
  const ModuleInfo &info = program.modules[size_t(module)];
  auto found = pieces.lists.find(kind);
  if (found != pieces.lists.end())
    return *found->second;
  if (!pieces.places)
    throw Error(items.where + ": dim " + info.name + "." + symbol +
                " does not count '" + itemOf(info) +
                "', by which the module works in " +
                std::to_string(partsOf(info)) +
                " parts: these have no samples of their own");
  return *pieces.lists.emplace(kind, bySamples(kind, pieces.places))
              .first->second;
}

const std::vector<std::vector<int64_t>> &
StepCutter::dimsOf(int32_t module, size_t symbol, PieceLists &pieces) const {
  int kind = symbolKinds[size_t(module)][symbol];
  const auto *measure = symbolMeasures[size_t(module)][symbol].get();
  const Lists &lists =
      listsOf(module, kind,
              program.modules[size_t(module)].symbols[symbol].name, pieces);
  auto [known, fresh] = pieces.dims.try_emplace({kind, measure});
  for (size_t k = 0; fresh && k < lists.size(); ++k) {
    known->second.emplace_back();
    for (const Items &list : lists[k])
      known->second.back().push_back(ItemRows{&list, measure}.total());
  }
  return known->second;
}

std::vector<std::vector<PartItems>>
StepCutter::fillModule(int32_t module, PieceLists &pieces) const {
  const ModuleInfo &info = program.modules[size_t(module)];
  const Lists &own = listsOf(module, kinds[size_t(module)], "", pieces);
  std::vector<std::vector<PartItems>> parts;
  for (size_t k = 0; k < own.size(); ++k) {
    parts.emplace_back(own[k].size());
    for (size_t r = 0; r < own[k].size(); ++r) {
      parts[k][r].samples = pieces.places
                                ? (*pieces.places)[k][r]
                                : ownersOf(kinds[size_t(module)], own[k][r]);
      parts[k][r].symbols.resize(info.symbols.size);
      parts[k][r].dims.resize(info.symbols.size);
    }
  }
  for (size_t s = 0; s < info.symbols.size; ++s) {
    int kind = symbolKinds[size_t(module)][s];
    if (kind < 0)
      continue;
    const Lists &lists = listsOf(module, kind, info.symbols[s].name, pieces);
    const auto &dims = dimsOf(module, s, pieces);
    for (size_t k = 0; k < parts.size(); ++k)
      for (size_t r = 0; r < parts[k].size(); ++r) {
        parts[k][r].symbols[s] = lists[k][r];
        parts[k][r].dims[s] = roundUp(info.symbols[s], dims[k][r]);
      }
  }
  return parts;
}

PerPart<PartItems> StepCutter::fill(const CutParts &cut) const {
  PerPart<PartItems> parts;
  for (size_t m = 0; m < program.modules.size; ++m)
    parts.push_back(cut.pieces[m] ? fillModule(int32_t(m), *cut.pieces[m])
                                  : fillWhole(int32_t(m)));
  return parts;
}

} // namespace dt::rt
