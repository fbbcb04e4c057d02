//===- CheckPadding.h - Rows that are no item's -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Where rows of parts are rounded up to a multiple (docs/sizes.md), those
// behind the last item's are computed like others and must reach none of them.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_MODULES_CHECKPADDING_H
#define PASSES_MODULES_CHECKPADDING_H

#include "dialects/dist/DistOps.h"

#include <optional>
#include <string>

namespace dt::modules {

/// Why a module may not have such rows of a dim.
struct PaddingTrouble {
  mlir::Location where;
  std::string what; ///< "loss 'a' adds them up"
};
/// Nothing: it may.
std::optional<PaddingTrouble> findPaddingTrouble(dist::ModuleOp module,
                                                 nn::DimOp dim);

/// Fails, with an error, if the module has rows that it may not have.
llvm::LogicalResult checkPadding(dist::ModuleOp module);

} // namespace dt::modules

#endif // PASSES_MODULES_CHECKPADDING_H
