//===- SplitBackward.cpp - Input and weight half of .bwd --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Schedules with a split backward (Qi et al. 2024, "Zero Bubble Pipeline
// Parallelism") send the gradient of an input before they compute those of the
// parameters. The input half is what its results need; what is left adds up
// gradients of parameters and is the weight half. Runs on ops as they are on
// one rank, so a collective goes where its result is used.
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNNames.h"
#include "passes/differentiate/SavedSet.h"
#include "passes/shard/Passes.h"

#include <map>
#include <set>

using namespace mlir;

namespace dt::shard {
#define GEN_PASS_DEF_SPLITBACKWARD
#include "passes/shard/Passes.h.inc"
} // namespace dt::shard

using namespace dt;
using namespace dt::differentiate;

namespace {

struct SplitBackwardPass : shard::impl::SplitBackwardBase<SplitBackwardPass> {
  using SplitBackwardBase::SplitBackwardBase;
  void runOnOperation() override;
};

/// The halves of a function, seen from a call of the whole one.
struct Halves {
  func::FuncOp input, weight; ///< null if there is nothing to do
  /// Arguments of the whole that the input half takes, results that it returns
  /// first.
  SmallVector<unsigned> inputArguments, inputResults;
  /// An operand of the weight half: an argument of the whole, or a result of
  /// the input half.
  struct Source {
    bool isResult;
    unsigned index;
  };
  SmallVector<Source> weightArguments;
  SmallVector<unsigned> weightResults;
};

/// Splits the backward functions of one module, layers before the calls of
/// them and each once.
class ModuleSplitter {
public:
  explicit ModuleSplitter(dist::ModuleOp module)
      : module(module), symbols(module) {}
  void run();

  /// The halves of a layer that computes gradients of parameters and others,
  /// or null.
  const Halves *findHalves(func::CallOp call);
  void insert(func::FuncOp half, func::FuncOp whole);

private:
  dist::ModuleOp module;
  SymbolTable symbols;
  std::map<Operation *, Halves> layers;
  std::set<Operation *> inProgress;
};

/// Splits one function. Calls inside are replaced by calls of halves first,
/// hence works on a copy.
class FunctionSplitter {
public:
  FunctionSplitter(ModuleSplitter &parent, func::FuncOp whole,
                   bool isModuleFunction)
      : parent(parent), whole(whole), work(whole.clone()), body(work.front()),
        isModuleFunction(isModuleFunction), saved(work, [](Operation *op) {
          return op->hasTrait<nn::Recomputable>();
        }) {
    // For look-ups of symbols; gone at the end.
    whole->getBlock()->getOperations().insertAfter(whole->getIterator(), work);
  }
  ~FunctionSplitter() { work.erase(); }

  Halves split();

private:
  bool isWeight(unsigned result) {
    return work.getResultAttr(result, nn::kParamGradAttr) != nullptr;
  }
  void markInputOps();
  void markWeightOps();
  Operation *splitCall(func::CallOp call);
  void findExtras();

  void makeInput();
  SmallVector<Value> listWeightArguments();
  void makeWeight();
  func::FuncOp create(StringRef suffix, ArrayRef<Value> arguments,
                      TypeRange results);
  void copyArgument(func::FuncOp half, unsigned i, BlockArgument argument);
  void finish(func::FuncOp half, ArrayRef<Value> returned);

  ModuleSplitter &parent;
  func::FuncOp whole, work;
  Block &body;
  bool isModuleFunction;
  ValueSet needed; ///< by the input half
  llvm::DenseSet<Operation *> inputOps;
  SmallVector<Operation *> weightOps;
  OrderedValues required;    ///< by the weight half, of the input half
  SmallVector<Value> extras; ///< what the input half returns for it
  SavedSet saved;
  OpBuilder builder{whole.getContext()};
  Halves halves;
};

} // namespace

//===----------------------------------------------------------------------===//
// What goes where
//===----------------------------------------------------------------------===//

static void forEachOperand(Operation *op, function_ref<void(Value)> visit) {
  op->walk([&](Operation *inner) {
    for (Value v : inner->getOperands())
      visit(v);
  });
}

