//===- StageWork.h - What a rank does of a stage ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Operations, collectives and kept bytes of a stage's functions as the phase
// optimize leaves them, in the planner's words: it prices a program's tasks and
// the layers that it plans with by the same code.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULE_STAGEWORK_H
#define PASSES_SCHEDULE_STAGEWORK_H

#include "passes/planner/describe/Plan.h"
#include "passes/schedule/StageBytes.h"

namespace dt::schedule {

/// A function's operations and collectives, with those of what it calls.
class FunctionReader {
public:
  /// Of a backward: gradients of inputs, or those of weights.
  enum class Half { None, Input, Weight };
  FunctionReader(dist::ModuleOp module, const stages::Sizes &sizes,
                 std::vector<planner::Op> &ops,
                 std::vector<planner::Exchange> &exchanges,
                 Half half = Half::None)
      : module(module), sizes(sizes), ops(ops), exchanges(exchanges),
        half(half) {}

  void read(mlir::func::FuncOp function);
  void read(mlir::Operation *op);
  /// Of a stage of equal layers: the first, with what stands between it and the
  /// next. All else is at the stage's ends.
  void readOneLayer(mlir::func::FuncOp function);
  /// A backward in one piece: here what gradients of inputs come from, the rest
  /// to `weight`.
  void readHalves(mlir::func::FuncOp function, FunctionReader &weight);

private:
  /// Nothing, where there is nothing to do.
  std::optional<planner::Op> describe(mlir::Operation *op);
  void setProduct(const nn::Work &work, planner::Op &result);
  planner::Linear getRows(dist::CollectiveOpInterface collective);

  dist::ModuleOp module;
  const stages::Sizes &sizes;
  std::vector<planner::Op> &ops;
  std::vector<planner::Exchange> &exchanges;
  Half half;
};

/// What a rank does of a stage, its backward in halves or not.
planner::RankLayer readStage(dist::ModuleOp stage, const stages::Sizes &sizes);

/// Elements of all parameters, as a rank has them.
double countParameters(dist::ModuleOp stage);

/// What `times` says of a module, or of all stages of one that is to be
/// cut; nothing without it.
std::optional<planner::StageTimes> getTimes(dist::ModuleOp module);
void setTimes(dist::ModuleOp module, llvm::ArrayRef<planner::StageTimes> stages,
              llvm::StringRef from);

struct PriceOptions {
  /// As if there were no items of this kind, or no rows of this measure
  /// ("image.patches").
  llvm::StringRef without;
  bool squares = true; ///< with what grows with the square of an item
};
/// Seconds of a part at its bounds, all of its items as large as they may be.
/// The stage's ranks are on the cluster's first nodes.
planner::Times priceStage(dist::ModuleOp stage, const planner::Cluster &cluster,
                          PriceOptions options = {});

} // namespace dt::schedule

#endif // PASSES_SCHEDULE_STAGEWORK_H
