//===- ProgramTable.h - rt.program as kProgram ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CODEGEN_COMMON_PROGRAMTABLE_H
#define CODEGEN_COMMON_PROGRAMTABLE_H

#include "codegen/common/ModuleEmitter.h"

namespace dt::codegen {

/// A parameter as the program's table has it: one for all names in a module
/// that are tied.
struct ParameterRow {
  rt::ParameterDeclOp decl;
  int64_t module = 0; ///< index in the program
  std::string name;   ///< "module.symbol" with the module's origin
  llvm::SmallVector<std::pair<std::string, std::string>>
      onnx;      ///< file below onnx/, initializer
  bool fromFile; ///< its initial value is in the ONNX file, and no other row
                 ///< has it
};

/// The shape that files have: before cuts, without padding.
llvm::SmallVector<int64_t> fileShape(const ParameterRow &row);

/// Rows in table order. Fails if indices have gaps or tied declarations
/// disagree.
mlir::FailureOr<std::vector<ParameterRow>>
collectParameters(rt::ProgramOp program);

/// Where a model file lies below onnx/: its path, with what would leave the
/// folder taken out.
std::string onnxFileName(llvm::StringRef file);

/// Emits the file "program.cpp" with the tables into the builder's module.
mlir::LogicalResult emitProgramTable(rt::ProgramOp program,
                                     llvm::ArrayRef<ModuleNames> modules,
                                     const Target &target,
                                     mlir::OpBuilder &builder);

} // namespace dt::codegen

#endif // CODEGEN_COMMON_PROGRAMTABLE_H
