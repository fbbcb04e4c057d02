//===- Bound.cpp - What a plan takes at least -----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A bound on the simulated step that needs no order of tasks. It rests on this:
// a part takes no less than its share of a larger one (launches and small
// products), and where sizes differ, computing is convex in the size and
// messages are no more expensive in one piece.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/search/UnitBound.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace dt::planner {

namespace {

class Bound {
public:
  Bound(const PolicyInput &input, const Plan &plan);
  double get();

private:
  PartSizes sizesOf(int u) const;
  /// Before the first task of a unit, and behind the last: of what feeds it.
  double before(int u) const;
  double behind(int u) const;
  /// From the end of a unit's forward to the begin of its backward, of one
  /// microbatch.
  double beyond(int u) const;
  /// Bytes that other units have at least on any of the devices of one.
  double takenByOthers(int u) const;
  struct Around {
    double before, behind, beyond, taken;
  };
  /// What a pipeline position does and has in a step, over its rounds.
  struct Position {
    int firstLayer = 0;
    double work = 0, gather = 0; ///< seconds
    /// Bytes: all the time, while a task runs, while a layer leaves for a
    /// checkpoint, of all microbatches.
    double always = 0, workspace = 0, snapshot = 0, kept = 0;
    double held = 0;      ///< bytes times seconds of all microbatches
    double residence = 0; ///< seconds of a microbatch on average
  };
  Position getPosition(int u, int position, double beyond) const;
  double ofPosition(int u, int position, const Around &around) const;
  int stageAt(const UnitPlan &unit, int round, int position) const {
    int first = round * unit.pp;
    return first + scheduler::positionOf(first + position, unit.pp, back);
  }
  template <typename Function>
  double mostOfEdges(int ModelEdge::*end, int u, Function f) const;

  const PolicyInput &input;
  const Plan &plan;
  bool split, back;
  std::vector<UnitBound> units;
};

} // namespace

/// As Parts.cpp deals samples and items out.
PartSizes Bound::sizesOf(int u) const {
  const UnitPlan &unit = plan.units[u];
  int64_t all = input.samples(), n = plan.microbatches,
          dp = plan.units[input.model().pace].dp, parts = n * dp;
  bool balanced =
      plan.assign == Assign::Items &&
      (plan.reorder == Reorder::Intra || plan.reorder == Reorder::Both);
  int64_t most = divideCeil(uint64_t(all), uint64_t(parts)),
          least = all / parts;
  if (!balanced) {
    most = std::max<int64_t>(plan.micro,
                             int64_t(divideCeil(uint64_t(all), uint64_t(dp))) -
                                 (n - 1) * plan.micro);
    least = parts * plan.micro == all ? plan.micro : 0;
  }
  bool pace = u == input.model().pace;
  // Whole samples stay with their replica.
  if (pace || (plan.assign != Assign::Items && unit.dp == dp)) {
    // Of others a sample may have nothing.
    double filled = !pace && !input.cache->isUniform(u) ? 1
                    : balanced ? double(std::min(parts, all))
                               : std::ceil(double(all) / double(most));
    return {double(least), double(most), filled, 1};
  }
  double items = input.cache->getTotal(u).items / double(all);
  if (items <= 0)
    return {};
  // Even parts of uneven samples have more of some than of others.
  if (balanced && !input.isEven())
    return {0, double(all), 1};
  double replicas = double(unit.dp);
  PartSizes sizes{0, double(most * dp), 1, 1 / items};
  if (balanced)
    sizes = {std::floor(double(least * dp) * items / replicas) / items,
             std::ceil(double(most * dp) * items / replicas) / items, 1,
             1 / items};
  else if (unit.dp == 1)
    sizes.least = double(least * dp);
  return sizes;
}

/// Of tasks of so many microbatches; the last may be of fewer.
static PartSizes ofTasks(int span, const PartSizes &sizes) {
  return {sizes.least, sizes.most * span, std::ceil(sizes.filled / span),
          sizes.grain};
}

Bound::Bound(const PolicyInput &input, const Plan &plan)
    : input(input), plan(plan), split(plan.getTraits().splitsBackward),
      back(plan.goesBack()) {
  units.reserve(plan.units.size());
  for (size_t u = 0; u < plan.units.size(); ++u)
    units.emplace_back(input, plan, int(u),
                       ofTasks(plan.units[u].span, sizesOf(int(u))));
}

/// Edges between units that run beside each other.
template <typename Function>
double Bound::mostOfEdges(int ModelEdge::*end, int u, Function f) const {
  double most = 0;
  for (const ModelEdge &edge : input.model().edges)
    if (edge.*end == u)
      most = std::max(most, f(edge));
  return most;
}

static int countLayers(const UnitBound &unit) { return unit.unit.cuts.back(); }

double Bound::before(int u) const {
  return mostOfEdges(&ModelEdge::to, u, [&](const ModelEdge &edge) {
    return before(edge.from) +
           units[edge.from].forward(0, countLayers(units[edge.from]));
  });
}

double Bound::behind(int u) const {
  return mostOfEdges(&ModelEdge::to, u, [&](const ModelEdge &edge) {
    if (!input.model().modules[edge.from].hasBackward())
      return 0.0;
    return behind(edge.from) +
           units[edge.from].backward(0, countLayers(units[edge.from]), true);
  });
}

