//===- SavedSlices.cpp - Of a saved tensor the rank's slice -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What is saved for the backward was decided before tensors were cut. If the
// backward does nothing with a saved tensor but take this rank's slice of it,
// the forward saves the slice.
//
//===----------------------------------------------------------------------===//

#include "passes/shard/SavedSlices.h"
#include "dialects/nn/NNNames.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OperationSupport.h"

using namespace mlir;

namespace dt::shard {

/// From a saved tensor to the last slice of it, each the only use of the one
/// before.
static SmallVector<Operation *> findSlices(Value saved) {
  SmallVector<Operation *> chain;
  size_t toSlice = 0;
  while (saved.hasOneUse()) {
    Operation *user = *saved.user_begin();
    if (!isa<nn::ReshapeOp, dist::SliceOp>(user))
      break;
    chain.push_back(user);
    if (isa<dist::SliceOp>(user))
      toSlice = chain.size();
    saved = user->getResult(0);
  }
  chain.resize(toSlice);
  return chain;
}

/// The operation on another operand: one that is there already, or a copy.
static Value apply(Operation *op, Value operand, OpBuilder &builder) {
  for (Operation *user : operand.getUsers())
    if (user->getBlock() == builder.getInsertionBlock() &&
        OperationEquivalence::isEquivalentTo(
            user, op, OperationEquivalence::ignoreValueEquivalence,
            /*markEquivalent=*/nullptr, OperationEquivalence::IgnoreLocations))
      return user->getResult(0);
  IRMapping mapping;
  mapping.map(op->getOperand(0), operand);
  return builder.clone(*op, mapping)->getResult(0);
}

static void setResultType(func::FuncOp function, unsigned i, Type type) {
  SmallVector<Type> results(function.getResultTypes());
  results[i] = type;
  function.setFunctionType(FunctionType::get(
      function.getContext(), function.getArgumentTypes(), results));
}

void saveSlices(dist::ModuleOp module) {
  auto own = dist::getFunctions<func::FuncOp>(module);
  func::FuncOp forward = own.forward, backward = own.backward;
  if (!forward || !backward)
    return;
  // In the order in which the backward takes them.
  SmallVector<unsigned> saved;
  for (unsigned i = 0; i < forward.getNumResults(); ++i)
    if (forward.getResultAttr(i, nn::kResidualAttr))
      saved.push_back(i);
  const unsigned *next = saved.begin();
  auto ret = cast<func::ReturnOp>(forward.front().getTerminator());
  OpBuilder builder(ret);
  for (BlockArgument argument : backward.getArguments()) {
    if (!backward.getArgAttr(argument.getArgNumber(), nn::kResidualAttr))
      continue;
    unsigned result = *next++;
    SmallVector<Operation *> chain = findSlices(argument);
    if (chain.empty())
      continue;
    Value slice = ret.getOperand(result);
    for (Operation *op : chain)
      slice = apply(op, slice, builder);
    ret.setOperand(result, slice);
    setResultType(forward, result, slice.getType());
    chain.back()->getResult(0).replaceAllUsesWith(argument);
    for (Operation *op : llvm::reverse(chain))
      op->erase();
    argument.setType(slice.getType());
    backward.setFunctionType(FunctionType::get(
        backward.getContext(), backward.front().getArgumentTypes(),
        backward.getResultTypes()));
  }
}

} // namespace dt::shard
