//===- PrepareShard.cpp - The form that the partitioner reads ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/shard/PadVocabulary.h"
#include "passes/shard/Passes.h"
#include "passes/shard/ShardProblem.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace dt;

namespace dt::shard {
#define GEN_PASS_DEF_PREPARESHARD
#include "passes/shard/Passes.h.inc"
} // namespace dt::shard

using namespace dt::shard;

namespace {
struct PrepareShardPass : shard::impl::PrepareShardBase<PrepareShardPass> {
  using PrepareShardBase::PrepareShardBase;
  void runOnOperation() override;
};
} // namespace

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// Families of functions of which one call's first result is an operand of
/// another call of equal type, outside of other layers.
static llvm::DenseSet<StringAttr> findChains(dist::ModuleOp module) {
  llvm::DenseSet<StringAttr> chains;
  auto insert = [&](func::CallOp call) {
    if (auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee()))
      chains.insert(getFamily(callee));
  };
  module.walk([&](func::CallOp call) {
    if (call->getParentOfType<func::FuncOp>().isPrivate())
      return;
    for (Value v : call.getOperands()) {
      auto before = v.getDefiningOp<func::CallOp>();
      if (!before || v != before.getResult(0) ||
          before.getCalleeType() != call.getCalleeType())
        continue;
      insert(before);
      insert(call);
    }
  });
  return chains;
}

/// What saves nothing calls @layers on its way forward, and @layers.fwd where
/// it computes again. Both must be cut alike: one function for both.
/// FinishShard takes results that nobody uses away again.
static void joinForwards(dist::ModuleOp module) {
  SymbolTable symbols(module);
  SmallVector<func::CallOp> calls;
  module.walk([&](func::CallOp call) { calls.push_back(call); });
  llvm::DenseMap<StringAttr, func::FuncOp> savingOf;
  for (auto link : module.getOps<dist::ForwardOp>())
    if (link.getPlainAttr())
      savingOf.try_emplace(link.getPlainAttr().getAttr(),
                           dist::getFunctions<func::FuncOp>(link).forward);
  for (func::CallOp call : calls) {
    func::FuncOp saving = savingOf.lookup(call.getCalleeAttr().getAttr());
    auto equal = [](TypeRange a, TypeRange b) { return llvm::equal(a, b); };
    if (!saving || !equal(saving.getArgumentTypes(), call.getOperandTypes()) ||
        saving.getNumResults() < call.getNumResults() ||
        !equal(saving.getResultTypes().take_front(call.getNumResults()),
               call.getResultTypes()))
      continue;
    OpBuilder builder(call);
    auto joined = func::CallOp::create(builder, call.getLoc(), saving,
                                       call.getOperands());
    call->replaceAllUsesWith(
        joined.getResults().take_front(call.getNumResults()));
    call.erase();
  }
}

static void inlineCall(func::CallOp call, func::FuncOp callee) {
  IRMapping mapping;
  Block &body = callee.front();
  mapping.map(body.getArguments(), call.getOperands());
  OpBuilder builder(call);
  for (Operation &op : body.without_terminator())
    builder.clone(op, mapping);
  for (auto [result, value] :
       llvm::zip(call.getResults(), body.getTerminator()->getOperands()))
    result.replaceAllUsesWith(mapping.lookup(value));
  call.erase();
}

/// Inlines all calls but those of chains, then drops what nobody calls.
static void inlineCalls(dist::ModuleOp module) {
  llvm::DenseSet<StringAttr> chains = findChains(module);
  SymbolTable symbols(module);
  for (bool changed = true; changed;) {
    changed = false;
    SmallVector<func::CallOp> calls;
    module.walk([&](func::CallOp call) {
      bool nested = call->getParentOfType<func::FuncOp>().isPrivate();
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      if (nested || !callee || !chains.contains(getFamily(callee)))
        calls.push_back(call);
    });
    for (func::CallOp call : calls) {
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      if (!callee || callee.isExternal())
        continue;
      inlineCall(call, callee);
      changed = true;
    }
  }
  for (auto f : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (f.isPrivate() && dist::isUnused(f)) {
      dist::unlink(f);
      f.erase();
    }
}

//===----------------------------------------------------------------------===//
// Biases
//===----------------------------------------------------------------------===//

static void splitBias(nn::LinearOp op) {
  if (!op.getBias())
    return;
  OpBuilder builder(op);
  builder.setInsertionPointAfter(op);
  Value bias = op.getBias();
  op.getBiasMutable().clear();
  auto sum = nn::AddOp::create(builder, op.getLoc(), op.getResult(), bias);
  op.getResult().replaceAllUsesExcept(sum.getResult(), sum);
}

static void splitBias(nn::ConvOp op) {
  if (!op.getBias())
    return;
  OpBuilder builder(op);
  builder.setInsertionPointAfter(op);
  Value bias = op.getBias();
  nn::Shape shape = nn::getShape(bias);
  shape.resize(nn::getShape(op.getResult()).size() - 1, nn::DimExpr(1));
  auto type = nn::makeTensorType(shape, getElementTypeOrSelf(bias));
  bias = nn::ReshapeOp::create(builder, op.getLoc(), type, bias);
  op.getBiasMutable().clear();
  auto sum = nn::AddOp::create(builder, op.getLoc(), op.getResult(), bias);
  op.getResult().replaceAllUsesExcept(sum.getResult(), sum);
}

void PrepareShardPass::runOnOperation() {
  dist::ModuleOp module = getOperation();
  OpBuilder builder(module);
  if (tp > 0)
    module.setTp(tp);
  if (ep > 0)
    module.setEp(ep);
  if (cp > 0)
    module.setCp(cp);
  if (!contextKeys.empty()) {
    auto keys = rt::fromText<rt::ContextKeys>(contextKeys);
    if (!keys) {
      module.emitError("context-keys: expected one of ")
          << listTexts<rt::ContextKeys>() << ", not '" << contextKeys << "'";
      return signalPassFailure();
    }
    module.setContextKeysAttr(
        rt::ContextKeysAttr::get(module.getContext(), *keys));
  }
  if (sequenceParallel)
    module.setSequenceParallel(true);
  int64_t ranks = getTensorParallel(module);
  if (!isSharded(module))
    return padVocabulary(module, 1);
  joinForwards(module);
  inlineCalls(module);
  module.walk([](nn::LinearOp op) { splitBias(op); });
  module.walk([](nn::ConvOp op) { splitBias(op); });
  // Where the vocabulary is cut a loss is a partial sum; the gradient has its
  // log-sum-exp from the forward function (EmitLocal).
  module.walk([](nn::CrossEntropyGradOp op) { op.getLossMutable().clear(); });
  padVocabulary(module, ranks);
}
