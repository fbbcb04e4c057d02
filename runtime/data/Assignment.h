//===- Assignment.h - who works on which items of a step --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A step's samples and their items (images, targets) are cut into microbatches
// and these into parts for every replica of every module. All of it is a pure
// function of the tables and of what the index knows of the samples, so every
// rank computes the whole of it and nobody sends a size. No files, no MPI.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_ASSIGNMENT_H
#define DT_RUNTIME_DATA_ASSIGNMENT_H

#include "runtime/Program.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dt::rt {

/// The kind of item that always exists.
inline constexpr const char *kSample = "sample";
/// The measure that a text of a sample has.
inline constexpr const char *kSampleTokens = "sample.tokens";

/// Items of one kind by their position in the global batch's list of that kind,
/// ascending. For samples a position is the place in the batch. The list is in
/// the owner's order: by place of the sample, then by number in the sample (a
/// batch file keeps the order it has).
using Items = std::vector<int64_t>;

/// A number of every item of a kind, by its position (docs/sizes.md).
using Measure = std::shared_ptr<const std::vector<int64_t>>;
using Measures = std::map<std::string, Measure>; ///< by name

/// What is known of the samples of a step before any is read.
struct StepItems {
  struct Kind {
    std::string name; ///< "image", …; not "sample"
    int64_t count = 0;
    /// Place of the sample of each item. Empty although count is not 0: nobody
    /// knows, which is an error where it matters.
    std::vector<int64_t> owner;
    Measures measures{};
  };
  int64_t samples = 0;
  std::vector<Kind> kinds;
  Measures measures{}; ///< of samples, by place
  /// Of a step of as many samples as fit: the place that each part begins with,
  /// and `samples`; empty: samples as they come do not make such parts.
  std::vector<int64_t> parts{};
  std::string where; ///< begins errors: a file, "step 3"
  /// A sample in words, by its place; may be empty.
  std::function<std::string(int64_t place)> nameOf;
};

/// A part: for each symbol of its module the items that it counts, or of which
/// it adds a measure up; an empty list for a symbol without an item kind.
struct PartItems {
  std::vector<Items> symbols;
  /// The value of each: how many, or the sum of their measure, rounded up.
  std::vector<int64_t> dims;
  /// Places of the part's samples; of a part that is not cut by sample, the
  /// owners of its items as far as they are known.
  Items samples;
};

struct Assignment {
  /// Places of the samples of each microbatch, ascending.
  std::vector<Items> microbatches;
  /// [module][task][part]. A whole-batch module has one task; its replicas are
  /// its ranks, all with equal parts.
  std::vector<std::vector<std::vector<PartItems>>> modules;
  /// [module][symbol]: what it adds up of its items; null: it counts them.
  std::vector<std::vector<Measure>> measures;

  /// Work of the fullest replica over that of the mean one, microbatches
  /// summed, by predicted costs: `before` for the items in their given order,
  /// `after` as assigned. 1 where there is no work.
  struct Balance {
    double before = 1, after = 1;
  };
  std::vector<Balance> balance; ///< per module
  /// Predicted length (ns) of the schedule with the microbatches as given and
  /// as assigned; 0 if the mode does not look at it.
  double lengthBefore = 0, lengthAfter = 0;

  const std::vector<int64_t> *measureOf(size_t module, size_t symbol) const {
    return module < measures.size() ? measures[module][symbol].get() : nullptr;
  }
  const PartItems &part(size_t module, int64_t task, int32_t part) const {
    return modules[module][size_t(task)][size_t(part)];
  }
  uint64_t hash() const; ///< equal parts, equal hashes
};

/// ceil(globalBatch / microBatch).
inline int64_t microbatchCount(const ProgramInfo &program) {
  return (program.globalBatch + program.microBatch - 1) / program.microBatch;
}

