//===- Policy.h - Ways to choose a plan -------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A policy is a name, a reason, and the layouts that it allows. One search
// (search/SearchLayouts.cpp) chooses among them: all policies see the same
// costs, schedules, saved sets, memory limit and batch, and all plans are timed
// by the same simulator. One file a policy, one line in Policy.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_POLICIES_POLICY_H
#define PASSES_PLANNER_POLICIES_POLICY_H

#include "passes/planner/search/Candidates.h"
#include "passes/planner/search/Formulation.h"
#include "passes/planner/step/Step.h"

#include "llvm/ADT/DenseMap.h"

#include <map>
#include <tuple>

namespace dt::planner {

/// Sums over the layers before each of a module: seconds (of `total`, those of
/// forwards, of weight gradients, of messages in TP groups) and bytes of so
/// many mean samples: `kept` from the forward on, `late` from input to weight
/// gradients.
struct LayerPrices {
  std::vector<double> total, forward, weight, reduce, kept, late, parameters;
  /// Bytes of what a layer hands on, and needs at once at most.
  double message = 0, workspace = 0;
  double seconds(int begin, int end) const { return total[end] - total[begin]; }
};

/// What searches ask for again and again.
class PriceCache {
public:
  PriceCache(const Costs &costs, const std::vector<Sample> &batch)
      : costs(costs), batch(batch) {}
  /// Of so many mean samples, a multiple of kGrain, on a kind of node.
  const LayerPrices &get(int node, int module, const CostOptions &options,
                         double samples);
  static constexpr double kGrain = 1.0 / 64;
  /// Cuts into pp * vpp stages so that positions are as equal as layers allow.
  const std::vector<int> &getCuts(int module, const CostOptions &options,
                                  int pp, int vpp, bool back);
  /// How much longer microbatches take than the mean part since their slowest
  /// part does: at least 1.
  double getUnevenness(int64_t microbatches, int64_t dp, bool balanced);
  /// Of all items of a module, and of its largest.
  const TokenSums &getTotal(int module);
  TokenSums getLargest(int module);
  double getWorkBound() {
    return bound = bound < 0 ? costs.workBound(batch) : bound;
  }
  /// Whether all samples have as many items of a module, all of one size.
  bool isUniform(int module);

  /// Cuts of a backbone around what runs on the ranks of its end stages, by its
  /// TP, saved set and stages: empty until who asks has made them.
  std::vector<int> &getCutsAroundGuests(int tp, Save save, int stages) {
    return cutsAroundGuests[{tp, save, stages}];
  }

private:
  TokenSums findLargest(int module) const;
  const Costs &costs;
  const std::vector<Sample> &batch;
  std::map<std::tuple<int, Save, int>, std::vector<int>> cutsAroundGuests;
  /// By node, module, layout, saved set and samples.
  llvm::DenseMap<std::tuple<int, int, int, int, int, int, int, int, int, int,
                            int, int64_t>,
                 std::unique_ptr<LayerPrices>>
      prices;
  llvm::DenseMap<std::tuple<int, int, int, int, int, int>,
                 std::unique_ptr<std::vector<int>>>
      cuts;
  /// Loads of the backbone's parts, largest first, by their number.
  std::map<int64_t, std::vector<int64_t>> loads;
  double load = 0; ///< of all samples
  llvm::DenseMap<std::pair<int64_t, int64_t>, double> drawn;
  std::map<int, TokenSums> largest, totals;
  double bound = -1;
  std::map<int, bool> uniform;
};

/// What findPlans() found, or why there is nothing.
struct FoundPlans {
  std::optional<Candidates> plans;
  std::string error;
};

struct PolicyInput {
  const Costs &costs;
  const std::vector<Sample> &batch;
  /// Plans that a search simulates at most.
  int simulations = 48;
  /// Plans near the best that it simulates in full at least, if there are any.
  int finalists = 0;
  /// StepOptions::scheduleEffort of these.
  int64_t scheduleEffort = 0;
  /// Seconds of a plan that is known: a search that is kBehind times as slow
  /// after its first simulations ends with nothing.
  double known = std::numeric_limits<double>::infinity();
  static constexpr double kBehind = 1.2;
  std::shared_ptr<PriceCache> cache =
      std::make_shared<PriceCache>(costs, batch);
  /// By policy and the numbers above: a policy is asked once.
  std::shared_ptr<
      std::map<std::tuple<std::string, int, int, int64_t, double>, FoundPlans>>
      found = std::make_shared<decltype(found)::element_type>();

  /// What estimates price parts of so many samples at: a power of two between
  /// 2^-6 and 2^10.
  static double nearestPower(double samples);
  const LayerPrices &prices(int module, const CostOptions &options,
                            double samples = 1, int node = 0) const;
  /// Of a plan's unit, every layer as its stage saves; `samples` as
  /// PriceCache::get().
  std::shared_ptr<const LayerPrices> pricesOf(const Plan &plan, int unit,
                                              double samples) const;
  /// The kind of node that a unit's prices are of: of its first block
  /// (UnitPlan::blocks), or the slowest that it is on, which all wait for.
  int nodeOf(const Plan &plan, int unit) const;

