//===- Cut.cpp - microbatches cut into parts --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See Cut.h.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Cut.h"

#include "runtime/base/Error.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

namespace dt::rt {

namespace {
/// Of an item with so many rows, in whole units. One rounding after the other,
/// as on every machine.
int64_t costOf(const SymbolInfo &symbol, int64_t rows) {
  auto n = double(rows);
  double cost = std::fma(symbol.squareCost * n, n, symbol.cost * n);
  return int64_t(std::llround(std::clamp(cost * kCostUnit, 0.0, 1e15)));
}
} // namespace

Items everything(int64_t count) {
  Items all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

StepCutter::StepCutter(const ProgramInfo &program,
                       const std::vector<PartGroup> &groups,
                       const StepItems &items)
    : program(program), groups(groups), items(items) {
  for (const ModuleInfo &module : program.modules) {
    kinds.push_back(kindOf(module, itemOf(module), nullptr));
    symbolKinds.emplace_back();
    symbolMeasures.emplace_back();
    for (const SymbolInfo &symbol : module.symbols) {
      symbolKinds.back().push_back(
          symbol.item ? kindOf(module, symbol.item, symbol.name) : -1);
      symbolMeasures.back().push_back(
          symbol.measure ? measureOf(module, symbol, symbolKinds.back().back())
                         : nullptr);
    }
    costs.push_back(itemCosts(costs.size()));
  }
}

int StepCutter::kindOf(const ModuleInfo &module, const char *item,
                       const char *symbol) const {
  if (std::string_view(item) == kSample)
    return kSampleKind;
  for (size_t i = 0; i < items.kinds.size(); ++i)
    if (items.kinds[i].name == item)
      return int(i) + 1;
  throw Error(
      items.where + ": " +
      (symbol ? std::string("dim ") + module.name + "." + symbol + " counts '"
              : std::string("module ") + module.name + " works by '") +
      item + "', but the data have no items of that kind");
}

int64_t StepCutter::countOf(int kind) const {
  return kind == kSampleKind ? items.samples
                             : items.kinds[size_t(kind - 1)].count;
}

/// Of every item of the module's own kind; of a sample with its items of other
/// kinds.
std::vector<int64_t> StepCutter::itemCosts(size_t module) const {
  const ModuleInfo &info = program.modules[module];
  std::vector<int64_t> all(size_t(countOf(kinds[module])), 0);
  for (size_t s = 0; s < info.symbols.size; ++s) {
    int kind = symbolKinds[module][s];
    const SymbolInfo &symbol = info.symbols[s];
    if (kind < 0 || symbol.cost + symbol.squareCost <= 0)
      continue;
    if (kind != kinds[module] && kinds[module] != kSampleKind)
      continue;
    std::vector<int64_t> rows = measuredItems(module, s, kinds[module]);
    for (size_t i = 0; i < rows.size(); ++i)
      all[i] += costOf(symbol, rows[i]);
  }
  return all;
}

std::vector<int64_t> StepCutter::sampleLoads(int32_t module) const {
  std::vector<int64_t> loads(size_t(items.samples), 0);
  int kind = kinds[size_t(module)];
  for (int64_t i = 0; i < countOf(kind); ++i) {
    if (kind == kSampleKind)
      loads[size_t(i)] += costs[size_t(module)][size_t(i)];
    else if (const auto &owner = items.kinds[size_t(kind - 1)].owner;
             !owner.empty())
      loads[size_t(owner[size_t(i)])] += costs[size_t(module)][size_t(i)];
  }
  return loads;
}

/// Of every item (or sample) that the group cuts, over all its modules.
std::vector<int64_t> StepCutter::groupCosts(const PartGroup &group) const {
  std::vector<int64_t> sums;
  for (int32_t m : group.modules) {
    std::vector<int64_t> own =
        group.item == kSample ? sampleLoads(m) : costs[size_t(m)];
    sums.resize(own.size(), 0);
    for (size_t i = 0; i < own.size(); ++i)
      sums[i] += own[i];
  }
  return sums;
}

/// Most of what is cut that a share of a microbatch may have.
int64_t StepCutter::capacity(const PartGroup &group) const {
  int64_t most = INT32_MAX;
  for (int32_t m : group.modules)
    for (const SymbolInfo &symbol : program.modules[size_t(m)].symbols)
      if (symbol.item && !symbol.measure && group.item == symbol.item)
        most =
            std::min(most, symbol.max * piecesOf(program.modules[size_t(m)]) /
                               spanOf(program.modules[size_t(m)]));
  return most;
}

/// By cost if there are weights, else (or where that is no better)
/// contiguously: fewer owners, hence fewer messages.
std::vector<Items> StepCutter::split(const Items &all, const Weighed &weighed,
                                     reorder::PartitionOptions options) const {
  std::vector<Items> parts(static_cast<size_t>(options.groups));
  if (weighed.weights && options.groups > 1) {
    std::vector<int64_t> own;
    own.reserve(all.size());
    for (int64_t item : all)
      own.push_back(weighed.weights->costs[size_t(item)]);
    bool differ = std::adjacent_find(own.begin(), own.end(),
                                     std::not_equal_to<>()) != own.end();
    if (differ && reorder::checkPartition(own, options).empty()) {
      reorder::Partition found =
          reorder::partition(own, weighed.order, options);
      for (size_t r = 0; r < parts.size(); ++r) {
        parts[r].reserve(found.groups[r].size());
        for (int32_t i : found.groups[r])
          parts[r].push_back(all[size_t(i)]);
      }
      return parts;
    }
  }
  // As many as the replica is fast.
  std::vector<size_t> counts(parts.size(), all.size() / parts.size());
  for (size_t r = 0; r < all.size() % parts.size(); ++r)
    ++counts[r];
  if (!options.speeds.empty()) {
    std::vector<int64_t> one(all.size(), 1);
    if (!reorder::checkPartition(one, options).empty())
      options.maxCount = 0;
    reorder::Partition found = reorder::partitionLPT(one, options);
    for (size_t r = 0; r < parts.size(); ++r)
      counts[r] = found.groups[r].size();
  }
  auto next = all.begin();
  for (size_t r = 0; r < parts.size(); ++r) {
    auto end = next + long(counts[r]);
    parts[r].assign(next, end);
    next = end;
  }
  return parts;
}

/// Items of a kind that belong to the samples of each part.
SharedLists StepCutter::bySamples(int kind, const SharedLists &places) const {
  if (kind == kSampleKind)
    return places;
  const StepItems::Kind &info = items.kinds[size_t(kind - 1)];
  auto made = std::make_shared<Lists>();
  Lists &lists = *made;
  std::vector<Items *> listOf(size_t(items.samples), nullptr);
  for (const auto &row : *places)
    lists.emplace_back(row.size());
  for (size_t k = 0; k < lists.size(); ++k)
    for (size_t r = 0; r < lists[k].size(); ++r)
      for (int64_t place : (*places)[k][r])
        listOf[size_t(place)] = &lists[k][r];
  if (info.owner.empty() && info.count > 0) {
    if (lists.size() != 1 || lists[0].size() != 1)
      throw Error(items.where +
                  ": the batch is cut into parts, but nothing tells which " +
                  info.name +
                  " belongs to which sample (an index input or a tensor "
                  "'item_of." +
                  info.name + "')");
    lists[0][0] = everything(info.count);
    return made;
  }
  std::vector<size_t> counts(size_t(items.samples), 0);
  for (int64_t owner : info.owner)
    ++counts[size_t(owner)];
  for (size_t k = 0; k < lists.size(); ++k)
    for (size_t r = 0; r < lists[k].size(); ++r) {
      size_t count = 0;
      for (int64_t place : (*places)[k][r])
        count += counts[size_t(place)];
      lists[k][r].reserve(count);
    }
  for (int64_t i = 0; i < info.count; ++i)
    if (Items *list = listOf[size_t(info.owner[size_t(i)])])
      list->push_back(i);
  return made;
}

Items StepCutter::ownersOf(int kind, const Items &list) const {
  Items owners;
  owners.reserve(list.size());
  const std::vector<int64_t> &owner = items.kinds[size_t(kind - 1)].owner;
  for (int64_t position : list)
    if (!owner.empty())
      owners.push_back(owner[size_t(position)]);
  std::sort(owners.begin(), owners.end());
  owners.erase(std::unique(owners.begin(), owners.end()), owners.end());
  return owners;
}

std::string StepCutter::explain(int32_t module, size_t symbol, size_t task,
                                size_t part, int64_t value,
                                const Items &list) const {
  const ModuleInfo &info = program.modules[size_t(module)];
  int64_t most = info.symbols[symbol].max;
  std::string text = items.where + ": dim " + info.name + "." +
                     info.symbols[symbol].name + " is " +
                     std::to_string(value) + " in microbatch " +
                     std::to_string(task * size_t(spanOf(info)));
  if (spanOf(info) > 1)
    text += " and those with it";
  int32_t pieces = piecesOf(info);
  if (replicasOf(info) > 1)
    text += ", replica " + std::to_string(int32_t(part) / pieces);
  if (pieces > 1)
    text += ", piece " + std::to_string(int32_t(part) % pieces);
  text += "; the program was compiled for at most " + std::to_string(most);
  int kind = symbolKinds[size_t(module)][symbol];
  ItemRows rows{&list, symbolMeasures[size_t(module)][symbol].get()};
  int64_t place = list[rows.itemAt(most)];
  if (kind != kSampleKind) {
    const auto &owner = items.kinds[size_t(kind - 1)].owner;
    if (owner.empty())
      return text;
    place = owner[size_t(place)];
  }
  return text + ", which sample " + std::to_string(place) +
         (items.nameOf ? " (" + items.nameOf(place) + ")" : "") + " exceeds";
}

/// The first of a module's parts that is larger than a bound, in words.
std::string StepCutter::check(int32_t module, PieceLists &pieces) const {
  const ModuleInfo &info = program.modules[size_t(module)];
  std::vector<const std::vector<std::vector<int64_t>> *> dims;
  for (size_t s = 0; s < info.symbols.size; ++s)
    dims.push_back(info.symbols[s].item ? &dimsOf(module, s, pieces) : nullptr);
  size_t tasks = listsOf(module, kinds[size_t(module)], "", pieces).size();
  for (size_t k = 0; k < tasks; ++k)
    for (size_t r = 0; r < size_t(partsOf(info)); ++r)
      for (size_t s = 0; s < dims.size(); ++s)
        if (dims[s] && (*dims[s])[k][r] > info.symbols[s].max)
          return explain(
              module, s, k, r, (*dims[s])[k][r],
              (*pieces.lists.at(symbolKinds[size_t(module)][s]))[k][r]);
  return {};
}

Lists StepCutter::intoPieces(const Lists &shares, int32_t pieces) const {
  Lists cut;
  for (const auto &row : shares) {
    cut.emplace_back();
    for (const Items &share : row)
      for (Items &piece : split(share, {}, {pieces, 0, 0, {}}))
        cut.back().push_back(std::move(piece));
  }
  return cut;
}

/// Lists of tasks that work on so many microbatches each.
SharedLists StepCutter::join(const SharedLists &lists, int32_t span) {
  if (span == 1)
    return lists;
  Lists joined;
  for (size_t k = 0; k < lists->size(); ++k) {
    const std::vector<Items> &row = (*lists)[k];
    if (k % size_t(span) == 0) {
      joined.push_back(row);
      continue;
    }
    for (size_t r = 0; r < row.size(); ++r) {
      Items &all = joined.back()[r];
      auto middle = long(all.size());
      all.insert(all.end(), row[r].begin(), row[r].end());
      std::inplace_merge(all.begin(), all.begin() + middle, all.end());
    }
  }
  return std::make_shared<Lists>(std::move(joined));
}

std::shared_ptr<PieceLists>
StepCutter::cutPieces(const PartGroup &group, int32_t module,
                      const TaskLists &tasks) const {
  const ModuleInfo &info = program.modules[size_t(module)];
  bool bySample = group.item == kSample;
  int own = kinds[size_t(module)];
  auto cuts = std::make_shared<PieceLists>();
  if (piecesOf(info) > 1)
    cuts->lists[own] = std::make_shared<Lists>(
        intoPieces(*(bySample ? bySamples(own, tasks.shares) : tasks.shares),
                   piecesOf(info)));
  else
    cuts->lists[bySample ? kSampleKind : own] = tasks.shares;
  // Without replicas the samples of a part are those of its task.
  if (hasSamples(info, group))
    cuts->places = bySample ? cuts->lists[kSampleKind] : tasks.whole;
  return cuts;
}

/// `own`: items of the module's kind in each of its parts.
std::vector<std::vector<int64_t>>
StepCutter::timesOf(int32_t module, const Lists &own, int32_t pieces) const {
  const std::vector<int64_t> &cost = costs[size_t(module)];
  std::vector<int32_t> speeds = speedsOf(program.modules[size_t(module)]);
  int64_t fastest =
      speeds.empty() ? 1 : *std::max_element(speeds.begin(), speeds.end());
  std::vector<std::vector<int64_t>> times;
  for (const auto &row : own) {
    times.emplace_back(row.size() / size_t(pieces), 0);
    for (size_t q = 0; q < row.size(); ++q)
      for (int64_t position : row[q])
        times.back()[q / size_t(pieces)] += cost[size_t(position)];
    for (size_t r = 0; r < speeds.size(); ++r)
      times.back()[r] = times.back()[r] / speeds[r] * fastest +
                        times.back()[r] % speeds[r] * fastest / speeds[r];
  }
  return times;
}

/// Of a step of parts those that a microbatch is made of, one a replica; empty:
/// it is made of others, or of more.
std::vector<Items> StepCutter::given(const Items &microbatch,
                                     int32_t replicas) const {
  if (items.parts.empty())
    return {};
  std::vector<Items> shares(static_cast<size_t>(replicas));
  if (microbatch.empty())
    return shares;
  auto begin = std::lower_bound(items.parts.begin(), items.parts.end(),
                                microbatch.front());
  int64_t end = microbatch.back() + 1;
  if (*begin != microbatch.front() ||
      end - *begin != int64_t(microbatch.size()))
    return {};
  for (size_t r = 0; *begin < end; ++begin) {
    if (begin[1] > end || (begin[1] > begin[0] && r == shares.size()))
      return {};
    for (int64_t place = begin[0]; place < begin[1]; ++place)
      shares[r].push_back(place);
    r += begin[1] > begin[0];
  }
  return shares;
}

/// What is larger than a bound, in words.
std::string StepCutter::tryCut(const PartGroup &group,
                               const std::vector<Items> &microbatches,
                               Alike alike, CutParts &out) const {
  bool bySample = group.item == kSample;
  auto whole = std::make_shared<Lists>();
  for (const Items &places : microbatches)
    whole->push_back({places});
  int kind = bySample ? kSampleKind : kinds[size_t(group.modules[0])];
  reorder::PartitionOptions options;
  options.groups = group.dp;
  options.maxCount = int32_t(std::max<int64_t>(capacity(group), 1));
  options.speeds = group.speeds;
  auto shares = std::make_shared<Lists>();
  SharedLists all = bySamples(kind, whole);
  bool weighs = alike == Alike::Cost || alike == Alike::Rows;
  std::vector<Weighed> weighed =
      weigh(weighs ? &weightsOf(group, alike) : nullptr, *all);
  for (size_t k = 0; k < all->size(); ++k)
    shares->push_back(alike == Alike::Parts
                          ? given((*all)[k][0], group.dp)
                          : split((*all)[k][0], weighed[k], options));
  // Modules with as many pieces of the same kind and span have equal parts.
  std::map<int32_t, TaskLists> tasks; // by span
  std::map<std::tuple<int32_t, int, int32_t>, std::shared_ptr<PieceLists>> cuts;
  std::string tooLarge;
  for (int32_t m : group.modules) {
    int32_t pieces = piecesOf(program.modules[size_t(m)]),
            span = spanOf(program.modules[size_t(m)]);
    auto [joined, first] = tasks.try_emplace(span);
    if (first)
      joined->second = {join(shares, span), join(whole, span)};
    auto [found, fresh] = cuts.try_emplace(
        {pieces, pieces > 1 ? kinds[size_t(m)] : kSampleKind, span});
    if (fresh)
      found->second = cutPieces(group, m, joined->second);
    PieceLists &own = *(out.pieces[size_t(m)] = found->second);
    const Lists &mine = listsOf(m, kinds[size_t(m)], "", own);
    out.loads[size_t(m)] =
        span == 1  ? timesOf(m, mine, pieces)
        : bySample ? timesOf(m, *bySamples(kinds[size_t(m)], shares), 1)
                   : timesOf(m, *shares, 1);
    if (tooLarge.empty())
      tooLarge = check(m, own);
  }
  return tooLarge;
}

/// In the order in which they are tried.
std::vector<StepCutter::Alike>
StepCutter::waysOf(const PartGroup &group,
                   const std::vector<Items> &microbatches, bool balance) const {
  bool bySample = group.item == kSample,
       parts = bySample && !items.parts.empty() &&
               std::none_of(microbatches.begin(), microbatches.end(),
                            [&](const Items &microbatch) {
                              return given(microbatch, group.dp).empty();
                            });
  std::vector<Alike> ways;
  if (balance)
    ways.push_back(Alike::Cost);
  if (parts && group.speeds.empty())
    ways.push_back(Alike::Parts);
  else if (!balance || bySample)
    ways.push_back(Alike::Count);
  if (parts && !group.speeds.empty())
    ways.push_back(Alike::Parts);
  if (addsUp(group))
    ways.push_back(Alike::Rows);
  return ways;
}

/// The first way in which all parts keep to their bounds.
void StepCutter::cutGroup(const PartGroup &group,
                          const std::vector<Items> &microbatches, bool balance,
                          CutParts &out) const {
  std::vector<Alike> ways = waysOf(group, microbatches, balance);
  std::string first;
  for (Alike way : ways) {
    std::string tooLarge = tryCut(group, microbatches, way, out);
    if (tooLarge.empty())
      return;
    if (way != Alike::Cost || ways.size() == 1)
      first = first.empty() ? tooLarge : first;
  }
  if (out.tooLarge.empty())
    out.tooLarge = first;
}

void StepCutter::cutWhole(int32_t module, CutParts &out) const {
  const ModuleInfo &info = program.modules[size_t(module)];
  int64_t load = 0, count = countOf(kinds[size_t(module)]);
  for (int64_t i = 0; i < count; ++i)
    load += costs[size_t(module)][size_t(i)];
  out.loads[size_t(module)] = {
      std::vector<int64_t>(size_t(replicasOf(info)), load)};
  for (size_t s = 0; out.tooLarge.empty() && s < info.symbols.size; ++s) {
    int kind = symbolKinds[size_t(module)][s];
    if (kind < 0)
      continue;
    Items all = everything(countOf(kind));
    const auto *measure = symbolMeasures[size_t(module)][s].get();
    int64_t value = ItemRows{&all, measure}.total();
    if (value > info.symbols[s].max)
      out.tooLarge = explain(module, s, 0, 0, value, all);
  }
}

CutParts StepCutter::cut(const std::vector<Items> &microbatches,
                         bool balance) const {
  CutParts out;
  out.pieces.resize(program.modules.size);
  out.loads.resize(program.modules.size);
  for (const PartGroup &group : groups)
    cutGroup(group, microbatches, balance, out);
  for (size_t m = 0; m < program.modules.size; ++m)
    if (program.modules[m].wholeBatch)
      cutWhole(int32_t(m), out);
  return out;
}

} // namespace dt::rt
