//===- Context.cpp - an MLIR context for fuzz targets -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/readers/Context.h"

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"
#include "dialects/rt/RTOps.h"
#include "dialects/sched/SchedOps.h"
#include "test/fuzz/readers/Fuzz.h"
#include "tools/dt-opt/Diagnostics.h"

#include "mlir/Dialect/DLTI/DLTI.h"

#include <memory>

using namespace mlir;
using namespace dt;

static MLIRContext *getContext() {
  constexpr int kInputs = 200;
  static std::unique_ptr<MLIRContext> context;
  static int used = 0;
  if (!context || ++used % kInputs == 0) {
    DialectRegistry registry;
    registry.insert<nn::NNDialect, dist::DistDialect, rt::RTDialect,
                    sched::SchedDialect, func::FuncDialect, arith::ArithDialect,
                    math::MathDialect, DLTIDialect>();
    context.reset(); // one at a time
    context = std::make_unique<MLIRContext>(registry,
                                            MLIRContext::Threading::DISABLED);
    context->loadAllAvailableDialects();
  }
  return context.get();
}

fuzz::Context::Context()
    : context(getContext()), handler(context, [this](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == DiagnosticSeverity::Error &&
            first.empty())
          first = diagnostic.str().empty() ? "" : describe(diagnostic);
        return success();
      }) {}

std::string fuzz::Context::error() { return std::exchange(first, {}); }

ParserConfig fuzz::parserConfig(MLIRContext &context) {
  return ParserConfig(&context);
}

void fuzz::countOps(ModuleOp module) {
  module.walk([](Operation *op) {
    countAsCoverage(op->getName().getStringRef().str());
  });
}

std::string fuzz::print(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os);
  return text;
}
