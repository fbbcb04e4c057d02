//===- Step.h - What a plan's step costs ------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Turns a plan, a model, a cluster and a global batch into a scheduling problem
// with a duration for every (stage, microbatch, replica), solves it with the
// plan's schedule and runs it on the hardware (Engine.h). The same function for
// every policy, so that ratios mean something.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_STEP_STEP_H
#define PASSES_PLANNER_STEP_STEP_H

#include "passes/planner/step/Engine.h"
#include "passes/planner/step/Parts.h"

#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

namespace dt::planner {

/// Costs of all modules on every kind of node, shared by all plans.
class Costs {
public:
  Costs(const Cluster &cluster, const Model &model,
        const Profile *profile = nullptr);
  const ModuleCost &get(int node, int module) const {
    return *costs[size_t(node) * modules + module];
  }
  const Cluster &cluster;
  const Model &model;
  const Profile *profile; ///< null: all is modelled
  /// Whether a module's figures rest on measurements, at least in part.
  bool isMeasured(int module) const;
  /// What they rest on: "model", "profile", or "profile and model".
  llvm::StringRef getSource(int module) const;
  /// Cost of an item by its tokens, to balance with: on the first node kind.
  std::vector<ItemCost> items;
  /// Seconds in which all devices together do the batch at the rate that each
  /// module's best TP degree reaches, without communication, recomputation or
  /// optimizer: no plan is faster.
  double workBound(const std::vector<Sample> &batch) const;
  /// The same for one module on one device, on a kind of node or the best.
  double workOn(int node, int module, const TokenSums &all) const;
  double work(int module, const TokenSums &all) const;

private:
  size_t modules;
  std::vector<std::unique_ptr<ModuleCost>> costs;
  /// Answers of workOn(): searches ask the same of thousands of plans, several
  /// of them at once.
  mutable std::mutex mutex;
  mutable std::map<std::tuple<int, int, TokenSums>, double> works;
};

/// The kind of node that a unit's layers take longest on, of those that a range
/// of ranks lies on.
int slowestNode(const Costs &costs, const Plan &plan, int unit, int64_t first,
                int64_t ranks);

/// Gives every unit on several kinds of devices its blocks
/// (UnitPlan::blocks). None where items are not shared out by cost, and on
/// ranks that units share: all replicas then wait for those on the slowest
/// devices. `items`: of the batch, by module.
void placeBlocks(const Costs &costs, llvm::ArrayRef<TokenSums> items,
                 Plan &plan);

/// Messages of an edge that a rank has buffers for, each way, as programs have
/// unless a plan file says otherwise.
constexpr int kReceiveDepth = 2;

struct StepOptions {
  /// Messages queue for the NICs of their nodes.
  bool links = true;
  /// Replicas that do the same are simulated once, the slowest part of every
  /// microbatch for all of them: exact where data are uniform (then it is done
  /// unasked), else what searches rank plans with.
  bool fold = false;
  /// Work of the search for an order of microbatches, and of balancing.
  int64_t orderEffort = 300000;
  PartsOptions parts;
  /// By device: its tasks take so many times as long, which no order of tasks
  /// or microbatches knows; null: none does.
  const std::vector<double> *slowdowns = nullptr;
  /// Of schedules that search (scheduler::SolveOptions::effort); 0: their own.
  int64_t scheduleEffort = 0;
  /// Nothing is predicted but the step's time.
  bool timeOnly = false;
  /// Error if a rank's memory is exceeded; else only predicted.
  bool requireMemory = true;
};

struct PlannedStep {
  scheduler::Problem problem;
  scheduler::Solution solution;
  Simulation simulation;
  Prediction predicted;
  /// By rank of the problem: first rank of the plan that it stands for.
  std::vector<int64_t> planRank;
  /// Units with tasks on a rank.
  std::vector<std::vector<int>> unitsOfRank;
  /// Bytes of a rank, term by term (docs/planning-model.md#memory-of-a-rank).
  struct Memory {
    StateBytes state;
    double activations = 0, workspace = 0, buffers = 0, messages = 0,
           snapshot = 0;
    double beyond = 0;  ///< UnitPlan::beyond
    double waiting = 0; ///< of `buffers`: outputs that wait for who uses them
    double total() const {
      return state.total() + activations + workspace + buffers + messages +
             snapshot + beyond;
    }
  };
  std::vector<Memory> memory;  ///< of the fullest rank of a unit
  std::vector<Memory> held;    ///< by rank of the problem
  std::vector<double> devices; ///< that a rank of the problem stands for
  bool folded = false;
};

/// Bytes that a rank of the problem holds over time: (nanoseconds, bytes from
/// then on), ascending; `held` without its activations is there all the time.
std::vector<std::pair<Time, int64_t>>
getMemoryOverTime(const PlannedStep &result, int rank);

/// A plan needs more memory than a device has.
class DoesNotFit : public llvm::ErrorInfo<DoesNotFit> {
public:
  static char ID;
  DoesNotFit(int unit, double missing, double waiting, std::string text)
      : unit(unit), missing(missing), waiting(waiting), text(std::move(text)) {}
  void log(llvm::raw_ostream &os) const override;
  std::error_code convertToErrorCode() const override {
    return llvm::inconvertibleErrorCode();
  }
  int unit;       ///< the first that needs too much
  double missing; ///< bytes
  double waiting; ///< bytes there of outputs that wait for who uses them
  std::string text;
};

/// Of the errors of plans that were tried, the one that is nearest to fitting.
class Reason {
public:
  void note(llvm::Error error);
  void note(const Reason &other);
  const std::string &get() const { return text; }
  /// For who looked for layouts.
  llvm::Error explain() const {
    return llvm::createStringError(
        text.empty() ? "no layout of the units fits the devices" : text);
  }

private:
  double missing = std::numeric_limits<double>::infinity();
  std::string text;
};

/// DoesNotFit says the modules and the missing bytes.
llvm::Expected<PlannedStep> simulateStep(const Costs &costs, const Plan &plan,
                                         const std::vector<Sample> &batch,
                                         const StepOptions &options = {});

/// The same for a plan whose units without gradients run as far ahead as memory
/// lets them: without a bound or, if outputs that wait do not fit, no further
/// than the largest UnitPlan::runAhead that does, which the plan then says.
llvm::Expected<PlannedStep> simulateFitting(const Costs &costs, Plan &plan,
                                            const std::vector<Sample> &batch,
                                            const StepOptions &options = {});

/// Chrome trace (Perfetto reads it): a row a rank, times in microseconds.
std::string printTrace(const PlannedStep &result);

} // namespace dt::planner

#endif // PASSES_PLANNER_STEP_STEP_H
