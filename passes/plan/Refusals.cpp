//===- Refusals.cpp - What plans that did not fit have taught -------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/Refusals.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <string>
#include <utility>

namespace dt::plan {

using planner::Plan;
using planner::PlannedStep;
using planner::RankBytes;
using planner::UnitPlan;

Refusals::Layout Refusals::layoutOf(const Plan &plan, size_t u) {
  Layout layout = {int64_t(u), plan.sequenceParallel};
  auto add = [&](const UnitPlan &unit) {
    layout.insert(layout.end(),
                  {unit.tp, unit.cp, unit.ring, unit.dp, unit.pp});
  };
  add(plan.units[u]);
  if (plan.sharesRanks())
    for (const UnitPlan &unit : plan.units) {
      add(unit);
      layout.push_back(unit.firstRank);
    }
  return layout;
}

void Refusals::tell(Plan &plan) const {
  for (auto [u, unit] : llvm::enumerate(plan.units)) {
    auto known = beyond.find(layoutOf(plan, u));
    unit.beyond = known == beyond.end() ? std::vector<double>() : known->second;
  }
}

namespace {

/// Ranks of a unit at a position, and what is predicted of the one of them that
/// is expected to hold most.
struct Position {
  std::vector<int64_t> ranks;
  PlannedStep::Memory predicted;
};

Position positionOf(const UnitPlan &unit, int p, const PlannedStep &step) {
  Position position;
  for (int64_t replica = 0; replica < unit.dp; ++replica) {
    int64_t first = unit.getRank(p, replica);
    for (int64_t rank = first; rank < first + unit.tp * unit.cp; ++rank)
      position.ranks.push_back(rank);
    // A rank of the simulated problem stands for several.
    for (auto [rank, held] : llvm::zip(step.planRank, step.held))
      if (rank == first && held.total() > position.predicted.total())
        position.predicted = held;
  }
  return position;
}

} // namespace

llvm::Error Refusals::check(const Plan &plan, const PlannedStep &step,
                            const planner::Cluster &cluster) {
  double most = 0;
  std::string text;
  std::vector<std::vector<double>> more(plan.units.size());
  for (auto [u, unit] : llvm::enumerate(plan.units))
    for (int p = 0; p < unit.pp; ++p) {
      Position position = positionOf(unit, p, step);
      double snapshot = position.predicted.snapshot,
             expected = position.predicted.total() - snapshot -
                        position.predicted.beyond;
      double &beyond = more[u].emplace_back(0);
      for (int64_t rank : position.ranks) {
        const RankBytes &bytes = plan.predicted.allocated[rank];
        beyond = std::max(beyond, double(bytes.total()) - expected);
        double needs = double(bytes.total()) + snapshot,
               missing = needs - cluster.getLeastMemory(rank, 1);
        if (missing <= most)
          continue;
        most = missing;
        text = llvm::formatv("rank {0} does not fit: {1:f0} bytes, {2:f0} more "
                             "than its device has (",
                             rank, needs, most)
                   .str();
        for (auto [key, member] : planner::kRankBytes)
          text += llvm::formatv("{0} {1}, ", key, bytes.*member);
        text += llvm::formatv("checkpoint {0:f0})", snapshot);
      }
    }
  if (text.empty())
    return llvm::Error::success();
  for (auto [u, now] : llvm::enumerate(more)) {
    auto &known = beyond.try_emplace(layoutOf(plan, u), now).first->second;
    for (auto [a, b] : llvm::zip(known, now))
      a = std::max(a, b);
  }
  return llvm::make_error<planner::DoesNotFit>(0, most, 0, std::move(text));
}

} // namespace dt::plan
