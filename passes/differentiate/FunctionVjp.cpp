//===- FunctionVjp.cpp - A function and its gradient ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Writes the vector-Jacobian products of a function's active ops behind its
// forward ops. Keeping both in one block lets them refer to forward values as
// they like; what crosses is decided afterwards, by the cut.
//
//===----------------------------------------------------------------------===//

#include "passes/differentiate/FunctionVjp.h"
#include "passes/differentiate/Passes.h"

#include "dialects/nn/NNGradient.h"
#include "dialects/nn/NNInference.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace dt::differentiate {

Save getSaveMode(func::FuncOp function, bool insideLayer) {
  if (auto own = function->getAttrOfType<StringAttr>(nn::kSaveAttr))
    return rt::fromText<Save>(own.getValue()).value_or(Save::Vjp);
  auto module = function->getParentOfType<dist::ModuleOp>();
  auto save = module ? module.getSave() : std::nullopt;
  // A layer runs again once: what it calls keeps what that second run needs.
  if (!save || (*save == Save::None && insideLayer))
    return Save::Vjp;
  return *save;
}

/// Builds the joint function of one function and one set of gradients.
class JointBuilder {
public:
  JointBuilder(Differentiator &parent, func::FuncOp function,
               ArrayRef<Want> wanted, Joint &joint)
      : parent(parent), wanted(wanted), joint(joint), body(function.front()),
        builder(body.getTerminator()) {
    joint.function = function;
    joint.numArguments = function.getNumArguments();
    joint.numResults = function.getNumResults();
    for (Operation &op : body.without_terminator())
      joint.forwardOps.insert(&op);
  }

  /// `gradients[i]`: how many gradients result i gets.
  LogicalResult build(ArrayRef<unsigned> gradients);

private:
  void findActive(ArrayRef<unsigned> gradients);
  LogicalResult reverse(Operation *op);
  LogicalResult reverseCall(func::CallOp call, ArrayRef<Value> grads);
  LogicalResult reverseOp(Operation *op, ArrayRef<Value> grads);
  void contribute(Value value, Value grad);
  Value take(Value value, Location loc);
  Want wantOf(Value operand);
  void returnGradients();
  void eraseDead();

  Differentiator &parent;
  ArrayRef<Want> wanted;
  Joint &joint;
  Block &body;
  OpBuilder builder;
  ValueSet active;
  llvm::DenseMap<Value, SmallVector<Value>> contributions;
};

void JointBuilder::findActive(ArrayRef<unsigned> gradients) {
  Flags args, results;
  for (Want w : wanted)
    args.push_back(w != Want::nothing);
  for (unsigned n : gradients)
    results.push_back(n > 0);
  ValueSet counting = parent.activity.countingValues(joint.function, results);
  for (Value v : parent.activity.variedValues(joint.function, args))
    if (counting.contains(v))
      active.insert(v);
}

LogicalResult JointBuilder::build(ArrayRef<unsigned> gradients) {
  findActive(gradients);
  Operation *end = body.getTerminator();
  for (auto [i, n] : llvm::enumerate(gradients))
    for (unsigned k = 0; k < n; ++k) {
      Value value = end->getOperand(i);
      Value grad = body.addArgument(value.getType(), value.getLoc());
      joint.gradientOf.push_back(i);
      contribute(value, grad);
    }
  SmallVector<Operation *> ops(llvm::make_pointer_range(
      llvm::make_range(body.begin(), std::prev(body.end()))));
  for (Operation *op : llvm::reverse(ops))
    if (failed(reverse(op)))
      return failure();
  returnGradients();
  eraseDead();
  return success();
}

/// A gradient has its value's type, but what a parameter gets is added up in
/// that of its gradient.
void JointBuilder::contribute(Value value, Value grad) {
  if (!active.contains(value))
    return;
  Type element = wantOf(value) == Want::parameter ? nn::scalarOf(value)
                                                  : nn::elementOf(value);
  if (nn::elementOf(grad) != element)
    grad =
        nn::CastOp::create(builder, grad.getLoc(),
                           nn::withElementType(grad.getType(), element), grad);
  // As soon as it is there: the product can then write where it is added.
  if (auto read = value.getDefiningOp<nn::ReadOp>()) {
    nn::AccumulateOp::create(builder, grad.getLoc(), read.getParameterAttr(),
                             grad);
    return;
  }
  contributions[value].push_back(grad);
}

