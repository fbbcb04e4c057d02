//===- Cost.h - How long a layer takes, how much it keeps -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Seconds and bytes of layers on a device, at a TP degree, precision and saved
// set: from the model (Model.h) by a roofline with shape-dependent efficiency,
// or from a profile that was measured on the target. All policies, the
// simulator and the explanation use these figures and no others.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_COST_COST_H
#define PASSES_PLANNER_COST_COST_H

#include "passes/planner/cost/Profile.h"
#include "passes/planner/describe/Model.h"
#include "passes/planner/hardware/Cluster.h"

#include <algorithm>
#include <atomic>
#include <memory>

namespace dt::planner {

/// Seconds: forward, gradients of inputs (recomputation included), of weights.
/// `reduce` and `again` say how much of these three together is communication
/// inside a TP group and how much is done a second time.
struct Times {
  double forward = 0, input = 0, weight = 0;
  double reduce = 0, again = 0;
  double total() const { return forward + input + weight; }
  Times &operator+=(const Times &other) {
    forward += other.forward;
    input += other.input;
    weight += other.weight;
    reduce += other.reduce;
    again += other.again;
    return *this;
  }
  friend Times operator*(Times t, double factor) {
    return {t.forward * factor, t.input * factor, t.weight * factor,
            t.reduce * factor, t.again * factor};
  }
};

/// Bytes that a rank holds all the time: parameters, their gradients, the
/// optimizer's moments and masters, and with ZeRO its block of gradients while
/// they are summed.
struct StateBytes {
  double parameters = 0, gradients = 0, moments = 0, sums = 0;
  double total() const { return parameters + gradients + moments + sums; }
  StateBytes &operator+=(const StateBytes &other) {
    parameters += other.parameters;
    gradients += other.gradients;
    moments += other.moments;
    sums += other.sums;
    return *this;
  }
};

struct CostOptions {
  int tp = 1;
  Save save = Save::Vjp;
  /// Activations outside products are split over the TP group too
  /// (sequence parallelism, arXiv 2205.05198).
  bool sequenceParallel = true;
  /// Context parallelism: a sample's tokens over this many ranks.
  int cp = 1;
  /// Expert parallelism: a layer's experts over this many ranks, each expert
  /// over `etp`; 0: over what `ep` leaves of the TP group.
  int ep = 1, etp = 0;
  int getExpertTP() const { return etp ? etp : std::max(1, tp / ep); }
  /// Whether experts are on more ranks than a TP group. Where layers are not
  /// described with it rows travel to them, as in Megatron-Core.
  bool leavesGroup() const { return ep * getExpertTP() > tp; }
  /// Of what one stage of a module hands to the next each rank of a replica has
  /// one of so many shares: tokens stay cut (passes/shard/CutEdges.cpp).
  double getStreamShares() const {
    return double(sequenceParallel ? tp : 1) * cp;
  }
  /// Strips of products and of the TP collectives beside them, as programs run
  /// them; 0: the node's `pieces`, wherever these are faster.
  int overlap = 0;
  /// Backwards are halves: gradients of inputs, then those of weights.
  bool splitBackward = false;
  /// Where ranks share a sample's tokens: of keys a rank has a block at a time,
  /// in place of all, or heads of all, whichever are fewer bytes
  /// (docs/context.md).
  bool ring = false;
};

/// Bytes of the blocks that calls inside a TP group take, one at a time: what
/// comes from all ranks before it is combined, and packed copies, on the stream
/// of all else and beside it.
struct CollectiveBlocks {
  double combined = 0, packed = 0, beside = 0;
  void keepLarger(const CollectiveBlocks &other) {
    combined = std::max(combined, other.combined);
    packed = std::max(packed, other.packed);
    beside = std::max(beside, other.beside);
  }
};

/// Costs of one module on one kind of node.
class ModuleCost {
  struct Rates;

public:
  /// With a profile, its times are used where it has the layer.
  ModuleCost(const Cluster &cluster, int node, const Module &module,
             const Profile *profile = nullptr);

