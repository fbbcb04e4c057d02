//===- NarrowLayers.cpp - Layers take and give what is narrow ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/outline/Passes.h"

#include "dialects/nn/NNInference.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace dt::outline {
#define GEN_PASS_DEF_NARROWLAYERS
#include "passes/outline/Passes.h.inc"

namespace {

/// Joins wishes for one element type: null is none, and two are none either.
struct OneType {
  Type type;
  bool failed = false;

  void add(Type wish) {
    failed |= !wish || (type && type != wish);
    type = wish;
  }
  Type get() const { return failed ? Type() : type; }
};

Type elementOfNarrow(Value v) {
  return nn::isNarrow(v) ? nn::elementOf(v) : Type();
}

/// The type that all users of the float32 values narrow them to, or null.
Type narrowedTo(ArrayRef<Value> values) {
  OneType type;
  for (Value v : values)
    for (Operation *user : v.getUsers()) {
      auto cast = dyn_cast<nn::CastOp>(user);
      type.add(cast && nn::elementOf(v).isF32() ? elementOfNarrow(cast)
                                                : Type());
    }
  return type.get();
}

Value castTo(OpBuilder &b, Value v, Type element) {
  return nn::CastOp::create(b, v.getLoc(),
                            nn::withElementType(v.getType(), element), v);
}

void setElement(Value v, Type element) {
  v.setType(nn::withElementType(v.getType(), element));
}

/// `v` is now of the type `narrow`: its casts to that are itself, others take
/// it widened.
void narrowValue(Value v, Type narrow, bool onlyCasts) {
  Type wide = nn::elementOf(v);
  setElement(v, narrow);
  if (onlyCasts) {
    for (Operation *cast : llvm::make_early_inc_range(v.getUsers())) {
      cast->getResult(0).replaceAllUsesWith(v);
      cast->erase();
    }
  } else if (!v.use_empty()) {
    OpBuilder b(v.getContext());
    b.setInsertionPointAfterValue(v);
    Value again = castTo(b, v, wide);
    v.replaceAllUsesExcept(again, again.getDefiningOp());
  }
}

class Layer {
public:
  explicit Layer(func::FuncOp function) : function(function) {}
  void addCall(func::CallOp call) { calls.push_back(call); }

  /// Whether anything changed.
  bool run() {
    bool changed = false;
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      changed |= narrowOperand(i);
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      changed |= narrowResult(i);
    if (changed)
      function.setFunctionType(FunctionType::get(
          function.getContext(), function.front().getArgumentTypes(),
          end()->getOperandTypes()));
    return changed;
  }

private:
  Operation *end() { return function.front().getTerminator(); }

  bool narrowOperand(unsigned i) {
    OneType given;
    bool others = false;
    for (func::CallOp call : calls) {
      Value operand = call.getOperand(i), narrow = nn::widened(operand);
      given.add(narrow ? nn::elementOf(narrow) : Type());
      // A parameter is read as it is stored.
      others |= !operand.hasOneUse() || operand.getDefiningOp<nn::ReadOp>();
    }
    BlockArgument argument = function.getArgument(i);
    if (Type type = given.get()) {
      for (func::CallOp call : calls)
        call.setOperand(i, nn::widened(call.getOperand(i)));
      narrowValue(argument, type, /*onlyCasts=*/false);
      return true;
    }
    Type type = narrowedTo(argument);
    if (!type || others)
      return false;
    for (func::CallOp call : calls) {
      OpBuilder b(call);
      call.setOperand(i, castTo(b, call.getOperand(i), type));
    }
    narrowValue(argument, type, /*onlyCasts=*/true);
    return true;
  }

  bool narrowResult(unsigned i) {
    SmallVector<Value> results;
    for (func::CallOp call : calls)
      results.push_back(call.getResult(i));
    Value returned = end()->getOperand(i);
    if (Value narrow = nn::widened(returned)) {
      end()->setOperand(i, narrow);
      for (Value result : results)
        narrowValue(result, nn::elementOf(narrow), /*onlyCasts=*/false);
      return true;
    }
    Type type = narrowedTo(results);
    if (!type)
      return false;
    OpBuilder b(end());
    end()->setOperand(i, castTo(b, returned, type));
    for (Value result : results)
      narrowValue(result, type, /*onlyCasts=*/true);
    return true;
  }

  func::FuncOp function;
  SmallVector<func::CallOp> calls;
};

struct NarrowLayers : impl::NarrowLayersBase<NarrowLayers> {
  void runOnOperation() override {
    llvm::MapVector<StringAttr, Layer> layers;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function.isPrivate())
        layers.insert({function.getSymNameAttr(), Layer(function)});
    getOperation().walk([&](func::CallOp call) {
      if (auto it = layers.find(call.getCalleeAttr().getAttr());
          it != layers.end())
        it->second.addCall(call);
    });
    // What one returns narrow the next may take so.
    bool changed = true;
    while (changed) {
      changed = false;
      for (auto &[name, layer] : layers)
        changed |= layer.run();
    }
  }
};

} // namespace
} // namespace dt::outline
