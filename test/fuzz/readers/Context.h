//===- Context.h - an MLIR context for fuzz targets -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A context keeps every type and attribute that it has seen, and costs more to
// make than a small input to read: one serves some hundred inputs.
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_FUZZ_READERS_CONTEXT_H
#define DT_TEST_FUZZ_READERS_CONTEXT_H

#include "mlir/IR/AsmState.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

#include <string>

namespace dt::fuzz {

/// The context of one input; collects its errors.
class Context {
public:
  Context();
  mlir::MLIRContext *operator->() { return context; }
  mlir::MLIRContext &operator*() { return *context; }
  /// The first error since the last call.
  std::string error();

private:
  mlir::MLIRContext *context;
  std::string first;
  mlir::ScopedDiagnosticHandler handler;
};

mlir::ParserConfig parserConfig(mlir::MLIRContext &context);
std::string print(mlir::ModuleOp module);
/// Each kind of operator counts as coverage.
void countOps(mlir::ModuleOp module);

} // namespace dt::fuzz

#endif // DT_TEST_FUZZ_READERS_CONTEXT_H
