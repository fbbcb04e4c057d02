//===- Parts.h - Which items each rank works on when ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Cuts a global batch into microbatches and those into parts, one a replica of
// each unit, as the plan's assignment says. The pacing unit's replicas hold
// whole samples; every other module's items go where the assignment puts them
// and brokers bring them there.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_STEP_PARTS_H
#define PASSES_PLANNER_STEP_PARTS_H

#include "passes/planner/describe/Data.h"
#include "passes/planner/describe/Plan.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

namespace dt::planner {

/// Cost of an item by its size, in nanoseconds.
struct ItemCost : Linear {
  using Linear::at;
  int64_t at(const ItemSize &size) const {
    return toLoad(Linear::at(TokenSums::of(size)));
  }
  /// Whether an item costs more than another, or is larger and costs as much.
  bool isAbove(const ItemSize &a, const ItemSize &b) const {
    return std::make_tuple(at(a), a.tokens, a.other) >
           std::make_tuple(at(b), b.tokens, b.other);
  }
  /// In whole numbers, of which a batch's sum is one. No schedule takes what is
  /// cut off: a quarter of an hour.
  static int64_t toLoad(double nanoseconds) {
    return int64_t(std::min(1e12, nanoseconds));
  }
};

/// What searches ask of a batch again and again, by module and sample; from
/// several threads at once.
struct SampleSums {
  SampleSums(const Model &model, const std::vector<Sample> &batch,
             const std::vector<ItemCost> &costs);
  std::vector<std::vector<TokenSums>> moments;
  std::vector<std::vector<int64_t>> loads;
  std::vector<std::vector<ItemSize>> largest; ///< of the items
  /// The pacing unit's samples in so many parts, all alike: found before, or
  /// `make`'s.
  std::vector<std::vector<int32_t>>
  getParts(int64_t count,
           llvm::function_ref<std::vector<std::vector<int32_t>>()> make);

private:
  std::mutex mutex;
  std::map<int64_t, std::vector<std::vector<int32_t>>> parts;
};

/// Work of balancing, in pairs of items looked at (reorder::PartitionOptions).
struct PartsOptions {
  int64_t effort = 48000;    ///< samples over all parts of the pacing unit
  int64_t itemEffort = 4000; ///< items of a microbatch over a unit's replicas
  /// Other modules' items are taken as perfectly even over their replicas, and
  /// no item is placed: for searches, with folded problems only.
  bool mean = false;
  /// Of the same batch; null: computed.
  SampleSums *sums = nullptr;
};

struct Parts {
  int microbatches = 0;
  /// One module's items: sizes and the sample that owns each.
  struct Items {
    std::vector<ItemSize> sizes;
    std::vector<int32_t> owner;
    /// [microbatch * replicas + replica]: ids of items, ascending.
    std::vector<std::vector<int32_t>> parts;
    std::vector<TokenSums> moments;
    int replicas = 1;
    std::vector<int32_t> replica; ///< where each item is
    TokenSums whole; ///< what programs have room for where samples stay whole
    /// Of a microbatch; of the mean part.
    TokenSums getSum(int microbatch) const;
    TokenSums getMean() const;
  };
  std::vector<Items> modules;
  /// Not empty: a part is larger than a program lets it be, in words.
  std::string tooLarge;

  const TokenSums &get(int module, int microbatch, int replica) const {
    const Items &items = modules[module];
    return items.moments[size_t(microbatch) * items.replicas + replica];
  }
  /// Exchanges microbatches: place i gets what order[i] was.
  void permute(const std::vector<int32_t> &order);
  /// The same with all that a task works on at its first microbatch.
  Parts joinTasks(const Plan &plan) const;
};

/// `costs` by module; `inFlight` of the pacing unit's first stage is what
/// DistTrain's order looks at.
Parts makeParts(const Model &model, const Plan &plan,
                const std::vector<Sample> &batch,
                const std::vector<ItemCost> &costs,
                const PartsOptions &options = {});

} // namespace dt::planner

#endif // PASSES_PLANNER_STEP_PARTS_H
