//===- Input.h - ONNX models and recipes as MLIR buffers --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TOOLS_DT_OPT_INPUT_H
#define TOOLS_DT_OPT_INPUT_H

#include "tools/dt-opt/Diagnostics.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace dt {

/// True for inputs that are imported first, ONNX models and recipes: by their
/// suffix in either case (.onnx, .pb, .json), or by how a file begins.
bool isImported(llvm::StringRef path);

/// Reads `path`: a file as it is, or what import makes of it as bytecode,
/// according to the command line (--dims, --loss, ...). The error is empty if
/// diagnostics have been printed already.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
readInput(llvm::StringRef path, const mlir::DialectRegistry &registry,
          Diagnostics &diagnostics);

/// The options that say how a single .onnx is trained.
llvm::cl::OptionCategory &getImportOptions();

} // namespace dt

#endif // TOOLS_DT_OPT_INPUT_H
