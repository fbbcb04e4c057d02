//===- MoveOps.cpp - Part of a module becomes one of its own ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/modules/MoveOps.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace dt::modules {

namespace {

class Mover {
public:
  Mover(dist::ModuleOp module, const MovedOps &ops)
      : program(module->getParentOfType<mlir::ModuleOp>()), module(module),
        forward(module.getForward()), ops(ops) {}

  dist::ModuleOp run(StringRef name, bool upstream);

private:
  void createTarget(StringRef name, bool upstream);
  void findInterface();
  void addArguments();
  void cloneOps();
  void moveOutputs();
  void addReturningEdges();
  void moveLosses();
  void moveDenominator(dist::LossOp loss);
  void eraseDead();
  void eraseArguments();
  void moveParameters();
  void moveTies(StringRef parameter);

  std::string outputName(func::FuncOp function, Value value);
  std::string freeTensorName();
  void addResult(func::FuncOp function, Value value, StringRef name);
  BlockArgument addArgument(func::FuncOp function, Type type,
                            DictionaryAttr attributes, Location loc);
  DictionaryAttr named(StringRef name) {
    Builder b(program.getContext());
    return b.getDictionaryAttr(
        b.getNamedAttr(nn::kNameAttr, b.getStringAttr(name)));
  }
  dist::EdgeOp edgeInto(StringRef input);
  Operation *terminatorOf(func::FuncOp function) {
    return function.getBody().front().getTerminator();
  }

