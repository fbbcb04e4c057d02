//===- Directory.h - writes the emitted directory ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CODEGEN_COMMON_DIRECTORY_H
#define CODEGEN_COMMON_DIRECTORY_H

#include "codegen/Emit.h"
#include "codegen/common/Target.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace dt::codegen {

struct GeneratedFile {
  std::string path; ///< in the directory
  std::string text;
};

/// Writes everything into a FreshDirectory, which becomes options.directory
/// when it is complete.
mlir::LogicalResult writeDirectory(mlir::ModuleOp module, rt::ProgramOp program,
                                   const Target &target,
                                   llvm::ArrayRef<GeneratedFile> files,
                                   const EmitOptions &options);

/// Writes a file that is not there yet, and its folder. `write` gives the
/// bytes, and may fail.
llvm::Error
writeFile(llvm::StringRef file,
          llvm::function_ref<llvm::Error(llvm::raw_ostream &)> write);

/// weights.safetensors: the parameters whose values ONNX files hold, under
/// "module.parameter".
llvm::Error writeWeights(rt::ProgramOp program, llvm::StringRef path,
                         const EmitOptions &options);

} // namespace dt::codegen

#endif // CODEGEN_COMMON_DIRECTORY_H