  const Model &model() const { return costs.model; }
  int64_t gpus() const { return costs.cluster.getNumDevices(); }
  int64_t samples() const { return int64_t(batch.size()); }
  /// Rounded up: microbatches of so many samples, or samples of so many parts.
  int64_t divideSamples(int64_t by) const { return (samples() + by - 1) / by; }
  /// Whether all samples cost the backbone the same. Of others estimates and
  /// folded simulations say less.
  bool isEven() const { return cache->isUniform(model().pace); }
  /// Whether devices are so few that there is time for hundreds of simulations.
  bool isSmall() const { return gpus() <= 256; }
};

/// Plans by the idea that they have in common.
using Families = std::map<std::string, std::vector<Plan>>;

/// What a plan becomes by further decisions.
using Derive = std::vector<Plan> (*)(const PolicyInput &, const Plan &);

/// To family `to`: what the `most` best of family `from` become.
struct Branch {
  std::string from, to;
  int most;
  Derive derive;
};

/// A published recipe: plans in the order of its own objective.
struct Rule {
  /// Of the first with a plan that fits the fastest plan is the rule's.
  std::vector<std::vector<Plan>> choices;
  /// There are many choices: what cannot fit by estimate is left out, and of
  /// the rest a few are simulated, folded.
  bool coarse = false;
  Reason reason; ///< why there are no more choices
};

/// What a search goes on to after the best of the families by estimate, and
/// their branches.
enum class Refine {
  Nothing,
  Bounds,         ///< plans that may be faster by their bounds
  UniformLayouts, ///< neighbours of the best with one layout for all modules
  Layouts,        ///< neighbours of the best
};

/// What a policy allows, and how much of a search that is worth: families,
/// rules or both.
struct Layouts {
  Families families;
  std::vector<Branch> branches;
  /// The fastest of their plans is the policy's, unless there are families:
  /// then what `start` makes of it is simulated before these.
  std::vector<Rule> rules;
  struct {
    std::string family;
    Derive derive = nullptr;
  } start;