Value JointBuilder::take(Value value, Location loc) {
  auto it = contributions.find(value);
  if (it == contributions.end())
    return {};
  SmallVector<Value> &list = it->second;
  Value sum = list.front();
  for (Value other : ArrayRef(list).drop_front())
    sum = nn::AddOp::create(builder, loc, sum, other);
  list.assign(1, sum);
  return sum;
}

LogicalResult JointBuilder::reverse(Operation *op) {
  if (isa<nn::ReadOp>(op))
    return success(); // contributions were accumulated as they came
  SmallVector<Value> grads;
  for (Value result : op->getResults())
    grads.push_back(take(result, op->getLoc()));
  if (llvm::none_of(grads, [](Value v) { return v != nullptr; }))
    return success();
  if (auto call = dyn_cast<func::CallOp>(op))
    return reverseCall(call, grads);
  return reverseOp(op, grads);
}

LogicalResult JointBuilder::reverseOp(Operation *op, ArrayRef<Value> grads) {
  SmallVector<bool> wants;
  for (Value operand : op->getOperands())
    wants.push_back(active.contains(operand));
  if (!llvm::is_contained(wants, true))
    return success();
  auto vjp = dyn_cast<nn::VjpOpInterface>(op);
  if (!vjp)
    return op->emitOpError("has no gradient, but stands between a trained "
                           "value and a loss");
  SmallVector<Value> operandGrads(op->getNumOperands());
  if (failed(vjp.buildVjp(builder, grads, wants, operandGrads)))
    return failure();
  for (auto [operand, grad] : llvm::zip(op->getOperands(), operandGrads)) {
    if (!grad)
      continue;
    if (nn::getShape(grad) != nn::getShape(operand))
      return op->emitOpError("made a gradient of type ")
             << grad.getType() << " for an operand of type "
             << operand.getType();
    contribute(operand, grad);
  }
  return success();
}

static bool hasNarrowGradient(nn::ReadOp read) {
  auto parameter = SymbolTable::lookupNearestSymbolFrom<nn::ParameterOp>(
      read, read.getParameterAttr());
  return parameter && parameter.getNarrowGradient();
}

Want JointBuilder::wantOf(Value operand) {
  if (!active.contains(operand))
    return Want::nothing;
  if (auto read = operand.getDefiningOp<nn::ReadOp>())
    return hasNarrowGradient(read) ? Want::narrowParameter : Want::parameter;
  if (auto arg = dyn_cast<BlockArgument>(operand))
    return wanted[arg.getArgNumber()];
  return Want::value;
}

LogicalResult JointBuilder::reverseCall(func::CallOp call,
                                        ArrayRef<Value> grads) {
  func::FuncOp callee = getCallee(call, parent.tables);
  if (!callee || callee.isExternal())
    return call.emitOpError("calls a function without a body, which has no "
                            "gradient");
  SmallVector<Want> wants;
  for (Value operand : call.getOperands())
    wants.push_back(wantOf(operand));
  Flags exist;
  for (Value grad : grads)
    exist.push_back(grad != nullptr);
  Save save = getSaveMode(callee, !joint.isModuleFunction);
  auto vjp = parent.differentiateCallee(callee, save, wants, exist);
  if (failed(vjp))
    return failure();
  const FunctionVjp &pair = **vjp;
  if (!pair.backward)
    return success();

  OpBuilder atCall(call);
  auto forward = func::CallOp::create(atCall, call.getLoc(), pair.forward,
                                      call.getOperands());
  unsigned numResults = call.getNumResults();
  SmallVector<Value> inputs;
  for (Source source : pair.inputs) {
    switch (source.kind) {
    case Source::argument:
      inputs.push_back(call.getOperand(source.index));
      break;
    case Source::result:
      inputs.push_back(forward.getResult(source.index));
      break;
    case Source::residual:
      inputs.push_back(forward.getResult(numResults + source.index));
      break;
    case Source::gradient:
      inputs.push_back(grads[source.index]);
      break;
    }
  }
  auto backward =
      func::CallOp::create(builder, call.getLoc(), pair.backward, inputs);
  for (auto [argument, grad] : llvm::zip(pair.outputs, backward.getResults()))
    contribute(call.getOperand(argument), grad);
  call.replaceAllUsesWith(forward.getResults().take_front(numResults));
  joint.forwardOps.insert(forward);
  joint.forwardOps.erase(call);
  call.erase();
  return success();
}

