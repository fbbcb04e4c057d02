//===- Output.h - Files and standard output, to their ends ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// LLVM's streams keep an error to themselves and end the program with one of
// their own, without the file's name, when they are destroyed; C's keep it for
// good. A full disk is one line here that names the file.
//
//===----------------------------------------------------------------------===//

#ifndef TOOLS_COMMON_OUTPUT_H
#define TOOLS_COMMON_OUTPUT_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <memory>

namespace dt {

/// Opens a file, or standard output if it is "-"; a link is an error.
llvm::Expected<std::unique_ptr<llvm::raw_fd_ostream>>
openOutput(llvm::StringRef file);

/// Writes a file, or standard output if it is "-". After an error, which may be
/// one of `write` or that another process writes it, what was there is there
/// still.
llvm::Error
writeOutput(llvm::StringRef file,
            llvm::function_ref<llvm::Error(llvm::raw_ostream &)> write);

/// Closes a file, or empties standard output, and says what could not be
/// written.
llvm::Error finishOutput(llvm::raw_fd_ostream &os, llvm::StringRef file);

/// For the beginning of main(): if standard output cannot hold what was printed
/// by LLVM's or C's means, the program ends with an error and code 1.
void expectStandardOutput();

} // namespace dt

#endif // TOOLS_COMMON_OUTPUT_H