/// A call of a layer whose results the input half needs: its input half is one
/// more op of this one. Null if it stays whole.
Operation *FunctionSplitter::splitCall(func::CallOp call) {
  const Halves *layer = parent.findHalves(call);
  if (!layer)
    return nullptr;
  for (unsigned i : layer->weightResults)
    if (needed.contains(call.getResult(i)))
      return nullptr;
  OpBuilder atCall(call);
  SmallVector<Value> operands;
  for (unsigned i : layer->inputArguments)
    operands.push_back(call.getOperand(i));
  auto input =
      func::CallOp::create(atCall, call.getLoc(), layer->input, operands);
  operands.clear();
  for (Halves::Source s : layer->weightArguments)
    operands.push_back(s.isResult ? input.getResult(s.index)
                                  : call.getOperand(s.index));
  auto weight =
      func::CallOp::create(atCall, call.getLoc(), layer->weight, operands);
  auto replace = [&](unsigned old, Value by) {
    call.getResult(old).replaceAllUsesWith(by);
    if (needed.contains(call.getResult(old)))
      needed.insert(by);
  };
  for (auto [k, i] : llvm::enumerate(layer->inputResults))
    replace(i, input.getResult(k));
  for (auto [k, i] : llvm::enumerate(layer->weightResults))
    replace(i, weight.getResult(k));
  call.erase();
  return input;
}

void FunctionSplitter::markInputOps() {
  for (auto [i, v] : llvm::enumerate(body.getTerminator()->getOperands()))
    if (!isWeight(i))
      needed.insert(v);
  auto isNeeded = [&](Value v) { return needed.contains(v); };
  SmallVector<Operation *> ops;
  for (Operation &op : body.without_terminator())
    ops.push_back(&op);
  for (Operation *op : llvm::reverse(ops)) {
    if (llvm::none_of(op->getResults(), isNeeded))
      continue;
    if (auto call = dyn_cast<func::CallOp>(op))
      if (Operation *half = splitCall(call))
        op = half;
    inputOps.insert(op);
    forEachOperand(op, [&](Value v) { needed.insert(v); });
  }
}

/// Ops that add up gradients, and what they alone need.
void FunctionSplitter::markWeightOps() {
  ValueSet wanted;
  for (auto [i, v] : llvm::enumerate(body.getTerminator()->getOperands()))
    if (isWeight(i))
      wanted.insert(v);
  auto isWanted = [&](Value v) { return wanted.contains(v); };
  for (Operation &op : llvm::reverse(body.without_terminator())) {
    bool isSink = op.getNumResults() == 0;
    if (inputOps.contains(&op) ||
        (!isSink && llvm::none_of(op.getResults(), isWanted)))
      continue;
    weightOps.push_back(&op);
    forEachOperand(&op, [&](Value v) { wanted.insert(v); });
  }
  std::reverse(weightOps.begin(), weightOps.end());
  auto isOfInput = [&](Value v) {
    if (auto argument = dyn_cast<BlockArgument>(v))
      return argument.getOwner() == &body;
    return inputOps.contains(v.getDefiningOp());
  };
  auto require = [&](Value v) {
    if (isOfInput(v))
      required.insert(v);
  };
  for (Operation *op : weightOps)
    forEachOperand(op, require);
  for (auto [i, v] : llvm::enumerate(body.getTerminator()->getOperands()))
    if (isWeight(i))
      require(v);
}

/// In program order. The caller of a layer has the layer's results anyway.
void FunctionSplitter::findExtras() {
  saved.choose(required);
  ValueSet results;
  for (unsigned i : halves.inputResults)
    results.insert(body.getTerminator()->getOperand(i));
  for (Operation &op : body)
    for (Value v : op.getResults())
      if (saved.keeps(v) && (isModuleFunction || !results.contains(v)))
        extras.push_back(v);
}

//===----------------------------------------------------------------------===//
// The halves
//===----------------------------------------------------------------------===//

