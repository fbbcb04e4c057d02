//===- OutlineLayers.cpp - One function for equal layers --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Layers are found as repeated subsequences of the op list. Leaves (reads of
// parameters, constants, generates) are not in the list: reads become operands,
// the others are copied into the function. Two windows are equal when their ops
// are equal one by one and every operand comes from the same place: the same op
// of the window, the same kind of leaf, or from outside through the same
// operand.
//
//===----------------------------------------------------------------------===//

#include "passes/modules/OutlineSearch.h"
#include "passes/outline/Passes.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace dt;
using namespace dt::outline;
using namespace dt::modules;

namespace dt::outline {
#define GEN_PASS_DEF_OUTLINELAYERS
#include "passes/outline/Passes.h.inc"
} // namespace dt::outline

namespace {

/// Moves ops that depend on no trained parameter and no float input to the
/// front. Exporters place them at their first use, which makes layer 0 unlike
/// the others.
void hoistShared(Block &block) {
  llvm::SmallPtrSet<Operation *, 32> own;
  for (Operation &op : block)
    if (isLeaf(&op) ? isa<nn::ReadOp>(op)
                    : llvm::any_of(op.getOperands(), [&](Value v) {
                        Operation *def = v.getDefiningOp();
                        return def ? own.contains(def)
                                   : isa<FloatType>(getElementTypeOrSelf(v));
                      }))
      own.insert(&op);
  SmallVector<Operation *> shared;
  for (Operation &op : block)
    if (!own.contains(&op) && !op.hasTrait<OpTrait::IsTerminator>())
      shared.push_back(&op);
  Operation *last = nullptr;
  for (Operation *op : shared) {
    last ? op->moveAfter(last) : op->moveBefore(&block, block.begin());
    last = op;
  }
}

/// Values that a window takes from outside, in order of first use, and which of
/// its results are used outside.
struct Interface {
  SmallVector<Value> inputs;
  SmallVector<std::pair<unsigned, unsigned>>
      outputs; ///< (op in window, result)
};

Interface getInterface(ArrayRef<Operation *> window) {
  llvm::SmallPtrSet<Operation *, 32> inside(window.begin(), window.end());
  Interface interface;
  llvm::SmallPtrSet<Value, 16> seen;
  for (auto [i, op] : llvm::enumerate(window)) {
    for (Value v : op->getOperands()) {
      Operation *def = v.getDefiningOp();
      bool copied = def && isLeaf(def) && !isa<nn::ReadOp>(def);
      if ((def && inside.contains(def)) || copied)
        continue;
      if (seen.insert(v).second)
        interface.inputs.push_back(v);
    }
    for (OpResult r : op->getResults())
      if (llvm::any_of(r.getUsers(),
                       [&](Operation *user) { return !inside.contains(user); }))
        interface.outputs.push_back({i, r.getResultNumber()});
  }
  return interface;
}

/// "model.layers.0.self_attn.q_proj.weight", … -> the common dotted prefix.
std::string commonPrefix(ArrayRef<Value> inputs) {
  std::optional<std::string> prefix;
  for (Value v : inputs) {
    auto read = v.getDefiningOp<nn::ReadOp>();
    if (!read)
      continue;
    StringRef name = read.getParameter();
    if (!prefix) {
      prefix = name.rsplit('.').first.str();
      continue;
    }
    while (!prefix->empty() && !name.starts_with(*prefix + "."))
      *prefix = StringRef(*prefix).contains('.')
                    ? StringRef(*prefix).rsplit('.').first.str()
                    : "";
  }
  return prefix.value_or("");
}

/// The last part of the prefix that is no number: "layers", "h",
/// "transformer_blocks".
std::string layerName(StringRef prefix) {
  SmallVector<StringRef> parts;
  prefix.split(parts, '.');
  for (StringRef part : llvm::reverse(parts)) {
    unsigned number;
    if (!part.empty() && part.getAsInteger(10, number))
      return part.str();
  }
  return "layer";
}

class Outliner {
public:
  Outliner(func::FuncOp func, unsigned minOps) : func(func), minOps(minOps) {}

