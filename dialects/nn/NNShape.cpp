//===- NNShape.cpp - Shapes with symbolic dims ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNOps.h"

using namespace mlir;
using namespace dt::nn;

Shape dt::nn::getShape(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  auto dims = dyn_cast_or_null<DimsAttr>(tensor.getEncoding());
  Shape shape;
  unsigned next = 0;
  for (int64_t size : tensor.getShape()) {
    if (!ShapedType::isDynamic(size)) {
      shape.push_back(DimExpr(size));
      continue;
    }
    // The encoding's verifier has checked that counts agree; a `?` without
    // encoding (foreign IR) becomes a symbol that equals nothing.
    shape.push_back(dims && next < dims.getDims().size()
                        ? dims.getDims()[next].getSize()
                        : DimExpr::symbol("unknown" + std::to_string(next)));
    ++next;
  }
  return shape;
}

RankedTensorType dt::nn::makeTensorType(ArrayRef<DimExpr> shape,
                                        Type elementType) {
  SmallVector<int64_t> sizes;
  Shape varying;
  MLIRContext *context = elementType.getContext();
  for (const DimExpr &d : shape) {
    if (std::optional<int64_t> n = d.asConstant()) {
      sizes.push_back(*n);
    } else {
      sizes.push_back(ShapedType::kDynamic);
      varying.push_back(d);
    }
  }
  Attribute encoding = varying.empty()
                           ? nullptr
                           : DimsAttr::get(context, ArrayRef<DimExpr>(varying));
  return RankedTensorType::get(sizes, elementType, encoding);
}

RankedTensorType dt::nn::withElementType(Type type, Type element) {
  auto tensor = cast<RankedTensorType>(type);
  return RankedTensorType::get(tensor.getShape(), element,
                               tensor.getEncoding());
}

DimExpr dt::nn::getNumElements(ArrayRef<DimExpr> shape) {
  DimExpr n(1);
  for (const DimExpr &d : shape)
    n = n * d;
  return n;
}

int64_t dt::nn::getElementBytes(Type element) {
  return std::max<int64_t>(1, element.getIntOrFloatBitWidth() / 8);
}

DimExpr dt::nn::getNumBytes(Type tensor) {
  return getNumElements(getShape(tensor)) *
         DimExpr(
             getElementBytes(cast<RankedTensorType>(tensor).getElementType()));
}

DimExpr dt::nn::operandAndResultBytes(Operation *op) {
  DimExpr bytes;
  llvm::SmallPtrSet<Value, 8> seen;
  for (Value v : op->getOperands())
    if (isa<RankedTensorType>(v.getType()) && seen.insert(v).second)
      bytes = bytes + getNumBytes(v.getType());
  for (Value v : op->getResults())
    if (isa<RankedTensorType>(v.getType()))
      bytes = bytes + getNumBytes(v.getType());
  return bytes;
}

std::optional<Shape> dt::nn::broadcastShapes(ArrayRef<Shape> shapes) {
  size_t rank = 0;
  for (const Shape &s : shapes)
    rank = std::max(rank, s.size());
  Shape result(rank, DimExpr(1));
  for (const Shape &s : shapes)
    for (size_t i = 0; i < s.size(); ++i) {
      DimExpr &out = result[rank - s.size() + i];
      if (s[i] == DimExpr(1) || s[i] == out)
        continue;
      if (out != DimExpr(1))
        return std::nullopt;
      out = s[i];
    }
  return result;
}

std::optional<SmallVector<ReassociationGroup>>
dt::nn::getReassociation(ArrayRef<DimExpr> from, ArrayRef<DimExpr> to) {
  SmallVector<ReassociationGroup> groups;
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    ReassociationGroup group;
    DimExpr a(1), b(1);
    auto takeFrom = [&] { group.first.push_back(i), a = a * from[i++]; };
    auto takeTo = [&] { group.second.push_back(j), b = b * to[j++]; };
    if (i < from.size())
      takeFrom();
    if (j < to.size())
      takeTo();
    // Extend the side whose product divides the other's; where neither does,
    // take from both (2x3 against 3x2 meets at 6).
    while (a != b) {
      bool growFrom = b.exactDiv(a).has_value();
      if (growFrom ? i < from.size() : j < to.size())
        growFrom ? takeFrom() : takeTo();
      else if (i < from.size())
        takeFrom();
      else if (j < to.size())
        takeTo();
      else
        return std::nullopt;
    }
    // A leading or trailing 1 on one side only belongs to a group of its own
    // kind: (1) -> () keeps later groups one to one.
    groups.push_back(std::move(group));
  }
  return groups;
}

bool dt::nn::isSmaller(const DimExpr &size, const DimExpr &other) {
  DimExpr more = other - size;
  return more.terms().size() == 1 && more.terms()[0].coefficient > 0;
}

Value dt::nn::throughReshapes(Value v) {
  while (auto reshape = v.getDefiningOp<ReshapeOp>())
    v = reshape.getInput();
  return v;
}

std::string dt::nn::shapeToString(ArrayRef<DimExpr> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    out += (i ? ", " : "") + shape[i].str();
  return out + "]";
}
