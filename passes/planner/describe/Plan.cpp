//===- Plan.cpp - Who runs what -------------------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/describe/Plan.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace dt::planner {

StringRef getName(Assign assign) {
  return assign == Assign::Given     ? "given"
         : assign == Assign::Samples ? "samples"
                                     : "items";
}

namespace {

Error wrong(const Twine &what) { return createStringError(what); }

Error checkUnit(const UnitPlan &unit, const Plan &plan, const Module &module) {
  auto fail = [&](const Twine &what) {
    return wrong("unit '" + module.name + "': " + what);
  };
  if (unit.tp < 1 || unit.dp < 1 || unit.pp < 1 || unit.vpp < 1 ||
      unit.cp < 1 || unit.sub < 1 || unit.span < 1)
    return fail("TP, DP, PP, VPP, CP, sub and span must be at least 1");
  if (unit.tp > module.maxTP)
    return fail(formatv("TP {0} is more than its widths allow ({1})", unit.tp,
                        module.maxTP));
  int layers = int(module.layers.size()), stages = unit.pp * unit.vpp;
  if (stages > layers)
    return fail(formatv("{0} stages of {1} layers", stages, layers));
  if (int(unit.cuts.size()) != stages + 1 || unit.cuts.front() != 0 ||
      unit.cuts.back() != layers ||
      !std::is_sorted(unit.cuts.begin(), unit.cuts.end()))
    return fail(formatv("the cuts must be {0} ascending numbers from 0 to {1}",
                        stages + 1, layers));
  if (!unit.saves.empty() && int(unit.saves.size()) != stages)
    return fail(formatv("saved sets of {0} stages, not {1}", stages,
                        unit.saves.size()));
  if (unit.firstRank < 0 || unit.firstRank + unit.getRanks() > plan.ranks)
    return fail(formatv("ranks {0} to {1} are not among the plan's {2}",
                        unit.firstRank, unit.firstRank + unit.getRanks() - 1,
                        plan.ranks));
  int64_t replicas = 0;
  for (const UnitPlan::Block &block : unit.blocks) {
    if (block.replicas < 1 || block.speed < 1)
      return fail("blocks must have replicas and a speed of at least 1");
    replicas += block.replicas;
  }
  if (!unit.blocks.empty() && replicas != unit.dp)
    return fail(formatv("blocks of {0} replicas, not {1}", replicas, unit.dp));
  return Error::success();
}

} // namespace

std::vector<int32_t> UnitPlan::getSpeeds() const {
  std::vector<int32_t> speeds;
  for (const Block &block : blocks)
    speeds.insert(speeds.end(), block.replicas, block.speed);
  return speeds;
}

int64_t UnitPlan::getRank(int position, int64_t replica) const {
  int64_t first = 0, count = dp;
  for (const Block &block : blocks) {
    count = block.replicas;
    if (replica < first + count)
      break;
    first += count;
  }
  return firstRank +
         (first * pp + position * count + replica - first) * tp * cp;
}

bool Plan::isGuest(int unit) const {
  return llvm::any_of(units, [&](const UnitPlan &other) {
    return other.meets(units[unit]) &&
           other.getRanks() > units[unit].getRanks();
  });
}

CostOptions Plan::getOptions(int unit) const {
  const UnitPlan &own = units[unit];
  CostOptions options;
  options.tp = own.tp;
  options.cp = own.cp;
  options.ring = own.ring;
  options.ep = own.ep;
  options.etp = own.etp;
  options.overlap = own.overlap;
  options.save = own.save;
  options.sequenceParallel = sequenceParallel;
  options.splitBackward = getTraits().splitsBackward;
  return options;
}

CostOptions Plan::getOptions(int unit, int stage) const {
  CostOptions options = getOptions(unit);
  options.save = units[unit].getSave(stage);
  return options;
}

bool Plan::hasSpans() const {
  return any_of(units, [](const UnitPlan &unit) { return unit.span > 1; });
}

Error checkPlan(const Plan &plan, const Model &model, const Cluster &cluster) {
  if (plan.ranks < 1 || plan.ranks > cluster.getNumDevices())
    return wrong(formatv("a plan for {0} ranks on {1} devices", plan.ranks,
                         cluster.getNumDevices()));
  if (plan.micro < 1 || plan.microbatches < 1)
    return wrong("a plan needs at least one microbatch of one sample");
  if (plan.units.size() != model.modules.size())
    return wrong("a plan needs one unit for each module");
  for (size_t i = 0; i < plan.units.size(); ++i) {
    if (plan.units[i].module != int(i))
      return wrong("units stand in the order of the modules");
    if (Error error = checkUnit(plan.units[i], plan, model.modules[i]))
      return error;
  }
  return Error::success();
}

