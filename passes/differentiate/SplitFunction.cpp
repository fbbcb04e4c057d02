//===- SplitFunction.cpp - Forward and backward function --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Cuts a joint function at what the backward half needs of the forward half.
//
//===----------------------------------------------------------------------===//

#include "passes/differentiate/FunctionVjp.h"
#include "passes/differentiate/Passes.h"
#include "passes/differentiate/SavedSet.h"

using namespace mlir;
using namespace dt;
using namespace dt::differentiate;

namespace {

class Splitter {
public:
  Splitter(Joint &joint)
      : joint(joint), function(joint.function), body(function.front()),
        saved(
            function, [this](Operation *op) { return canRecompute(op); },
            joint.save == Save::None) {}

  FunctionVjp split(StringRef forwardName, StringRef backwardName);

private:
  bool isForward(Value v) const;
  bool canRecompute(Operation *op) const;
  bool isFusedAgain(Operation *op) const;

  void findRequired();
  void listInputs();
  void makeBackward(StringRef name);
  void finishForward(StringRef name);

  Joint &joint;
  func::FuncOp function;
  Block &body;
  SmallVector<Operation *> backwardOps;
  OrderedValues required; ///< forward values that backward ops use
  SavedSet saved;
  SmallVector<Value> residuals;   ///< values that the forward function returns
  SmallVector<Value> inputValues; ///< beside pair.inputs, joint values
  IRMapping mapping;
  FunctionVjp pair;
};

} // namespace

bool Splitter::isForward(Value v) const {
  if (auto arg = dyn_cast<BlockArgument>(v))
    return arg.getOwner() == &body && arg.getArgNumber() < joint.numArguments;
  return joint.forwardOps.contains(v.getDefiningOp());
}

bool Splitter::canRecompute(Operation *op) const {
  switch (joint.save) {
  case Save::Vjp:
    return op->hasTrait<nn::Recomputable>();
  case Save::All:
    return isFusedAgain(op);
  case Save::None:
    // Layers of a module run again one by one, from what comes into each.
    if (isa<func::CallOp>(op))
      return !joint.isModuleFunction;
    return isMemoryEffectFree(op);
  }
  return false;
}

/// Whether elementwise ops make its value again on their way, of what they have
/// anyway: only such ops go back from it, and all that it is made of is kept.
bool Splitter::isFusedAgain(Operation *op) const {
  auto goesBackElementwise = [&](Operation *user) {
    return joint.forwardOps.contains(user) || isa<nn::ScalarOpInterface>(user);
  };
  return isa<nn::ScalarOpInterface>(op) &&
         llvm::all_of(op->getUsers(), goesBackElementwise) &&
         llvm::all_of(op->getOperands(), [&](Value v) {
           return isa<BlockArgument>(v) || required.contains(v) ||
                  v.getDefiningOp()->getNumOperands() == 0;
         });
}

void Splitter::findRequired() {
  for (Operation &op : body) {
    if (joint.forwardOps.contains(&op) || &op == body.getTerminator())
      continue;
    backwardOps.push_back(&op);
    op.walk([&](Operation *inner) {
      for (Value v : inner->getOperands())
        if (isForward(v))
          required.insert(v);
    });
  }
  for (Value v :
       body.getTerminator()->getOperands().drop_front(joint.numResults))
    if (isForward(v))
      required.insert(v);
}

/// Operands of the backward function: arguments, kept values, gradients, each
/// in their own order.
void Splitter::listInputs() {
  auto add = [&](Source::Kind kind, unsigned index, Value v) {
    pair.inputs.push_back({kind, index});
    inputValues.push_back(v);
  };
  for (unsigned i = 0; i < joint.numArguments; ++i)
    if (saved.needs(body.getArgument(i)))
      add(Source::argument, i, body.getArgument(i));
  ValueRange results =
      body.getTerminator()->getOperands().take_front(joint.numResults);
  for (Operation &op : body)
    for (Value v : op.getResults()) {
      if (!saved.keeps(v))
        continue;
      // The caller of a layer has the layer's results anyway.
      unsigned result = llvm::find(results, v) - results.begin();
      if (!joint.isModuleFunction && result < joint.numResults) {
        add(Source::result, result, v);
        continue;
      }
      add(Source::residual, residuals.size(), v);
      residuals.push_back(v);
    }
  for (unsigned i = 0; i < joint.gradientOf.size(); ++i)
    add(Source::gradient, joint.isModuleFunction ? i : joint.gradientOf[i],
        body.getArgument(joint.numArguments + i));
}

