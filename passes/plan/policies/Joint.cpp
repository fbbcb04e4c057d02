//===- Joint.cpp - All ideas in one search --------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Layouts on ranks of their own, shared ranks in phases or bubbles, and uniform
// ones, all with items balanced one by one and microbatches ordered. An
// estimate ranks thousands, the simulator decides among the best, and the
// winner's neighbours are tried last.
//
//===----------------------------------------------------------------------===//

#include "passes/plan/policies/Policy.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace dt::plan {

namespace {

/// The layout of a module that needs fewest devices to do a microbatch in
/// `seconds`; 0 devices if there is none.
struct Sized {
  int tp = 0, pp = 1;
  int64_t dp = 0;
  Save save = Save::None;
  int64_t devices() const { return int64_t(tp) * pp * dp; }
};

class Sizer {
public:
  Sizer(const PolicyInput &input, int module)
      : input(input), module(module),
        all(momentsOf(input.batch, input.model().modules[module].item)) {
    int layers = int(input.model().modules[module].layers.size());
    const ModuleCost &cost = input.costs.get(0, module);
    for (Save save : {Save::All, Save::Vjp, Save::None})
      for (int tp : tensorSizes(input, module)) {
        CostOptions options;
        options.tp = tp;
        options.save = save;
        Entry entry;
        entry.tp = tp;
        entry.save = save;
        Moments part =
            all * (1 / double(std::max<size_t>(1, input.batch.size())));
        entry.perSample = cost.module(options, part).total();
        entry.keptPerSample = cost.kept(0, layers, options, part);
        entry.state = cost.state(0, layers, tp, 8);
        entries.push_back(entry);
      }
  }

  bool isEmpty() const { return all.empty(); }

  Sized size(double seconds, int64_t samples, int64_t inFlight) const {
    Sized best;
    double memory = input.costs.cluster.getMemory(0);
    for (const Entry &entry : entries) {
      double time = entry.perSample * double(samples);
      int64_t dp = std::max<int64_t>(1, int64_t(std::ceil(time / seconds)));
      double kept =
          entry.keptPerSample * double(samples) / double(dp) * double(inFlight);
      if (entry.state + kept > 0.9 * memory)
        continue;
      Sized one{entry.tp, 1, dp, entry.save};
      if (best.dp == 0 || one.devices() < best.devices())
        best = one;
    }
    return best;
  }

private:
  struct Entry {
    int tp;
    Save save;
    double perSample, keptPerSample, state;
  };
  const PolicyInput &input;
  int module;
  Moments all;
  std::vector<Entry> entries;
};

/// The backbone's layout; the others are sized to keep up with it.
struct Backbone {
  int tp, pp, vpp;
  int64_t dp, micro;
  Save save;
};

class Disjoint {
public:
  explicit Disjoint(const PolicyInput &input) : input(input) {
    for (size_t m = 0; m < input.model().modules.size(); ++m)
      sizers.emplace_back(input, int(m));
  }

  /// Empty if the others do not find room.
  std::optional<Plan> make(const Backbone &layout, StringRef schedule,
                           double slack) const {
    const Model &model = input.model();
    Plan plan;
    plan.micro = layout.micro;
    int64_t pieces = layout.dp * layout.micro;
    plan.microbatches = (input.samples() + pieces - 1) / pieces;
    plan.schedule = schedule.str();
    double beat = beatOf(layout);
    int64_t together =
        (input.samples() + plan.microbatches - 1) / plan.microbatches;
    int64_t inFlight = std::min<int64_t>(plan.microbatches, layout.pp + 2);
    std::vector<Sized> sizes(model.modules.size());
    int64_t total = 0;
    for (size_t m = 0; m < sizes.size(); ++m) {
      sizes[m] = int(m) == model.pace
                     ? Sized{layout.tp, layout.pp, layout.dp, layout.save}
                     : sizers[m].size(beat * slack, together, inFlight);
      total += sizes[m].devices();
      if (sizes[m].dp == 0 || total > input.gpus())
        return std::nullopt;
    }
    for (size_t m = 0; m < sizes.size(); ++m) {
      const Sized &size = sizes[m];
      UnitPlan unit =
          makeUnit(input, int(m), size.tp, size.dp, size.pp,
                   int(m) == model.pace ? layout.vpp : 1, size.save);
      unit.firstRank = plan.ranks;
      plan.ranks += unit.getRanks();
      plan.units.push_back(std::move(unit));
    }
    return plan;
  }

private:
  /// Time of a microbatch in a stage of the backbone.
  double beatOf(const Backbone &layout) const {
    CostOptions options;
    options.tp = layout.tp;
    options.save = layout.save;
    return input.prices(input.model().pace, options, layout.micro)
               .total.back() /
           layout.pp;
  }

