//===- CutMeasures.cpp - what items bring to the parts they are in --------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See Cut.h and docs/sizes.md.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Error.h"
#include "runtime/data/Cut.h"

#include <algorithm>

namespace dt::rt {

namespace {
constexpr int64_t kWhole = int64_t(1) << 20;

/// The larger share of a bound, in 1/2^20.
void raise(std::vector<int64_t> &shares, const std::vector<int64_t> &rows,
           int64_t bound) {
  shares.resize(rows.size(), 0);
  for (size_t i = 0; i < rows.size(); ++i)
    shares[i] = std::max(
        shares[i], int64_t(double(rows[i]) / double(bound) * double(kWhole)));
}
} // namespace

Measure StepCutter::measureOf(const ModuleInfo &module,
                              const SymbolInfo &symbol, int kind) const {
  const Measures &known = kind == kSampleKind
                              ? items.measures
                              : items.kinds[size_t(kind - 1)].measures;
  auto found = known.find(symbol.measure);
  if (found == known.end())
    throw Error(items.where + ": dim " + module.name + "." + symbol.name +
                " adds up '" + symbol.item + "." + symbol.measure +
                "', but the data do not say it");
  const std::vector<int64_t> &sizes = *found->second;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] < 0 || sizes[i] > symbol.largest)
      throw Error(items.where + ": " + symbol.item + " " + std::to_string(i) +
                  " has " + std::to_string(sizes[i]) + " " + symbol.measure +
                  "; the program was compiled for at most " +
                  std::to_string(symbol.largest));
  return found->second;
}

/// Rows that a symbol has of every item of a kind: its own, or samples.
std::vector<int64_t> StepCutter::measuredItems(size_t module, size_t symbol,
                                               int kind) const {
  const Measure &measure = symbolMeasures[module][symbol];
  int own = symbolKinds[module][symbol];
  if (own == kind)
    return measure ? *measure : std::vector<int64_t>(size_t(countOf(own)), 1);
  std::vector<int64_t> rows(size_t(countOf(kind)), 0);
  const std::vector<int64_t> &owner = items.kinds[size_t(own - 1)].owner;
  for (size_t i = 0; i < owner.size(); ++i)
    rows[size_t(owner[i])] += measure ? (*measure)[i] : 1;
  return rows;
}

std::vector<int64_t> StepCutter::sampleRows() const {
  std::vector<int64_t> shares;
  for (size_t m = 0; m < program.modules.size; ++m) {
    const ModuleInfo &info = program.modules[m];
    for (size_t s = 0; !info.wholeBatch && s < info.symbols.size; ++s)
      if (symbolMeasures[m][s] &&
          (symbolKinds[m][s] == kSampleKind ||
           !items.kinds[size_t(symbolKinds[m][s] - 1)].owner.empty()))
        raise(shares, measuredItems(m, s, kSampleKind),
              std::max<int64_t>(1, info.symbols[s].max * partsOf(info) /
                                       spanOf(info)));
  }
  return shares;
}

std::vector<size_t> StepCutter::addedUp(const PartGroup &group,
                                        int32_t module) const {
  std::vector<size_t> symbols;
  int cut = group.item == kSample ? kSampleKind : kinds[size_t(module)];
  for (size_t s = 0; s < symbolKinds[size_t(module)].size(); ++s) {
    int kind = symbolKinds[size_t(module)][s];
    bool known = kind == cut || (cut == kSampleKind && kind > kSampleKind);
    if (symbolMeasures[size_t(module)][s] && known)
      symbols.push_back(s);
  }
  return symbols;
}

/// Whether groupRows() says anything. Cheap: it is asked for every cut.
bool StepCutter::addsUp(const PartGroup &group) const {
  int64_t all = 0;
  for (int32_t m : group.modules)
    if (!addedUp(group, m).empty())
      all = std::max(
          all, countOf(group.item == kSample ? kSampleKind : kinds[size_t(m)]));
  return all > 0;
}

/// The same of every item (or sample) that the group cuts, and of a share.
std::vector<int64_t> StepCutter::groupRows(const PartGroup &group) const {
  std::vector<int64_t> shares;
  for (int32_t m : group.modules) {
    const ModuleInfo &info = program.modules[size_t(m)];
    int cut = group.item == kSample ? kSampleKind : kinds[size_t(m)];
    for (size_t s : addedUp(group, m))
      raise(shares, measuredItems(size_t(m), s, cut),
            std::max<int64_t>(1, info.symbols[s].max * piecesOf(info) /
                                     spanOf(info)));
  }
  return shares;
}

const StepCutter::Weights &StepCutter::weightsOf(const PartGroup &group,
                                                 Alike alike) const {
  auto [found, fresh] = weights.try_emplace({&group, int(alike)});
  Weights &made = found->second;
  if (fresh) {
    made.costs = alike == Alike::Cost ? groupCosts(group) : groupRows(group);
    made.order = reorder::sortedByCost(made.costs);
  }
  return made;
}

/// Lists of microbatches have no item in common: sorting all of them once sorts
/// each.
std::vector<StepCutter::Weighed> StepCutter::weigh(const Weights *weights,
                                                   const Lists &lists) {
  std::vector<Weighed> result(lists.size());
  if (!weights)
    return result;
  std::vector<std::pair<int32_t, int32_t>> at(weights->costs.size(), {-1, 0});
  for (size_t k = 0; k < lists.size(); ++k) {
    const Items &list = lists[k][0];
    result[k].weights = weights;
    result[k].order.reserve(list.size());
    for (size_t i = 0; i < list.size(); ++i)
      at[size_t(list[i])] = {int32_t(k), int32_t(i)};
  }
  for (int32_t item : weights->order)
    if (auto [k, i] = at[size_t(item)]; k >= 0)
      result[size_t(k)].order.push_back(i);
  return result;
}

} // namespace dt::rt
