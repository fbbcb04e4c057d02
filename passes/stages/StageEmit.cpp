//===- StageEmit.cpp - Modules of stages ------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Two rounds: what every stage needs and what it gets from whom, then the
// modules. A value that several later stages use goes to each of them from the
// stage that makes it; nobody relays.
//
//===----------------------------------------------------------------------===//

#include "passes/stages/StageEmit.h"
#include "dialects/nn/NNInference.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace dt::stages {

namespace {

struct Stage {
  dist::ModuleOp module;
  func::FuncOp forward;
  llvm::SetVector<Operation *> again; ///< free ops that it computes
  llvm::SetVector<Value> arguments, incoming, outgoing;
  SmallVector<unsigned> results; ///< of @forward
};

class Emitter {
public:
  Emitter(dist::ModuleOp module, const StageCuts &cuts, size_t count)
      : module(module), program(module->getParentOfType<mlir::ModuleOp>()),
        forward(module.getForward()), cuts(cuts), stages(count),
        builder(module) {}

  LogicalResult run(ArrayRef<SmallVector<int64_t>> ranks);

private:
  void collect();
  void require(Value value, size_t stage);
  void nameValues();
  void createModule(size_t stage, ArrayRef<int64_t> ranks);
  void createForward(Stage &stage, size_t index);
  void copyCallees(Stage &stage);
  void moveLosses();
  void moveDenominator(dist::LossOp loss, Stage &stage);
  void copyParameters();
  void moveTies();
  void moveEdges();
  std::string freshName();
  Operation *getTerminator() {
    return forward.getBody().front().getTerminator();
  }

