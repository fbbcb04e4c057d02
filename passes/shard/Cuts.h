//===- Cuts.h - Where values may be cut -------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SHARD_CUTS_H
#define PASSES_SHARD_CUTS_H

#include "passes/shard/ShardProblem.h"

namespace dt::shard {

/// What the cuts of a program have to do with one another.
struct CutConstraints {
  /// Classes that some op needs whole: no parameter is cut there.
  std::vector<bool> blocked;
  /// Classes of sequence parallelism: such activations may be gathered.
  std::vector<bool> tokens;
  /// Of a context axis: classes of parameters' cuts that give each rank experts
  /// of its own. All other parameters are whole there.
  std::vector<bool> experts;
  /// Some dim could be cut by smaller axes only (4 ranks, 2 x 2 heads).
  bool wantsSmallerAxes = false;
};

/// Whether a size is a number for each item of the module.
bool countsItems(dist::ModuleOp module, const nn::DimExpr &size);

/// Whether some dim asks for smaller axes than this one, which is no context
/// axis: what findCuts() says, by itself.
bool wantsSmallerAxes(ShardProblem &program, const Axis &axis);

/// Finds cut points (boundaries of factors, spread through shared factors),
/// then the candidates of each variable, their classes, and each step's
/// strategies. Layouts of calls are given by `layers`.
CutConstraints
findCuts(ShardProblem &program, const Axis &axis,
         llvm::function_ref<const LayerLayouts *(mlir::Operation *)> layers);

} // namespace dt::shard

#endif // PASSES_SHARD_CUTS_H
