//===- Bytecode.h - Damaged bytecode is refused -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// MLIR's reader of bytecode believes the counts and offsets in a file: a
// damaged one ends the process (llvm::report_fatal_error, a bad address), or
// asks for memory that no machine has.
//
//===----------------------------------------------------------------------===//

#ifndef TOOLS_DT_OPT_BYTECODE_H
#define TOOLS_DT_OPT_BYTECODE_H

#include "mlir/IR/DialectRegistry.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace dt {

/// Error, without text, if the file cannot be read; what is wrong is printed:
/// what the reader says, or "path: damaged bytecode" if it does not survive the
/// file. Text is no error here. Reads the file once in a process of its own,
/// with bounded memory and time.
llvm::Error checkBytecode(llvm::StringRef bytes, llvm::StringRef path,
                          const mlir::DialectRegistry &registry);

} // namespace dt

#endif // TOOLS_DT_OPT_BYTECODE_H
