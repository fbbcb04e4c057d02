//===- Passes.cpp - code generation as passes -----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/Passes.h"
#include "codegen/Emit.h"

#include "mlir/Dialect/EmitC/IR/EmitC.h"

using namespace mlir;

namespace dt::codegen {

#define GEN_PASS_DEF_RTTOEMITC
#define GEN_PASS_DEF_PRINTPROGRAM
#define GEN_PASS_DEF_EMITPROGRAMDIRECTORY
#include "codegen/Passes.h.inc"

namespace {

struct RTToEmitC : impl::RTToEmitCBase<RTToEmitC> {
  using RTToEmitCBase::RTToEmitCBase;
  void runOnOperation() override {
    auto converted = convertToEmitC(getOperation(), target);
    if (failed(converted))
      return signalPassFailure();
    getOperation().getBodyRegion().takeBody((*converted)->getBodyRegion());
  }
};

struct PrintProgram : impl::PrintProgramBase<PrintProgram> {
  using PrintProgramBase::PrintProgramBase;
  void runOnOperation() override {
    if (failed(printProgram(getOperation(), target, llvm::outs())))
      signalPassFailure();
  }
  /// Printing loads emitc, which a pass may do only if it says so.
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<emitc::EmitCDialect>();
  }
};

struct EmitProgramDirectory
    : impl::EmitProgramDirectoryBase<EmitProgramDirectory> {
  using EmitProgramDirectoryBase::EmitProgramDirectoryBase;
  void runOnOperation() override {
    EmitOptions options;
    options.target = target;
    options.directory = directory;
    options.modelDirectory = models;
    options.runtimeDirectory = runtime;
    options.writeWeights = weights;
    if (failed(emitProgram(getOperation(), options)))
      signalPassFailure();
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<emitc::EmitCDialect>();
  }
};

} // namespace
} // namespace dt::codegen