void JointBuilder::returnGradients() {
  SmallVector<Value> returned;
  for (unsigned i = 0; i < joint.numArguments; ++i) {
    BlockArgument arg = body.getArgument(i);
    if (isParameter(wanted[i])) {
      for (Value grad : contributions.lookup(arg)) {
        returned.push_back(grad);
        joint.outputs.push_back({i, wanted[i]});
      }
      continue;
    }
    if (wanted[i] != Want::value)
      continue;
    Value grad = take(arg, arg.getLoc());
    // Whoever is at the other end of an edge counts on a gradient.
    if (!grad && joint.isModuleFunction)
      grad = nn::GradientBuilder(builder, joint.function).zeros(arg.getType());
    if (!grad)
      continue;
    returned.push_back(grad);
    joint.outputs.push_back({i, wanted[i]});
  }
  Operation *end = body.getTerminator();
  end->insertOperands(end->getNumOperands(), returned);
}

void JointBuilder::eraseDead() {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (!joint.forwardOps.contains(&op) && isOpTriviallyDead(&op))
      op.erase();
}

std::string Differentiator::freeName(StringRef base, StringRef suffix) {
  std::string name = (base + suffix).str();
  for (unsigned i = 2; symbols.lookup(name); ++i)
    name = (base + "." + Twine(i) + suffix).str();
  return name;
}

/// Says in the IR which functions belong together.
static void link(const FunctionVjp &pair, FlatSymbolRefAttr plain) {
  auto nameOf = [](func::FuncOp function) {
    return function ? FlatSymbolRefAttr::get(function.getSymNameAttr())
                    : FlatSymbolRefAttr();
  };
  OpBuilder builder(pair.forward);
  dist::ForwardOp::create(builder, func::FuncOp(pair.forward).getLoc(),
                          nameOf(pair.forward), nameOf(pair.backward),
                          /*input=*/{}, /*weight=*/{}, plain);
}

FailureOr<const FunctionVjp *>
Differentiator::differentiateCallee(func::FuncOp function, Save save,
                                    ArrayRef<Want> wanted,
                                    ArrayRef<bool> gradients) {
  Key key(function, save, SmallVector<Want>(wanted), Flags(gradients));
  if (auto it = memo.find(key); it != memo.end())
    return &it->second;
  if (!inProgress.insert(function).second) {
    function.emitOpError("calls itself; a layer function must not");
    return failure();
  }
  func::FuncOp copy = function.clone();
  copy.setName(freeName(function.getName(), ".joint"));
  symbols.insert(copy);
  Joint joint;
  joint.isModuleFunction = false;
  joint.save = save;
  SmallVector<unsigned> counts(gradients.begin(), gradients.end());
  if (failed(JointBuilder(*this, copy, wanted, joint).build(counts)))
    return failure();
  symbols.remove(copy);
  std::string forward = freeName(function.getName(), ".fwd");
  std::string backward = freeName(function.getName(), ".bwd");
  FunctionVjp pair = splitFunction(std::move(joint), forward, backward);
  pair.forward->remove();
  symbols.insert(pair.forward, std::next(Block::iterator(function)));
  if (pair.backward) {
    pair.backward->remove();
    symbols.insert(pair.backward, std::next(Block::iterator(pair.forward)));
  }
  link(pair, FlatSymbolRefAttr::get(function.getSymNameAttr()));
  inProgress.erase(function);
  return &(memo[key] = pair);
}

