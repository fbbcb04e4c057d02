//===- Policy.h - Ways to choose a plan --------------------------*- C++
//-*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A policy chooses layouts; all of them see the same costs, schedules, saved
// sets, memory limit and batch, and all plans are timed by the same simulator.
// One file a policy, one line in Policy.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLAN_POLICIES_POLICY_H
#define PASSES_PLAN_POLICIES_POLICY_H

#include "passes/plan/policies/Formulation.h"
#include "passes/plan/sim/Step.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <map>
#include <tuple>

namespace dt::plan {

/// Sums over the layers before each of a module: seconds and kept bytes of so
/// many mean samples.
struct LayerPrices {
  std::vector<double> total, kept, parameters;
  double seconds(int begin, int end) const { return total[end] - total[begin]; }
};

/// What searches ask for again and again.
class PriceCache {
public:
  const LayerPrices &get(const Costs &costs, const std::vector<Sample> &batch,
                         int module, const CostOptions &options,
                         int64_t samples);

private:
  std::map<std::tuple<int, int, int, bool, int64_t>, LayerPrices> prices;
};

struct PolicyInput {
  const Costs &costs;
  const std::vector<Sample> &batch;
  /// Plans that a search simulates at most.
  int simulations = 24;
  std::shared_ptr<PriceCache> cache = std::make_shared<PriceCache>();

  /// Of the first kind of node.
  const LayerPrices &prices(int module, const CostOptions &options,
                            int64_t samples = 1) const {
    return cache->get(costs, batch, module, options, samples);
  }

  const Model &model() const { return costs.model; }
  int64_t gpus() const { return costs.cluster.getNumDevices(); }
  int64_t samples() const { return int64_t(batch.size()); }
};

struct Policy {
  const char *name, *summary;
  llvm::Expected<Plan> (*make)(const PolicyInput &);
};

llvm::ArrayRef<Policy> getPolicies();

/// The policy's plan with predictions; error if there is none of that name or
/// nothing fits.
llvm::Expected<Plan> makePlan(llvm::StringRef policy, const PolicyInput &input);

llvm::Expected<Plan> planMegatron(const PolicyInput &input);
llvm::Expected<Plan> planMegatronStages(const PolicyInput &input);
llvm::Expected<Plan> planHomogeneous(const PolicyInput &input);
llvm::Expected<Plan> planDistTrain(const PolicyInput &input);
llvm::Expected<Plan> planDistMM(const PolicyInput &input);
llvm::Expected<Plan> planColocated(const PolicyInput &input);
llvm::Expected<Plan> planBubble(const PolicyInput &input);
llvm::Expected<Plan> planJoint(const PolicyInput &input);

//===----------------------------------------------------------------------===//
// What policies share
//===----------------------------------------------------------------------===//

/// Sums of a module's items over the batch, on one replica of `dp` in one of
/// `microbatches`.
Moments meanPart(const PolicyInput &input, int module, int64_t microbatches,
                 int64_t dp);

/// A unit with cuts by layer cost at the mean part (`even`: by count).
UnitPlan makeUnit(const PolicyInput &input, int module, int tp, int64_t dp,
                  int pp, int vpp, Save save, bool even = false);

/// TP degrees that the module's widths and a node allow.
std::vector<int> tensorSizes(const PolicyInput &input, int module);
/// Divisors, ascending.
std::vector<int64_t> divisors(int64_t n);

/// Seconds of a step without imbalance: fill, steady state, gradients. For
/// ranking; infinite if memory cannot suffice.
double estimate(const PolicyInput &input, const Plan &plan);

/// Bytes of the fullest rank of a unit with so many microbatches in flight at
/// its first stage.
double estimateMemory(const PolicyInput &input, const Plan &plan,
                      const UnitPlan &unit, int64_t inFlight);

/// Simulates the best of `plans` by estimate and returns the fastest with its
/// predictions; error if none fits (the first one's reason).
llvm::Expected<Plan> fastest(const PolicyInput &input, std::vector<Plan> plans);

/// Every uniform layout: TP, PP, DP, VPP, micro, saved set; encoder and
/// generator inside the end stages or on stages of their own.
std::vector<Plan> uniformPlans(const PolicyInput &input);
/// Units share all ranks, each with its own layout.
std::vector<Plan> colocatedPlans(const PolicyInput &input,
                                 llvm::StringRef schedule);
/// Units on ranks of their own, sized so that none waits.
std::vector<Plan> disjointPlans(const PolicyInput &input);

} // namespace dt::plan

#endif // PASSES_PLAN_POLICIES_POLICY_H
