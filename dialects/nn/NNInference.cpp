//===- NNInference.cpp - What result types are made of ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNInference.h"

using namespace mlir;
using namespace dt::nn;

LogicalResult dt::nn::fail(MaybeLoc loc, const Twine &what) {
  return emitOptionalError(loc, what);
}

Type dt::nn::elementOf(Value v) {
  return cast<RankedTensorType>(v.getType()).getElementType();
}

Type dt::nn::scalarOf(Type e) {
  if (e.isUnsignedInteger())
    return IntegerType::get(e.getContext(), e.getIntOrFloatBitWidth());
  return isNarrow(e) ? Float32Type::get(e.getContext()) : e;
}

Type dt::nn::scalarOf(Value v) { return scalarOf(elementOf(v)); }

bool dt::nn::isNarrow(Type type) {
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
  return element && element.getWidth() == 16;
}

Value dt::nn::widened(Value v) {
  auto cast = v.getDefiningOp<CastOp>();
  return cast && isNarrow(cast.getInput()) && elementOf(v).isF32()
             ? cast.getInput()
             : Value();
}

bool dt::nn::isComputeHeavy(Operation *op) {
  auto cost = dyn_cast<CostOpInterface>(op);
  return cost && isa<PrecisionOpInterface>(op) &&
         cost.getWork().isComputeHeavy();
}

static constexpr llvm::StringLiteral kStoredAttr = "stored";

void dt::nn::applyStored(DictionaryAttr attributes, Types &types) {
  if (auto stored =
          attributes ? attributes.getAs<TypeAttr>(kStoredAttr) : TypeAttr())
    types[0] = withElementType(types[0], stored.getValue());
}

void dt::nn::setStored(Operation *op, Type element) {
  Value result = op->getResult(0);
  result.setType(withElementType(result.getType(), element));
  op->removeAttr(kStoredAttr);
  auto inferring = dyn_cast<InferTypeOpInterface>(op);
  if (!inferring)
    return;
  SmallVector<Type> types;
  bool same = succeeded(inferring.inferReturnTypes(
                  op->getContext(), op->getLoc(), op->getOperands(),
                  op->getRawDictionaryAttrs(), op->getPropertiesStorage(),
                  op->getRegions(), types)) &&
              types[0] == result.getType();
  if (!same)
    op->setAttr(kStoredAttr, TypeAttr::get(element));
}

LogicalResult dt::nn::checkAxis(MaybeLoc loc, int64_t axis, Value v) {
  int64_t rank = cast<RankedTensorType>(v.getType()).getRank();
  if (axis < 0 || axis >= rank)
    return fail(loc,
                "axis " + Twine(axis) + " is not in [0, " + Twine(rank) + ")");
  return success();
}

LogicalResult dt::nn::verifySameElement(Operation *op, Value a, Value b) {
  if (elementOf(a) != elementOf(b))
    return op->emitOpError() << "changes the element type from " << elementOf(a)
                             << " to " << elementOf(b);
  return success();
}

LogicalResult dt::nn::sameTypes(MaybeLoc loc, Value a, Value b) {
  auto scalarType = [](Value v) {
    return withElementType(v.getType(), scalarOf(v));
  };
  if (scalarType(a) == scalarType(b))
    return success();
  return fail(loc,
              "operands must have one shape: " + shapeToString(getShape(a)) +
                  " and " + shapeToString(getShape(b)));
}

LogicalResult dt::nn::inferBroadcast(MaybeLoc loc, ValueRange operands,
                                     Type element, Types &out) {
  SmallVector<Shape> shapes;
  for (Value v : operands)
    shapes.push_back(getShape(v));
  std::optional<Shape> shape = broadcastShapes(shapes);
  if (!shape) {
    std::string text;
    for (const Shape &s : shapes)
      text += (text.empty() ? "" : " and ") + shapeToString(s);
    return fail(loc, "operands do not broadcast: " + text);
  }
  out.push_back(makeTensorType(*shape, element));
  return success();
}

LogicalResult dt::nn::typeOfFirst(MaybeLoc, ValueRange operands, Types &out) {
  out.push_back(operands[0].getType());
  return success();
}

LogicalResult dt::nn::typeOfBoth(MaybeLoc loc, ValueRange operands,
                                 Types &out) {
  out.push_back(operands[0].getType());
  return sameTypes(loc, operands[0], operands[1]);
}

LogicalResult dt::nn::boolsOfFirst(MaybeLoc, ValueRange operands, Types &out) {
  Type in = operands[0].getType();
  out.push_back(withElementType(in, IntegerType::get(in.getContext(), 1)));
  return success();
}

LogicalResult dt::nn::broadcastOfFirst(MaybeLoc loc, ValueRange operands,
                                       Types &out) {
  return inferBroadcast(loc, operands, elementOf(operands[0]), out);
}

LogicalResult dt::nn::broadcastOfBoth(MaybeLoc loc, ValueRange operands,
                                      Types &out) {
  if (failed(sameElements(loc, operands)))
    return failure();
  return inferBroadcast(loc, operands, elementOf(operands.back()), out);
}

LogicalResult dt::nn::sameElements(MaybeLoc loc, ValueRange operands) {
  ValueRange both = operands.take_back(2);
  if (elementOf(both[0]) != elementOf(both[1]))
    return fail(loc, "operands must have one element type");
  return success();
}
