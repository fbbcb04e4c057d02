//===- StageEmit.h - Modules of stages --------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_STAGES_STAGEEMIT_H
#define PASSES_STAGES_STAGEEMIT_H

#include "passes/stages/StageCuts.h"

namespace dt::stages {

/// Replaces `module` by its stages and everything outside that names it.
/// `ranks[s]`: who runs stage s.
mlir::LogicalResult
emitStages(dist::ModuleOp module, const StageCuts &cuts,
           llvm::ArrayRef<llvm::SmallVector<int64_t>> ranks);

} // namespace dt::stages

#endif // PASSES_STAGES_STAGEEMIT_H