std::vector<int> evenCuts(int layers, int stages) {
  std::vector<int> cuts;
  for (int s = 0; s <= stages; ++s)
    cuts.push_back(int(int64_t(layers) * s / stages));
  return cuts;
}

std::vector<int> balancedCuts(ArrayRef<double> costs, int stages,
                              ArrayRef<double> begins) {
  int layers = int(costs.size());
  if (layers < stages)
    return evenCuts(layers, stages);
  std::vector<double> sums = {0};
  for (double cost : costs)
    sums.push_back(sums.back() + cost);
  // By stage and end: where the stage begins in the best cuts up to there.
  std::vector<std::vector<int>> from(stages + 1,
                                     std::vector<int>(layers + 1, 0));
  // The least `join` of all stages' costs, none of which is above the limit.
  auto search = [&](double limit, auto join) {
    limit *= 1 + 1e-12 * layers; // sums are rounded
    std::vector<double> best(layers + 1, INFINITY), next;
    best[0] = 0;
    for (int s = 1; s <= stages; ++s, best.swap(next)) {
      next.assign(layers + 1, INFINITY);
      for (int end = s; end <= layers - (stages - s); ++end)
        for (int i = end - 1; i >= s - 1 && sums[end] - sums[i] <= limit; --i) {
          double cost =
              sums[end] - sums[i] + (i > 0 && !begins.empty() ? begins[i] : 0);
          double all = cost <= limit ? join(best[i], cost) : INFINITY;
          if (all < next[end]) {
            next[end] = all;
            from[s][end] = i;
          }
        }
    }
    return best[layers];
  };
  // As much always suffices.
  double enough = sums.back() / stages + *llvm::max_element(costs) +
                  (begins.empty() ? 0 : *llvm::max_element(begins));
  double least = search(
      enough, [](double most, double cost) { return std::max(most, cost); });
  search(least, [](double sum, double cost) { return sum + cost * cost; });
  std::vector<int> cuts(stages + 1, layers);
  for (int s = stages; s > 0; --s)
    cuts[s - 1] = from[s][cuts[s]];
  return cuts;
}

std::vector<int> balancedRounds(ArrayRef<double> costs, int pp, int vpp,
                                bool back, ArrayRef<double> begins) {
  int layers = int(costs.size()), stages = pp * vpp;
  std::vector<int> best = balancedCuts(costs, stages, begins);
  if (vpp == 1 || layers < stages)
    return best;
  // The most expensive position, and the sum of squares of all.
  auto rate = [&](const std::vector<int> &cuts) {
    std::vector<double> load(pp, 0);
    for (int s = 0; s < stages; ++s) {
      double &own = load[scheduler::positionOf(s, pp, back)];
      own += s > 0 && !begins.empty() ? begins[cuts[s]] : 0;
      for (int i = cuts[s]; i < cuts[s + 1]; ++i)
        own += costs[i];
    }
    double squares = 0;
    for (double one : load)
      squares += one * one;
    return std::pair(*llvm::max_element(load), squares);
  };
  // The ends are what they are, layers between them count as alike: one after
  // the other goes to the position with least to do, and there to the stage
  // with fewest.
  double between = 0;
  for (int i = 1; i + 1 < layers; ++i)
    between += costs[i] / std::max(1, layers - 2);
  std::vector<double> load(pp, between * vpp);
  std::vector<int> count(stages, 1);
  load[0] += costs.front() - between;
  load[scheduler::positionOf(stages - 1, pp, back)] += costs.back() - between;
  for (int i = stages; i < layers; ++i) {
    int least = int(std::min_element(load.begin(), load.end()) - load.begin());
    load[least] += between;
    int to = -1;
    for (int s = 0; s < stages; ++s)
      if (scheduler::positionOf(s, pp, back) == least &&
          (to < 0 || count[s] <= count[to]))
        to = s;
    ++count[to];
  }
  std::vector<int> cuts = {0};
  for (int s = 0; s < stages; ++s)
    cuts.push_back(cuts.back() + count[s]);
  return rate(cuts) < rate(best) ? cuts : best;
}

/// Of a stage's tasks, as the compiler reads them again.
static nlohmann::ordered_json printTimes(const Prediction &p, size_t unit,
                                         StringRef source) {
  nlohmann::ordered_json stages;
  for (const StageTimes &times : p.times[unit]) {
    // Of no items it has no figures.
    auto &stage = stages.emplace_back(nlohmann::ordered_json::object());
    for (auto [key, value] : kStageTimes)
      if (times.*value)
        stage[key] = times.*value;
  }
  return {{"from", source}, {"stages", stages}};
}

