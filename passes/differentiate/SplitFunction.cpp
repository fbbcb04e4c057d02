//===- SplitFunction.cpp - Forward and backward function ----------*- C++
//-*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Cuts a joint function. The choice of what to keep is local: going forward
// through the values that the backward half uses, a value is computed again if
// that keeps fewer bytes than the value has (a norm of a kept value, a mask),
// and kept itself otherwise (a residual stream: its sum costs as much as its
// parts). Minimum cuts (Chen et al. 2016; PyTorch's partitioner) decide the
// same on layers and cost more.
//
//===----------------------------------------------------------------------===//

#include "passes/differentiate/FunctionVjp.h"
#include "passes/differentiate/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace dt;
using namespace dt::differentiate;

namespace {

using OrderedValues = llvm::SetVector<Value>;

class Splitter {
public:
  Splitter(Joint &joint)
      : joint(joint), function(joint.function), body(function.front()) {}

  FunctionVjp split(StringRef forwardName, StringRef backwardName);

private:
  bool isForward(Value v) const;
  bool isArgument(Value v) const { return isa<BlockArgument>(v); }
  bool isFree(Operation *op) const;
  bool canRecompute(Operation *op) const;
  Value throughViews(Value v) const;
  int64_t bytes(Value v);

  void findRequired();
  void chooseSaved();
  void chooseFor(Value v);
  void findLeaves(Value v, OrderedValues &leaves, ValueSet &seen) const;
  void findInputs(Value v, ValueSet &seen);

  void listInputs();
  void makeBackward(StringRef name);
  Value materialise(Value v, OpBuilder &builder);
  void finishForward(StringRef name);

  Joint &joint;
  func::FuncOp function;
  Block &body;
  SmallVector<Operation *> backwardOps;
  OrderedValues required; ///< forward values that backward ops use
  ValueSet saved;
  ValueSet arguments;           ///< arguments that the backward function needs
  ValueSet kept;                ///< saved values that it needs
  SmallVector<Value> residuals; ///< those that the forward function returns
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

/// Ops that depend on nothing but the program: constants, index functions,
/// parameters.
bool Splitter::isFree(Operation *op) const {
  return op->getNumOperands() == 0 && op->hasTrait<nn::Recomputable>();
}

bool Splitter::canRecompute(Operation *op) const {
  if (isFree(op) || isa<nn::ReshapeOp>(op))
    return true;
  switch (joint.save) {
  case Save::vjp:
    return op->hasTrait<nn::Recomputable>();
  case Save::all:
    return false;
  case Save::none:
    return isMemoryEffectFree(op) || isa<func::CallOp>(op);
  }
  return false;
}

/// A reshape is the same buffer: what it is made of stands for it.
Value Splitter::throughViews(Value v) const {
  while (auto view = v.getDefiningOp<nn::ReshapeOp>())
    v = view.getInput();
  return v;
}

/// Bytes with symbols at their bounds; unbound ones count as a typical batch.
int64_t Splitter::bytes(Value v) {
  auto value = [&](StringRef symbol) -> std::optional<int64_t> {
    auto dim = SymbolTable::lookupNearestSymbolFrom<nn::DimOp>(
        function, StringAttr::get(function.getContext(), symbol));
    return dim && dim.getMax() ? std::max<int64_t>(*dim.getMax(), 1) : 8;
  };
  return nn::getNumBytes(v.getType()).evaluate(value).value_or(0);
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

/// Values that must be there to compute `v` again, not looking behind kept
/// ones.
void Splitter::findLeaves(Value v, OrderedValues &leaves,
                          ValueSet &seen) const {
  if (!seen.insert(v).second || isArgument(v) || saved.contains(v))
    return;
  Operation *op = v.getDefiningOp();
  if (!canRecompute(op)) {
    leaves.insert(v);
    return;
  }
  for (Value operand : op->getOperands())
    findLeaves(operand, leaves, seen);
}

void Splitter::chooseFor(Value v) {
  Value root = throughViews(v);
  if (isArgument(root) || saved.contains(root) || isFree(root.getDefiningOp()))
    return;
  OrderedValues leaves;
  ValueSet seen;
  findLeaves(root, leaves, seen);
  int64_t cost = 0;
  for (Value leaf : leaves)
    cost += bytes(leaf);
  if (joint.save != Save::none && !leaves.empty() && cost >= bytes(root))
    saved.insert(root);
  else
    saved.insert(leaves.begin(), leaves.end());
}

void Splitter::chooseSaved() {
  for (Value v : required) {
    Value root = throughViews(v);
    if (!isArgument(root) && !canRecompute(root.getDefiningOp()))
      saved.insert(root);
  }
  // In forward order, so that decisions build on kept values before them.
  for (Operation &op : body)
    for (Value v : op.getResults())
      if (required.contains(v))
        chooseFor(v);
}

void Splitter::findInputs(Value v, ValueSet &seen) {
  if (!seen.insert(v).second)
    return;
  if (isArgument(v)) {
    arguments.insert(v);
    return;
  }
  if (saved.contains(v)) {
    kept.insert(v);
    return;
  }
  for (Value operand : v.getDefiningOp()->getOperands())
    findInputs(operand, seen);
}

/// Operands of the backward function: arguments, kept values, gradients, each
/// in their own order.
void Splitter::listInputs() {
  ValueSet seen;
  for (Value v : required)
    findInputs(v, seen);
  auto add = [&](Source::Kind kind, unsigned index, Value v) {
    pair.inputs.push_back({kind, index});
    inputValues.push_back(v);
  };
  for (unsigned i = 0; i < joint.numArguments; ++i)
    if (arguments.contains(body.getArgument(i)))
      add(Source::argument, i, body.getArgument(i));
  ValueRange results =
      body.getTerminator()->getOperands().take_front(joint.numResults);
  for (Operation &op : body)
    for (Value v : op.getResults()) {
      if (!kept.contains(v))
        continue;
      // The caller of a layer has the layer's results anyway.
      unsigned result = llvm::find(results, v) - results.begin();
      if (!joint.isStage && result < joint.numResults) {
        add(Source::result, result, v);
        continue;
      }
      add(Source::residual, residuals.size(), v);
      residuals.push_back(v);
    }
  for (unsigned i = 0; i < joint.gradientOf.size(); ++i)
    add(Source::gradient, joint.isStage ? i : joint.gradientOf[i],
        body.getArgument(joint.numArguments + i));
}

/// The backward function's copy of a forward value, made where it is first
/// used so that it lives no longer than it must.
Value Splitter::materialise(Value v, OpBuilder &builder) {
  if (Value known = mapping.lookupOrNull(v))
    return known;
  Operation *op = v.getDefiningOp();
  for (Value operand : op->getOperands())
    materialise(operand, builder);
  builder.clone(*op, mapping);
  return mapping.lookup(v);
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
          materialise(v, builder);
    });
    builder.clone(*op, mapping);
  }
  SmallVector<Value> returned;
  for (Value v : gradients)
    returned.push_back(materialise(v, builder));
  func::ReturnOp::create(builder, end->getLoc(), returned);
  for (auto [i, output] : llvm::enumerate(joint.outputs)) {
    pair.outputs.push_back(output.first);
    if (output.second == Want::parameter)
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
  if (joint.isStage)
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
    chooseSaved();
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