  mlir::ModuleOp program;
  dist::ModuleOp module, target;
  func::FuncOp forward, targetForward;
  const MovedOps &ops;
  SetVector<Value> incoming; ///< results of ops that stay
  SetVector<BlockArgument> arguments;
  llvm::StringSet<> touched; ///< names of arguments that may be of no use now
  IRMapping mapping;
};

void Mover::createTarget(StringRef name, bool upstream) {
  OpBuilder builder(program.getContext());
  if (upstream)
    builder.setInsertionPoint(module);
  else
    builder.setInsertionPointAfter(module);
  target = dist::ModuleOp::create(builder, module.getLoc(), name);
  target.setItemAttr(module.getItemAttr());
  target.setOrigin(module.getExternalName());
  target.setPrecisionAttr(module.getPrecisionAttr());
  target.setNarrowResidual(module.getNarrowResidual());
  target.setNarrowGradients(module.getNarrowGradients());
  builder.setInsertionPointToEnd(&target.getBody().front());
  for (auto dim : module.getOps<nn::DimOp>())
    builder.clone(*dim);
  targetForward = func::FuncOp::create(builder, forward.getLoc(), "forward",
                                       builder.getFunctionType({}, {}));
  OpBuilder body = OpBuilder::atBlockBegin(targetForward.addEntryBlock());
  func::ReturnOp::create(body, forward.getLoc());
}

void Mover::findInterface() {
  for (Operation &op : forward.getBody().front()) {
    if (!ops.contains(&op))
      continue;
    for (Value operand : op.getOperands()) {
      if (auto argument = dyn_cast<BlockArgument>(operand))
        arguments.insert(argument);
      else if (!ops.contains(operand.getDefiningOp()))
        incoming.insert(operand);
    }
  }
}

/// Tensors of all modules of one origin are known by one prefix, so their names
/// differ; both ends of an edge have the same.
std::string Mover::freeTensorName() {
  llvm::StringSet<> taken;
  for (auto other : program.getOps<dist::ModuleOp>()) {
    func::FuncOp function = other.getForward();
    if (!function || other.getExternalName() != module.getExternalName())
      continue;
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      taken.insert(dist::ModuleOp::getArgumentName(function, i));
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      taken.insert(dist::ModuleOp::getResultName(function, i));
  }
  std::string name;
  for (unsigned n = 0; name.empty() || taken.contains(name); ++n)
    name = "cut." + std::to_string(n);
  return name;
}

void Mover::addResult(func::FuncOp function, Value value, StringRef name) {
  unsigned position = function.getNumResults();
  (void)function.insertResult(position, value.getType(), named(name));
  terminatorOf(function)->insertOperands(position, value);
}

BlockArgument Mover::addArgument(func::FuncOp function, Type type,
                                 DictionaryAttr attributes, Location loc) {
  unsigned position = function.getNumArguments();
  (void)function.insertArgument(position, type, attributes, loc);
  return function.getArgument(position);
}

/// The name by which an output of the function is known; it becomes one if it
/// is none yet.
std::string Mover::outputName(func::FuncOp function, Value value) {
  for (auto [i, operand] :
       llvm::enumerate(terminatorOf(function)->getOperands()))
    if (operand == value && !dist::ModuleOp::getResultName(function, i).empty())
      return dist::ModuleOp::getResultName(function, i).str();
  std::string name = freeTensorName();
  addResult(function, value, name);
  return name;
}

dist::EdgeOp Mover::edgeInto(StringRef input) {
  for (auto edge : program.getOps<dist::EdgeOp>())
    if (edge.getTarget() == module.getSymName() && edge.getInput() == input)
      return edge;
  return {};
}

void Mover::addArguments() {
  OpBuilder top(program.getContext());
  top.setInsertionPointAfter(target->isBeforeInBlock(module) ? module : target);
  for (Value value : incoming) {
    std::string name = outputName(forward, value);
    mapping.map(value, addArgument(targetForward, value.getType(), named(name),
                                   value.getLoc()));
    dist::EdgeOp::create(top, value.getLoc(), module.getSymName(), name,
                         target.getSymName(), name);
  }
  for (BlockArgument argument : arguments) {
    unsigned i = argument.getArgNumber();
    StringRef name = dist::ModuleOp::getArgumentName(forward, i);
    touched.insert(name);
    mapping.map(argument,
                addArgument(targetForward, argument.getType(),
                            forward.getArgAttrDict(i), argument.getLoc()));
    if (dist::EdgeOp edge = edgeInto(name))
      dist::EdgeOp::create(top, edge.getLoc(), edge.getSource(),
                           edge.getOutput(), target.getSymName(), name);
  }
}

void Mover::cloneOps() {
  OpBuilder builder(terminatorOf(targetForward));
  for (Operation &op : forward.getBody().front())
    if (ops.contains(&op))
      builder.clone(op, mapping);
}

void Mover::moveOutputs() {
  Operation *terminator = terminatorOf(forward);
  for (unsigned i = forward.getNumResults(); i-- > 0;) {
    Value value = terminator->getOperand(i);
    if (!ops.owned.contains(value.getDefiningOp()))
      continue;
    StringRef name = dist::ModuleOp::getResultName(forward, i);
    for (auto edge : program.getOps<dist::EdgeOp>())
      if (edge.getSource() == module.getSymName() && edge.getOutput() == name)
        edge.setSource(target.getSymName());
    (void)targetForward.insertResult(0, value.getType(),
                                     forward.getResultAttrDict(i));
    terminatorOf(targetForward)->insertOperands(0, mapping.lookup(value));
    terminator->eraseOperand(i);
    (void)forward.eraseResult(i);
  }
}

/// What ops that stay take from ops that left.
void Mover::addReturningEdges() {
  OpBuilder top(program.getContext());
  top.setInsertionPointAfter(target->isBeforeInBlock(module) ? module : target);
  auto stays = [&](OpOperand &use) { return !ops.contains(use.getOwner()); };
  for (Operation *op : ops.owned)
    for (Value value : op->getResults()) {
      if (llvm::none_of(value.getUses(), stays))
        continue;
      std::string output = outputName(targetForward, mapping.lookup(value));
      std::string input = dist::ModuleOp::findArgument(forward, output)
                              ? freeTensorName()
                              : output;
      value.replaceUsesWithIf(
          addArgument(forward, value.getType(), named(input), value.getLoc()),
          stays);
      dist::EdgeOp::create(top, value.getLoc(), target.getSymName(), output,
                           module.getSymName(), input);
    }
}

/// The function goes along, or is copied if a loss that stays needs it. What
/// it reads must be inputs of its module.
void Mover::moveDenominator(dist::LossOp loss) {
  auto function = module.lookupSymbol<func::FuncOp>(*loss.getDenominator());
  if (!function)
    return; // another loss took it along
  bool stays = llvm::any_of(program.getOps<dist::LossOp>(), [&](auto other) {
    return other.getModule() == module.getSymName() &&
           other.getDenominator() == loss.getDenominator() &&
           dist::ModuleOp::findResult(forward, other.getNumerator());
  });
  if (stays) {
    OpBuilder builder(targetForward);
    builder.setInsertionPointAfter(targetForward);
    if (!target.lookupSymbol(*loss.getDenominator()))
      function = cast<func::FuncOp>(builder.clone(*function));
  } else {
    function->moveAfter(targetForward);
  }
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    StringRef name = dist::ModuleOp::getArgumentName(function, i);
    touched.insert(name);
    if (!dist::ModuleOp::findArgument(targetForward, name))
      addArgument(targetForward, function.getArgument(i).getType(),
                  function.getArgAttrDict(i), function.getLoc());
  }
}

