//===- GraphOutput.cpp - A loss that the graph computes ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/losses/LossBuilder.h"
#include "models/frontend/recipe/losses/LossRule.h"

using namespace mlir;

namespace dt::models {

namespace {

/// The graph's own loss; the modules phase splits it.
Value graphOutput(LossBuilder &l, Value output) {
  auto type = cast<RankedTensorType>(output.getType());
  if (nn::getNumElements(nn::getShape(type)) != nn::DimExpr(1)) {
    emitError(l.loc) << "a graph_output loss is one number, not " << type;
    return {};
  }
  if (!type.getElementType().isF32())
    output =
        l.make<nn::CastOp>(nn::withElementType(type, l.b.getF32Type()), output);
  if (type.getRank() != 0)
    output = l.make<nn::ReshapeOp>(RankedTensorType::get({}, l.b.getF32Type()),
                                   output);
  return output;
}

} // namespace

void addGraphOutput(LossRules &rules) {
  rules.push_back({"graph_output", "output", "", graphOutput});
}

} // namespace dt::models
