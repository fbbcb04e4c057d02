//===- EqualReplicas.cpp - A policy of the planner --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Every module whole on ranks of its own, and of all modules equally many
// replicas: as many as there are devices for and the batch can be divided by.
//
//===----------------------------------------------------------------------===//

#include "Example.h"

#include "passes/planner/policies/Policy.h"

using namespace dt::planner;

/// On the first ranks, a sample of every replica a microbatch.
static Plan makePlan(const PolicyInput &input, int64_t replicas) {
  Plan plan;
  plan.assign = Assign::Given;
  plan.reorder = Reorder::None;
  plan.microbatches = input.samples() / replicas;
  int modules = int(input.model().modules.size());
  for (int module = 0; module < modules; ++module) {
    UnitPlan unit = makeUnit(input, module, /*tp=*/1, replicas, /*pp=*/1,
                             /*vpp=*/1, Save::Vjp);
    unit.firstRank = plan.ranks;
    plan.ranks += unit.getRanks();
    plan.units.push_back(std::move(unit));
  }
  return plan;
}

static llvm::Expected<Layouts> listEqualReplicas(const PolicyInput &input) {
  int64_t most = input.gpus() / int64_t(input.model().modules.size());
  int64_t replicas = std::min(most, input.samples());
  while (replicas > 0 && input.samples() % replicas)
    --replicas;
  if (replicas < 1)
    return llvm::createStringError("there are more modules than devices");
  // The search of all policies finds out whether it fits, and its time.
  Layouts layouts;
  layouts.families["equal"] = {makePlan(input, replicas)};
  return layouts;
}

void example::addEqualReplicas(dt::Plugin &plugin) {
  plugin.policies.push_back(
      {"example-equal-replicas",
       "every module whole, all with equally many replicas",
       listEqualReplicas});
}
