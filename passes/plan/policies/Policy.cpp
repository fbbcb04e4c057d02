//===- Policy.cpp - What policies share -----------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/policies/Policy.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace dt::plan {

ArrayRef<Policy> getPolicies() {
  static constexpr Policy policies[] = {
      {"megatron",
       "one layout for all, encoder and generator inside the end "
       "stages, smallest PP that fits",
       planMegatron},
      {"megatron-stages",
       "one layout for all, encoder and generator on stages "
       "of their own",
       planMegatronStages},
      {"homogeneous", "the best uniform layout", planHomogeneous},
      {"disttrain", "DistTrain's formulation, whole samples, algorithm 2",
       planDistTrain},
      {"distmm", "DISTMM's partitioner, balancer and placement", planDistMM},
      {"colocated", "units share ranks in phases, each with its own layout",
       planColocated},
      {"bubble", "encoder and generator in the backbone's bubbles", planBubble},
      {"joint", "all of these, item by item", planJoint},
      {"context",
       "joint with context and expert parallelism (not executable yet)",
       planContext},
  };
  return policies;
}

Expected<Plan> makePlan(StringRef name, const PolicyInput &input) {
  if (Error error = input.model().check())
    return std::move(error);
  if (Error error = checkPrecision(input.costs.cluster, input.model()))
    return std::move(error);
  if (input.batch.empty())
    return createStringError(inconvertibleErrorCode(),
                             "a plan needs a global batch of at least 1");
  std::string names;
  for (const Policy &policy : getPolicies()) {
    if (policy.name == name)
      return policy.make(input);
    names += (names.empty() ? "" : ", ") + std::string(policy.name);
  }
  return createStringError(inconvertibleErrorCode(),
                           "no policy is named '" + name +
                               "' (known: " + names + ")");
}

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> result;
  for (int64_t d = 1; d * d <= n; ++d)
    if (n % d == 0) {
      result.push_back(d);
      if (d * d != n)
        result.push_back(n / d);
    }
  llvm::sort(result);
  return result;
}

std::vector<int> tensorSizes(const PolicyInput &input, int module) {
  std::vector<int> result;
  // A TP group is inside a node, and all of a node's devices are in one.
  auto suits = [&](int tp) {
    return input.model().modules[module].maxTP % tp == 0 &&
           any_of(input.costs.cluster.nodes, [&](const NodeKind &node) {
             return node.devices >= tp && node.devices % tp == 0;
           });
  };
  for (int tp = 1; tp <= input.model().modules[module].maxTP; tp *= 2)
    if (suits(tp))
      result.push_back(tp);
  return result;
}

std::vector<int64_t> microSizes(const PolicyInput &input,
                                ArrayRef<int64_t> few) {
  std::vector<int64_t> result = few.vec();
  double tokens =
      meanPart(input, input.model().pace, input.samples(), 1).tokens;
  int64_t next = 1;
  while (next <= result.back())
    next *= 2;
  for (; double(next) * tokens <= 16384 && next <= input.samples(); next *= 2)
    result.push_back(next);
  return result;
}

Moments meanPart(const PolicyInput &input, int module, int64_t microbatches,
                 int64_t dp) {
  Moments sum = momentsOf(input.batch, input.model().modules[module].item);
  return sum * (1 / (double(microbatches) * double(dp)));
}

UnitPlan makeUnit(const PolicyInput &input, int module, int tp, int64_t dp,
                  int pp, int vpp, Save save, bool even, bool back) {
  UnitPlan unit;
  unit.module = module;
  unit.tp = tp;
  unit.dp = dp;
  unit.pp = pp;
  unit.vpp = vpp;
  unit.save = save;
  int layers = int(input.model().modules[module].layers.size());
  int stages = pp * vpp;
  if (even || stages == 1) {
    unit.cuts = evenCuts(layers, stages);
    return unit;
  }
  CostOptions options;
  options.tp = tp;
  options.save = save;
  unit.cuts = input.cache->getCuts(input.costs, input.batch, module, options,
                                   pp, vpp, back);
  return unit;
}

} // namespace dt::plan