void Mover::moveLosses() {
  for (auto loss : program.getOps<dist::LossOp>()) {
    if (loss.getModule() != module.getSymName() ||
        dist::ModuleOp::findResult(forward, loss.getNumerator()))
      continue;
    loss.setModule(target.getSymName());
    if (loss.getDenominator())
      moveDenominator(loss);
  }
}

void Mover::eraseDead() {
  Block &body = forward.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (op.use_empty() && !op.hasTrait<OpTrait::IsTerminator>() &&
        (isMemoryEffectFree(&op) || isa<nn::ReadOp>(op)))
      op.erase();
}

/// Inputs that only what left has used.
void Mover::eraseArguments() {
  llvm::StringSet<> needed;
  for (auto function : module.getOps<func::FuncOp>())
    if (function != forward)
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        needed.insert(dist::ModuleOp::getArgumentName(function, i));
  for (unsigned i = forward.getNumArguments(); i-- > 0;) {
    StringRef name = dist::ModuleOp::getArgumentName(forward, i);
    if (!touched.contains(name) || needed.contains(name) ||
        !forward.getArgument(i).use_empty())
      continue;
    if (dist::EdgeOp edge = edgeInto(name))
      edge.erase();
    (void)forward.eraseArgument(i);
  }
}

void Mover::moveTies(StringRef parameter) {
  auto of = [&](dist::ModuleOp owner) {
    return dist::getParameterPath(owner, parameter);
  };
  for (auto tie : program.getOps<dist::TieOp>()) {
    if (tie.getAlias() == of(module))
      tie.setAliasAttr(of(target));
    if (tie.getParameter() == of(module))
      tie.setParameterAttr(of(target));
  }
}

void Mover::moveParameters() {
  llvm::StringSet<> here, there;
  forward.walk([&](nn::ReadOp read) { here.insert(read.getParameter()); });
  targetForward.walk(
      [&](nn::ReadOp read) { there.insert(read.getParameter()); });
  for (nn::ParameterOp parameter :
       llvm::to_vector(module.getOps<nn::ParameterOp>())) {
    StringRef name = parameter.getSymName();
    if (!there.contains(name))
      continue;
    if (!here.contains(name)) {
      parameter->moveBefore(targetForward);
      moveTies(name);
      continue;
    }
    OpBuilder builder(targetForward);
    builder.clone(*parameter);
    builder.setInsertionPointAfter(target->isBeforeInBlock(module) ? module
                                                                   : target);
    auto leaf = FlatSymbolRefAttr::get(program.getContext(), name);
    dist::TieOp::create(
        builder, parameter.getLoc(),
        SymbolRefAttr::get(program.getContext(), target.getSymName(), leaf),
        SymbolRefAttr::get(program.getContext(), module.getSymName(), leaf));
  }
}

dist::ModuleOp Mover::run(StringRef name, bool upstream) {
  createTarget(name, upstream);
  findInterface();
  addArguments();
  cloneOps();
  moveOutputs();
  addReturningEdges();
  moveLosses();
  eraseDead();
  eraseArguments();
  moveParameters();
  return target;
}

} // namespace

dist::ModuleOp moveToNewModule(dist::ModuleOp module, const MovedOps &ops,
                               StringRef name, bool upstream) {
  return Mover(module, ops).run(name, upstream);
}

std::string freeModuleName(mlir::ModuleOp program, StringRef wish) {
  std::string name = wish.str();
  for (unsigned n = 2; program.lookupSymbol(name); ++n)
    name = (wish + "_" + Twine(n)).str();
  return name;
}

bool isIndependent(Operation *op) {
  SetVector<Operation *> slice;
  BackwardSliceOptions options;
  options.inclusive = true;
  options.omitBlockArguments = true;
  (void)getBackwardSlice(op, &slice, options);
  return llvm::none_of(slice, [](Operation *o) {
    return llvm::any_of(o->getOperands(),
                        [](Value v) { return isa<BlockArgument>(v); });
  });
}

} // namespace dt::modules