  /// Times of one layer of a kind; nothing for a part without items.
  Times layer(int kind, const CostOptions &options,
              const TokenSums &part) const {
    return part.empty() ? Times() : layer(workOf(kind, options, part));
  }
  /// What a layer takes and keeps, as layer(), keptByKind() and
  /// keptForWeights() say; `keptToWeights`: of `kept`, what gradients of
  /// weights read; `keptAtStart`: how much more the first of a stage keeps.
  struct Price {
    Times times;
    double kept = 0, keptToWeights = 0, keptForWeights = 0, keptAtStart = 0;
    void add(const Price &other, double count) {
      times += other.times * count;
      kept += other.kept * count;
      keptToWeights += other.keptToWeights * count;
      keptForWeights += other.keptForWeights * count;
      keptAtStart += other.keptAtStart * count;
    }
  };
  Price price(int kind, const CostOptions &options,
              const TokenSums &part) const;
  /// Of layers [begin, end) of the module.
  Times layers(int begin, int end, const CostOptions &options,
               const TokenSums &part) const;
  Times module(const CostOptions &options, const TokenSums &part) const {
    return layers(0, int(description.layers.size()), options, part);
  }
  /// Bytes on a rank that layers keep from forward to backward.
  double kept(int begin, int end, const CostOptions &options,
              const TokenSums &part) const;
  /// The same of one layer of a kind.
  double keptByKind(int kind, const CostOptions &options,
                    const TokenSums &part) const {
    return keptByKind(partitioned(kind, options), kind, options, part);
  }
  /// What a layer of a kind needs at once inside its tasks, beyond what is
  /// kept; where nothing says how much, its results in full. `halves`: of
  /// backwards. `gradients`: bytes of gradients of both ends that a backward in
  /// one piece has inside a stage, as messages have them; described layers have
  /// theirs where they are of another type there, or shares.
  double workspace(int kind, const CostOptions &options, const TokenSums &part,
                   bool halves = false, double gradients = 0) const;
  /// Outputs of layers [begin, end) that no layer takes: one of each.
  double handedOut(int begin, int end, const CostOptions &options,
                   const TokenSums &part) const;
  /// What the half of backward that makes gradients of inputs keeps for the
  /// other beside what the forward kept: gradients of what products with
  /// weights made.
  double keptForWeights(int kind, const CostOptions &options,
                        const TokenSums &part) const {
    return keptForWeights(partitioned(kind, options), kind, options, part);
  }
  /// The largest of each that a layer of a kind needs.
  CollectiveBlocks blocks(int kind, const CostOptions &options,
                          const TokenSums &part) const;
  /// The same of sums of tied gradients, over all ranks of `replicas` replicas
  /// that have the tensor.
  CollectiveBlocks tiedBlocks(int begin, int end, int tp,
                              int64_t replicas) const;
  /// Blocks in which gradients come from all replicas before they are combined,
  /// all at once.
  double sumBlocks(int begin, int end, int tp, int64_t replicas, bool zero,
                   int64_t experts = 1) const;
  /// `shards`: ranks that share out the optimizer's state (ZeRO-1); `experts`:
  /// ranks that what experts hold is divided over, if these are more than `tp`.
  StateBytes stateBytes(int begin, int end, int tp, int64_t shards,
                        int64_t experts = 1) const;
  double state(int begin, int end, int tp, int64_t shards,
               int64_t experts = 1) const {
    return stateBytes(begin, end, tp, shards, experts).total();
  }
  /// What a checkpoint takes beside that on its way: the largest layer's state
  /// in host memory, so nothing of a device that has memory of its own.
  double snapshot(int begin, int end, int tp, int64_t shards,
                  int64_t experts = 1) const;
  /// How many parameters of layers one rank of a TP group has; what they share
  /// once.
  double rankParameters(int begin, int end, int tp) const;
  /// Of these, what layers outside read too.
  double tiedParameters(int begin, int end, int tp) const;
  /// All of these; where `experts` ranks beyond a TP group share them out, of
  /// them those of this rank, and of its own those of experts.
  struct Parameters {
    double all = 0, own = 0, experts = 0;
  };
  Parameters parameters(int begin, int end, int tp, int64_t experts) const;

  const Module &getModule() const { return description; }

  /// Whether any, or every layer's times are measured.
  bool isMeasured() const { return measured; }
  bool isMeasuredWhole() const { return measuredWhole; }