  dist::ModuleOp module;
  mlir::ModuleOp program;
  func::FuncOp forward;
  const StageCuts &cuts;
  std::vector<Stage> stages;
  OpBuilder builder;
  llvm::StringSet<> inputs, names;
  /// Of values that cross: as an output, and as an input.
  llvm::DenseMap<Value, std::string> outputName, inputName;
  llvm::DenseMap<Value, size_t> stageOf;
  /// The first stage that reads a parameter.
  llvm::StringMap<size_t> owner;
  unsigned fresh = 0;
};

void Emitter::require(Value value, size_t stage) {
  if (isa<BlockArgument>(value)) {
    stages[stage].arguments.insert(value);
    return;
  }
  Operation *op = value.getDefiningOp();
  int64_t from = cuts.getStage(op);
  if (from >= 0) {
    if (size_t(from) != stage) {
      stages[stage].incoming.insert(value);
      stages[from].outgoing.insert(value);
      stageOf[value] = from;
    }
    return;
  }
  if (!stages[stage].again.insert(op))
    return;
  llvm::SetVector<Value> used(op->operand_begin(), op->operand_end());
  getUsedValuesDefinedAbove(op->getRegions(), used);
  for (Value operand : used)
    require(operand, stage);
}

void Emitter::collect() {
  for (Operation &op : forward.getBody().front().without_terminator()) {
    int64_t stage = cuts.getStage(&op);
    if (stage < 0)
      continue;
    llvm::SetVector<Value> used(op.operand_begin(), op.operand_end());
    getUsedValuesDefinedAbove(op.getRegions(), used);
    for (Value operand : used)
      require(operand, stage);
  }
  for (auto [i, value] : llvm::enumerate(getTerminator()->getOperands())) {
    Operation *op = value.getDefiningOp();
    int64_t stage = op ? cuts.getStage(op) : -1;
    // What every stage can compute is given by the last.
    size_t index = stage < 0 ? stages.size() - 1 : size_t(stage);
    stages[index].results.push_back(i);
    if (stage < 0)
      require(value, index);
  }
}

std::string Emitter::freshName() {
  std::string name;
  do
    name = "cut." + std::to_string(fresh++);
  while (!names.insert(name).second);
  return name;
}

void Emitter::nameValues() {
  for (unsigned i = 0; i < forward.getNumArguments(); ++i)
    inputs.insert(dist::ModuleOp::getArgumentName(forward, i));
  for (auto &entry : inputs)
    names.insert(entry.getKey());
  for (unsigned i = 0; i < forward.getNumResults(); ++i)
    names.insert(dist::ModuleOp::getResultName(forward, i));
  for (Stage &stage : stages)
    for (Value value : stage.outgoing) {
      std::string name;
      for (auto [i, operand] : llvm::enumerate(getTerminator()->getOperands()))
        if (operand == value && name.empty())
          name = dist::ModuleOp::getResultName(forward, i).str();
      outputName[value] = name.empty() ? freshName() : name;
      inputName[value] =
          inputs.contains(outputName[value]) ? freshName() : outputName[value];
    }
}

void Emitter::createModule(size_t index, ArrayRef<int64_t> ranks) {
  Stage &stage = stages[index];
  std::string name = (module.getSymName() + "." + Twine(index)).str();
  stage.module =
      cast<dist::ModuleOp>(builder.cloneWithoutRegions(*module.getOperation()));
  stage.module.getBody().emplaceBlock();
  stage.module.setSymName(name);
  stage.module.setOrigin(module.getExternalName());
  stage.module.removePpAttr();
  stage.module.removeVppAttr();
  stage.module.removeStagesAttr();
  stage.module.removeSavesAttr();
  stage.module.removeUnitRanksAttr();
  if (auto saves = module.getSaves()) {
    auto save = cast<rt::SaveAttr>((*saves)[index]);
    stage.module.setSaveAttr(save);
    // What is done again would wait in full for the weights' half.
    if (save.getValue() == rt::Save::None)
      stage.module.setSplitBackward(false);
  }
  stage.module.setUnit(dist::Placement(module).unit);
  stage.module.setStage(index);
  stage.module.setRanks(ranks);
  OpBuilder inner = OpBuilder::atBlockEnd(&stage.module.getBody().front());
  for (auto dim : module.getOps<nn::DimOp>())
    inner.clone(*dim);
  createForward(stage, index);
  copyCallees(stage);
}

void Emitter::createForward(Stage &stage, size_t index) {
  MLIRContext *context = program.getContext();
  OpBuilder inner = OpBuilder::atBlockEnd(&stage.module.getBody().front());
  auto named = [&](StringRef name) {
    return inner.getDictionaryAttr(
        inner.getNamedAttr(nn::kNameAttr, inner.getStringAttr(name)));
  };
  SmallVector<Value> sources;
  SmallVector<Type> types, resultTypes;
  SmallVector<Attribute> attributes, resultAttributes;
  for (BlockArgument argument : forward.getArguments())
    if (stage.arguments.contains(argument)) {
      sources.push_back(argument);
      auto given = forward.getArgAttrDict(argument.getArgNumber());
      attributes.push_back(given ? given : inner.getDictionaryAttr({}));
    }
  for (Value value : stage.incoming) {
    sources.push_back(value);
    attributes.push_back(named(inputName[value]));
  }
  for (Value value : sources)
    types.push_back(stage.incoming.contains(value) ? cuts.getSentType(value)
                                                   : value.getType());
  stage.forward = func::FuncOp::create(inner, forward.getLoc(), "forward",
                                       FunctionType::get(context, types, {}));
  Block *block = stage.forward.addEntryBlock();
  IRMapping mapping;
  mapping.map(sources, block->getArguments());
  OpBuilder body = OpBuilder::atBlockBegin(block);
  auto cast = [&](Value value, Type type) {
    return value.getType() == type
               ? value
               : nn::CastOp::create(body, value.getLoc(), type, value);
  };
  for (Value value : stage.incoming)
    mapping.map(value, cast(mapping.lookup(value), value.getType()));
  for (Operation &op : forward.getBody().front().without_terminator())
    if (cuts.getStage(&op) == int64_t(index) || stage.again.contains(&op))
      body.clone(op, mapping);
  SmallVector<Value> results;
  for (unsigned i : stage.results) {
    results.push_back(mapping.lookup(getTerminator()->getOperand(i)));
    auto given = forward.getResultAttrDict(i);
    resultAttributes.push_back(given ? given : inner.getDictionaryAttr({}));
  }
  for (Value value : stage.outgoing) {
    bool known = llvm::any_of(stage.results, [&](unsigned i) {
      return dist::ModuleOp::getResultName(forward, i) == outputName[value];
    });
    if (known)
      continue;
    results.push_back(cast(mapping.lookup(value), cuts.getSentType(value)));
    resultAttributes.push_back(named(outputName[value]));
  }
  for (Value value : results)
    resultTypes.push_back(value.getType());
  func::ReturnOp::create(body, forward.getLoc(), results);
  stage.forward.setFunctionType(FunctionType::get(context, types, resultTypes));
  stage.forward.setAllArgAttrs(attributes);
  stage.forward.setAllResultAttrs(resultAttributes);
  if (auto save = forward->getAttr(nn::kSaveAttr))
    stage.forward->setAttr(nn::kSaveAttr, save);
}

/// The layer functions that a stage calls, and those that they call.
void Emitter::copyCallees(Stage &stage) {
  SmallVector<func::FuncOp> todo = {stage.forward};
  OpBuilder inner(stage.forward);
  while (!todo.empty())
    todo.pop_back_val().walk([&](func::CallOp call) {
      if (stage.module.lookupSymbol(call.getCallee()))
        return;
      if (auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee()))
        todo.push_back(cast<func::FuncOp>(inner.clone(*callee)));
    });
}

void Emitter::moveDenominator(dist::LossOp loss, Stage &stage) {
  auto function = module.lookupSymbol<func::FuncOp>(*loss.getDenominator());
  if (!function || stage.module.lookupSymbol(function.getSymName()))
    return;
  OpBuilder inner = OpBuilder::atBlockEnd(&stage.module.getBody().front());
  inner.clone(*function);
  // What the denominator reads must be an input of its module.
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    StringRef name = dist::ModuleOp::getArgumentName(function, i);
    if (!dist::ModuleOp::findArgument(stage.forward, name))
      (void)stage.forward.insertArgument(
          stage.forward.getNumArguments(), function.getArgument(i).getType(),
          function.getArgAttrDict(i), function.getLoc());
  }
}

