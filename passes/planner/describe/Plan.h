//===- Plan.h - Who runs what -----------------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The decisions of a policy, and what was predicted for them. Written as the
// plan file of docs/plan.md, predictions under `predicted`.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_DESCRIBE_PLAN_H
#define PASSES_PLANNER_DESCRIBE_PLAN_H

#include "passes/planner/cost/Cost.h"
#include "passes/scheduler/core/Schedule.h"
#include "runtime/Enums.h"

#include <map>
#include <optional>

namespace dt::planner {

/// How items find their ranks.
enum class Assign {
  Given,   ///< as drawn: sample i of the batch to replica i mod DP
  Samples, ///< whole samples, each replica's group its own (DistTrain)
  Items    ///< every item by itself, over all replicas of the unit
};
llvm::StringRef getName(Assign assign);

using rt::Reorder;

struct UnitPlan {
  int module = 0;
  int tp = 1, pp = 1, vpp = 1;
  int cp = 1;        ///< context parallel: ranks that share a sample's tokens
  bool ring = false; ///< CostOptions::ring
  /// Expert parallel: neighbours that share out a layer's experts, each cut
  /// over `etp` ranks (CostOptions).
  int ep = 1, etp = 0;
  int64_t dp = 1;
  int64_t firstRank = 0;
  /// Layers of every stage: pp * vpp + 1 numbers from 0 to all. Stage s is on
  /// pipeline position s mod pp, or goes there and back (Plan::goesBack).
  std::vector<int> cuts;
  Save save = Save::Vjp;
  /// Of every stage, where they differ; empty: `save`.
  std::vector<Save> saves;
  int zero = 1;
  std::optional<int> runAhead; ///< scheduler::Unit::runAhead
  /// Sub-microbatches: pieces of a replica's share, one after another. Their
  /// kernels are smaller, and so is what a layer's backward needs at once.
  int sub = 1;
  /// Microbatches that a task works on at once.
  int span = 1;
  /// CostOptions::overlap.
  int overlap = 0;
  /// Bytes that a rank of each position takes beyond what is predicted, as a
  /// compiled program of this layout has shown; empty: nothing is known.
  std::vector<double> beyond;
  double getBeyond(int position) const {
    return size_t(position) < beyond.size() ? beyond[position] : 0;
  }
  /// Replicas on one kind of device, and how fast one of them is beside those
  /// of other blocks: items are shared out by that.
  struct Block {
    int64_t replicas = 0;
    int speed = 1;
  };
  /// Of a unit on several kinds, in the order of replicas and of ranks; empty:
  /// all are alike.
  std::vector<Block> blocks;
  std::vector<int32_t> getSpeeds() const; ///< of replicas; empty: all alike
  /// The first rank of a replica at a position. Inside a block those of a
  /// position follow one another, then come those of the next position.
  int64_t getRank(int position, int64_t replica) const;

