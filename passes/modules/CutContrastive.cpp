//===- CutContrastive.cpp - Towers a part, their loss a whole batch -------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A contrastive loss compares every item with every other. It stays exact on a
// cut batch if only the comparison sees the whole batch (DISTMM, NSDI 2024):
// towers run a microbatch at a time and hand over their embeddings.
//
//===----------------------------------------------------------------------===//

#include "passes/modules/ItemAxes.h"
#include "passes/modules/Passes.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace dt::modules {
#define GEN_PASS_DEF_CUTCONTRASTIVE
#include "passes/modules/Passes.h.inc"

namespace {

bool dependsOnInput(Operation *op) {
  SetVector<Operation *> slice;
  BackwardSliceOptions options;
  options.inclusive = true;
  options.omitBlockArguments = true;
  (void)getBackwardSlice(op, &slice, options);
  return llvm::any_of(slice, [](Operation *o) {
    return llvm::any_of(o->getOperands(),
                        [](Value v) { return isa<BlockArgument>(v); });
  });
}

class Cutter {
public:
  Cutter(mlir::ModuleOp program, dist::ModuleOp module,
         const ItemAnalysis &analysis)
      : program(program), module(module), forward(module.getForward()),
        analysis(analysis) {}

  /// False if some value cannot go over an edge; nothing has changed then.
  bool findFrontier();
  void cut();

private:
  bool isCoupled(Value value) const {
    return analysis.get(value).is(ItemState::Coupled);
  }
  bool require(Value value);
  void createHead();
  Value headInput(Value value);
  void moveOutputs();
  void moveArguments();
  void moveParameters();
  void moveLosses();
  void eraseDead();
  std::string outputName(Value value);
  dist::EdgeOp edgeInto(StringRef input);

  mlir::ModuleOp program;
  dist::ModuleOp module, head;
  func::FuncOp forward, headForward;
  const ItemAnalysis &analysis;
  SetVector<Operation *> moved; ///< ops that the head has
  SetVector<Value> frontier;    ///< results that become edges
  SetVector<BlockArgument> arguments;
  IRMapping mapping;
};

bool Cutter::require(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    const ItemState &state = analysis.get(argument);
    arguments.insert(argument);
    return state.is(ItemState::Invariant) ||
           (state.is(ItemState::PerItem) && state.axis == 0);
  }
  Operation *op = value.getDefiningOp();
  if (moved.contains(op))
    return true;
  const ItemState &state = analysis.get(value);
  if (state.is(ItemState::Sum))
    return false;
  bool leading = state.is(ItemState::PerItem) && state.axis == 0 &&
                 state.major == nn::DimExpr(1);
  // An item's own number means another thing in the whole batch, and what comes
  // from no input is better computed again than sent.
  bool numbered = state.isOwnNumber || state.leadsWithOwnNumber;
  if (leading && !numbered && dependsOnInput(op)) {
    frontier.insert(value);
    return true;
  }
  moved.insert(op);
  return llvm::all_of(op->getOperands(), [&](Value v) { return require(v); });
}

bool Cutter::findFrontier() {
  for (Operation &op : forward.getBody().front().without_terminator())
    if (llvm::any_of(op.getResults(), [&](Value v) { return isCoupled(v); }))
      moved.insert(&op);
  SmallVector<Operation *> coupled(moved.begin(), moved.end());
  for (Operation *op : coupled)
    for (Value operand : op->getOperands())
      if (!require(operand))
        return false;
  return true;
}

void Cutter::createHead() {
  OpBuilder builder(program.getContext());
  builder.setInsertionPointAfter(module);
  std::string name = (module.getSymName() + "_head").str();
  for (unsigned n = 2; program.lookupSymbol(name); ++n)
    name = (module.getSymName() + "_head_" + Twine(n)).str();
  head = dist::ModuleOp::create(builder, module.getLoc(), name);
  head.setItemAttr(module.getItemAttr());
  head.setRole(dist::Role::head);
  head.setWholeBatch(true);
  head.setOrigin(module.getExternalName());
  module.setRole(dist::Role::tower);
  int64_t global = dist::getOnly<dist::BatchOp>(program).getGlobal();
  builder.setInsertionPointToEnd(&head.getBody().front());
  for (auto dim : module.getOps<nn::DimOp>()) {
    auto copy = cast<nn::DimOp>(builder.clone(*dim));
    if (auto item = dim.getItem())
      copy.setMax(global * dist::getItemMax(program, *item).value_or(1));
  }
  headForward = func::FuncOp::create(builder, forward.getLoc(), "forward",
                                     builder.getFunctionType({}, {}));
  OpBuilder body = OpBuilder::atBlockBegin(headForward.addEntryBlock());
  func::ReturnOp::create(body, forward.getLoc());
}

