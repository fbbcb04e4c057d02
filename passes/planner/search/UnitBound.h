//===- UnitBound.h - What a unit takes at least -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Of work, time and bytes what no order of tasks changes: lowerBound
// (Bound.cpp) puts a plan's units together.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_SEARCH_UNITBOUND_H
#define PASSES_PLANNER_SEARCH_UNITBOUND_H

#include "passes/planner/policies/Policy.h"

#include <algorithm>
#include <cmath>

namespace dt::planner {

/// Samples of a part: at least and at most; at least so many parts have some,
/// and those so many.
struct PartSizes {
  double least = 0, most = 0, filled = 1, grain = 0;
};

/// A unit's stages, by sums over the layers before each.
class UnitBound {
public:
  UnitBound(const PolicyInput &input, const Plan &plan, int u,
            const PartSizes &sizes);

  /// Of one replica in a step, of layers [begin, end).
  double work(int begin, int end) const {
    double reduce = apart ? apart->reduce[end] - apart->reduce[begin] : 0,
           own = priced->seconds(begin, end);
    if (apart)
      own -= priced->reduce[end] - priced->reduce[begin];
    return own * factor + reduce * apartFactor;
  }
  double kept(int begin, int end) const {
    return (priced->kept[end] - priced->kept[begin]) * factor;
  }
  /// Of a stage, from forwards to the gradients of inputs. What goes to the
  /// next stage and comes back has room besides, and what goes back of a whole
  /// backward.
  double keptBy(int stage) const {
    double messages = (stage + 1 < getNumStages() ? 2 * sentBy(stage) : 0) +
                      (stage > 0 && !split ? sentBy(stage - 1) : 0);
    return kept(unit.cuts[stage], unit.cuts[stage + 1]) +
           messages * microbatches;
  }
  /// Of the smallest part, forward and back to the inputs' gradients (`whole`:
  /// and the weights').
  double forward(int begin, int end) const {
    return smallest ? forwardOf(*smallest, begin, end) : 0;
  }
  double backward(int begin, int end, bool whole) const {
    return smallest ? backwardOf(*smallest, begin, end, whole) : 0;
  }
  /// Of a part of mean size, there from layer `begin` to the last and back to
  /// layer `until`.
  double thereAndBack(int begin, int until, bool whole) const {
    int end = unit.cuts.back();
    return apart ? 0
                 : (forwardOf(*priced, begin, end) +
                    backwardOf(*priced, until, end, whole)) *
                       factor / microbatches;
  }
  /// Bytes a device may use, and what it has of a stage all the time: weights,
  /// gradients, optimizer state, messages that are received ahead.
  double memory = 0;
  double state(int stage) const {
    return state(unit.cuts[stage], unit.cuts[stage + 1]) +
           (stage > 0 && !turnsAt(stage) ? kReceiveDepth * sentBy(stage - 1)
                                         : 0);
  }
  double state(int begin, int end) const {
    return cost.state(begin, end, unit.tp, unit.getShards(),
                      unit.getExpertRanks());
  }
  /// What gradients of inputs leave for those of weights, one microbatch at
  /// least.
  double late(int stage) const;
  /// While a task of a stage runs, and while a layer leaves for a checkpoint.
  double workspace(int stage) const;
  double snapshot(int stage) const {
    return cost.snapshot(unit.cuts[stage], unit.cuts[stage + 1], unit.tp,
                         unit.getShards(), unit.getExpertRanks());
  }
  /// Microbatches of which each keeps so much, of `bytes` on average, that are
  /// in `free` at once at most.
  double countIn(double free, double bytes) const {
    return smallestShare > 0 ? std::floor(free / (bytes * smallestShare) + 1e-9)
                             : INFINITY;
  }
  /// Seconds until all replicas have the parameters of layers, once updated.
  double gather(int begin, int end) const;

  const UnitPlan &unit;
  double largestShare = INFINITY; ///< of a part, over the mean

private:
  static double forwardOf(const LayerPrices &prices, int begin, int end) {
    return prices.forward[end] - prices.forward[begin];
  }
  static double backwardOf(const LayerPrices &prices, int begin, int end,
                           bool whole) {
    return prices.seconds(begin, end) - forwardOf(prices, begin, end) -
           (whole ? 0 : prices.weight[end] - prices.weight[begin]);
  }

  int getNumStages() const { return unit.pp * unit.vpp; }
  bool turnsAt(int stage) const {
    return scheduler::positionOf(stage, unit.pp, back) ==
           scheduler::positionOf(stage - 1, unit.pp, back);
  }
  /// Bytes of a mean part, whole on every rank of a TP group.
  double sentBy(int stage) const {
    int layer = module.layers[unit.cuts[stage + 1] - 1];
    return module.kinds[layer].output.at(part) / unit.cp;
  }

  const Cluster &cluster;
  int node;
  const Module &module;
  const ModuleCost &cost;
  const scheduler::Traits &traits;
  bool split, back;
  llvm::SmallVector<CostOptions, 16> options; ///< by stage
  std::shared_ptr<const LayerPrices> priced, apart, smallest;
  double factor, apartFactor = 0, microbatches;
  TokenSums part;           ///< of mean size; nothing if sizes differ
  double smallestShare = 0; ///< of a part that has something, over the mean
};

} // namespace dt::planner

#endif // PASSES_PLANNER_SEARCH_UNITBOUND_H