std::string describeFaster(const Plan &plan) {
  if (!plan.faster)
    return "";
  double percent = 100 * plan.faster->gain;
  return formatv("{0}{1:f2} % slower than the fastest plan found, which has "
                 "{2}; this has {3}",
                 percent < 0.01 ? "less than " : "", std::max(percent, 0.01),
                 plan.faster->has, plan.faster->here);
}

std::string describeIdle(const Plan &plan, int64_t devices) {
  if (plan.ranks >= devices)
    return "";
  std::string text =
      formatv("{0} of {1} devices are idle: ", devices - plan.ranks, devices);
  if (!plan.fuller)
    return text + "no plan was found that uses more of them and fits";
  auto [ranks, step] = *plan.fuller;
  double longer = 100 * (step / plan.predicted.step - 1);
  return text +
         formatv("the fastest plan found that uses more, {0}, {1}", ranks,
                 longer < 0 ? formatv("is only {0:f2} % faster", -longer).str()
                            : formatv("is {0:f2} % slower", longer).str())
             .str();
}

std::string describeSaves(const UnitPlan &unit) {
  if (unit.saves.empty())
    return rt::textOf(unit.save);
  std::string text;
  for (size_t begin = 0, end; begin < unit.saves.size(); begin = end) {
    end = begin + 1;
    while (end < unit.saves.size() && unit.saves[end] == unit.saves[begin])
      ++end;
    text += formatv("{0}{1} {2}", begin ? ", " : "", end - begin,
                    rt::textOf(unit.saves[begin]));
  }
  return text;
}

std::string describeBlocks(const UnitPlan &unit) {
  std::string text;
  for (const UnitPlan::Block &block : unit.blocks)
    text +=
        formatv("{0}{1} {2}of speed {3}", text.empty() ? "" : ", ",
                block.replicas, text.empty() ? "replicas " : "", block.speed);
  return text;
}

std::string describeSearch(const Plan &plan) {
  if (!plan.searched)
    return "";
  const Searched &searched = *plan.searched;
  double gap = searched.getGap(plan.predicted.step);
  std::string text =
      formatv("gap {0:f1} %: of {1} plans searched {2} were simulated",
              100 * gap, searched.plans, searched.simulated);
  if (gap > 0)
    text += formatv(", no other is faster than {0:f4} s", searched.bound);
  else if (searched.plans > searched.simulated)
    text += ", no other is faster";
  if (searched.refused)
    text += formatv("; {0} that seemed better did not fit when compiled",
                    searched.refused);
  return text;
}

int64_t RankBytes::total() const {
  int64_t sum = 0;
  for (auto [key, member] : kRankBytes)
    sum += this->*member;
  return sum;
}

/// Ranks that allocate the same are one entry.
static nlohmann::ordered_json
printAllocated(llvm::ArrayRef<RankBytes> allocated) {
  using Json = nlohmann::ordered_json;
  Json entries = Json::array();
  std::map<std::string, size_t> places;
  for (size_t rank = 0; rank < allocated.size(); ++rank) {
    Json entry;
    for (auto [key, member] : kRankBytes)
      entry[key] = allocated[rank].*member;
    auto [place, isNew] = places.try_emplace(entry.dump(), entries.size());
    if (isNew)
      entries.push_back(std::move(entry));
    entries[place->second]["ranks"].push_back(rank);
  }
  return entries;
}

double Spread::at(int percentile) const {
  return steps[(percentile * steps.size() + 99) / 100 - 1];
}

/// Percent and seconds, as far as these are finite.
static std::map<int, double> listPercentiles(const Spread &spread) {
  std::map<int, double> list;
  for (int percent : {10, 50, 90, 100, spread.percentile})
    if (double step = spread.at(percent); std::isfinite(step))
      list[percent] = step;
  return list;
}

std::string describeSpread(const Plan &plan) {
  if (!plan.predicted.spread)
    return "";
  const Spread &spread = *plan.predicted.spread;
  std::string text =
      formatv("of {0} draws of data and slow ranks", spread.steps.size());
  StringRef before = " ", most = " take at most";
  for (auto [percent, step] : listPercentiles(spread)) {
    text += formatv("{0}{1} %{2} {3:f4} s", before, percent, most, step);
    before = ", ", most = "";
  }
  int64_t none = llvm::count(spread.steps, INFINITY);
  if (none > 0)
    text += formatv("; {0} do not fit", none);
  return text + formatv("; chosen by {0} %", spread.percentile).str();
}

