//===- PlanModel.h - A program as the planner sees it -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The planner (passes/planner) knows no IR. Here its description of a model is
// made from the functions that will run: layers are the pieces between which a
// module may be cut into stages, their operations have the figures of the nn
// cost interface. Items of one kind are alike in a compiled program, so an item
// counts as one token and all figures are per item.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLAN_PLANMODEL_H
#define PASSES_PLAN_PLANMODEL_H

#include "dialects/dist/DistOps.h"
#include "passes/planner/describe/Data.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <map>

namespace dt::plan {

/// What items of a kind may be.
struct ItemBound {
  std::string name;
  int64_t most = 0; ///< of one sample
  /// Of each measure; where there is none all are alike, of one token.
  planner::ItemSize largest;
  std::vector<std::string> measures; ///< names: tokens, then the other
};

struct PlannedProgram {
  planner::Model model;
  /// By module and layer: the pieces of a stage list (docs/plan.md) that the
  /// layer is.
  std::vector<std::vector<std::vector<std::string>>> pieces;
  /// "module.input", by edge of the model.
  std::vector<std::string> edges;
  /// By module: items of a sample that replicas may share; 0: none, and tasks
  /// have one microbatch.
  std::vector<int64_t> items;
  /// By module: what divides the tokens of every attention; 1: nothing does, or
  /// there are none; 0: any number, as rows are rounded up.
  std::vector<int64_t> tokens;
  std::vector<ItemBound> kinds; ///< beside samples, by name
  ItemBound sample;
  int64_t global = 1;     ///< samples of a step; of one of parts the most
  int64_t parts = 0;      ///< of a step of as many samples as fit; 0: it is not
  int64_t partTokens = 0; ///< most of such a part
  /// How a step may be cut: samples of a microbatch by their number. Where the
  /// recipe says it, one way.
  std::map<int64_t, int64_t> microbatches;
  /// Whose devices price what a plan has no times of.
  std::string cluster;
  /// A loss over the whole batch: schedules must wait for it.
  bool needsBatchSync = false;

  /// Most replicas that the items of one of so many microbatches suffice for.
  int64_t getMaxReplicas(int module, int64_t number) const {
    return std::max<int64_t>(1, microbatches.at(number) * items[module]);
  }
};

/// `program` is one whose layers are calls, as the outline phase leaves them;
/// bounds of its dims are changed (to one item). Error: what a plan cannot be
/// made for, by module.
llvm::Expected<PlannedProgram> describeProgram(mlir::ModuleOp program);

/// Bounds a part to one item: of the module's own kind one, of others as many
/// as it may hold.
void setOneItem(dist::ModuleOp module);

/// How fit a module is to give the pace, from 0: the backbone, else what works
/// on samples, else the first that there is.
int getPaceRank(dist::ModuleOp module);

/// A step's samples as the program counts them: no more items and no larger
/// ones than its bounds allow, those that are all alike having one token.
/// `names` are the samples' kinds of items; those
/// that the program calls otherwise stand for its others, in order. Measures go
/// by name, too; tokens stand for the first one that has none of the program's
/// names, and a second one that the data do not say grows with the first.
std::vector<planner::Sample>
fitToProgram(const std::vector<planner::Sample> &samples,
             llvm::ArrayRef<std::string> names,
             const planner::Data::Measures &measures,
             const PlannedProgram &program);
/// Samples with as many items as they may have, each as large as it may be, but
/// no larger than fill the parts of a module of one replica.
std::vector<planner::Sample> fullBatch(const PlannedProgram &program);
/// A step's samples, of those that come one after another.
std::vector<planner::Sample>
takeStep(const PlannedProgram &program,
         llvm::function_ref<planner::Sample(int64_t)> sample);

} // namespace dt::plan

#endif // PASSES_PLAN_PLANMODEL_H
