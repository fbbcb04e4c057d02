//===- Build.h - Emitted programs compiled and linked -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TOOLS_DT_OPT_BUILD_H
#define TOOLS_DT_OPT_BUILD_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringRef.h"

namespace dt {

/// Configures and builds `directory`/build by CMake. A program for "cpu" links
/// the runtime that was built with this compiler if there is one; others
/// compile their own copy. What the tools say goes to
/// configure.log and build.log there; a terminal shows how far they are. If one
/// fails, its last lines are printed with the error.
llvm::LogicalResult buildProgram(llvm::StringRef directory,
                                 llvm::StringRef target);

} // namespace dt

#endif // TOOLS_DT_OPT_BUILD_H