  Save getSave(int stage) const { return saves.empty() ? save : saves[stage]; }
  int getStages() const { return pp * vpp; }
  int64_t getRanks() const { return int64_t(tp) * cp * dp * pp; }
  /// Ranks that a layer's experts are divided over.
  int64_t getExpertRanks() const {
    return int64_t(ep) * CostOptions{tp, save, true, cp, ep, etp}.getExpertTP();
  }
  /// Ranks that add up a gradient, and those that share out optimizer state.
  int64_t getSumRanks() const { return dp * cp; }
  int64_t getShards() const { return zero ? getSumRanks() : 1; }
  bool hasRank(int64_t rank) const {
    return rank >= firstRank && rank < firstRank + getRanks();
  }
  /// Whether they have ranks in common.
  bool meets(const UnitPlan &other) const {
    return hasRank(other.firstRank) || other.hasRank(firstRank);
  }
};

/// Where device time goes, as shares of step x devices; with bound / step they
/// add up to 1.
struct Losses {
  double kernels = 0; ///< slower than at the best TP: cut, small, uneven shapes
  double reduce = 0;  ///< communication inside TP groups
  double again = 0;   ///< recomputation
  double waiting = 0; ///< between tasks: fill and drain, uneven parts, messages
  double tail = 0;    ///< gradients, optimizer, barrier
  double idle = 0;    ///< devices without work
};

/// What tasks of a stage take and keep on a rank, as the order of a program's
/// tasks is found with: of the mean part, bytes of the fullest (docs/plan.md).
struct StageTimes {
  int64_t forward = 0, input = 0, weight = 0; ///< ns of a microbatch
  int64_t item = 0; ///< ns of forward and backward of one item
  /// Bytes from forward to backward, and from input to weight gradients; of the
  /// latter, what gradients of inputs make.
  int64_t keeps = 0, waits = 0, late = 0;
  int64_t room = 0;    ///< bytes of activations of a rank; 0: no bound
  int64_t message = 0; ///< ns to the unit's next stage
};
/// Their keys in files, and the order of a times.
inline constexpr std::pair<const char *, int64_t StageTimes::*> kStageTimes[] =
    {{"forward", &StageTimes::forward}, {"input", &StageTimes::input},
     {"weight", &StageTimes::weight},   {"item", &StageTimes::item},
     {"keeps", &StageTimes::keeps},     {"waits", &StageTimes::waits},
     {"late", &StageTimes::late},       {"room", &StageTimes::room},
     {"message", &StageTimes::message}};

/// Steps over draws of data and of slow ranks (search/Robust.h).
struct Spread {
  int percentile = 0; ///< by which the plan was chosen
  /// Seconds, ascending; infinite where a draw does not fit the memory.
  std::vector<double> steps;
  /// Of so many percent no step takes longer.
  double at(int percentile) const;
};

/// Bytes of a gradient reduction, unless a plan file says otherwise.
inline constexpr int64_t kBucketBytes = 4 << 20;

/// What a rank of a compiled program allocates, bytes: --emit=memory says the
/// same (docs/memory.md#slots).
struct RankBytes {
  int64_t arena = 0, scratch = 0, parameters = 0, gradients = 0, moments = 0,
          sums = 0, messages = 0;
  int64_t total() const;
};
/// Their keys in files.
inline constexpr std::pair<const char *, int64_t RankBytes::*> kRankBytes[] = {
    {"arena", &RankBytes::arena},
    {"scratch", &RankBytes::scratch},
    {"parameters", &RankBytes::parameters},
    {"gradients", &RankBytes::gradients},
    {"moments", &RankBytes::moments},
    {"sums", &RankBytes::sums},
    {"messages", &RankBytes::messages}};

/// What the planner expects; measured values stand beside these in reports.
struct Prediction {
  double objective = 0; ///< the policy's own figure, not comparable
  double step = 0;      ///< simulated wall time, seconds
  double bound = 0;     ///< all work at achieved speed over all devices
  double mfu = 0, wallBubble = 0, spanBubble = 0;
  /// No plan is faster by more; 0 where there is no work.
  double getCeiling() const { return bound > 0 ? step / bound : 0; }
  Losses losses;
  std::vector<double> memory; ///< largest of a unit's ranks, bytes
  /// By rank, of a plan that was compiled.
  std::vector<RankBytes> allocated;
  std::vector<double> busy; ///< share of the step, mean of a unit's ranks
  /// What times rest on: "model", "profile", or "profile and model".
  std::string costs = "model";
  /// Of a program's plan: by unit and stage, ns of a message by the model's
  /// edges (-1: none), and the order of tasks of the first of all ranks that do
  /// the same: "F llm.0 3, …".
  std::vector<std::vector<StageTimes>> times;
  std::vector<std::string> sources; ///< of times, by unit, as `costs`
  std::vector<int64_t> messages;
  std::map<int64_t, std::string> order;
  std::optional<Spread> spread;
};

/// What a search found faster than the simpler plan that it chose.
struct Faster {
  double step = 0;       ///< seconds
  double gain = 0;       ///< step of the chosen plan over this one, less 1
  std::string has, here; ///< where they differ: "18 stages", and "2 stages"
};

/// How far a search got.
struct Searched {
  int64_t plans = 0, simulated = 0;
  /// Seconds that no plan beats which was not simulated; infinite if all were.
  double bound = 0;
  /// Of one number of microbatches: seconds of the fastest plan found, or, if
  /// none was simulated, that no plan beats; infinite if none fits.
  struct Size {
    double step = 0;
    bool isBound = false;
  };
  std::map<int64_t, Size> sizes = {}; ///< where it was searched too
  int64_t refused = 0;                ///< that were compiled and did not fit
  /// What another search listed and simulated beside it.
  void add(const Searched &other) {
    plans += other.plans;
    simulated += other.simulated;
    bound = std::min(bound, other.bound);
  }
  /// What there may be to gain: the step over the bound, less 1, or 0.
  double getGap(double step) const {
    return bound > 0 && bound < step ? step / bound - 1 : 0;
  }
};

struct Plan {
  std::string policy;
  int64_t ranks = 0, microbatches = 0;
  int64_t micro = 1;           ///< samples of a replica of the pacing unit
  std::vector<UnitPlan> units; ///< one a module, in the model's order
  std::string schedule = "1f1b";
  Assign assign = Assign::Items;
  Reorder reorder = Reorder::Both;
  bool sequenceParallel = true;
  /// It is a compiled program's, which has one order of tasks for all steps: it
  /// is found for mean parts, and predicted with the times that it rests on.
  bool compiled = false;
  /// Why it cannot be run yet; empty if it can.
  std::string notExecutable;
  Prediction predicted;
  std::optional<Faster> faster; ///< Candidates::choose()
  /// Ranks and seconds of the fastest plan found that has more ranks.
  std::optional<std::pair<int64_t, double>> fuller;
  std::optional<Searched> searched;

