//===- Creation.cpp - Tensors from nothing, regions of scalars --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNInference.h"
#include "dialects/nn/NNRuleBuilder.h"

using namespace mlir;
using namespace dt::nn;

/// Made from nothing: any part can be made alone, knowing its place.
static ShardingRule creationRule(Operation *op) {
  RuleBuilder b(op);
  b.result(0, b.letters(getShape(op->getResult(0)), FactorKind::blocked));
  return b.finish();
}

LogicalResult ConstantOp::verify() {
  constexpr int64_t limit = 65536;
  if (getValue().getType() != getType())
    return emitOpError() << "value is " << getValue().getType();
  if (!getValue().isSplat() && getValue().getNumElements() > limit)
    return emitOpError() << "has " << getValue().getNumElements()
                         << " elements, more than " << limit
                         << ": make it a parameter or an nn.generate";
  return success();
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

ShardingRule ConstantOp::getShardingRule() { return creationRule(*this); }

LogicalResult GenerateOp::verify() {
  Block &block = getBody().front();
  Type element = elementOf(getResult());
  if (block.getNumArguments() != getShape(getResult()).size() ||
      !llvm::all_of(block.getArgumentTypes(), llvm::IsaPred<IndexType>))
    return emitOpError("region must take one index a dim");
  auto yield =
      dyn_cast_or_null<YieldOp>(block.empty() ? nullptr : &block.back());
  if (!yield || yield.getValues().size() != 1 ||
      yield.getValues()[0].getType() != element)
    return emitOpError() << "region must yield one " << element;
  return success();
}

ShardingRule GenerateOp::getShardingRule() { return creationRule(*this); }

LogicalResult FusedOp::verify() {
  Block &block = getBody().front();
  if (block.getNumArguments() != getInputs().size())
    return emitOpError("region must take one scalar an input");
  SmallVector<Shape> shapes;
  for (auto [argument, input] : llvm::zip(block.getArguments(), getInputs())) {
    if (argument.getType() != scalarOf(input))
      return emitOpError() << "block argument " << argument.getArgNumber()
                           << " must be " << scalarOf(input);
    shapes.push_back(getShape(input));
  }
  auto yield =
      dyn_cast_or_null<YieldOp>(block.empty() ? nullptr : &block.back());
  if (!yield || yield.getValues().size() != getResults().size())
    return emitOpError("region must yield one scalar a result");
  for (auto [value, result] : llvm::zip(yield.getValues(), getResults())) {
    if (value.getType() != scalarOf(result))
      return emitOpError() << "yields " << value.getType() << " for "
                           << result.getType();
    if (getShape(result) != getShape(getResults()[0]))
      return emitOpError("results must have one shape");
  }
  if (getResults().empty())
    return emitOpError("needs a result");
  Shape out = getShape(getResults()[0]);
  shapes.push_back(out);
  std::optional<Shape> together = broadcastShapes(shapes);
  if (!together || *together != out)
    return emitOpError() << "inputs do not broadcast to " << shapeToString(out);
  return success();
}
