//===- Help.h - What --help shows -------------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The shared LLVM registers some 400 options of its backends just by being
// loaded, which would bury those that mean something here. They still exist:
// --help-hidden lists them.
//
//===----------------------------------------------------------------------===//

#ifndef TOOLS_DT_OPT_HELP_H
#define TOOLS_DT_OPT_HELP_H

#include "mlir/Support/LLVM.h"
#include "llvm/Support/CommandLine.h"

#include <string>

namespace dt {

/// Hides the options that exist now, but those of `ours`. Called before MLIR
/// registers the ones that dt-opt does have.
void hideForeignOptions(llvm::ArrayRef<llvm::cl::OptionCategory *> ours);
/// Puts what MLIR has registered since into a category behind ours.
void sortOptions();
/// What stands above the options: usage and examples.
std::string getHelpHeader();

} // namespace dt

#endif // TOOLS_DT_OPT_HELP_H
