//===- BalanceChoices.cpp - Biases that even out experts' loads -*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// While products still read parameters by name and layers are not outlined
// (docs/routers.md).
//
//===----------------------------------------------------------------------===//

#include "passes/import/Passes.h"

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"
#include "dialects/nn/NNShape.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace dt::import {
#define GEN_PASS_DEF_BALANCECHOICES
#include "passes/import/Passes.h.inc"

namespace {

bool isFloat(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

/// What comes of a bias by floats: scores, of which choices are made. Numbers
/// of a choice go no further.
llvm::SetVector<Value> follow(Value bias, bool onlyGradients) {
  llvm::SetVector<Value> values;
  values.insert(bias);
  for (size_t i = 0; i < values.size(); ++i)
    for (Operation *user : values[i].getUsers())
      if (!onlyGradients || !user->hasTrait<nn::ZeroGradient>())
        for (Value value : user->getResults())
          if (isFloat(value))
            values.insert(value);
  return values;
}

/// Choices among all experts, of scores in `values`, that are more than their
/// scores.
llvm::SetVector<Operation *> findChoices(const llvm::SetVector<Value> &values,
                                         int64_t experts) {
  llvm::SetVector<Operation *> choices;
  for (Value value : values)
    for (Operation *user : value.getUsers())
      if (auto top = dyn_cast<nn::TopKOp>(user);
          top && !top.getIndices().use_empty() &&
          nn::getShape(top.getInput())[top.getAxis()] == nn::DimExpr(experts))
        choices.insert(top);
  return choices;
}

/// Whether a gradient may come to the bias from what the function returns.
bool reachesResult(Value bias) {
  return llvm::any_of(follow(bias, true), [](Value value) {
    return llvm::any_of(value.getUsers(), [](Operation *user) {
      return user->hasTrait<OpTrait::IsTerminator>();
    });
  });
}

/// The first value that follows from the numbers of the chosen experts and may
/// have a gradient (their shares, or their rows); null: none.
Value findCarrier(Value indices) {
  llvm::SetVector<Value> numbers;
  numbers.insert(indices);
  Operation *first = nullptr;
  for (size_t i = 0; i < numbers.size(); ++i)
    for (Operation *user : numbers[i].getUsers()) {
      bool carries = user->getNumResults() == 1 &&
                     isFloat(user->getResult(0)) &&
                     !user->hasTrait<nn::ZeroGradient>();
      if (carries && user->getBlock() == indices.getParentBlock() &&
          (!first || user->isBeforeInBlock(first)))
        first = user;
      for (Value value : user->getResults())
        if (!isFloat(value))
          numbers.insert(value);
    }
  return first ? first->getResult(0) : Value();
}

struct BalanceChoicesPass : impl::BalanceChoicesBase<BalanceChoicesPass> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    llvm::DenseSet<Operation *> found;
    SmallVector<nn::ReadOp> reads;
    getOperation().walk([&](nn::ReadOp read) { reads.push_back(read); });
    for (nn::ReadOp read : reads) {
      auto bias = symbols.lookup<nn::ParameterOp>(read.getParameter());
      if (!bias || !bias.getRoutingRate())
        continue;
      found.insert(bias);
      if (failed(balance(bias, read)))
        return signalPassFailure();
    }
    for (auto bias : getOperation().getOps<nn::ParameterOp>())
      if (bias.getRoutingRate() && !found.contains(bias)) {
        fail(bias) << "nothing reads it";
        return signalPassFailure();
      }
  }

private:
  static InFlightDiagnostic fail(nn::ParameterOp bias) {
    return bias.emitError("'")
           << bias.getSymName()
           << "' is to even out experts' loads (optimizer.routing_bias), but ";
  }

  static LogicalResult balance(nn::ParameterOp bias, nn::ReadOp read) {
    auto type = cast<RankedTensorType>(bias.getType());
    if (type.getRank() != 1 || !type.getElementType().isF32())
      return fail(bias) << "is " << type
                        << "; expected one float32 for each expert";
    int64_t experts = type.getDimSize(0);
    if (reachesResult(read))
      return fail(bias) << "more depends on it than which experts are chosen";
    // What is shown, behind a stop of gradients, may be counted, too.
    auto choices = findChoices(follow(read, true), experts);
    if (choices.empty())
      choices = findChoices(follow(read, false), experts);
    if (choices.size() != 1)
      return fail(bias) << choices.size() << " choices among " << experts
                        << " follow from it; expected one";
    Value numbers = cast<nn::TopKOp>(choices[0]).getIndices();
    Value carrier = findCarrier(numbers);
    if (!carrier)
      return fail(bias) << "nothing with a gradient follows from the choice";
    OpBuilder b(carrier.getContext());
    b.setInsertionPointAfterValue(carrier);
    auto balanced = nn::BalanceOp::create(b, read.getLoc(), carrier,
                                          read.getResult(), numbers);
    carrier.replaceAllUsesExcept(balanced, balanced);
    return success();
  }
};

} // namespace
} // namespace dt::import
