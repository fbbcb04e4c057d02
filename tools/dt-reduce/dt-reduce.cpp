//===- dt-reduce.cpp - Small IR that still goes wrong ---------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// MLIR's reducer with the dialects and passes of dt-opt (docs/sdk.md).
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Phases.h"
#include "tools/dt-reduce/Shrink.h"
#include "tools/plugin/Load.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/raw_ostream.h"

int main(int argc, char **argv) {
  llvm::InitLLVM initialise(argc, argv);
  mlir::DialectRegistry registry;
  dt::registerDialects(registry);
  dt::registerPasses();
  dt::registerShrink();
  if (llvm::Error error = dt::loadPlugins(
          llvm::ArrayRef<char *>(argv, argc).drop_front(), registry)) {
    llvm::errs() << "error: " << toString(std::move(error)) << "\n";
    return 1;
  }
  mlir::MLIRContext context(registry);
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context));
}
