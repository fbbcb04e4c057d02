//===- VerifyDifferentiated.cpp - After the differentiate phase -*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/differentiate/Passes.h"

#include "llvm/ADT/StringSet.h"

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

/// Names that arguments or results carry under an attribute.
static llvm::StringSet<> namesOf(func::FuncOp f, bool results,
                                 StringRef attribute) {
  llvm::StringSet<> names;
  for (unsigned i = 0, n = results ? f.getNumResults() : f.getNumArguments();
       i < n; ++i) {
    Attribute attr =
        results ? f.getResultAttr(i, attribute) : f.getArgAttr(i, attribute);
    if (auto name = dyn_cast_or_null<StringAttr>(attr))
      names.insert(name.getValue());
  }
  return names;
}

/// Outputs by name, then residuals.
static LogicalResult verifyForward(func::FuncOp forward) {
  bool residuals = false;
  for (unsigned i = 0; i < forward.getNumResults(); ++i) {
    bool residual = bool(forward.getResultAttr(i, nn::kResidualAttr));
    if (!residual && !forward.getResultAttrOfType<StringAttr>(i, nn::kNameAttr))
      return forward.emitOpError("returns result ")
             << i << ", which is neither an output nor a residual";
    if (!residual && residuals)
      return forward.emitOpError("returns output ")
             << i << " behind a residual";
    residuals |= residual;
  }
  return success();
}

/// Each argument of a backward function says what it is: an input or an
/// output's gradient of `forward`, by name, or a residual.
static LogicalResult verifyArguments(func::FuncOp backward,
                                     func::FuncOp forward) {
  llvm::StringSet<> inputs = namesOf(forward, false, nn::kNameAttr),
                    outputs = namesOf(forward, true, nn::kNameAttr);
  for (unsigned i = 0; i < backward.getNumArguments(); ++i) {
    if (backward.getArgAttr(i, nn::kResidualAttr))
      continue;
    auto name = backward.getArgAttrOfType<StringAttr>(i, nn::kNameAttr);
    auto gradient =
        backward.getArgAttrOfType<nn::GradientAttr>(i, nn::kGradientAttr);
    if (!name && !gradient)
      return backward.emitOpError("takes argument ")
             << i << ", which is no input, residual or gradient";
    if (name && !inputs.contains(name.getValue()))
      return backward.emitOpError("takes the input '")
             << name.getValue() << "', which " << forward.getName()
             << " does not have";
    if (!gradient)
      continue;
    StringRef of = gradient.getOf();
    if (!outputs.contains(of))
      return backward.emitOpError("takes the gradient of '")
             << of << "', which is no output of " << forward.getName();
    if (!gradient.getEdge() && !gradient.getLoss())
      return backward.emitOpError("takes the gradient of '")
             << of << "' from no edge and no loss";
  }
  return success();
}

/// Results of a backward function are gradients of inputs of `forward`.
static LogicalResult verifyResults(func::FuncOp backward,
                                   func::FuncOp forward) {
  llvm::StringSet<> inputs = namesOf(forward, false, nn::kNameAttr);
  for (unsigned i = 0; i < backward.getNumResults(); ++i) {
    auto gradient =
        backward.getResultAttrOfType<nn::GradientAttr>(i, nn::kGradientAttr);
    if (backward.getResultAttr(i, nn::kParamGradAttr))
      return backward.emitOpError("returns the gradient of a parameter, "
                                  "result ")
             << i << ", instead of adding it up";
    if (!gradient && !backward.getResultAttr(i, nn::kResidualAttr))
      return backward.emitOpError("returns result ")
             << i << ", which is neither a gradient nor a residual";
    if (gradient && !inputs.contains(gradient.getOf()))
      return backward.emitOpError("returns the gradient of '")
             << gradient.getOf().getValue() << "', which is no input of "
             << forward.getName();
  }
  return success();
}