std::string printPlan(const Plan &plan, const Model &model) {
  using Json = nlohmann::ordered_json;
  Json json;
  json["version"] = 1;
  json["ranks"] = plan.ranks;
  json["microbatches"] = plan.microbatches;
  json["pace"] = model.modules[model.pace].name;
  Json names = Json::array();
  for (const UnitPlan &unit : plan.units) {
    const Module &module = model.modules[unit.module];
    Json entry;
    entry["tp"] = unit.tp;
    if (unit.ep > 1)
      entry["ep"] = unit.ep;
    if (unit.cp > 1)
      entry["cp"] = unit.cp;
    if (unit.ring)
      entry["context"] = rt::textOf(rt::ContextKeys::Ring);
    entry["dp"] = unit.dp;
    entry["pp"] = unit.pp;
    entry["vpp"] = unit.vpp;
    if (unit.blocks.empty() || unit.pp == 1) {
      entry["ranks"] = std::to_string(unit.firstRank) + "-" +
                       std::to_string(unit.firstRank + unit.getRanks() - 1);
    } else {
      for (int position = 0; position < unit.pp; ++position)
        for (int64_t r = 0; r < unit.dp; ++r)
          for (int i = 0; i < unit.tp * unit.cp; ++i)
            entry["ranks"].push_back(unit.getRank(position, r) + i);
    }
    if (!unit.blocks.empty())
      entry["speeds"] = unit.getSpeeds();
    if (unit.runAhead)
      entry["run_ahead"] = *unit.runAhead;
    entry["save"] = rt::textOf(unit.save);
    if (!unit.saves.empty())
      entry["save"] = Json::array();
    for (Save save : unit.saves)
      entry["save"].push_back(rt::textOf(save));
    if (unit.sub > 1)
      entry["sub"] = unit.sub;
    if (unit.span > 1)
      entry["span"] = unit.span;
    entry["zero"] = unit.zero;
    // As the prices have it: with layers that are described so.
    if (plan.sequenceParallel && unit.tp > 1 &&
        module.partitioned.count({unit.tp, unit.getSave(0), true, unit.ep}))
      entry["sequence_parallel"] = true;
    if (unit.overlap > 1)
      entry["overlap"] = unit.overlap;
    size_t i = size_t(unit.module);
    if (i < plan.predicted.memory.size())
      entry["predicted"] = {{"memory", plan.predicted.memory[i]},
                            {"busy", plan.predicted.busy[i]}};
    // What the planner calls the layers of each stage: a profile's names.
    for (size_t s = 0; s + 1 < unit.cuts.size(); ++s) {
      Json kinds = Json::array();
      for (int layer = unit.cuts[s]; layer < unit.cuts[s + 1]; ++layer)
        kinds.push_back(module.kinds[module.layers[layer]].name);
      entry["predicted"]["layers"].push_back(std::move(kinds));
    }
    if (i < plan.predicted.times.size())
      entry["times"] = printTimes(plan.predicted, i, plan.predicted.sources[i]);
    json["units"][module.name] = entry;
    names.push_back(module.name);
  }
  json["pipelines"] =
      Json::array({Json{{"units", names}, {"schedule", plan.schedule}}});
  json["reorder"] = rt::textOf(plan.reorder);
  const Prediction &p = plan.predicted;
  Json &predicted = json["predicted"];
  predicted = {{"policy", plan.policy},       {"costs", p.costs},
               {"objective", p.objective},    {"step", p.step},
               {"ceiling", p.getCeiling()},   {"mfu", p.mfu},
               {"bubble_wall", p.wallBubble}, {"bubble_span", p.spanBubble}};
  for (auto &[rank, tasks] : p.order)
    predicted["order"][std::to_string(rank)] = tasks;
  if (!p.allocated.empty())
    predicted["memory"] = printAllocated(p.allocated);
  if (p.spread) {
    Json &spread = predicted["spread"];
    spread = {{"percentile", p.spread->percentile},
              {"draws", p.spread->steps.size()}};
    for (auto [percent, step] : listPercentiles(*p.spread))
      spread["steps"][std::to_string(percent)] = step;
  }
  if (plan.fuller)
    predicted["with_more_ranks"] = {{"ranks", plan.fuller->first},
                                    {"step", plan.fuller->second}};
  if (plan.faster)
    predicted["fastest"] = {{"step", plan.faster->step},
                            {"has", plan.faster->has},
                            {"this_has", plan.faster->here}};
  if (plan.searched) {
    Json &searched = predicted["searched"];
    searched = {{"plans", plan.searched->plans},
                {"simulated", plan.searched->simulated},
                {"gap", plan.searched->getGap(p.step)}};
    if (plan.searched->refused)
      searched["refused"] = plan.searched->refused;
    for (auto [number, size] : plan.searched->sizes)
      if (std::isfinite(size.step))
        searched["microbatches"][std::to_string(number)] = {
            {size.isBound ? "at_least" : "step", size.step}};
  }
  return json.dump(1);
}

} // namespace dt::planner