  void run() {
    hoistShared(func.getBody().front());
    while (true) {
      SmallVector<Operation *> list;
      for (Operation &op : func.getBody().front())
        if (!isLeaf(&op) && !op.hasTrait<OpTrait::IsTerminator>())
          list.push_back(&op);
      std::optional<Repetition> best = findRepetition(list, minOps);
      if (!best)
        return;
      outline(list, *best);
    }
  }

private:
  void outline(ArrayRef<Operation *> list, const Repetition &found) {
    SmallVector<SmallVector<Operation *>> windows;
    SmallVector<Interface> interfaces;
    for (size_t start : found.starts) {
      windows.emplace_back(list.slice(start, found.length));
      interfaces.push_back(getInterface(windows.back()));
    }
    // Results used after any of the windows are results of all.
    SmallVector<std::pair<unsigned, unsigned>> outputs;
    for (const Interface &i : interfaces)
      for (auto o : i.outputs)
        if (!llvm::is_contained(outputs, o))
          outputs.push_back(o);
    llvm::sort(outputs);
    func::FuncOp layer =
        createFunction(windows[0], interfaces[0].inputs, outputs);
    // Each call replaces values that the next window takes: look again.
    for (ArrayRef<Operation *> window : windows)
      replaceByCall(window, getInterface(window).inputs, outputs, layer);
  }

  func::FuncOp createFunction(ArrayRef<Operation *> window,
                              ArrayRef<Value> inputs,
                              ArrayRef<std::pair<unsigned, unsigned>> outputs) {
    MLIRContext *context = func.getContext();
    SmallVector<Type> argumentTypes, resultTypes;
    for (Value v : inputs)
      argumentTypes.push_back(v.getType());
    for (auto [op, result] : outputs)
      resultTypes.push_back(window[op]->getResult(result).getType());
    std::string prefix = commonPrefix(inputs);
    OpBuilder builder(func);
    auto layer = func::FuncOp::create(
        builder, window[0]->getLoc(), uniqueName(layerName(prefix)),
        FunctionType::get(context, argumentTypes, resultTypes));
    layer.setPrivate();
    Block *block = layer.addEntryBlock();
    IRMapping mapping;
    for (auto [v, argument] : llvm::zip(inputs, block->getArguments()))
      mapping.map(v, argument);
    nameArguments(layer, inputs, prefix);
    builder.setInsertionPointToStart(block);
    for (Operation *op : window) {
      for (Value v : op->getOperands())
        copyLeaf(builder, v, mapping);
      builder.clone(*op, mapping);
    }
    SmallVector<Value> results;
    for (auto [op, result] : outputs)
      results.push_back(mapping.lookup(window[op]->getResult(result)));
    func::ReturnOp::create(builder, layer.getLoc(), results);
    return layer;
  }

  /// Leaves other than reads are cloned into the function where first used.
  static void copyLeaf(OpBuilder &builder, Value v, IRMapping &mapping) {
    Operation *def = v.getDefiningOp();
    if (def && isLeaf(def) && !mapping.contains(v))
      builder.clone(*def, mapping);
  }

  static void nameArguments(func::FuncOp layer, ArrayRef<Value> inputs,
                            StringRef prefix) {
    for (auto [i, v] : llvm::enumerate(inputs)) {
      auto read = v.getDefiningOp<nn::ReadOp>();
      if (!read)
        continue;
      StringRef name = read.getParameter();
      if (!prefix.empty() && name.consume_front(prefix))
        name.consume_front(".");
      layer.setArgAttr(i, nn::kNameAttr,
                       StringAttr::get(layer.getContext(), name));
    }
  }

  void replaceByCall(ArrayRef<Operation *> window, ArrayRef<Value> inputs,
                     ArrayRef<std::pair<unsigned, unsigned>> outputs,
                     func::FuncOp layer) {
    // Behind the last input and op of the window, before the first outside
    // user: at the window's last op everything it takes exists.
    OpBuilder builder(window.back());
    auto call =
        func::CallOp::create(builder, window[0]->getLoc(), layer, inputs);
    for (auto [i, o] : llvm::enumerate(outputs))
      window[o.first]->getResult(o.second).replaceAllUsesWith(
          call.getResult(i));
    for (Operation *op : llvm::reverse(window))
      op->erase();
  }

  std::string uniqueName(StringRef base) {
    Operation *table = func->getParentOp();
    std::string name = base.str();
    for (unsigned n = 1; SymbolTable::lookupSymbolIn(table, name); ++n)
      name = (base + "_" + Twine(n)).str();
    return name;
  }

  func::FuncOp func;
  unsigned minOps;
};

struct OutlineLayersPass : outline::impl::OutlineLayersBase<OutlineLayersPass> {
  using Base::Base;
  void runOnOperation() override {
    SmallVector<func::FuncOp> functions;
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (!func.isPrivate() && func.getBody().hasOneBlock())
        functions.push_back(func);
    for (func::FuncOp func : functions)
      Outliner(func, minOps).run();
  }
};
} // namespace
