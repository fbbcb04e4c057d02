//===- Pipeline.cpp - The shard phase in order ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/shard/Pipeline.h"
#include "passes/differentiate/Passes.h"
#include "passes/shard/Localize.h"
#include "passes/shard/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace dt;

namespace dt::shard {
#define GEN_PASS_REGISTRATION
#include "passes/shard/Passes.h.inc"
} // namespace dt::shard

void dt::registerShardPasses() { shard::registerShardPasses(); }

void dt::registerShardModels(DialectRegistry &registry) {
  shard::registerLocalizeModels(registry);
}

void dt::buildShardPipeline(OpPassManager &pm) {
  OpPassManager &modules = pm.nest<dist::ModuleOp>();
  modules.addPass(shard::createPrepareShard());
  modules.addPass(shard::createShard());
  modules.addPass(shard::createFinishShard());
  // The partitioner reads forward and backward function as one line, and where
  // a collective belongs shows only now.
  modules.addPass(differentiate::createSplitBackward());
  pm.addPass(differentiate::createVerifyDifferentiated());
}

void dt::buildAgreeTies(OpPassManager &pm) {
  pm.addPass(shard::createAgreeTies());
}
