//===- Gather.cpp - Rows picked before an edge ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A module that needs a few rows of another's output names them by an index
// input. The rows are picked by the sender, so that only they cross the edge.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/Program.h"

#include "dialects/nn/NNOps.h"

using namespace mlir;

namespace dt::models {

std::string getSymbolLike(dist::ModuleOp module, nn::DimOp like) {
  for (auto dim : module.getOps<nn::DimOp>())
    if (dim.getQuantity() == like.getQuantity())
      return dim.getSymName().str();
  StringRef name = like.getSymName();
  std::string symbol = name.str();
  for (unsigned n = 2; SymbolTable::lookupSymbolIn(module, symbol); ++n)
    symbol = (name + "_" + Twine(n)).str();
  OpBuilder b = OpBuilder::atBlockBegin(&module.getBody().front());
  auto dim = nn::DimOp::create(b, module.getLoc(), b.getStringAttr(symbol),
                               like.getItemAttr(), like.getMaxAttr());
  dim.setMeasureAttr(like.getMeasureAttr());
  dim.setLargestAttr(like.getLargestAttr());
  return symbol;
}

FailureOr<std::string> buildGather(Location location, dist::ModuleOp sender,
                                   StringRef output, StringRef index,
                                   ArrayRef<nn::DimExpr> rows) {
  func::FuncOp forward = sender.getForward();
  Operation *terminator = forward.getBody().front().getTerminator();
  Value value =
      terminator->getOperand(*dist::ModuleOp::findResult(forward, output));
  auto type = cast<RankedTensorType>(value.getType());
  nn::Shape shape = nn::getShape(type);
  if (shape.size() < 2) {
    return emitError(location)
           << "a gather picks rows of [..., d], not of " << type;
  }
  OpBuilder b(terminator);
  Value positions = getOrAddInput(location, sender, index,
                                  nn::makeTensorType(rows, b.getI64Type()));
  if (!positions)
    return failure();
  nn::DimExpr width = shape.pop_back_val();
  auto flat = nn::makeTensorType({nn::getNumElements(shape), width},
                                 type.getElementType());
  Value matrix = flat == type
                     ? value
                     : Value(nn::ReshapeOp::create(b, location, flat, value));
  Value picked = nn::GatherOp::create(b, location, matrix, positions, 0, true);
  std::string name = (output + "." + index).str();
  addOutput(forward, picked, name);
  return name;
}

} // namespace dt::models
