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

namespace dt::rt {

/// Predicted times are whole numbers of 1/256 ns from here on, so that all
/// ranks compute the same.
constexpr double kCostUnit = 256;

/// By [module][microbatch or task][part or replica].
template <typename T> using PerPart = std::vector<std::vector<std::vector<T>>>;

struct CutParts {
  PerPart<PartItems> parts; ///< of tasks
  /// Predicted times of replicas, by microbatch: their work, over how fast they
  /// are beside the fastest.
  PerPart<int64_t> loads;
  /// The first part that is larger than a bound, in words; empty if all fit.
  std::string tooLarge;
};

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
  using Lists = std::vector<std::vector<Items>>; ///< [microbatch][part]
  static Lists join(const Lists &lists, int32_t span);
  /// What modules with as many pieces by the same kind, and tasks of as many
  /// microbatches, have in common.
  struct Cuts {
    std::map<int, Lists> lists; ///< by kind
    /// Samples, of which lists have nodes of their own; null: there are none.
    const Lists *places = nullptr;
  };
  /// Of tasks: shares of the group's replicas, and all samples.
  struct Tasks {
    Lists shares, whole;
  };

  int kindOf(const ModuleInfo &module, const char *item,
             const char *symbol) const;
  Measure measureOf(const ModuleInfo &module, const SymbolInfo &symbol,
                    int kind) const;
  std::vector<int64_t> measuredItems(size_t module, size_t symbol,
                                     int kind) const;
  std::vector<int64_t> groupRows(const PartGroup &group) const;
  int64_t countOf(int kind) const;
  std::vector<int64_t> itemCosts(size_t module) const;
  std::vector<int64_t> groupCosts(const PartGroup &group) const;
  int64_t capacity(const PartGroup &group) const;
  std::vector<Items> split(const Items &all,
                           const std::vector<int64_t> *groupCosts,
                           reorder::PartitionOptions options) const;
  Items ownersOf(int kind, const Items &list) const;
  Lists intoPieces(const Lists &shares, int32_t pieces) const;
  Lists bySamples(int kind, const Lists &places) const;
  /// What shares of a microbatch are made alike in.
  enum class Alike { Count, Cost, Rows };
  std::string tryCut(const PartGroup &group,
                     const std::vector<Items> &microbatches, Alike alike,
                     CutParts &out) const;
  void cutGroup(const PartGroup &group, const std::vector<Items> &microbatches,
                bool balance, CutParts &out) const;
  Cuts cutPieces(const PartGroup &group, int32_t module,
                 const Tasks &tasks) const;
  std::vector<std::vector<int64_t>> timesOf(int32_t module, const Lists &own,
                                            int32_t pieces) const;
  void fillModule(int32_t module, Cuts &cuts, CutParts &out) const;
  void cutWhole(int32_t module, CutParts &out) const;
  std::string check(int32_t module, const CutParts &parts) const;

  const ProgramInfo &program;
  const std::vector<PartGroup> &groups;
  const StepItems &items;
  std::vector<std::vector<int64_t>> costs;   ///< [module][item of its kind]
  std::vector<int> kinds;                    ///< of each module's own item
  std::vector<std::vector<int>> symbolKinds; ///< -1: no item
  std::vector<std::vector<Measure>> symbolMeasures;
};

} // namespace dt::rt

#endif // DT_RUNTIME_DATA_CUT_H