/// The name by which an output of the module is known; it becomes one if it is
/// none yet.
std::string Cutter::outputName(Value value) {
  Operation *terminator = forward.getBody().front().getTerminator();
  for (auto [i, operand] : llvm::enumerate(terminator->getOperands()))
    if (operand == value && !dist::ModuleOp::getResultName(forward, i).empty())
      return dist::ModuleOp::getResultName(forward, i).str();
  std::string name;
  for (unsigned n = 0; name.empty() || dist::ModuleOp::findResult(forward, name); ++n)
    name = "cut." + std::to_string(n);
  Builder b(program.getContext());
  unsigned position = forward.getNumResults();
  (void)forward.insertResult(
      position, value.getType(),
      b.getDictionaryAttr(b.getNamedAttr(nn::kNameAttr, b.getStringAttr(name))));
  terminator->insertOperands(position, value);
  return name;
}

dist::EdgeOp Cutter::edgeInto(StringRef input) {
  for (auto edge : program.getOps<dist::EdgeOp>())
    if (edge.getTarget() == module.getSymName() && edge.getInput() == input)
      return edge;
  return {};
}

void Cutter::moveArguments() {
  OpBuilder top(program.getContext());
  top.setInsertionPointAfter(head);
  Builder b(program.getContext());
  auto add = [&](Value value, DictionaryAttr attributes) {
    unsigned position = headForward.getNumArguments();
    (void)headForward.insertArgument(position, value.getType(), attributes,
                                     value.getLoc());
    mapping.map(value, headForward.getArgument(position));
  };
  for (Value value : frontier) {
    std::string name = outputName(value);
    add(value, b.getDictionaryAttr(
                   b.getNamedAttr(nn::kNameAttr, b.getStringAttr(name))));
    dist::EdgeOp::create(top, value.getLoc(), module.getSymName(), name,
                         head.getSymName(), name);
  }
  for (BlockArgument argument : arguments) {
    StringRef name =
        dist::ModuleOp::getArgumentName(forward, argument.getArgNumber());
    add(argument, forward.getArgAttrDict(argument.getArgNumber()));
    if (dist::EdgeOp edge = edgeInto(name))
      dist::EdgeOp::create(top, edge.getLoc(), edge.getSource(),
                           edge.getOutput(), head.getSymName(), name);
  }
}

void Cutter::moveOutputs() {
  Operation *terminator = forward.getBody().front().getTerminator();
  Operation *headReturn = headForward.getBody().front().getTerminator();
  for (unsigned i = forward.getNumResults(); i-- > 0;) {
    Value value = terminator->getOperand(i);
    if (!isCoupled(value) || !mapping.contains(value))
      continue;
    StringRef name = dist::ModuleOp::getResultName(forward, i);
    for (auto edge : program.getOps<dist::EdgeOp>())
      if (edge.getSource() == module.getSymName() && edge.getOutput() == name)
        edge.setSource(head.getSymName());
    (void)headForward.insertResult(0, value.getType(),
                                   forward.getResultAttrDict(i));
    headReturn->insertOperands(0, mapping.lookup(value));
    terminator->eraseOperand(i);
    (void)forward.eraseResult(i);
  }
}

void Cutter::eraseDead() {
  Block &body = forward.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (op.use_empty() && !op.hasTrait<OpTrait::IsTerminator>() &&
        (isMemoryEffectFree(&op) || isa<nn::ReadOp>(op)))
      op.erase();
  for (unsigned i = forward.getNumArguments(); i-- > 0;) {
    BlockArgument argument = forward.getArgument(i);
    if (!arguments.contains(argument) || !argument.use_empty())
      continue;
    StringRef name = dist::ModuleOp::getArgumentName(forward, i);
    if (dist::EdgeOp edge = edgeInto(name))
      edge.erase();
    (void)forward.eraseArgument(i);
  }
}

