//===- NarrowCut.h - Where a part of a graph ends ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_MODULES_NARROWCUT_H
#define PASSES_MODULES_NARROWCUT_H

#include "passes/modules/ItemAxes.h"
#include "passes/modules/ModuleGraph.h"

namespace dt::modules {

/// Ops that depend on some inputs only, up to where they hand over little.
struct Cut {
  std::vector<size_t> ops;                 ///< numbers, in order
  llvm::SmallVector<mlir::Value> crossing; ///< what others take of them
  double bytes = 0, flops = 0;             ///< of a microbatch
};

/// The cut behind ops that depend on nothing but `inputs`; nothing if there is
/// none that is narrow (docs/modules.md). `why` then says it. `anyItems`:
/// crossing values need not have items first (the batch is not cut).
std::optional<Cut> findNarrowCut(const ModuleGraph &graph,
                                 const ItemAnalysis &analysis,
                                 const Support &inputs, bool anyItems,
                                 std::string &why);

/// A stack of layers: equal runs of ops, one fed by the other.
bool hasEqualLayers(const ModuleGraph &graph, llvm::ArrayRef<size_t> ops);

} // namespace dt::modules

#endif // PASSES_MODULES_NARROWCUT_H
