//===- Phases.h - The compiler's phases as pass pipelines --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Phases in order; each is a registered pipeline (`--dt-modules`), and --emit
// runs all of them.
//
//===----------------------------------------------------------------------===//

#ifndef TOOLS_DT_OPT_PHASES_H
#define TOOLS_DT_OPT_PHASES_H

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassManager.h"

namespace dt {

/// All dialects that IR of any phase may hold.
void registerDialects(mlir::DialectRegistry &registry);
/// All passes (ours and MLIR's general ones) and the phases' pipelines.
void registerPasses();

/// Adds the phases up to and including `last` ("import", "modules",
/// "differentiate", "optimize", "lower"; empty: all).
void buildPhases(mlir::OpPassManager &pm, llvm::StringRef last = "");

} // namespace dt

#endif // TOOLS_DT_OPT_PHASES_H
