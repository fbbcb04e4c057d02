//===- StepBuilder.h - A plan as a scheduling problem -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_STEP_STEPBUILDER_H
#define PASSES_PLANNER_STEP_STEPBUILDER_H

#include "passes/planner/step/Step.h"
#include "runtime/reorder/Order.h"

#include "llvm/ADT/ArrayRef.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

namespace dt::planner {

using scheduler::Kind;
using scheduler::Problem;
using scheduler::Solution;
using scheduler::Task;
using scheduler::TaskGraph;

/// Nanoseconds; what is beyond all that schedules take (hours) is an error of
/// theirs.
inline Time toTime(double seconds) {
  return Time(std::llround(std::min(seconds * 1e9, 0x1p46)));
}

/// Calls f(rank) for all ranks of a stage.
template <typename Function>
void forRanks(const scheduler::Stage &stage, Function f) {
  for (const std::vector<int> &replica : stage.replicas)
    for (int rank : replica)
      f(rank);
}

/// With `fold`, replicas that do the same are one: of each class the slowest
/// part of every microbatch stands for all. Exact where data are uniform, a
/// little pessimistic else; the schedule of a folded problem holds for all
/// replicas (Fold.cpp).
class StepBuilder {
public:
  /// `slowdowns`: those of StepOptions.
  StepBuilder(const Costs &costs, const Plan &plan, bool fold = false,
              const std::vector<double> *slowdowns = nullptr);

  Problem build(const Parts &parts);
  EngineOptions getEngineOptions(const Problem &problem, bool links) const;
  /// Ranks and memory, from the problem and the order of tasks.
  void describe(const TaskGraph &graph, PlannedStep &result) const;
  /// Adds outputs that wait for the forwards that use them, once it is known
  /// when tasks run: at the receiver where nothing bounds them there, else,
  /// where no gradient comes back, at the sender those that the receiver has no
  /// buffer for yet.
  void addWaiting(const TaskGraph &graph, PlannedStep &result) const;
  /// Tells schedules that search how much activations may take; `less` by unit:
  /// bytes that replicas hold beyond what stands for them.
  void limitMemory(Problem &problem, const std::vector<double> &less) const;
  /// Of a folded problem with mean parts: its figures, for the program's own.
  void recordTimes(const Problem &problem, Prediction &predicted) const;
  /// Whether all replicas of a class have equal parts, and no class is cut: the
  /// folded problem then takes exactly as long.
  bool isUniform(const Parts &parts) const;
  /// The folded problem's order of tasks for every replica.
  Solution expand(const Problem &problem, const StepBuilder &folded,
                  const Solution &solution) const;
  /// As a program has it: every part is the mean one, and keeps what the
  /// fullest does.
  void makeNominal(Problem &problem) const;
  /// Device-seconds of the last problem: all tasks, and of them communication
  /// in TP groups and work done twice.
  struct Work {
    double all = 0, reduce = 0, again = 0;
  };
  const Work &getWork() const { return work; }

private:
  /// By replica of a unit: the kind of node, and how fast it is beside others
  /// (1 where all are alike); of all together, and of the fastest.
  struct Replicas {
    std::vector<int> nodes;
    std::vector<double> speeds;
    double all = 0, most = 0;
    void add(int64_t count, int node, double speed) {
      nodes.insert(nodes.end(), count, node);
      speeds.insert(speeds.end(), count, speed);
      all += double(count) * speed;
      most = std::max(most, speed);
    }
  };
  struct StageInfo {
    int unit, index; ///< unit and number of its stage
    int position;    ///< in the unit's pipeline
    int begin, end;  ///< layers
  };
  using Price = ModuleCost::Price;
  using Held = std::vector<PlannedStep::Memory>; ///< by rank

