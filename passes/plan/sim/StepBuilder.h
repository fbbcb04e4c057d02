//===- StepBuilder.h - A plan as a scheduling problem ------------*- C++
//-*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLAN_SIM_STEPBUILDER_H
#define PASSES_PLAN_SIM_STEPBUILDER_H

#include "runtime/reorder/Order.h"
#include "passes/plan/sim/Step.h"

namespace dt::plan {

class StepBuilder {
public:
  StepBuilder(const Costs &costs, const Plan &plan, const StepOptions &options);

  schedule::Problem build(const Parts &parts);
  EngineOptions getEngineOptions(const schedule::Problem &problem) const;
  /// Ranks and memory, from the order of tasks.
  void describe(const schedule::Graph &graph, StepResult &result) const;
  /// Tells schedules that search how much activations may take.
  void limitMemory(schedule::Problem &problem) const;

private:
  struct StageInfo {
    int unit, index;         ///< unit and number of its stage
    std::vector<int> guests; ///< units that run inside it
  };

  void layOutRanks();
  /// By rank: weights and optimizer state, buffers of messages.
  void holdAlways(const schedule::Problem &problem, std::vector<double> &state,
                  std::vector<double> &buffers) const;
  void addStages(int unit);
  void addTimes(schedule::Problem &problem, const Parts &parts) const;
  void addEdges(schedule::Problem &problem, const Parts &parts) const;
  void addBroker(schedule::Problem &problem, const Parts &parts,
                 const ModelEdge &edge) const;
  void timesOf(const StageInfo &stage, const Parts &parts, int k, int r,
               Times &times, double &kept) const;
  void addReductions(EngineOptions &engine) const;
  std::vector<int> ranksOf(int unit, int position, int64_t replica) const;
  int nodeOf(int unit) const {
    return costs.cluster.getNodeKind(plan.units[unit].firstRank);
  }
  CostOptions optionsOf(int unit) const;
  /// The unit that runs a unit's work, and the stage of the problem.
  int hostOf(int unit) const {
    return plan.units[unit].inside ? plan.units[unit].inside->unit : unit;
  }
  int firstStageOf(int unit) const;
  int lastStageOf(int unit) const;
  std::vector<int> stagesOf(const UnitPlan &unit, int position) const;

  const Costs &costs;
  const Plan &plan;
  const StepOptions &options;
  std::vector<StageInfo> stages;
  std::vector<int> stageBase;     ///< by unit; -1 inside another
  int64_t grain = 1;              ///< ranks of the plan a rank of the problem
  std::vector<int64_t> rankBase;  ///< by unit, if ranks are not shared
  std::vector<Moments> edgeItems; ///< by model edge: what travels in a step
  bool shared = false;
  int ranks = 0;
};

/// The order problem of a schedule: its tasks by start, and what each waits
/// for. Rows are forward, input and weight times of every stage.
reorder::OrderProblem makeOrderProblem(const schedule::Graph &graph,
                                       const schedule::Solution &solution,
                                       const schedule::Timeline &timeline,
                                       std::vector<std::vector<int64_t>> rows);

} // namespace dt::plan

#endif // PASSES_PLAN_SIM_STEPBUILDER_H