  /// Whether a unit has some of another one's ranks, not all: those of one of
  /// its stages.
  bool isGuest(int unit) const;
  const scheduler::Traits &getTraits() const {
    return scheduler::traitsOf(schedule);
  }
  /// What a unit's layers are priced with.
  CostOptions getOptions(int unit) const;
  CostOptions getOptions(int unit, int stage) const;
  bool hasSpans() const;
  /// What `reorder` asks for: parts that are even inside a microbatch, and an
  /// order of microbatches.
  bool balancesParts() const {
    return reorder == Reorder::Intra || reorder == Reorder::Both;
  }
  bool ordersMicrobatches() const {
    return reorder == Reorder::Inter || reorder == Reorder::Both;
  }
  /// Whether units take turns on the same ranks.
  bool sharesRanks() const { return getTraits().sharesRanks; }
  /// Whether every second round of stages goes back over the ranks, as in a V.
  bool goesBack() const { return getTraits().goesBack; }
  int getPosition(const UnitPlan &unit, int stage) const {
    return scheduler::positionOf(stage, unit.pp, goesBack());
  }
};

/// Ranks that fit, cuts that cover all layers in order, references.
llvm::Error checkPlan(const Plan &plan, const Model &model,
                      const Cluster &cluster);

/// "0.4 % slower than the fastest plan found, which has 18 stages; this has 2
/// stages"; empty if none is faster.
std::string describeFaster(const Plan &plan);
/// "8 of 64 devices are idle: …", and what those would give; empty if none is.
std::string describeIdle(const Plan &plan, int64_t devices);
/// "gap 3.1 %: of 4210 plans searched 96 were simulated, no other is faster
/// than 1.21 s"; empty where nothing was searched.
std::string describeSearch(const Plan &plan);

/// "of 20 draws of data and slow ranks 10 % take at most 1.21 s, …"; empty
/// where none were made.
std::string describeSpread(const Plan &plan);

/// "vjp", or by runs of stages: "2 none, 6 all".
std::string describeSaves(const UnitPlan &unit);

/// "8 replicas of speed 1000, 16 of 205"; empty if all are alike.
std::string describeBlocks(const UnitPlan &unit);

/// The plan file.
std::string printPlan(const Plan &plan, const Model &model);

/// Cuts of `layers` into `stages` that are as equal as possible.
std::vector<int> evenCuts(int layers, int stages);
/// Cuts so that the most expensive stage is as cheap as can be, and of such
/// cuts the least sum of squares; both are exact. `begins`: what a stage takes
/// more that begins with a layer; empty: nothing.
std::vector<int> balancedCuts(llvm::ArrayRef<double> layerCosts, int stages,
                              llvm::ArrayRef<double> begins = {});
/// The same for pp * vpp stages in rounds over pp positions (`back`: every
/// second round goes back): what counts first is the most expensive position.
std::vector<int> balancedRounds(llvm::ArrayRef<double> layerCosts, int pp,
                                int vpp, bool back,
                                llvm::ArrayRef<double> begins = {});

} // namespace dt::planner

#endif // PASSES_PLANNER_DESCRIBE_PLAN_H
