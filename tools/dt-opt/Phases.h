//===- Phases.h - The compiler's phases as pass pipelines -------*- C++ -*-===//
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
#include "llvm/ADT/STLFunctionalExtras.h"

namespace dt {

/// All dialects that IR of any phase may hold.
void registerDialects(mlir::DialectRegistry &registry);
/// All passes (ours and MLIR's general ones) and the phases' pipelines.
void registerPasses();

/// "import", "modules", "outline", "stages", "differentiate", …
bool isPhase(llvm::StringRef name);
std::string getPhaseNames();
/// Adds the phases from `first` to `last`, both included; empty: from the
/// first, to the last. None if `first` is no phase (but "codegen"). `after` may
/// add passes of its own behind a phase, which it is told by name.
void buildPhases(
    mlir::OpPassManager &pm, llvm::StringRef first = "",
    llvm::StringRef last = "",
    llvm::function_ref<void(mlir::OpPassManager &, llvm::StringRef)> after =
        {});

} // namespace dt

#endif // TOOLS_DT_OPT_PHASES_H