func::FuncOp FunctionSplitter::create(StringRef suffix,
                                      ArrayRef<Value> arguments,
                                      TypeRange results) {
  std::string name = (whole.getName() + suffix).str();
  auto half = func::FuncOp::create(
      whole.getLoc(), name,
      builder.getFunctionType(TypeRange(ValueRange(arguments)), results));
  half.setVisibility(whole.getVisibility());
  half->setDiscardableAttrs(whole->getDiscardableAttrDictionary());
  builder.setInsertionPointToEnd(half.addEntryBlock());
  parent.insert(half, whole);
  return half;
}

/// Attributes of an argument; a residual's number among those of .fwd.
void FunctionSplitter::copyArgument(func::FuncOp half, unsigned i,
                                    BlockArgument argument) {
  unsigned from = argument.getArgNumber();
  if (DictionaryAttr attrs = work.getArgAttrDict(from))
    half.setArgAttrs(i, attrs);
  if (!isModuleFunction || !work.getArgAttr(from, nn::kResidualAttr))
    return;
  int64_t index = 0;
  for (unsigned k = 0; k < from; ++k)
    index += work.getArgAttr(k, nn::kResidualAttr) != nullptr;
  half.setArgAttr(i, nn::kResidualAttr, builder.getI64IntegerAttr(index));
}

void FunctionSplitter::makeInput() {
  Operation *end = body.getTerminator();
  SmallVector<Value> arguments, returned;
  for (BlockArgument a : body.getArguments())
    if (needed.contains(a)) {
      arguments.push_back(a);
      halves.inputArguments.push_back(a.getArgNumber());
    }
  for (unsigned i : halves.inputResults)
    returned.push_back(end->getOperand(i));
  llvm::append_range(returned, extras);
  halves.input = create(".input", arguments, TypeRange(ValueRange(returned)));
  IRMapping mapping;
  for (auto [i, a] : llvm::enumerate(arguments)) {
    mapping.map(a, halves.input.getArgument(i));
    copyArgument(halves.input, i, cast<BlockArgument>(a));
  }
  for (Operation &op : body)
    if (inputOps.contains(&op))
      builder.clone(op, mapping);
  for (Value &v : returned)
    v = mapping.lookup(v);
  func::ReturnOp::create(builder, end->getLoc(), returned);
  for (auto [k, i] : llvm::enumerate(halves.inputResults))
    if (DictionaryAttr attrs = work.getResultAttrDict(i))
      halves.input.setResultAttrs(k, attrs);
  for (unsigned k = halves.inputResults.size();
       isModuleFunction && k < returned.size(); ++k)
    halves.input.setResultAttr(k, nn::kResidualAttr, builder.getUnitAttr());
}

/// Arguments that are no gradients, what the input half hands over, gradients.
SmallVector<Value> FunctionSplitter::listWeightArguments() {
  SmallVector<Value> arguments;
  auto isGradient = [&](BlockArgument a) {
    return work.getArgAttr(a.getArgNumber(), nn::kGradientAttr) != nullptr;
  };
  // A gradient that nobody uses still arrives.
  auto takes = [&](BlockArgument a) {
    return saved.needs(a) ||
           (isModuleFunction && isGradient(a) && !needed.contains(a));
  };
  auto addArguments = [&](bool gradients) {
    for (BlockArgument a : body.getArguments())
      if (isGradient(a) == gradients && takes(a)) {
        arguments.push_back(a);
        halves.weightArguments.push_back({false, a.getArgNumber()});
      }
  };
  auto addResult = [&](unsigned result, Value v) {
    arguments.push_back(v);
    halves.weightArguments.push_back({true, result});
  };
  addArguments(false);
  for (auto [k, v] : llvm::enumerate(extras))
    addResult(halves.inputResults.size() + k, v);
  for (auto [k, i] : llvm::enumerate(halves.inputResults)) {
    Value v = body.getTerminator()->getOperand(i);
    if (!isModuleFunction && saved.keeps(v) &&
        !llvm::is_contained(arguments, v))
      addResult(k, v);
  }
  addArguments(true);
  return arguments;
}

