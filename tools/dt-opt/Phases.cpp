//===- Phases.cpp - The compiler's phases as pass pipelines -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Phases.h"

#include "codegen/Passes.h"
#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"
#include "dialects/rt/RTOps.h"
#include "dialects/sched/SchedOps.h"
#include "passes/differentiate/Passes.h"
#include "passes/import/Passes.h"
#include "passes/lower/Passes.h"
#include "passes/modules/Passes.h"
#include "passes/optimize/Passes.h"
#include "passes/outline/Passes.h"
#include "passes/plan/Passes.h"
#include "passes/precision/Passes.h"
#include "passes/schedule/Passes.h"
#include "passes/shard/Passes.h"
#include "passes/stages/Passes.h"

#include "mlir/Dialect/DLTI/DLTI.h"
#include "mlir/Dialect/EmitC/IR/EmitC.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringExtras.h"

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
    {"import", "dt-import", "Raise what exporters write to nn operators",
     import::buildImportPipeline, import::registerImportPasses},
    {"modules", "dt-modules",
     "Find item axes, cut at contrastive heads, verify separability",
     modules::buildModulesPipeline, modules::registerModulesPasses},
    {"precision", "dt-precision",
     "Compute-heavy operators compute in the recipe's type",
     precision::buildPrecisionPipeline, precision::registerPrecisionPasses},
    {"outline", "dt-outline", "Equal layers become functions",
     outline::buildOutlinePipeline, outline::registerOutlinePasses},
    {"stages", "dt-stages", "Cut modules into the plan's pipeline stages",
     stages::buildStagesPipeline, stages::registerStagesPasses},
    {"differentiate", "dt-differentiate",
     "Make .fwd and .bwd of every module's forward function",
     differentiate::buildDifferentiatePipeline,
     differentiate::registerDifferentiatePasses},
    {"shard", "dt-shard",
     "Cut modules over the ranks of tensor-parallel groups",
     shard::buildShardPipeline, shard::registerShardPasses},
    {"optimize", "dt-optimize", "Fuse elementwise operators",
     optimize::buildOptimizePipeline, optimize::registerOptimizePasses},
    {"schedule", "dt-schedule", "Order the tasks of the plan's ranks",
     schedule::buildSchedulePipeline, schedule::registerSchedulePasses},
    {"lower", "dt-lower", "Buffers, kernels and library calls: nn to rt",
     lower::buildLowerPipeline, lower::registerLowerPasses},
};

} // namespace

void registerDialects(DialectRegistry &registry) {
  registry.insert<nn::NNDialect, dist::DistDialect, func::FuncDialect,
                  arith::ArithDialect, math::MathDialect, scf::SCFDialect,
                  emitc::EmitCDialect, DLTIDialect>();
  registry.insert<rt::RTDialect, sched::SchedDialect>();
  shard::registerLocalizeModels(registry);
  lower::registerLoweringModels(registry);
}

void registerPasses() {
  registerTransformsPasses();
  codegen::registerCodegenPasses();
  plan::registerPlanPasses();
  for (const Phase &phase : kPhases) {
    phase.registerPasses();
    registerPassPipeline(
        phase.flag, phase.description,
        [build =
             phase.build](OpPassManager &pm, StringRef options,
                          function_ref<LogicalResult(const Twine &)> error) {
          if (!options.empty())
            return error("the phase takes no options");
          build(pm);
          return success();
        },
        [](function_ref<void(const detail::PassOptions &)>) {});
  }
}

bool isPhase(StringRef name) {
  return llvm::any_of(kPhases, [&](auto &phase) { return phase.name == name; });
}

std::string getPhaseNames() {
  return llvm::join(
      llvm::map_range(kPhases, [](auto &p) { return p.name.str(); }), ", ");
}

void buildPhases(OpPassManager &pm, StringRef first, StringRef last,
                 function_ref<void(OpPassManager &, StringRef)> after) {
  bool begun = first.empty();
  for (const Phase &phase : kPhases) {
    begun |= phase.name == first;
    if (!begun)
      continue;
    phase.build(pm);
    if (after)
      after(pm, phase.name);
    if (phase.name == last)
      return;
  }
}

} // namespace dt
