//===- dt-opt.cpp - The compiler's command line -------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// An mlir-opt whose inputs may also be ONNX models and recipes. Those are
// imported first and handed over as bytecode, so that every flag of mlir-opt
// (passes, timing, remarks, plugins) works on them.
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Phases.h"

#include "mlir/Debug/CLOptionsSetup.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Support/Timing.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;

static int run(int argc, char **argv) {
  DialectRegistry registry;
  dt::registerDialects(registry);
  dt::registerPasses();
  auto [input, output] =
      registerAndParseCLIOptions(argc, argv, "DistTrain compiler", registry);
  MlirOptMainConfig config = MlirOptMainConfig::createFromCLOptions();

  std::string message;
  auto file = openInputFile(input, &message);
  if (!file) {
    llvm::errs() << message << "\n";
    return 1;
  }
  auto sink = openOutputFile(output, &message);
  if (!sink) {
    llvm::errs() << message << "\n";
    return 1;
  }
  if (failed(MlirOptMain(sink->os(), std::move(file), registry, config)))
    return 1;
  sink->keep();
  return 0;
}

int main(int argc, char **argv) {
  llvm::InitLLVM initialise(argc, argv);
  return run(argc, argv);
}