/// Layer functions get parameters as operands and return their gradients.
static LogicalResult verifyLayer(func::FuncOp layer) {
  WalkResult walk = layer.walk([&](Operation *op) {
    if (!isa<nn::ReadOp, nn::AccumulateOp>(op))
      return WalkResult::advance();
    op->emitOpError("stands in the layer function @")
        << layer.getName() << ", which must leave parameters to its callers";
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

/// Residuals of a pair, in order.
static LogicalResult verifyResiduals(func::FuncOp forward,
                                     func::FuncOp backward) {
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
  if (failed(verifyArguments(backward, forward)))
    return failure();
  return verifyResults(backward, forward);
}

//===----------------------------------------------------------------------===//
// Halves
//===----------------------------------------------------------------------===//

static void addResiduals(func::FuncOp f, SmallVectorImpl<Type> &types) {
  for (unsigned i = 0; f && i < f.getNumResults(); ++i)
    if (f.getResultAttr(i, nn::kResidualAttr))
      types.push_back(f.getResultTypes()[i]);
}

/// Each residual that a half takes names one of `given`, in increasing order.
static LogicalResult verifyIndices(func::FuncOp half, ArrayRef<Type> given) {
  int64_t last = -1;
  for (unsigned i = 0; i < half.getNumArguments(); ++i) {
    if (!half.getArgAttr(i, nn::kResidualAttr))
      continue;
    auto index = half.getArgAttrOfType<IntegerAttr>(i, nn::kResidualAttr);
    if (!index)
      return half.emitOpError("takes a residual as argument ")
             << i << " without its number";
    int64_t k = index.getInt();
    if (k <= last)
      return half.emitOpError("takes residual ")
             << k << " behind residual " << last;
    if (k >= int64_t(given.size()))
      return half.emitOpError("takes residual ")
             << k << ", but there are " << given.size();
    if (given[k] != half.getArgumentTypes()[i])
      return half.emitOpError("takes residual ")
             << k << " as " << half.getArgumentTypes()[i] << ", but it is "
             << given[k];
    last = k;
  }
  return success();
}

/// Nothing is added up; what is kept for the weight half is taken there.
static LogicalResult verifyInputHalf(func::FuncOp half, func::FuncOp weight,
                                     int64_t forwardResiduals) {
  bool adds = false;
  half.walk([&](nn::AccumulateOp) { adds = true; });
  if (adds)
    return half.emitOpError("adds up gradients of parameters");
  llvm::DenseSet<int64_t> taken;
  for (unsigned i = 0; weight && i < weight.getNumArguments(); ++i)
    if (auto index = weight.getArgAttrOfType<IntegerAttr>(i, nn::kResidualAttr))
      taken.insert(index.getInt());
  int64_t next = forwardResiduals;
  for (unsigned i = 0; i < half.getNumResults(); ++i) {
    if (half.getResultAttr(i, nn::kResidualAttr) && !taken.contains(next++))
      return half.emitOpError("keeps result ")
             << i << ", which the weight half does not take";
  }
  return success();
}

static LogicalResult verifyHalf(const dist::Functions &functions,
                                func::FuncOp half) {
  bool isInput = half == functions.input;
  if (!isInput && half.getNumResults() > 0)
    return half.emitOpError("returns something, but only adds up gradients");
  SmallVector<Type> given;
  addResiduals(functions.forward, given);
  int64_t forwardResiduals = given.size();
  if (!isInput)
    addResiduals(functions.input, given);
  if (failed(verifyIndices(half, given)) ||
      failed(verifyArguments(half, functions.forward)) ||
      failed(verifyResults(half, functions.forward)))
    return failure();
  return isInput ? verifyInputHalf(half, functions.weight, forwardResiduals)
                 : success();
}

/// A module's own functions.
static LogicalResult verifyFunctions(const dist::Functions &functions) {
  LogicalResult result = verifyForward(functions.forward);
  if (functions.backward)
    result = success(
        succeeded(result) &&
        succeeded(verifyResiduals(functions.forward, functions.backward)));
  for (func::FuncOp half : {functions.input, functions.weight})
    if (half)
      result =
          success(succeeded(result) && succeeded(verifyHalf(functions, half)));
  return result;
}

/// What has residuals or gradients is linked to what they are of.
static LogicalResult verifyUnlinked(func::FuncOp function) {
  for (bool results : {false, true})
    for (StringRef mark : {nn::kResidualAttr, nn::kGradientAttr})
      for (unsigned i = 0; i < (results ? function.getNumResults()
                                        : function.getNumArguments());
           ++i)
        if (results ? function.getResultAttr(i, mark)
                    : function.getArgAttr(i, mark))
          return function.emitOpError("is in no dist.forward, but has '")
                 << mark << "'";
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

/// The functions of a module that compute gradients.
static SmallVector<func::FuncOp, 2> findBackward(ModuleOp program,
                                                 StringRef module) {
  auto op = program.lookupSymbol<dist::ModuleOp>(module);
  return op ? dist::getFunctions(op).getBackwards()
            : SmallVector<func::FuncOp, 2>();
}

/// A gradient that one end of an edge takes is given by the other end, and the
/// other way round.
static LogicalResult verifyEdge(ModuleOp program, dist::EdgeOp edge) {
  bool taken = false, given = false;
  auto name = StringAttr::get(program.getContext(),
                              edge.getTarget() + "." + edge.getInput());
  for (func::FuncOp f : findBackward(program, edge.getSource()))
    for (unsigned i = 0; i < f.getNumArguments(); ++i)
      if (auto gradient =
              f.getArgAttrOfType<nn::GradientAttr>(i, nn::kGradientAttr))
        taken |= gradient.getEdge() == name;
  for (func::FuncOp f : findBackward(program, edge.getTarget()))
    for (unsigned i = 0; i < f.getNumResults(); ++i)
      if (auto gradient =
              f.getResultAttrOfType<nn::GradientAttr>(i, nn::kGradientAttr))
        given |= gradient.getOf() == edge.getInputAttr();
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
    dist::ForwardOp own = dist::getLink(module);
    if (auto functions = dist::getFunctions(module); own && functions.forward)
      ok &= succeeded(verifyFunctions(functions));
    for (auto f : module.getOps<func::FuncOp>()) {
      ok &= succeeded(verifyNoMarks(f));
      if (f.isPrivate())
        ok &= succeeded(verifyLayer(f));
      else if (dist::ForwardOp link = dist::getLink(f); !link)
        ok &= succeeded(verifyUnlinked(f));
      else if (link != own) {
        f.emitOpError("is a second function of @")
            << module.getSymName() << " that is differentiated";
        ok = false;
      }
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