  const PolicyInput &input;
  std::vector<Sizer> sizers;
};

/// The plan's idea in one word, for the explanation.
StringRef ideaOf(const Plan &plan) {
  if (plan.schedule == "phased")
    return "colocated";
  if (plan.schedule == "nested")
    return "bubble";
  return any_of(plan.units,
                [](const UnitPlan &u) { return u.inside.has_value(); })
             ? "uniform"
             : "disjoint";
}

} // namespace

std::vector<Plan> disjointPlans(const PolicyInput &input) {
  const Model &model = input.model();
  int layers = int(model.modules[model.pace].layers.size());
  Disjoint disjoint(input);
  std::vector<Plan> plans;
  for (int tp : tensorSizes(input, model.pace))
    for (int pp = 1; pp <= std::min(layers, 24); pp += pp < 8 ? 1 : 2)
      for (int64_t micro : {1, 2, 4})
        for (Save save : {Save::All, Save::Vjp, Save::None})
          for (double slack : {0.75, 0.95, 1.05}) {
            int64_t most = input.gpus() / (int64_t(tp) * pp);
            int64_t previous = 0;
            int found = 0;
            // Only the smallest DP of each number of microbatches is of use.
            for (int64_t dp = std::min(most, input.samples());
                 dp >= 1 && found < 3; --dp) {
              int64_t n = (input.samples() + dp * micro - 1) / (dp * micro);
              int64_t least = (input.samples() + n * micro - 1) / (n * micro);
              if (n == previous)
                continue;
              previous = n;
              dp = std::min(dp, least);
              Backbone layout{tp, pp, 1, dp, micro, save};
              auto plan = disjoint.make(layout, "1f1b", slack);
              if (!plan)
                continue;
              ++found;
              plans.push_back(*plan);
              for (int vpp : {2, 4})
                if (pp > 1 && pp * vpp <= layers && n % pp == 0) {
                  layout.vpp = vpp;
                  if (auto more = disjoint.make(layout, "interleaved", slack))
                    plans.push_back(*more);
                }
            }
          }
  return plans;
}

Expected<Plan> planJoint(const PolicyInput &input) {
  std::optional<Plan> best;
  std::string reason;
  auto consider = [&](Expected<Plan> plan) {
    if (!plan)
      reason = reason.empty() ? toString(plan.takeError())
                              : (consumeError(plan.takeError()), reason);
    else if (!best || plan->predicted.step < best->predicted.step)
      best = *plan;
  };
  PolicyInput part = input;
  if (input.gpus() > 2000)
    part.simulations /= 3;
  int simulations = part.simulations;
  part.simulations = std::max(2, simulations / 2);
  consider(fastest(part, disjointPlans(input)));
  part.simulations = std::max(2, simulations / 6);
  // The published plan, item by item.
  if (auto published = planDistTrain(part)) {
    published->assign = Assign::Items;
    consider(fastest(part, {*published}));
  } else {
    consumeError(published.takeError());
  }
  // Bubbles are searched rank by rank: too slow for a large cluster.
  for (const char *schedule : {"phased", "nested"})
    if (schedule == StringRef("phased") || input.gpus() <= 128)
      consider(fastest(part, colocatedPlans(input, schedule)));
  std::vector<Plan> uniform = uniformPlans(input);
  for (Plan &plan : uniform) {
    plan.assign = Assign::Items;
    plan.reorder = Reorder::Both;
  }
  consider(fastest(part, std::move(uniform)));
  if (!best)
    return createStringError(inconvertibleErrorCode(), reason);
  // The same layout with split backwards, where the memory allows it.
  if (best->schedule == "1f1b") {
    std::vector<Plan> split;
    for (const char *schedule : {"zb-h1", "zb-h2"}) {
      split.push_back(*best);
      split.back().schedule = schedule;
    }
    consider(fastest(part, std::move(split)));
  }
  best->policy = ("joint (" + ideaOf(*best) + ")").str();
  return *best;
}

} // namespace dt::plan
