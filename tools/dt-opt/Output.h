//===- Output.h - What leaves the compiler -----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TOOLS_DT_OPT_OUTPUT_H
#define TOOLS_DT_OPT_OUTPUT_H

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace dt {

enum class Emit { None, Mlir, Plan, Memory, Cpp, Exe };

/// The phase whose result an output is made of; empty: the last.
llvm::StringRef getLastPhase(Emit emit);

struct OutputOptions {
  Emit emit;
  std::string target; ///< "cpu" or "cuda"
  std::string input;  ///< ONNX files are relative to its folder
  std::string output; ///< "-", a file, or a directory
};

/// Writes plan, memory, program sources or executable of the IR in `bytecode`.
/// Errors are printed.
llvm::LogicalResult emitOutput(const std::string &bytecode,
                               const mlir::DialectRegistry &registry,
                               const OutputOptions &options);

} // namespace dt

#endif // TOOLS_DT_OPT_OUTPUT_H
