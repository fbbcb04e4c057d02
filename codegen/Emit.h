//===- Emit.h - from rt to a directory with a C++ program -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The last step of the compiler. A module that holds one rt.program becomes a
// directory that builds with CMake and needs nothing of MLIR: generated
// sources, the runtime they call, initial weights, data.json and the ONNX files
// for --export.
//
//===----------------------------------------------------------------------===//

#ifndef CODEGEN_EMIT_H
#define CODEGEN_EMIT_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include <functional>
#include <string>

namespace dt::codegen {

/// Elements of an ONNX initializer, row-major and little-endian, in the type
/// that the parameter has; an error is one line that names file and
/// initializer. An empty function: values are read from the ONNX files
/// themselves.
using WeightSource = std::function<llvm::Expected<std::string>(
    llvm::StringRef file, llvm::StringRef initializer)>;

struct EmitOptions {
  std::string target = "cpu"; ///< of getTargetNames()
  std::string directory; ///< created, or replaced as a whole if it is a program
                         ///< written before
  /// Folder that the file names in #nn.onnx are relative to.
  std::string modelDirectory = ".";
  /// Folder that holds runtime/ (sources to copy); empty: where this build's
  /// sources or installed files are.
  std::string runtimeDirectory;
  WeightSource weights;
  std::string data =
      "{}"; ///< text of data.json: the recipe's data sections
            ///< (models/frontend/recipe/JsonAttr.h makes it from dist ops)
  bool writeWeights = true; ///< false: no weights.safetensors and no onnx/
                            ///< (large graphs without weights)
};

/// "cpu or cuda": names of all targets.
std::string getTargetNames(llvm::StringRef separator);
/// Whether programs of that target compute in the host's memory.
bool computesOnHost(llvm::StringRef target);

/// Emits the program of `module`. Errors go to the module's diagnostics; after
/// a failure the directory is what it was before.
mlir::LogicalResult emitProgram(mlir::ModuleOp module,
                                const EmitOptions &options);

/// The generated sources alone, one after another with their names, as text:
/// for tests and for a look at them.
mlir::LogicalResult printProgram(mlir::ModuleOp module, llvm::StringRef target,
                                 llvm::raw_ostream &os);

/// The emitc ops that the sources are printed from, as a module with one
/// emitc.file a source.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
convertToEmitC(mlir::ModuleOp module, llvm::StringRef target);

} // namespace dt::codegen

#endif // CODEGEN_EMIT_H