void Cutter::moveParameters() {
  llvm::StringSet<> inHead, inTower;
  headForward.walk([&](nn::ReadOp read) { inHead.insert(read.getParameter()); });
  forward.walk([&](nn::ReadOp read) { inTower.insert(read.getParameter()); });
  SmallVector<nn::ParameterOp> parameters(module.getOps<nn::ParameterOp>());
  Operation *place = headForward;
  for (nn::ParameterOp parameter : parameters) {
    StringRef name = parameter.getSymName();
    if (!inHead.contains(name))
      continue;
    if (!inTower.contains(name)) {
      parameter->moveBefore(place);
      for (auto tie : program.getOps<dist::TieOp>()) {
        auto of = [&](StringRef owner) {
          return SymbolRefAttr::get(
              program.getContext(), owner,
              FlatSymbolRefAttr::get(program.getContext(), name));
        };
        if (tie.getAlias() == of(module.getSymName()))
          tie.setAliasAttr(of(head.getSymName()));
        if (tie.getParameter() == of(module.getSymName()))
          tie.setParameterAttr(of(head.getSymName()));
      }
      continue;
    }
    OpBuilder builder(place);
    builder.clone(*parameter);
    builder.setInsertionPointAfter(head);
    auto leaf = FlatSymbolRefAttr::get(program.getContext(), name);
    dist::TieOp::create(
        builder, parameter.getLoc(),
        SymbolRefAttr::get(program.getContext(), head.getSymName(), leaf),
        SymbolRefAttr::get(program.getContext(), module.getSymName(), leaf));
  }
}

void Cutter::moveLosses() {
  for (auto loss : program.getOps<dist::LossOp>()) {
    if (loss.getModule() != module.getSymName() ||
        dist::ModuleOp::findResult(forward, loss.getNumerator()))
      continue;
    loss.setModule(head.getSymName());
    if (!loss.getDenominator())
      continue;
    auto function = module.lookupSymbol<func::FuncOp>(*loss.getDenominator());
    function->moveAfter(headForward);
    // What the denominator reads must be an input of its module.
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      StringRef name = dist::ModuleOp::getArgumentName(function, i);
      if (!dist::ModuleOp::findArgument(headForward, name))
        (void)headForward.insertArgument(
            headForward.getNumArguments(), function.getArgument(i).getType(),
            function.getArgAttrDict(i), function.getLoc());
    }
  }
}

void Cutter::cut() {
  createHead();
  moveArguments();
  OpBuilder builder(headForward.getBody().front().getTerminator());
  for (Operation &op : forward.getBody().front())
    if (moved.contains(&op))
      builder.clone(op, mapping);
  moveOutputs();
  moveLosses();
  eraseDead();
  moveParameters();
}

struct CutContrastivePass : impl::CutContrastiveBase<CutContrastivePass> {
  void runOnOperation() override {
    mlir::ModuleOp program = getOperation();
    if (!isCut(program))
      return;
    SmallVector<dist::ModuleOp> modules(program.getOps<dist::ModuleOp>());
    for (dist::ModuleOp module : modules) {
      if (module.getWholeBatch() || !module.getForward())
        continue;
      ItemAnalysis analysis(module, takesLocalStatistics(program));
      if (!hasPairwiseLoss(module, analysis))
        continue;
      Cutter cutter(program, module, analysis);
      if (cutter.findFrontier())
        cutter.cut();
    }
  }

  /// Some loss compares items with items, and none is coupled otherwise.
  bool hasPairwiseLoss(dist::ModuleOp module, const ItemAnalysis &analysis) {
    func::FuncOp forward = module.getForward();
    Operation *terminator = forward.getBody().front().getTerminator();
    bool pairwise = false;
    for (auto loss : getOperation().getOps<dist::LossOp>()) {
      if (loss.getModule() != module.getSymName())
        continue;
      unsigned i = *dist::ModuleOp::findResult(forward, loss.getNumerator());
      const ItemState &state = analysis.get(terminator->getOperand(i));
      if (!state.is(ItemState::Coupled))
        continue;
      if (!state.pairwise)
        return false;
      pairwise = true;
    }
    return pairwise;
  }
};

} // namespace

} // namespace dt::modules
