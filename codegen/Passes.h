//===- Passes.h - code generation as passes ---------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CODEGEN_PASSES_H
#define CODEGEN_PASSES_H

#include "mlir/Pass/Pass.h"

namespace dt::codegen {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "codegen/Passes.h.inc"

} // namespace dt::codegen

#endif // CODEGEN_PASSES_H
