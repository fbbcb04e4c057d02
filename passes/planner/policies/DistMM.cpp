//===- DistMM.cpp - DISTMM's partitioner, balancer and placement ----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// After Huang et al., NSDI 2024: every submodule has its own parallelism
// (tensor parallel only as far as memory asks for it, since data parallel costs
// less communication a step), devices in proportion to its work, and ranks of
// one modality side by side, so that what talks most stays in a node.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/policies/Policy.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace dt::planner {

namespace {

/// Smallest group of devices that holds a replica of the module; else how many
/// bytes a device are missing at least.
bool smallestReplica(const PolicyInput &input, int module, Save save, int &tp,
                     int &pp, double &missing) {
  const ModuleCost &cost = input.costs.get(0, module);
  int layers = int(input.model().modules[module].layers.size());
  double memory = input.costs.cluster.getMemory(0);
  TokenSums part = meanPart(input, module, input.samples(), 1);
  int64_t best = 0;
  for (int p = 1; p <= layers; ++p)
    for (int t : tensorSizes(input, module)) {
      CostOptions options{t, save};
      double fraction = 1.0 / p;
      double bytes = cost.state(0, layers, t, 1) * fraction +
                     cost.kept(0, layers, options, part) * fraction * (p + 2);
      int64_t size = int64_t(p) * t;
      missing = std::min(missing, bytes - 0.85 * memory);
      if (bytes <= 0.85 * memory && (!best || size < best)) {
        best = size;
        tp = t;
        pp = p;
      }
    }
  return best > 0;
}

} // namespace

Expected<Layouts> listDistMM(const PolicyInput &input) {
  const Model &model = input.model();
  size_t count = model.modules.size();
  std::vector<Plan> plans;
  std::string reason =
      "one replica of each module does not fit the devices together";
  for (Save save : {Save::All, Save::Vjp, Save::None}) {
    std::vector<int> tp(count, 1), pp(count, 1);
    std::vector<double> work(count, 0);
    std::vector<int64_t> dp(count, 1);
    int64_t used = 0;
    for (size_t m = 0; m < count; ++m) {
      double missing = INFINITY;
      if (!smallestReplica(input, int(m), save, tp[m], pp[m], missing)) {
        reason = formatv("module '{0}' does not fit in any layout: at least "
                         "{1:f0} bytes a device are missing",
                         model.modules[m].name, missing);
        used = input.gpus() + 1;
        break;
      }
      CostOptions options{tp[m], save};
      work[m] =
          input.costs.get(0, int(m))
              .module(options, meanPart(input, int(m), input.samples(), 1))
              .total() /
          pp[m];
      used += int64_t(tp[m]) * pp[m];
    }
    if (used > input.gpus())
      continue;
    // One more replica for whoever is slowest, as long as there are devices.
    while (true) {
      size_t slowest = 0;
      for (size_t m = 1; m < count; ++m)
        if (work[m] / double(dp[m]) > work[slowest] / double(dp[slowest]))
          slowest = m;
      int64_t size = int64_t(tp[slowest]) * pp[slowest];
      if (used + size > input.gpus() || dp[slowest] >= input.samples())
        break;
      ++dp[slowest];
      used += size;
    }
    for (int64_t micro : microSizes(input, {1, 2, 4, 8})) {
      Plan plan;
      plan.micro = micro;
      if (!model.contrast.towers.empty())
        plan.schedule = "distmm-pipe";
      plan.assign = Assign::Samples;
      plan.reorder = Reorder::Intra;
      plan.microbatches = input.divideSamples(dp[model.pace] * micro);
      for (size_t m = 0; m < count; ++m)
        plan.units.push_back(
            makeUnit(input, int(m), tp[m], dp[m], pp[m], 1, save));
      placeUnits(input, plan);
      plans.push_back(std::move(plan));
    }
  }
  if (plans.empty())
    return createStringError(reason);
  Layouts layouts;
  layouts.families = {{"distmm", std::move(plans)}};
  return layouts;
}

} // namespace dt::planner