void Emitter::moveLosses() {
  for (auto loss : program.getOps<dist::LossOp>()) {
    if (loss.getModule() != module.getSymName())
      continue;
    for (Stage &stage : stages)
      if (dist::ModuleOp::findResult(stage.forward, loss.getNumerator())) {
        loss.setModule(stage.module.getSymName());
        if (loss.getDenominator())
          moveDenominator(loss, stage);
        break;
      }
  }
}

/// Before the functions. Gradients of copies are added up, which is done in
/// float32.
static void insertParameter(dist::ModuleOp module, nn::ParameterOp parameter,
                            bool isCopied = false) {
  func::FuncOp first = *module.getOps<func::FuncOp>().begin();
  auto own = cast<nn::ParameterOp>(OpBuilder(first).clone(*parameter));
  if (isCopied)
    own.setNarrowGradient(false);
}

void Emitter::copyParameters() {
  std::vector<llvm::StringSet<>> reads(stages.size());
  for (auto [i, stage] : llvm::enumerate(stages))
    stage.module.walk(
        [&, i = i](nn::ReadOp read) { reads[i].insert(read.getParameter()); });
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    StringRef name = parameter.getSymName();
    bool isCopied = llvm::count_if(reads, [&](const llvm::StringSet<> &read) {
                      return read.contains(name);
                    }) > 1;
    for (size_t i = 0; i < stages.size(); ++i) {
      if (!reads[i].contains(name))
        continue;
      insertParameter(stages[i].module, parameter, isCopied);
      owner.try_emplace(name, i);
      if (owner[name] != i)
        dist::TieOp::create(
            builder, parameter.getLoc(),
            dist::getParameterPath(stages[i].module, name),
            dist::getParameterPath(stages[owner[name]].module, name));
    }
    if (!owner.contains(name)) { // nobody reads it, but it is the model's
      insertParameter(stages[0].module, parameter);
      owner[name] = 0;
    }
  }
}

/// Ties that name the module: the first copy stands for all, and what is tied
/// to it is tied to what it is tied to.
void Emitter::moveTies() {
  SmallVector<dist::TieOp> ties(program.getOps<dist::TieOp>());
  auto moved = [&](SymbolRefAttr path) -> SymbolRefAttr {
    if (path.getRootReference() != module.getSymNameAttr())
      return path;
    StringRef name = path.getLeafReference();
    return dist::getParameterPath(stages[owner.lookup(name)].module, name);
  };
  llvm::DenseMap<SymbolRefAttr, SymbolRefAttr> target;
  for (dist::TieOp tie : ties) {
    tie.setAliasAttr(moved(tie.getAlias()));
    tie.setParameterAttr(moved(tie.getParameter()));
    target[tie.getAlias()] = tie.getParameter();
  }
  for (dist::TieOp tie : ties)
    if (auto last = target.lookup(tie.getParameter()))
      tie.setParameterAttr(last);
}

void Emitter::moveEdges() {
  SmallVector<dist::EdgeOp> edges(program.getOps<dist::EdgeOp>());
  for (dist::EdgeOp edge : edges) {
    if (edge.getSource() == module.getSymName())
      for (Stage &stage : stages)
        if (dist::ModuleOp::findResult(stage.forward, edge.getOutput())) {
          edge.setSource(stage.module.getSymName());
          break;
        }
    if (edge.getTarget() != module.getSymName())
      continue;
    // One edge a stage that uses the input.
    for (Stage &stage : stages)
      if (dist::ModuleOp::findArgument(stage.forward, edge.getInput())) {
        OpBuilder beside(edge);
        auto copy = cast<dist::EdgeOp>(beside.clone(*edge));
        copy.setTarget(stage.module.getSymName());
      }
    edge.erase();
  }
  for (Stage &stage : stages)
    for (Value value : stage.incoming)
      dist::EdgeOp::create(
          builder, value.getLoc(), stages[stageOf[value]].module.getSymName(),
          outputName[value], stage.module.getSymName(), inputName[value]);
}

LogicalResult Emitter::run(ArrayRef<SmallVector<int64_t>> ranks) {
  for (size_t i = 0; i < stages.size(); ++i)
    if (program.lookupSymbol((module.getSymName() + "." + Twine(i)).str()))
      return module.emitError()
             << "its stage " << i << " would be called '" << module.getSymName()
             << "." << i << "', which exists";
  collect();
  nameValues();
  for (size_t i = 0; i < stages.size(); ++i)
    createModule(i, ranks[i]);
  moveLosses();
  copyParameters();
  moveTies();
  moveEdges();
  module.erase();
  return success();
}

} // namespace

LogicalResult emitStages(dist::ModuleOp module, const StageCuts &cuts,
                         ArrayRef<SmallVector<int64_t>> ranks) {
  return Emitter(module, cuts, ranks.size()).run(ranks);
}

} // namespace dt::stages
