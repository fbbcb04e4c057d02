//===- Sequence.h - microbatches against the schedule -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The half of an assignment that is about time: which samples are worked on
// together and in which order, so that the schedule in the ranks' tables is
// short.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_SEQUENCE_H
#define DT_RUNTIME_DATA_SEQUENCE_H

#include "runtime/data/Cut.h"
#include "runtime/reorder/Order.h"

namespace dt::rt {

/// The rows of all ranks as one list of tasks: one for each (module, kind of
/// row, microbatch), as long as its slowest replica takes. What serves several
/// microbatches is one task after another. Messages take no time.
class Sequence {
public:
  explicit Sequence(const ProgramInfo &program);

  /// False: the rows wait for each other in a circle, or there are none.
  bool valid() const { return ok; }
  /// Tasks with durations from the predicted work of the parts: a forward takes
  /// a third of its module's, or all where nothing goes backward.
  reorder::OrderProblem problem(const PerPart<int64_t> &loads) const;
  /// Its length (ns) with the microbatches at their places; only if valid.
  double length(const PerPart<int64_t> &loads) const;

private:
  struct Row {
    int32_t module;
    TaskKind kind;
  };
  struct Node {
    int32_t row, place;
    std::vector<int32_t> waits; ///< nodes
    int32_t task = -1;          ///< in the list
  };
  int32_t nodeOf(int32_t module, TaskKind kind, int32_t microbatch) const;
  int32_t lastPlace(int32_t module, int32_t microbatch) const;
  int32_t addNode(const TaskRow &row, int32_t place);
  void addRow(const TaskRow &row, int32_t &previous);
  void addWait(int32_t node, int32_t on);
  void waitForForward(int32_t node, int32_t module, int32_t microbatch);
  void waitForBackward(int32_t node, int32_t module, int32_t microbatch);
  void addDependences();
  void list();
  void findInFlight();

  const ProgramInfo &program;
  int32_t microbatches;
  bool ok = false;
  std::vector<Row> rows;
  std::vector<Node> nodes;
  std::map<std::pair<int32_t, std::pair<int32_t, int32_t>>, int32_t> numbers;
  reorder::OrderProblem skeleton;              ///< without durations
  std::vector<std::vector<int32_t>> sequences; ///< nodes of each rank
};

/// Ways to put the samples into microbatches of at most `micro`, each
/// ascending, the given one (consecutive runs) first. `loads`: by [module]
/// [place]; modules' loads count by the replicas that share them. No loads: the
/// given one alone.
std::vector<std::vector<Items>>
compositions(const ProgramInfo &program, const StepItems &items,
             const std::vector<std::vector<int64_t>> &loads);

/// Into as many microbatches as there are, as full as one another: `rows` is
/// what a sample takes of a microbatch (StepCutter::sampleRows()). However many
/// samples those are.
std::vector<Items> packed(const ProgramInfo &program,
                          const std::vector<int64_t> &rows);

} // namespace dt::rt

#endif // DT_RUNTIME_DATA_SEQUENCE_H
