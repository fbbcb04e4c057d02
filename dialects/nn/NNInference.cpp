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

Type dt::nn::scalarOf(Value v) {
  Type e = elementOf(v);
  return e.isUnsignedInteger()
             ? IntegerType::get(e.getContext(), e.getIntOrFloatBitWidth())
             : e;
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
  if (a.getType() == b.getType())
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
