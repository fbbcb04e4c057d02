//===- Others.cpp - Names that are taken, and MLIR's own plugins ----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// One of each registry, under a name that the compiler has; and what makes of
// the same file a pass plugin of MLIR.
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNOps.h"
#include "models/frontend/recipe/losses/LossRule.h"
#include "passes/planner/describe/Shipped.h"
#include "passes/planner/policies/Policy.h"
#include "passes/scheduler/core/Schedule.h"
#include "tools/plugin/Plugin.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

using namespace mlir;

namespace {

struct Nothing : PassWrapper<Nothing, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Nothing)
  StringRef getArgument() const override { return "canonicalize"; }
  void runOnOperation() override {}
};

struct Mark : PassWrapper<Mark, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Mark)
  StringRef getArgument() const override { return "others-mark"; }
  void runOnOperation() override {
    getOperation()->setAttr("others.marked", UnitAttr::get(&getContext()));
  }
};

} // namespace

static void addAll(dt::Plugin &plugin) {
  plugin.addDialect<dt::nn::NNDialect>();
  plugin.addPass<Nothing>();
  plugin.schedules.add("gpipe", "", nullptr);
  plugin.policies.push_back({"joint", "", nullptr});
  plugin.clusters.push_back({"here", "{}"});
  plugin.losses.push_back({"mse", "output", "target", nullptr});
  plugin.addOptimizer<dt::rt::optimizers::SGD>("SGD", "");
}

DIST_TRAIN_PLUGIN("Others", addAll)

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "Others", "0.1",
          [] { PassRegistration<Mark>(); }};
}
