//===- Cut.h - microbatches cut into parts ----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The half of an assignment that is about replicas: given which samples are in
// which microbatch, which replica works on which items, and in which pieces.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_CUT_H
#define DT_RUNTIME_DATA_CUT_H

#include "runtime/data/PartGroups.h"
#include "runtime/reorder/Partition.h"

#include <map>
#include <memory>
#include <utility>

namespace dt::rt {

/// Predicted times are whole numbers of 1/256 ns from here on, so that all
/// ranks compute the same.
constexpr double kCostUnit = 256;

/// By [module][microbatch or task][part or replica].
template <typename T> using PerPart = std::vector<std::vector<std::vector<T>>>;

/// By microbatch, or task, and part.
using Lists = std::vector<std::vector<Items>>;
using SharedLists = std::shared_ptr<const Lists>; ///< never null
/// Of tasks of one span: shares of a group's replicas, and all samples.
struct TaskLists {
  SharedLists shares, whole;
};
/// What modules with as many pieces by the same kind, and tasks of as many
/// microbatches, have in common.
struct PieceLists {
  std::map<int, SharedLists> lists; ///< by kind
  /// Samples; null: a part has none of its own.
  std::shared_ptr<const Lists> places;
  /// By kind and measure, of each part: the sum over its items.
  std::map<std::pair<int, const void *>, std::vector<std::vector<int64_t>>>
      dims;
};

struct CutParts {
  /// By module, what StepCutter::fill() makes parts of; null: a whole-batch
  /// one.
  std::vector<std::shared_ptr<PieceLists>> pieces;
  /// Predicted times of replicas, by microbatch: their work, over how fast they
  /// are beside the fastest.
  PerPart<int64_t> loads;
  /// The first part that is larger than a bound, in words; empty if all fit.
  std::string tooLarge;
};

/// The positions of so many items.
Items everything(int64_t count);

/// Kinds have numbers here: 0 is the sample, 1 + i the i-th of
/// StepItems::kinds.
constexpr int kSampleKind = 0;

class StepCutter {
public:
  /// Throws Error for what no cut can be: a kind that nobody knows.
  StepCutter(const ProgramInfo &program, const std::vector<PartGroup> &groups,
             const StepItems &items);

  /// `balance`: by cost, else contiguous and equal in number.
  CutParts cut(const std::vector<Items> &microbatches, bool balance) const;
  /// The parts of tasks.
  PerPart<PartItems> fill(const CutParts &cut) const;

  /// Predicted work that the samples bring to a module, by place.
  std::vector<int64_t> sampleLoads(int32_t module) const;
  /// Of what all parts of a microbatch may have together, the share that each
  /// sample brings, of what it brings most of, in 1/2^20; empty: no symbol adds
  /// a measure up.
  std::vector<int64_t> sampleRows() const;
  /// As Assignment::measures.
  const std::vector<std::vector<Measure>> &measures() const {
    return symbolMeasures;
  }

private:
  static SharedLists join(const SharedLists &lists, int32_t span);
  int kindOf(const ModuleInfo &module, const char *item,
             const char *symbol) const;
  Measure measureOf(const ModuleInfo &module, const SymbolInfo &symbol,
                    int kind) const;
  std::vector<int64_t> measuredItems(size_t module, size_t symbol,
                                     int kind) const;
  /// Symbols of a module that add up a measure of what the group cuts.
  std::vector<size_t> addedUp(const PartGroup &group, int32_t module) const;
  bool addsUp(const PartGroup &group) const;
  std::vector<int64_t> groupRows(const PartGroup &group) const;
  int64_t countOf(int kind) const;
  std::vector<int64_t> itemCosts(size_t module) const;
  std::vector<int64_t> groupCosts(const PartGroup &group) const;
  int64_t capacity(const PartGroup &group) const;
  /// What a group's items (or samples) are made alike in, and these, those
  /// with most first; of all microbatches.
  struct Weights {
    std::vector<int64_t> costs;
    std::vector<int32_t> order;
  };
  /// Those of a microbatch's list, and their numbers in it in that order.
  struct Weighed {
    const Weights *weights = nullptr; ///< null: all are alike
    std::vector<int32_t> order;
  };
  std::vector<Items> split(const Items &all, const Weighed &weighed,
                           reorder::PartitionOptions options) const;
  Items ownersOf(int kind, const Items &list) const;
  Lists intoPieces(const Lists &shares, int32_t pieces) const;
  SharedLists bySamples(int kind, const SharedLists &places) const;
  /// What shares of a microbatch are made alike in.
  enum class Alike { Count, Cost, Rows, Parts };
  std::vector<Items> given(const Items &microbatch, int32_t replicas) const;
  std::vector<Alike> waysOf(const PartGroup &group,
                            const std::vector<Items> &microbatches,
                            bool balance) const;
  const Weights &weightsOf(const PartGroup &group, Alike alike) const;
  static std::vector<Weighed> weigh(const Weights *weights, const Lists &lists);
  std::string tryCut(const PartGroup &group,
                     const std::vector<Items> &microbatches, Alike alike,
                     CutParts &out) const;
  void cutGroup(const PartGroup &group, const std::vector<Items> &microbatches,
                bool balance, CutParts &out) const;
  std::shared_ptr<PieceLists> cutPieces(const PartGroup &group, int32_t module,
                                        const TaskLists &tasks) const;
  std::vector<std::vector<int64_t>> timesOf(int32_t module, const Lists &own,
                                            int32_t pieces) const;
  /// Lists of a kind, made where they are not known yet.
  const Lists &listsOf(int32_t module, int kind, const char *symbol,
                       PieceLists &pieces) const;
  const std::vector<std::vector<int64_t>> &dimsOf(int32_t module, size_t symbol,
                                                  PieceLists &pieces) const;
  std::vector<std::vector<PartItems>> fillModule(int32_t module,
                                                 PieceLists &pieces) const;
  std::vector<std::vector<PartItems>> fillWhole(int32_t module) const;
  void cutWhole(int32_t module, CutParts &out) const;
  std::string check(int32_t module, PieceLists &pieces) const;
  /// What is wrong with a symbol's value in a part, in words.
  std::string explain(int32_t module, size_t symbol, size_t task, size_t part,
                      int64_t value, const Items &list) const;

  const ProgramInfo &program;
  const std::vector<PartGroup> &groups;
  const StepItems &items;
  std::vector<std::vector<int64_t>> costs;   ///< [module][item of its kind]
  std::vector<int> kinds;                    ///< of each module's own item
  std::vector<std::vector<int>> symbolKinds; ///< -1: no item
  std::vector<std::vector<Measure>> symbolMeasures;
  /// Of each way of a group, made when they are first asked for.
  mutable std::map<std::pair<const PartGroup *, int>, Weights> weights;
};

} // namespace dt::rt

#endif // DT_RUNTIME_DATA_CUT_H