  /// Seconds of layers' computation by what bounds each operation,
  /// recomputation and messages apart; of the model, not of a profile.
  struct Bounds {
    double compute = 0, bandwidth = 0, launch = 0;
  };
  Bounds bounds(const CostOptions &options, const TokenSums &part) const;

private:
  /// A layer of a kind at a layout, and the part that it works on.
  struct Work {
    int index; ///< of the kind
    const LayerKind &kind;
    const Rates &known;
    const CostOptions &options;
    const TokenSums &part;
  };
  Work workOf(int kind, const CostOptions &options,
              const TokenSums &part) const {
    return {kind, description.kinds[kind], ratesOf(kind, options), options,
            part};
  }
  Times layer(const Work &work) const;
  /// Computation alone, and what a TP group (and CP, EP) exchanges.
  Times modelled(const Work &work) const;
  Times measuredTimes(const Work &work, const Times &modelled) const;
  double exchange(const Work &work, bool backward) const;
  /// Seconds that queries wait for keys of other ranks of a CP group: all
  /// gathered, by heads, or in a ring.
  double exchangeKeys(const Work &work, bool backward) const;
  double goRound(const Work &work, bool backward) const;
  /// Whether ranks of a CP group have heads of all tokens in attention.
  bool exchangesHeads(const CostOptions &options) const;
  /// Bytes of other ranks' keys, and of their gradients, inside a layer.
  double keysOfOthers(int kind, const CostOptions &options,
                      const TokenSums &part) const;
  /// Rows of the fullest rank's experts over those of `cut` (null: over the
  /// mean).
  double getSlowest(int kind, const CostOptions &options,
                    const RankLayer *cut) const;
  void addMessages(const Work &work, Times &times) const;
  /// Of a layer that is cut as `layer`, or by rule.
  double keptByKind(const RankLayer *layer, int kind,
                    const CostOptions &options, const TokenSums &part) const;
  /// Of what the forward keeps, what gradients of weights read; by rule at most
  /// what products with weights read.
  double keptToWeights(const RankLayer *layer, int kind,
                       const CostOptions &options, const TokenSums &part) const;
  double keptForWeights(const RankLayer *layer, int kind,
                        const CostOptions &options,
                        const TokenSums &part) const;
  double keptAtStart(const RankLayer *layer, const CostOptions &options,
                     const TokenSums &part) const;
  /// Of a tie's parameters, those of one rank.
  double rankShare(const Tie &tie, int tp) const;
  /// The layer as it is cut for these options; null: divided by rule.
  const RankLayer *partitioned(int kind, const CostOptions &options) const;

  /// An operation at a layout: seconds of computing (`least` of them with any
  /// part) and of moving bytes.
  struct Rate {
    Linear compute, bytes;
    double least = 0, fixedBytes = 0, launch = 0;
    bool product = false, attention = false, cheap = false;
    bool cut = false; ///< a product that is divided over the TP group
    /// By the work of one unit of size (0: by FLOPs a byte). Then `compute` and
    /// `fixedBytes` are work, not seconds, and there is nothing besides.
    std::shared_ptr<const Curve> measured;
    double unit = 0;
    double at(const TokenSums &part) const;
    /// As for so many times the rows.
    void multiply(double rows) {
      compute = compute * rows;
      bytes = bytes * rows;
    }
  };
  /// A collective, its ranks, and the products that it is cut with.
  struct Message {
    Exchange exchange;
    Group group;
    std::vector<Rate> beside;
  };
  /// Seconds of one of `strips` strips of it.
  double stripOf(const Work &work, const Message &message, int strips) const;
  struct Rates {
    CostOptions options;    ///< but for what is saved and how messages travel
    const RankLayer *layer; ///< made of this one; null: by rule
    std::vector<Rate> forward, input, weight;
    std::vector<Message> forwardMessages, backwardMessages;
    Rates *next = nullptr;
  };
  /// Grows at its front, also from several threads at once; what is in it stays
  /// as it is.
  struct RateList {
    std::atomic<Rates *> first{nullptr};
    ~RateList();
  };
  /// Forward, or which gradients an operation makes.
  enum class Pass { Forward, Input, Weight };
  Rate rateOf(const Op &op, const CostOptions &options, Pass pass) const;
  /// The same from measured figures, if there are any for it. A rank has
  /// `fraction` of the rows, or of all there is to do, and n x k of the matrix.
  bool setMeasured(Rate &rate, const Op &op, Pass pass, double fraction,
                   double n, double k) const;
  /// Whether products run beside a whole collective.
  bool isCovered(const Exchange &exchange, const CostOptions &options) const {
    return !cluster.nodes[node].cores &&
           (options.splitBackward ? exchange.coveredInHalves
                                  : exchange.covered);
  }
  /// Seconds of those of a list that are so.
  static double sum(const std::vector<Rate> &list, bool Rate::*is,
                    const TokenSums &part);
  /// What collectives of a TP group add to a layer's operations.
  double exposed(const Work &work, const std::vector<Message> &messages,
                 const std::vector<Rate> &list) const;
  /// The same of one that travels beside products in strips; the other: of all,
  /// in the node's `pieces`.
  double inStrips(const Work &work, const Message &message) const;
  double inStrips(const std::vector<Rate> &list, double collectives,
                  const TokenSums &part) const;
  /// Of a kind of layer; made once for a layout (by two threads at once:
  /// twice).
  const Rates &ratesOf(int kind, const CostOptions &options) const;

  const Cluster &cluster;
  const DeviceKind &device;
  const Module &description;
  int node;
  double peakFlops = 0;
  const Profile *profile;
  std::vector<const LayerProfile *> profiles; ///< by kind, null: modelled
  bool measured = false, measuredWhole = true;
  mutable std::vector<RateList> rates; ///< by kind
};

/// Error if the device has no rate for a module's precision.
llvm::Error checkPrecision(const Cluster &cluster, const Model &model);

} // namespace dt::planner

#endif // PASSES_PLANNER_COST_COST_H
