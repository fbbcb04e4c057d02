//===- Nesting.h - A bound on how deep IR text may nest ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// MLIR's parser, printer and verifier call themselves once a level: a file of
// some ten thousand opening brackets would end them at the stack's end. No
// program of ours is near the bound.
//
//===----------------------------------------------------------------------===//

#ifndef TOOLS_DT_OPT_NESTING_H
#define TOOLS_DT_OPT_NESTING_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace dt {

/// Error, "path:line: ...", if brackets of any kind outside strings and
/// comments stand deeper than the bound. Bytecode is not text: no error.
llvm::Error checkNesting(llvm::StringRef text, llvm::StringRef path);

} // namespace dt

#endif // TOOLS_DT_OPT_NESTING_H
