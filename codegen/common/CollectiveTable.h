//===- CollectiveTable.h - what functions give to collectives ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The bytes that a step's tensor-parallel collectives must move are a function
// of the dims of its parts. This is that function: CollectiveInfo of
// runtime/Program.h.
//
//===----------------------------------------------------------------------===//

#ifndef CODEGEN_COMMON_COLLECTIVETABLE_H
#define CODEGEN_COMMON_COLLECTIVETABLE_H

#include "codegen/common/ModuleEmitter.h"

namespace dt::codegen {

/// `array(type, name, rows)` emits a constant array and gives what refers to
/// it. Returns the rows of the program's table, by module and function.
mlir::FailureOr<std::vector<std::string>>
collectiveRows(rt::ProgramOp program, llvm::ArrayRef<ModuleNames> names,
               llvm::function_ref<std::string(llvm::StringRef, llvm::StringRef,
                                              llvm::ArrayRef<std::string>)>
                   array);

} // namespace dt::codegen

#endif // CODEGEN_COMMON_COLLECTIVETABLE_H
