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
#include "passes/differentiate/Pipeline.h"
#include "passes/import/Pipeline.h"
#include "passes/lower/Pipeline.h"
#include "passes/modules/Pipeline.h"
#include "passes/optimize/Pipeline.h"
#include "passes/outline/Pipeline.h"
#include "passes/plan/Pipeline.h"
#include "passes/schedule/Pipeline.h"
#include "passes/shard/Pipeline.h"
#include "passes/stages/Pipeline.h"

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

void buildShard(OpPassManager &pm) {
  buildAgreeTies(pm);
  buildShardPipeline(pm);
}

const Phase kPhases[] = {
    {"import", "dt-import",
     "Raise what exporters write to nn operators, outline equal layers",
     buildImportPipeline, registerImportPasses},
    {"modules", "dt-modules",
     "Find item axes, cut at contrastive heads, verify separability",
     buildModulesPipeline, registerModulesPasses},
    {"outline", "dt-outline", "Equal layers become functions",
     buildOutlinePipeline, registerOutlinePasses},
    {"stages", "dt-stages", "Cut modules into the plan's pipeline stages",
     buildStagesPipeline, registerStagesPasses},
    {"differentiate", "dt-differentiate",
     "Make .fwd and .bwd of every module's forward function",
     buildDifferentiatePipeline, registerDifferentiatePasses},
    {"shard", "dt-shard",
     "Cut modules over the ranks of tensor-parallel groups", buildShard,
     registerShardPasses},
    {"optimize", "dt-optimize", "Fuse elementwise operators",
     buildOptimizePipeline, registerOptimizePasses},
    {"schedule", "dt-schedule", "Order the tasks of the plan's ranks",
     buildSchedulePipeline, registerSchedulePasses},
    {"lower", "dt-lower", "Buffers, kernels and library calls: nn to rt",
     buildLowerPipeline, registerLowerPasses},
};

} // namespace

void registerDialects(DialectRegistry &registry) {
  registry.insert<nn::NNDialect, dist::DistDialect, func::FuncDialect,
                  arith::ArithDialect, math::MathDialect, scf::SCFDialect,
                  emitc::EmitCDialect, DLTIDialect>();
  registry.insert<rt::RTDialect, sched::SchedDialect>();
  registerShardModels(registry);
  registerLoweringModels(registry);
}

void registerPasses() {
  registerTransformsPasses();
  registerCodegenPasses();
  registerPlanPasses();
  for (const Phase &phase : kPhases) {
    if (phase.registerPasses)
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