void Splitter::makeBackward(StringRef name) {
  Operation *end = body.getTerminator();
  SmallVector<Value> gradients(end->getOperands().drop_front(joint.numResults));
  SmallVector<Type> inputs, outputs;
  for (Value v : inputValues)
    inputs.push_back(v.getType());
  for (Value v : gradients)
    outputs.push_back(v.getType());
  OpBuilder builder(function.getContext());
  builder.setInsertionPointAfter(function);
  auto backward =
      func::FuncOp::create(builder, function.getLoc(), name,
                           builder.getFunctionType(inputs, outputs));
  backward.setVisibility(function.getVisibility());
  Block *block = backward.addEntryBlock();
  for (auto [i, v] : llvm::enumerate(inputValues)) {
    mapping.map(v, block->getArgument(i));
    if (pair.inputs[i].kind == Source::argument)
      if (DictionaryAttr attrs = function.getArgAttrDict(pair.inputs[i].index))
        backward.setArgAttrs(i, attrs);
  }
  builder.setInsertionPointToEnd(block);
  for (Operation *op : backwardOps) {
    op->walk([&](Operation *inner) {
      for (Value v : inner->getOperands())
        if (isForward(v))
          materialise(v, builder, mapping);
    });
    builder.clone(*op, mapping);
  }
  SmallVector<Value> returned;
  for (Value v : gradients)
    returned.push_back(materialise(v, builder, mapping));
  func::ReturnOp::create(builder, end->getLoc(), returned);
  for (auto [i, output] : llvm::enumerate(joint.outputs)) {
    pair.outputs.push_back(output.first);
    if (isParameter(output.second))
      backward.setResultAttr(i, nn::kParamGradAttr, builder.getUnitAttr());
  }
  pair.backward = backward;
}

/// What is left of the joint function: forward ops, results, residuals.
void Splitter::finishForward(StringRef name) {
  Operation *end = body.getTerminator();
  end->eraseOperands(joint.numResults,
                     end->getNumOperands() - joint.numResults);
  for (Operation *op : llvm::reverse(backwardOps))
    op->erase();
  body.eraseArguments(joint.numArguments,
                      body.getNumArguments() - joint.numArguments);
  end->insertOperands(joint.numResults, residuals);
  SmallVector<Type> results(end->getOperandTypes());
  SmallVector<DictionaryAttr> attrs;
  function.getAllResultAttrs(attrs);
  attrs.resize(joint.numResults);
  Builder b(function.getContext());
  DictionaryAttr mark;
  if (joint.isModuleFunction)
    mark =
        b.getDictionaryAttr(b.getNamedAttr(nn::kResidualAttr, b.getUnitAttr()));
  attrs.resize(results.size(), mark);
  function.setFunctionType(
      b.getFunctionType(function.getFunctionType().getInputs(), results));
  for (DictionaryAttr &dict : attrs)
    dict = dict ? dict : b.getDictionaryAttr(ArrayRef<NamedAttribute>());
  function.setAllResultAttrs(attrs);
  function.setName(name);
  pair.forward = function;
}

FunctionVjp Splitter::split(StringRef forwardName, StringRef backwardName) {
  findRequired();
  bool anyBackward = !backwardOps.empty() ||
                     body.getTerminator()->getNumOperands() > joint.numResults;
  if (anyBackward) {
    saved.choose(required);
    listInputs();
    makeBackward(backwardName);
  }
  finishForward(forwardName);
  return pair;
}

FunctionVjp dt::differentiate::splitFunction(Joint joint, StringRef forwardName,
                                             StringRef backwardName) {
  return Splitter(joint).split(forwardName, backwardName);
}
