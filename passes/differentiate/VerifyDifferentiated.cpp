//===- VerifyDifferentiated.cpp - After the differentiate phase ---*- C++
//-*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/differentiate/Passes.h"

using namespace mlir;

namespace dt::differentiate {
#define GEN_PASS_DEF_VERIFYDIFFERENTIATED
#include "passes/differentiate/Passes.h.inc"
} // namespace dt::differentiate

using namespace dt;

namespace {
struct VerifyDifferentiatedPass
    : differentiate::impl::VerifyDifferentiatedBase<VerifyDifferentiatedPass> {
  void runOnOperation() override;
};
} // namespace

static LogicalResult verifyNoMarks(func::FuncOp f) {
  for (unsigned i = 0; i < f.getNumArguments(); ++i)
    if (f.getArgAttr(i, nn::kWantsGradAttr))
      return f.emitOpError("still wants the gradient of argument ") << i;
  for (unsigned i = 0; i < f.getNumResults(); ++i)
    if (f.getResultAttr(i, nn::kGradientsAttr))
      return f.emitOpError("still has marks on result ") << i;
  return success();
}

/// Residuals of a pair, in order.
static LogicalResult verifyResiduals(dist::ModuleOp module,
                                     func::FuncOp backward) {
  StringRef base = backward.getName();
  base.consume_back(nn::kBackwardSuffix);
  auto forward =
      module.lookupSymbol<func::FuncOp>((base + nn::kForwardSuffix).str());
  if (!forward)
    return backward.emitOpError("has no forward function beside it");
  SmallVector<Type> given, taken;
  for (unsigned i = 0; i < forward.getNumResults(); ++i)
    if (forward.getResultAttr(i, nn::kResidualAttr))
      given.push_back(forward.getResultTypes()[i]);
  for (unsigned i = 0; i < backward.getNumArguments(); ++i)
    if (backward.getArgAttr(i, nn::kResidualAttr))
      taken.push_back(backward.getArgumentTypes()[i]);
  if (given != taken)
    return backward.emitOpError("takes other residuals than ")
           << forward.getName() << " returns";
  return success();
}

/// A layer's parameter gradient goes into nn.accumulate or out of the caller as
/// one.
static LogicalResult verifyParameterGradients(dist::ModuleOp module,
                                              func::CallOp call) {
  auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
  if (!callee)
    return success();
  auto caller = call->getParentOfType<func::FuncOp>();
  for (auto [i, result] : llvm::enumerate(call.getResults())) {
    if (!callee.getResultAttr(i, nn::kParamGradAttr))
      continue;
    for (OpOperand &use : result.getUses()) {
      bool returned =
          isa<func::ReturnOp>(use.getOwner()) &&
          caller.getResultAttr(use.getOperandNumber(), nn::kParamGradAttr);
      if (!returned && !isa<nn::AccumulateOp>(use.getOwner()))
        return call.emitOpError("uses parameter gradient ")
               << i << " otherwise than by adding it up";
    }
  }
  return success();
}

static bool hasAttr(func::FuncOp f, unsigned i, bool isResult, StringRef name,
                    StringRef value) {
  Attribute attr = isResult ? f.getResultAttr(i, name) : f.getArgAttr(i, name);
  auto text = dyn_cast_or_null<StringAttr>(attr);
  return text && text.getValue() == value;
}

/// A gradient that one end of an edge takes is given by the other end, and the
/// other way round.
static LogicalResult verifyEdge(ModuleOp program, dist::EdgeOp edge) {
  auto find = [&](StringRef module) {
    auto op = program.lookupSymbol<dist::ModuleOp>(module);
    return op ? op.lookupSymbol<func::FuncOp>("forward.bwd") : func::FuncOp();
  };
  bool taken = false, given = false;
  std::string name = (edge.getTarget() + "." + edge.getInput()).str();
  if (func::FuncOp f = find(edge.getSource()))
    for (unsigned i = 0; i < f.getNumArguments(); ++i)
      taken |= hasAttr(f, i, false, nn::kEdgeAttr, name);
  if (func::FuncOp f = find(edge.getTarget()))
    for (unsigned i = 0; i < f.getNumResults(); ++i)
      given |= hasAttr(f, i, true, nn::kGradOfAttr, edge.getInput());
  if (taken == given)
    return success();
  return edge.emitOpError()
         << (taken ? "brings no gradient back, but its source "
                     "takes one"
                   : "brings a gradient back that its source "
                     "does not take");
}

void VerifyDifferentiatedPass::runOnOperation() {
  bool ok = true;
  for (auto module : getOperation().getOps<dist::ModuleOp>()) {
    if (module.getForward()) {
      module.emitOpError("still has a function @forward");
      ok = false;
    }
    for (auto f : module.getOps<func::FuncOp>()) {
      ok &= succeeded(verifyNoMarks(f));
      if (!f.isPrivate() && f.getName().ends_with(nn::kBackwardSuffix))
        ok &= succeeded(verifyResiduals(module, f));
    }
    module.walk([&](func::CallOp call) {
      ok &= succeeded(verifyParameterGradients(module, call));
    });
  }
  for (auto edge : getOperation().getOps<dist::EdgeOp>())
    ok &= succeeded(verifyEdge(getOperation(), edge));
  if (!ok)
    signalPassFailure();
}