double Bound::beyond(int u) const {
  return mostOfEdges(&ModelEdge::from, u, [&](const ModelEdge &edge) {
    if (!input.model().modules[edge.to].hasBackward())
      return 0.0;
    const UnitBound &to = units[edge.to];
    return to.forward(0, countLayers(to)) + beyond(edge.to) +
           to.backward(0, countLayers(to), !split);
  });
}

double Bound::takenByOthers(int u) const {
  double sum = 0;
  const UnitPlan &own = plan.units[u];
  for (const UnitBound &other : units) {
    const UnitPlan &unit = other.unit;
    if (&unit == &own || unit.firstRank != own.firstRank ||
        unit.getRanks() != own.getRanks())
      continue;
    // In phases, what feeds the largest keeps the whole batch until it is done.
    bool keeps = plan.getTraits().runsInPhases && u == input.model().pace &&
                 input.model().modules[unit.module].hasBackward() &&
                 any_of(input.model().edges, [&](const ModelEdge &edge) {
                   return edge.from == unit.module && edge.to == u;
                 });
    double least = INFINITY;
    for (int p = 0; p < unit.pp; ++p) {
      double bytes = 0;
      for (int round = 0; round < unit.vpp; ++round) {
        int s = stageAt(unit, round, p);
        bytes += other.state(s) + (keeps ? other.keptBy(s) : 0);
      }
      least = std::min(least, bytes);
    }
    sum += least;
  }
  return sum;
}

Bound::Position Bound::getPosition(int u, int position, double beyond) const {
  const UnitBound &own = units[u];
  Position result;
  for (int round = 0; round < own.unit.vpp; ++round) {
    int s = stageAt(own.unit, round, position);
    int begin = own.unit.cuts[s], end = own.unit.cuts[s + 1];
    result.firstLayer = round ? result.firstLayer : begin;
    result.work += own.work(begin, end);
    result.always += own.state(s) + own.late(s);
    result.workspace = std::max(result.workspace, own.workspace(s));
    result.snapshot = std::max(result.snapshot, own.snapshot(s));
    result.gather += own.gather(begin, end);
    if (!input.model().modules[u].hasBackward())
      continue;
    double bytes = own.keptBy(s);
    result.kept += bytes;
    // From the begin of its forward to the end of its backward, of which the
    // first stage of a split one may have no half of its own. A part of mean
    // size stands for all: bytes times seconds grow faster than the part.
    double way = own.thereAndBack(begin, split ? end : begin, !split);
    result.held += bytes * (beyond + way);
    result.residence += way + beyond / own.largestShare;
  }
  // What is on just these ranks besides.
  for (size_t g = 0; own.unit.pp > 1 && g < units.size(); ++g) {
    const UnitPlan &guest = plan.units[g];
    if (int(g) == u || guest.pp > 1 || !own.unit.blocks.empty() ||
        guest.firstRank != own.unit.getRank(position, 0) ||
        guest.getRanks() != own.unit.getRanks() / own.unit.pp)
      continue;
    int all = countLayers(units[g]);
    result.work += units[g].work(0, all);
    result.always += units[g].state(0, all);
  }
  return result;
}

double Bound::ofPosition(int u, int position, const Around &around) const {
  const UnitBound &own = units[u];
  Position here = getPosition(u, position, around.beyond);
  double microbatches = double(plan.microbatches);
  double free = own.memory - here.always - around.taken - here.workspace -
                here.snapshot,
         each = here.kept / microbatches;
  if (free < 0 || each > free)
    return INFINITY;
  // From the first forward's begin to the last backward's end: what memory
  // lets be there at once.
  double busy = here.held > 0 ? here.held / free : 0;
  if (own.unit.vpp == 1 && each > 0)
    busy =
        std::max(busy, here.residence * microbatches / own.countIn(free, each));
  bool trains = input.model().modules[u].hasBackward();
  double fill = around.before + own.forward(0, here.firstLayer),
         drain = trains ? own.backward(0, here.firstLayer, !split) : 0;
  if (split)
    return fill + std::max(here.work + here.gather, busy + drain);
  drain += trains ? around.behind : 0;
  return fill +
         std::max(here.work + std::max(drain, here.gather), busy + drain);
}

double Bound::get() {
  double most = 0, together = 0;
  for (size_t u = 0; u < units.size(); ++u) {
    const UnitPlan &unit = plan.units[u];
    together += units[u].work(0, countLayers(units[u])) *
                double(int64_t(unit.tp) * unit.cp * unit.dp);
    Around around{before(int(u)), behind(int(u)), beyond(int(u)),
                  takenByOthers(int(u))};
    for (int p = 0; p < unit.pp; ++p)
      most = std::max(most, ofPosition(int(u), p, around));
  }
  return std::max(most, together / double(plan.ranks));
}

double lowerBound(const PolicyInput &input, const Plan &plan) {
  if (!input.costs.cluster.hasSeveralKinds())
    return Bound(input, plan).get();
  Plan placed = plan;
  placeBlocks(input, placed);
  // Replicas on several kinds of devices may have any share.
  if (any_of(placed.units,
             [](const UnitPlan &unit) { return !unit.blocks.empty(); }))
    return input.cache->getWorkBound();
  return Bound(input, placed).get();
}

} // namespace dt::planner
