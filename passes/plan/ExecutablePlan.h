//===- ExecutablePlan.h - Plans that a program can run ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Policies plan for clusters and may choose what a compiled program does not
// do: another number of microbatches than the recipe's, more replicas than a
// microbatch has items, sequences cut over ranks of a context group. Here a
// policy's plan is brought into the program's bounds, and for `joint` every
// configuration of few devices is tried beside it; all are timed by the
// planner's simulator.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLAN_EXECUTABLEPLAN_H
#define PASSES_PLAN_EXECUTABLEPLAN_H

#include "passes/plan/PlanModel.h"
#include "passes/plan/Refusals.h"
#include "passes/planner/explain/Explain.h"
#include "passes/planner/search/Robust.h"

namespace dt::plan {

/// Brings a plan into the program's bounds, or says why it cannot be run.
std::optional<std::string> makeExecutable(planner::Plan &plan,
                                          const planner::PolicyInput &input,
                                          const PlannedProgram &program);

/// Plans of every configuration of the units, on ranks of their own or all on
/// the same; of many devices those that policies would try.
std::vector<planner::Plan> listPlans(const planner::PolicyInput &input,
                                     const PlannedProgram &program);

/// The plan in every number of microbatches that has items for its replicas;
/// if it says a number, in that one.
std::vector<planner::Plan> withMicrobatches(const planner::Plan &plan,
                                            const PlannedProgram &program);

/// Another schedule, saved set, sequence parallelism, smaller pieces, other
/// microbatches, or tasks of more or fewer of them.
std::vector<planner::Plan> varyPlan(const planner::Plan &plan,
                                    const planner::PolicyInput &input,
                                    const PlannedProgram &program);

/// Units whose forwards run further ahead, or less far. Of units without
/// gradients that is memory's business (planner::simulateFitting).
std::vector<planner::Plan> varyAhead(const planner::Plan &plan,
                                     const planner::Model &model);

/// The plans with less kept, and with less needed at once: parts in pieces.
std::vector<planner::Plan> withLess(llvm::ArrayRef<planner::Plan> plans);

/// What was decided, without what is predicted of it.
std::string printDecisions(planner::Plan plan, const planner::Model &model);

/// The compiler's own checks of a plan; `isOrdered`: without its schedule's
/// search for an order, which takes longest.
using AcceptPlan =
    llvm::function_ref<llvm::Error(const planner::Plan &, bool isOrdered)>;
/// What every rank allocates under a plan.
using MeasurePlan =
    llvm::function_ref<llvm::Expected<std::vector<planner::RankBytes>>(
        const planner::Plan &)>;

/// The best plan of a policy that `accepts` takes, with its predictions;
/// `robustness`: the best by that, of what is near to the fastest; `measure`,
/// if there is one: and that fits by it. `joint` chooses none that is slower
/// than what another policy settles on. Error: nothing fits, or nothing can be
/// executed, with the first reason.
llvm::Expected<planner::Plan>
findExecutablePlan(llvm::StringRef policy, const planner::PolicyInput &input,
                   const PlannedProgram &program, AcceptPlan accepts,
                   Refusals &refusals,
                   const planner::Robustness *robustness = nullptr,
                   MeasurePlan measure = nullptr);

/// Every kind of layer in stages of its own, all on the same ranks: what is run
/// to measure them (policy "layers"). Of many equal layers the first two are
/// stages, the others one together.
planner::Plan planLayers(const PlannedProgram &program, int64_t ranks);

/// The plan file (docs/plan.md): the planner's, with stages by the names of
/// their pieces; `explanation`, if there is one, under `predicted`.
std::string printPlanFile(const planner::Plan &plan,
                          const PlannedProgram &program,
                          const planner::Explanation *explanation = nullptr);

} // namespace dt::plan

#endif // PASSES_PLAN_EXECUTABLEPLAN_H
