//===- dt-lsp-server.cpp - IR of the compiler in an editor ----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// MLIR's language server with the dialects of dt-opt (docs/sdk.md).
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Phases.h"
#include "tools/plugin/Load.h"

#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/raw_ostream.h"

int main(int argc, char **argv) {
  llvm::InitLLVM initialise(argc, argv);
  mlir::DialectRegistry registry;
  dt::registerDialects(registry);
  if (llvm::Error error = dt::loadPlugins(
          llvm::ArrayRef<char *>(argv, argc).drop_front(), registry)) {
    llvm::errs() << "error: " << toString(std::move(error)) << "\n";
    return 1;
  }
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
