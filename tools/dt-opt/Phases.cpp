//===- Phases.cpp - The compiler's phases as pass pipelines -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Phases.h"

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"

#include "mlir/Dialect/DLTI/DLTI.h"
#include "mlir/Dialect/EmitC/IR/EmitC.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

#if __has_include("dialects/rt/RTOps.h")
#include "dialects/rt/RTOps.h"
#define DT_HAS_RT
#endif
#if __has_include("passes/import/Pipeline.h")
#include "passes/import/Pipeline.h"
#define DT_HAS_IMPORT
#endif
#if __has_include("passes/modules/Pipeline.h")
#include "passes/modules/Pipeline.h"
#define DT_HAS_MODULES
#endif
#if __has_include("passes/differentiate/Pipeline.h")
#include "passes/differentiate/Pipeline.h"
#define DT_HAS_DIFFERENTIATE
#endif
#if __has_include("passes/optimize/Pipeline.h")
#include "passes/optimize/Pipeline.h"
#define DT_HAS_OPTIMIZE
#endif
#if __has_include("passes/lower/Pipeline.h")
#include "passes/lower/Pipeline.h"
#define DT_HAS_LOWER
#endif
#include "codegen/Passes.h"

using namespace mlir;

namespace dt {

namespace {

/// A folder below passes/: its pipeline and the registration of its passes.
struct Phase {
  StringLiteral name, flag, description;
  void (*build)(OpPassManager &);
  void (*registerPasses)();
};

const Phase kPhases[] = {
#ifdef DT_HAS_IMPORT
    {"import", "dt-import",
     "Raise what exporters write to nn operators, outline equal layers",
     buildImportPipeline, registerImportPasses},
#endif
#ifdef DT_HAS_MODULES
    {"modules", "dt-modules",
     "Find item axes, cut at contrastive heads, verify separability",
     buildModulesPipeline, registerModulesPasses},
#endif
#ifdef DT_HAS_IMPORT
    {"outline", "dt-outline", "Equal layers become functions",
     buildOutlinePipeline, nullptr},
#endif
#ifdef DT_HAS_DIFFERENTIATE
    {"differentiate", "dt-differentiate",
     "Make .fwd and .bwd of every module's forward function",
     buildDifferentiatePipeline, registerDifferentiatePasses},
#endif
#ifdef DT_HAS_OPTIMIZE
    {"optimize", "dt-optimize", "Fuse elementwise operators",
     buildOptimizePipeline, registerOptimizePasses},
#endif
#ifdef DT_HAS_LOWER
    {"lower", "dt-lower", "Buffers, kernels and library calls: nn to rt",
     buildLowerPipeline, registerLowerPasses},
#endif
};

} // namespace

void registerDialects(DialectRegistry &registry) {
  registry.insert<nn::NNDialect, dist::DistDialect, func::FuncDialect,
                  arith::ArithDialect, math::MathDialect, scf::SCFDialect,
                  emitc::EmitCDialect, DLTIDialect>();
#ifdef DT_HAS_RT
  registry.insert<rt::RTDialect>();
#endif
}

void registerPasses() {
  registerTransformsPasses();
  registerCodegenPasses();
  for (const Phase &phase : kPhases) {
    if (phase.registerPasses)
      phase.registerPasses();
    registerPassPipeline(
        phase.flag, phase.description,
        [build = phase.build](OpPassManager &pm, StringRef options,
                              function_ref<LogicalResult(const Twine &)> error) {
          if (!options.empty())
            return error("the phase takes no options");
          build(pm);
          return success();
        },
        [](function_ref<void(const detail::PassOptions &)>) {});
  }
}

void buildPhases(OpPassManager &pm, StringRef last) {
  for (const Phase &phase : kPhases) {
    phase.build(pm);
    if (phase.name == last)
      return;
  }
}

} // namespace dt