  Refine refine = Refine::Bounds;
  /// Folded simulations, as a multiple of PolicyInput::simulations; searches
  /// among neighbours have their own number.
  int budget = 2;
  /// Whether each family has simulations of its own plans by estimate, not all
  /// of them together.
  bool apart = false;
  /// Plans by estimate this many times as slow as the best so far are left out.
  double far = 1.5;
  /// What Plan::policy says of a plan; null: the policy's name.
  std::string (*title)(const Plan &) = nullptr;
};

/// An error says why there are none.
using ListLayouts = llvm::Expected<Layouts>(const PolicyInput &);

struct Policy {
  const char *name, *summary;
  ListLayouts *layouts;
  /// Whether its layouts put units on several kinds of devices.
  bool mixesKinds = false;
  /// Whether what programs can run of all other policies' plans is this one's,
  /// too: it chooses none that is slower than any of them.
  bool takesAll = false;
};

using Policies = std::vector<Policy>;
/// All that there are. Plugins add theirs (tools/plugin/Plugin.h) before
/// anybody asks for one; of two with one name tools/plugin/Load.h makes an
/// error.
Policies &getPolicies();

/// The policy's plans, simulated in full; error if there is no policy of that
/// name or nothing fits. More than the best, since the one who asked may have
/// bounds of its own.
llvm::Expected<Candidates> findPlans(llvm::StringRef policy,
                                     const PolicyInput &input);
/// The one that it settles on: Candidates::choose().
llvm::Expected<Plan> makePlan(llvm::StringRef policy, const PolicyInput &input);

/// The plan that the rules lead to, simulated; the error of what is nearest to
/// fitting if there is none.
llvm::Expected<Plan> followRules(const PolicyInput &input,
                                 llvm::ArrayRef<Rule> rules);

// Of the policies that Policy.cpp names.

/// TP of a node, or as much as leaves devices for one replica; of each saved
/// set the smallest PP that fits, most DP that divides the batch, microbatches
/// of one sample, layers by count; encoder and generator on `stages` of their
/// own or on the ranks of the backbone's end stages.
llvm::Expected<Layouts> listMegatron(const PolicyInput &input, bool stages);
ListLayouts listHomogeneous, listDistTrain, listDistMM, listColocated,
    listBubble, listJoint;

//===----------------------------------------------------------------------===//
// What policies share
//===----------------------------------------------------------------------===//

/// Sums of a module's items over the batch, on one replica of `dp` in one of
/// `microbatches`.
TokenSums meanPart(const PolicyInput &input, int module, int64_t microbatches,
                   int64_t dp);

/// A unit with cuts by layer cost at the mean part (`even`: by count); `back`:
/// for a schedule whose second rounds go back.
UnitPlan makeUnit(const PolicyInput &input, int module, int tp, int64_t dp,
                  int pp, int vpp, Save save, bool even = false,
                  bool back = false);

/// Schedules of units on the same ranks that planners try.
std::vector<llvm::StringRef> sharingSchedules();
/// The plan in all other schedules that planners try, its backbone cut as these
/// need. `anyPlacement`: also in those that are for units placed otherwise.
std::vector<Plan> withSchedules(const PolicyInput &input, const Plan &plan,
                                bool anyPlacement = false);
/// Those of them that search for the best place of weight gradients.
std::vector<Plan> splitBackwards(const PolicyInput &input, const Plan &plan);

/// TP degrees that the module's widths and a node allow.
std::vector<int> tensorSizes(const PolicyInput &input, int module);
/// Samples a microbatch of a replica: those of `few`, and powers of two beyond
/// as long as kernels may gain by it: up to 16384 tokens.
std::vector<int64_t> microSizes(const PolicyInput &input,
                                llvm::ArrayRef<int64_t> few);

/// Seconds of a step: fill, steady state with uneven parts, gradients. For
/// ranking; infinite if memory cannot suffice.
double estimate(const PolicyInput &input, const Plan &plan);
/// No simulation of the plan is shorter, and one that does not fit the memory
/// has none; infinite if it cannot fit (docs/planning-search.md#what-is-left).
double lowerBound(const PolicyInput &input, const Plan &plan);
/// Bytes of the fullest rank of a unit with so many microbatches in flight at
/// its first stage.
double estimateMemory(const PolicyInput &input, const Plan &plan, int unit,
                      int64_t inFlight);
/// By unit: microbatches in flight at its first stage.
std::vector<int64_t> countInFlight(const PolicyInput &input, const Plan &plan);
/// Microbatches that a pipeline position of a unit holds with so many in flight
/// at its first stage.
double heldAt(const Plan &plan, const UnitPlan &unit, int position,
              int64_t inFlight);

/// The unit with what each stage saves, and layers cut into its stages, so that
/// the slowest stage is as fast as its devices' memory lets it be while as many
/// microbatches are held as 1F1B has; of such the one that does least again.
/// With several rounds or guests the cuts stay. Nothing if it does not fit by
/// estimate.
std::optional<UnitPlan> fitStages(const PolicyInput &input, const Plan &plan,
                                  int unit);

/// Gives units that do not share ranks their places: the largest TP first, so
/// that every TP group is inside a node, and what feeds the backbone next to
/// it. `nodes`: kind of device by unit, -1 where it does not matter; empty: no
/// matter for all. False if a kind has not enough devices.
bool placeUnits(const PolicyInput &input, Plan &plan,
                llvm::ArrayRef<int> nodes = {});

/// placeBlocks() of Step.h.
void placeBlocks(const PolicyInput &input, Plan &plan);
/// The same devices, as if all were their mean; those must be of several kinds.
Cluster meanOfKinds(const Cluster &cluster);

/// Every uniform layout: TP, PP, DP, VPP, micro, saved set; encoder and
/// generator on the ranks of the end stages or on ranks of their own. With `cp`
/// ranks for a sample's tokens.
std::vector<Plan> uniformPlans(const PolicyInput &input, int cp = 1);
/// Units share all ranks, each with its own layout.
std::vector<Plan> colocatedPlans(const PolicyInput &input,
                                 llvm::StringRef schedule);
/// Adds plans to families by their schedules, `prefix` before the name, and
/// those that are not interleaved also with split backwards.
void addBySchedule(const PolicyInput &input, std::vector<Plan> plans,
                   const std::string &prefix, Families &families);
/// Of a plan whose units share ranks: encoder and generator in so many virtual
/// stages, down to one layer each: what fits a bubble need not be a whole pass.
/// Every kernel is launched as before, and a stage hands on to the next on the
/// same ranks.
std::vector<Plan> inVirtualStages(const PolicyInput &input, const Plan &plan);
/// DistTrain's formulation, solved for microbatches of up to so many samples
/// and up to so many virtual stages a rank.
std::vector<Rule> distTrainRules(const PolicyInput &input,
                                 int64_t mostMicro = 1, int64_t mostRounds = 1);
/// Units on ranks of their own, sized so that none waits.
std::vector<Plan> disjointPlans(const PolicyInput &input);
/// The plan with each sample's tokens over 2, 4 or 8 ranks of the backbone, for
/// as many fewer replicas.
std::vector<Plan> cutTokens(const PolicyInput &input, const Plan &plan);
/// The plan with other numbers of ranks that share out a unit's experts: all
/// for which layers are described, ascending.
std::vector<Plan> varyExperts(const PolicyInput &input, const Plan &plan,
                              int unit);
/// The plan with a unit in another layout, cut anew; of the backbone's
/// microbatches each replica has as large ones as before. Nothing if there is
/// no such layout.
std::optional<Plan> withLayout(const PolicyInput &input, const Plan &plan,
                               int unit, int tp, int cp, int64_t dp, int pp);
/// The plan with a unit's TP, DP, PP or (the backbone's) CP twice as large, and
/// another of them half; where there is CP also in a ring, or not in one.
std::vector<Plan> tradeRanks(const PolicyInput &input, const Plan &plan,
                             int unit);

} // namespace dt::planner

#endif // PASSES_PLANNER_POLICIES_POLICY_H
