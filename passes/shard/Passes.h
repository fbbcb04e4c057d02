//===- Passes.h - The shard phase -------------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SHARD_PASSES_H
#define PASSES_SHARD_PASSES_H

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"
#include "passes/Pipeline.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace dt::shard {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/shard/Passes.h.inc"
#include "passes/shard/Pipelines.h.inc"

/// What ops of other dialects tell the partitioner.
void registerLocalizeModels(mlir::DialectRegistry &registry);

/// Ranks of the module's tensor-parallel group.
inline int64_t getTensorParallel(dist::ModuleOp module) {
  return module.getTp();
}
/// Whether its functions are cut over the ranks of a group.
inline bool isSharded(dist::ModuleOp module) {
  return dist::Placement(module).group > 1;
}

} // namespace dt::shard

#endif // PASSES_SHARD_PASSES_H