void FunctionSplitter::makeWeight() {
  Operation *end = body.getTerminator();
  SmallVector<Value> arguments = listWeightArguments(), returned;
  for (unsigned i : halves.weightResults)
    returned.push_back(end->getOperand(i));
  halves.weight = create(".weight", arguments, TypeRange(ValueRange(returned)));
  int64_t next = 0; // residual: those of .fwd come first
  for (unsigned i = 0; i < work.getNumArguments(); ++i)
    next += work.getArgAttr(i, nn::kResidualAttr) != nullptr;
  IRMapping mapping;
  for (auto [i, v] : llvm::enumerate(arguments)) {
    mapping.map(v, halves.weight.getArgument(i));
    if (auto a = dyn_cast<BlockArgument>(v)) {
      copyArgument(halves.weight, i, a);
    } else if (isModuleFunction) {
      halves.weight.setArgAttr(i, nn::kResidualAttr,
                               builder.getI64IntegerAttr(next++));
    }
  }
  for (Operation *op : weightOps) {
    forEachOperand(op, [&](Value v) {
      if (required.contains(v))
        materialise(v, builder, mapping);
    });
    builder.clone(*op, mapping);
  }
  for (Value &v : returned)
    v = materialise(v, builder, mapping);
  func::ReturnOp::create(builder, end->getLoc(), returned);
  for (auto [k, i] : llvm::enumerate(halves.weightResults))
    if (DictionaryAttr attrs = work.getResultAttrDict(i))
      halves.weight.setResultAttrs(k, attrs);
}

Halves FunctionSplitter::split() {
  for (unsigned i = 0; i < work.getNumResults(); ++i)
    (isWeight(i) ? halves.weightResults : halves.inputResults).push_back(i);
  markInputOps();
  markWeightOps();
  findExtras();
  bool hasInput = !halves.inputResults.empty();
  if (hasInput)
    makeInput();
  if (!weightOps.empty() || !halves.weightResults.empty() || !hasInput)
    makeWeight();
  return halves;
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

/// Has results that are gradients of parameters, and others.
static bool isMixed(func::FuncOp f) {
  unsigned weights = 0;
  for (unsigned i = 0; i < f.getNumResults(); ++i)
    weights += f.getResultAttr(i, nn::kParamGradAttr) != nullptr;
  return weights > 0 && weights < f.getNumResults();
}

const Halves *ModuleSplitter::findHalves(func::CallOp call) {
  auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
  if (!callee || callee.isExternal() || !isMixed(callee))
    return nullptr;
  if (auto it = layers.find(callee); it != layers.end())
    return &it->second;
  if (!inProgress.insert(callee).second)
    return nullptr; // calls itself
  Halves halves =
      FunctionSplitter(*this, callee, /*isModuleFunction=*/false).split();
  inProgress.erase(callee);
  return &(layers[callee] = halves);
}

/// Behind the whole one; the weight half comes second.
void ModuleSplitter::insert(func::FuncOp half, func::FuncOp whole) {
  Block::iterator at = std::next(Block::iterator(whole));
  while (at != whole->getBlock()->end()) {
    auto f = dyn_cast<func::FuncOp>(*at);
    if (!f || !f.getName().starts_with((whole.getName() + ".").str()))
      break;
    ++at;
  }
  symbols.insert(half, at);
}

void ModuleSplitter::run() {
  if (dist::ForwardOp link = dist::getLink(module))
    if (auto whole = dist::getFunctions<func::FuncOp>(link).backward;
        whole && !whole.isExternal()) {
      Halves halves =
          FunctionSplitter(*this, whole, /*isModuleFunction=*/true).split();
      link.removeBackwardAttr();
      if (halves.input)
        link.setInput(halves.input.getName());
      if (halves.weight)
        link.setWeight(halves.weight.getName());
      symbols.erase(whole);
    }
  // Layers may call each other.
  for (bool changed = true; changed;) {
    changed = false;
    for (auto it = layers.begin(); it != layers.end();) {
      auto layer = cast<func::FuncOp>(it->first);
      bool unused = layer.isPrivate() && dist::isUnused(layer);
      changed |= unused;
      if (unused) {
        dist::unlink(layer);
        symbols.erase(layer);
      }
      it = unused ? layers.erase(it) : std::next(it);
    }
  }
}

void SplitBackwardPass::runOnOperation() {
  if (all || getOperation().getSplitBackward())
    ModuleSplitter(getOperation()).run();
}