  void layOutRanks();
  /// First ranks and widths, once there are stages.
  void fillRanks();
  /// By rank: what it holds all the time.
  void holdAlways(const Problem &problem, Held &held) const;
  /// Of every unit its fullest rank, with all that the rank holds.
  void findFullest(PlannedStep &result) const;
  /// Of another unit's items what the fullest part of a unit has.
  TokenSums fullestOf(int unit, int other) const;
  /// Adds blocks that collectives go through.
  void holdCollectives(const Problem &problem, Held &held) const;
  /// The largest that a stage's calls need, one at a time.
  CollectiveBlocks callsOf(const StageInfo &stage) const;
  /// What a task packs of an edge of the model, at one end of it, in one
  /// direction: nothing on the rank that has all of the other end itself.
  struct Packing {
    double bytes = 0;
    int64_t alone = -1; ///< that rank; -1: there is none
    double at(int64_t rank) const { return rank == alone ? 0 : bytes; }
  };
  Packing packingOf(const ModelEdge &edge, bool atConsumer) const;
  /// Adds what ranks have packed at once in their orders of tasks; as yet
  /// without any, for one that goes back at once.
  void holdPacked(const Problem &problem, const Solution *solution,
                  Held &held) const;
  /// Adds messages of ranks to themselves, as long as they wait.
  void holdStashed(const Problem &problem, const Solution &solution,
                   Held &held) const;
  /// Calls f(bytes, sends, gradient) for what a replica packs in a stage for a
  /// task, each way.
  template <typename Function>
  void forPackedOf(int stage, int64_t replica, Function f) const;
  /// Calls f(edge, stage, bytes, counted) for edges of the problem whose
  /// messages may wait at a stage beyond the `counted` ones of holdAlways().
  template <typename Function>
  void forWaitingEdges(const Problem &problem, Function f) const;
  /// What a stage holds for a moment, while one of its tasks runs.
  double workspaceOf(const StageInfo &stage) const;
  template <typename PartOf, typename Function>
  void forEdgesOf(int stage, PartOf partOf, Function f) const;
  TokenSums itemsOf(int unit, int other, const Parts &parts, int k,
                    int64_t replica) const;
  /// Bytes of a microbatch by kind of slot; of a backward that is not split all
  /// are `early`.
  struct Slot {
    double early = 0, whole = 0, late = 0;
  };
  Slot slotOf(int stage, const Price &sum, bool halves, const Parts &parts,
              int k, int64_t replica) const;
  /// Whether replica i of a unit sends to replica i of another alone: they
  /// share out the same samples alike (chooseBroker() in passes/schedule).
  bool isDirect(int from, int to) const;
  /// Bytes that a stage hands to the next.
  const Linear &outputOf(const StageInfo &stage) const;
  void addTimes(Problem &problem, const Parts &parts);
  void addUnitTimes(Problem &problem, const Parts &parts, int unit);
  bool splitsBackward(const StageInfo &stage) const;
  /// Where no gradient of inputs comes out, a program has one half only.
  bool hasWeightsOnly(const StageInfo &stage) const;
  void record(Problem &problem, int stage, const Parts &parts, int k,
              int64_t klass, int64_t replica, const Price &sum);
  /// Of a class: the replica with most to do in microbatch k.
  int64_t slowestOf(const StageInfo &stage, const Parts &parts, int k,
                    int64_t klass) const;
  /// Of a TP group its slowest rank's.
  double slowdownOf(const StageInfo &stage, int64_t replica) const;
  double loadOf(const StageInfo &stage, const Parts &parts, int k,
                int64_t replica) const;
  void weighReplicas(const Parts &parts);
  /// Of a part, by kind of layer.
  const std::vector<Price> &price(int unit, Save save, const TokenSums &part,
                                  int64_t replica) const;
  void addEdges(Problem &problem, const Parts &parts);
  void addContrast(Problem &problem, const Parts &parts);
  double contrastTime(int unit, const Parts &parts) const;
  void addPipelineEdge(Problem &problem, const Parts &parts, size_t stage);
  std::vector<std::pair<int64_t, double>>
  gatherItems(const Parts &parts, const ModelEdge &edge, int carrier) const;
  void addBroker(Problem &problem, const Parts &parts, const ModelEdge &edge);
  /// The edge of these messages, if there are any.
  void addRoutes(Problem &problem, const ModelEdge &edge,
                 std::vector<scheduler::Route> routes);
  void addEvenBroker(Problem &problem, const Parts &parts,
                     const ModelEdge &edge, int carrier);
  void addReductions(EngineOptions &engine) const;
  void addReduction(EngineOptions &engine, int stage) const;
  void addLinks(EngineOptions &engine) const;
  void addMessages(const Problem &problem, EngineOptions &engine) const;
  /// What so many seconds on every NIC of a unit's pipeline position take of
  /// the links.
  std::vector<std::pair<int, Time>> takesOf(const EngineOptions &engine,
                                            int unit, int position,
                                            double seconds) const;
  void addCores(EngineOptions &engine) const;
  std::vector<int> ranksOf(const StageInfo &stage, int64_t replica) const;
  int nodeOf(int unit) const { return nodes[unit]; }
  const ModuleCost &costOf(int unit) const {
    return costs.get(nodeOf(unit), unit);
  }
  int nodeOf(int unit, int64_t replica) const {
    return replicas[unit].nodes[replica];
  }
  double speedOf(int unit, int64_t replica) const {
    return replicas[unit].speeds[replica];
  }
  /// Of what a unit has in a microbatch, over an equal share.
  double shareOf(int unit, double speed) const {
    return speed * double(plan.units[unit].dp) / replicas[unit].all;
  }
  /// The node of a replica's ranks at a pipeline position; -1 if they are on
  /// several.
  int64_t nodeOfReplica(int unit, int position, int64_t replica) const;
  /// The same of a stage, by replica.
  std::vector<int64_t> nodesOf(const StageInfo &stage) const;
  /// By replica: whether messages from one pipeline position to another stay
  /// inside a node.
  std::vector<bool> staysInside(int unit, int from, int to) const;
  bool messagesAreAlike() const;
  /// NICs that a TP group of the unit has to itself, at least one.
  double nicsOf(int unit) const;
  /// A message between stages: what its NICs take and what comes on top.
  struct Wire {
    double occupied = 0, latency = 0;
    double total() const { return occupied + latency; }
  };
  Wire wireOf(int from, int to, double bytes, bool sameNode) const;
  /// The first replica of a class, and how many it has.
  int64_t beginOf(int unit, int64_t klass) const {
    return klass ? classEnds[unit][klass - 1] : 0;
  }
  int64_t sizeOf(int unit, int64_t klass) const {
    return classEnds[unit][klass] - beginOf(unit, klass);
  }
  /// Of a part: an item is never cut.
  double slicesOf(int unit, const TokenSums &part) const {
    return std::max(
        1.0, std::min(double(plan.units[unit].sub), std::floor(part.items)));
  }
  TokenSums sliceOf(int unit, const TokenSums &part) const {
    return part * (1 / slicesOf(unit, part));
  }
  int firstStageOf(int unit) const { return stageBase[unit]; }
  int lastStageOf(int unit) const {
    return stageBase[unit] + plan.units[unit].getStages() - 1;
  }
  int64_t classOf(int unit, int64_t replica) const {
    const std::vector<int64_t> &ends = classEnds[unit];
    if (ends.size() == 1)
      return 0;
    return std::upper_bound(ends.begin(), ends.end(), replica) - ends.begin();
  }

