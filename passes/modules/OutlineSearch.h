//===- OutlineSearch.h - Repeated subsequences of ops -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_MODULES_OUTLINESEARCH_H
#define PASSES_MODULES_OUTLINESEARCH_H

#include "dialects/nn/NNOps.h"

#include <optional>

namespace dt::modules {

/// Ops that are not part of the sequence: reads of parameters, constants,
/// generates.
bool isLeaf(mlir::Operation *op);

/// Equal, non-overlapping windows of `length` ops.
struct Repetition {
  size_t length = 0;
  llvm::SmallVector<size_t> starts;
};

/// The repetition that removes most ops ((windows - 1) * length), of at least
/// `minOps` ops that read a parameter and call no function twice; nothing if
/// there is none.
std::optional<Repetition> findRepetition(llvm::ArrayRef<mlir::Operation *> list,
                                         unsigned minOps);

} // namespace dt::modules

#endif // PASSES_MODULES_OUTLINESEARCH_H