/// Replicas of a module; a whole-batch module has one on each rank.
inline int32_t replicasOf(const ModuleInfo &module) {
  return std::max(1,
                  module.wholeBatch ? int32_t(module.ranks.size) : module.dp);
}
/// Pieces of a replica's share of a microbatch.
inline int32_t piecesOf(const ModuleInfo &module) {
  return module.wholeBatch ? 1 : std::max(1, module.sub);
}
/// Parts of a task: piece p of replica d is part d * pieces + p.
inline int32_t partsOf(const ModuleInfo &module) {
  return replicasOf(module) * piecesOf(module);
}
/// Microbatches that a task of a module works on at once.
inline int32_t spanOf(const ModuleInfo &module) {
  return std::max(1, module.span);
}
/// The task of a module that works on a microbatch; there is one over a whole
/// batch.
inline int64_t taskOf(const ModuleInfo &module, int64_t microbatch) {
  return module.wholeBatch ? 0 : microbatch / spanOf(module);
}
/// Tasks of a module in a step, forward or back.
inline int64_t tasksOf(const ProgramInfo &program, const ModuleInfo &module) {
  return taskOf(module, microbatchCount(program) - 1) + 1;
}
/// The microbatches that a task works on: from `microbatch`, its first, to
/// this one, its last.
inline int64_t lastOfTask(const ProgramInfo &program, const ModuleInfo &module,
                          int64_t microbatch) {
  return module.wholeBatch
             ? microbatchCount(program) - 1
             : std::min((taskOf(module, microbatch) + 1) * spanOf(module),
                        microbatchCount(program)) -
                   1;
}

/// Cuts steps (docs/parallel.md, docs/reordering.md):
///
///   - Microbatch k has the samples [k * micro, (k + 1) * micro), or of a step
///     of parts as many parts as any other; with `Inter` at most as many
///     samples, chosen and ordered by cost.
///   - A module that works by sample cuts the microbatch's samples into
///     contiguous runs whose sizes differ by one at most, an earlier replica
///     having the larger; of a step of parts into these. A module that works by
///     another kind cuts the microbatch's items of that kind in the same way.
///     With `Intra` both cut by cost instead, never beyond a bound.
///   - A task of several microbatches has the shares of all of them.
///   - Such a share is cut into its pieces in the same way, by number.
///   - A symbol of another kind has all items of the part's samples.
///   - Where a part would have more rows of a measure than its bound, its
///     module's shares are made alike in rows, and, if that does not do, so are
///     the microbatches, whatever the mode.
///   - Equal shares have: modules by sample with equal dp, stages of a unit
///     with equal dp. Modules joined by an edge on the same ranks work on the
///     items of the same samples.
class Assigner {
public:
  Assigner(const ProgramInfo &program, Reorder mode);
  ~Assigner();
  Assigner(const Assigner &) = delete;
  Assigner &operator=(const Assigner &) = delete;

  /// Pure. Throws Error if a part is larger than a bound, naming sample, module
  /// and bound; if a module has a kind of item that its parts do not determine;
  /// if the owner of items is not known and matters.
  Assignment assign(const StepItems &items) const;
  /// With Reorder::None whatever the mode, and bounds may be exceeded: for
  /// reports.
  Assignment given(const StepItems &items) const;

private:
  struct State;
  std::unique_ptr<State> state;
};

/// The value of a symbol in a part whose items have `rows` together.
inline int64_t roundUp(const SymbolInfo &symbol, int64_t rows) {
  return (rows + symbol.multiple - 1) / symbol.multiple * symbol.multiple;
}
/// A size in a part with these values of the symbols.
inline int64_t extentOf(const Extent &e, const int64_t *dims) {
  return e.symbol < 0 ? e.offset : e.scale * dims[e.symbol] / e.per + e.offset;
}
std::vector<int64_t> shapeOf(const TensorInfo &tensor, const int64_t *dims);

/// The items of a block: each has as many rows as its measure says, or one.
struct ItemRows {
  const Items *items;
  const std::vector<int64_t> *measure = nullptr;

  size_t count() const { return items->size(); }
  int64_t of(size_t i) const {
    return measure ? (*measure)[size_t((*items)[i])] : 1;
  }
  int64_t total() const;
  /// The item, by its number in the list, that a row is of.
  size_t itemAt(int64_t row) const;
};

/// Rows of a step's parts over the bounds that they were compiled for, of the
/// pacing module's dims that add a measure up; 0 if it has none.
double utilisation(const ProgramInfo &program, const Assignment &assignment);

/// Whether losses follow from what a row does.
inline bool leadsToLosses(const TaskRow &row) {
  return row.kind != TaskKind::Reduce && !goesBack(row.kind) && !row.gradient;
}

/// The items that two parts have in common, in order, by their rows in either:
/// what a message holds.
struct Overlap {
  std::vector<int64_t> inA, inB; ///< of equal length, ascending
};
Overlap overlap(const Items &a, const Items &b);

} // namespace dt::rt

#endif // DT_RUNTIME_DATA_ASSIGNMENT_H