  const Costs &costs;
  const Plan &plan;
  bool fold;
  const std::vector<double> *slowdowns;
  std::vector<StageInfo> stages;
  std::vector<int> nodes;         ///< kind of node, by unit: the slowest
  std::vector<Replicas> replicas; ///< by unit
  std::vector<int> stageBase;     ///< by unit
  std::vector<int64_t> classes;   ///< replicas in the problem, by unit
  /// By unit and class: its last replica, and one.
  std::vector<std::vector<int64_t>> classEnds;
  int64_t grain = 1;              ///< ranks of the plan a rank of the problem
  int64_t shrink = 1;             ///< ranks that are one since they do the same
  std::vector<int64_t> rankBase;  ///< by unit, if ranks are not shared
  std::vector<int> brokers;       ///< by model edge: of the problem; -1: none
  std::vector<TokenSums> largest; ///< by unit: the fullest part of a task
  /// By edge of the model, at its producer and its consumer.
  std::vector<std::array<Packing, 2>> packing;
  /// By unit and microbatch: items of all replicas.
  std::vector<std::vector<TokenSums>> together;
  std::vector<double> replicaLoads; ///< of the pacing unit, over the step
  /// By unit and part: problems are built again in another order.
  mutable std::vector<
      std::map<std::tuple<Save, int, TokenSums>, std::vector<Price>>>
      prices;
  /// By edge of the problem: the part of its latency that occupies no NIC.
  std::vector<Time> overhead;
  Work work;
  bool shared = false;
  int ranks = 0;
  /// By rank: the first of the plan's that it stands for, and how many these
  /// are.
  std::vector<int64_t> planRank;
  std::vector<int> width;
};

/// The order problem of a schedule: its tasks by start, and what each waits
/// for. Rows are forward, input and weight times of every stage.
reorder::OrderProblem makeOrderProblem(const TaskGraph &graph,
                                       const Solution &solution,
                                       const scheduler::Timeline &timeline,
                                       std::vector<std::vector<int64_t>> rows);

} // namespace dt::planner

#endif // PASSES_PLANNER_STEP_STEPBUILDER_H