/// Names on the arguments and results of a module's backward function.
static void nameBackward(const FunctionVjp &pair,
                         ArrayRef<nn::GradientAttr> sources,
                         ArrayRef<StringAttr> outputNames) {
  func::FuncOp backward = pair.backward;
  MLIRContext *context = backward.getContext();
  auto unit = UnitAttr::get(context);
  for (auto [i, source] : llvm::enumerate(pair.inputs)) {
    if (source.kind == Source::residual)
      backward.setArgAttr(i, nn::kResidualAttr, unit);
    if (source.kind != Source::gradient)
      continue;
    nn::GradientAttr from = sources[source.index];
    backward.setArgAttr(i, nn::kGradientAttr,
                        nn::GradientAttr::get(context,
                                              outputNames[source.index],
                                              from.getEdge(), from.getLoss()));
  }
  for (auto [i, argument] : llvm::enumerate(pair.outputs)) {
    func::FuncOp forward = pair.forward;
    auto name = forward.getArgAttrOfType<StringAttr>(argument, nn::kNameAttr);
    if (!name)
      name = StringAttr::get(context, std::to_string(argument));
    backward.setResultAttr(i, nn::kGradientAttr,
                           nn::GradientAttr::get(context, name, {}, {}));
  }
}

LogicalResult Differentiator::differentiateModule(func::FuncOp function) {
  MLIRContext *context = function.getContext();
  Save save = getSaveMode(function, /*insideLayer=*/false);
  SmallVector<Want> wanted;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    bool wants = function.removeArgAttr(
                     i, StringAttr::get(context, nn::kWantsGradAttr)) &&
                 isDifferentiable(function.getArgument(i));
    wanted.push_back(wants ? Want::value : Want::nothing);
  }
  SmallVector<unsigned> counts;
  SmallVector<nn::GradientAttr> sources;
  SmallVector<StringAttr> outputNames;
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    auto list = function.getResultAttrOfType<ArrayAttr>(i, nn::kGradientsAttr);
    function.removeResultAttr(i, StringAttr::get(context, nn::kGradientsAttr));
    counts.push_back(list ? list.size() : 0);
    auto name = function.getResultAttrOfType<StringAttr>(i, nn::kNameAttr);
    for (unsigned k = 0; k < counts.back(); ++k) {
      sources.push_back(cast<nn::GradientAttr>(list[k]));
      outputNames.push_back(name ? name
                                 : StringAttr::get(context, std::to_string(i)));
    }
  }
  Joint joint;
  joint.isModuleFunction = true;
  joint.save = save;
  std::string base = function.getName().str();
  if (failed(JointBuilder(*this, function, wanted, joint).build(counts)))
    return failure();
  symbols.remove(function);
  FunctionVjp pair =
      splitFunction(std::move(joint), base + ".fwd", base + ".bwd");
  link(pair, /*plain=*/{});
  if (pair.backward)
    nameBackward(pair, sources, outputNames);
  return success();
}

/// `call` calls the differentiated form of `plain`.
static void callPlainInstead(func::CallOp call, func::FuncOp plain) {
  unsigned n = plain.getNumResults();
  if (n == call.getNumResults() || !call.getResults().drop_front(n).use_empty())
    return;
  OpBuilder builder(call);
  auto other =
      func::CallOp::create(builder, call.getLoc(), plain, call.getOperands());
  call.getResults().take_front(n).replaceAllUsesWith(other.getResults());
  call.erase();
}

void Differentiator::cleanUp() {
  llvm::DenseMap<StringRef, func::FuncOp> plainOf;
  llvm::SetVector<Operation *> candidates;
  for (auto &[key, pair] : memo) {
    auto plain = cast<func::FuncOp>(std::get<0>(key));
    plainOf[pair.forward.getName()] = plain;
    for (func::FuncOp f : {plain, pair.forward, pair.backward})
      if (f)
        candidates.insert(f);
  }
  Operation *module = symbols.getOp();
  module->walk([&](func::CallOp call) {
    if (func::FuncOp plain = plainOf.lookup(call.getCallee()))
      callPlainInstead(call, plain);
  });
  for (bool changed = true; changed;) {
    changed = false;
    llvm::DenseSet<StringRef> called;
    module->walk([&](func::CallOp call) { called.insert(call.getCallee()); });
    candidates.remove_if([&](Operation *op) {
      auto f = cast<func::FuncOp>(op);
      if (!f.isPrivate() || called.contains(f.getName()))
        return false;
      dist::unlink(f);
      f.erase();
      return changed = true;
    });
  }
}

} // namespace dt::differentiate
