//===- NNNumbers.cpp - Numbers that the graph itself knows ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNNumbers.h"
#include "dialects/nn/NNInference.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

#include <cmath>

using namespace mlir;
using namespace dt::nn;

bool dt::nn::keepsCounts(CastOp op) {
  Type from = elementOf(op.getInput()), to = elementOf(op.getResult());
  unsigned width = to.getIntOrFloatBitWidth();
  if (isa<FloatType>(to))
    return width >= 32 &&
           (!isa<FloatType>(from) || width >= from.getIntOrFloatBitWidth());
  return isa<IntegerType>(from) && width > 1 &&
         width >= from.getIntOrFloatBitWidth();
}

std::optional<double> dt::nn::splatOf(Attribute value) {
  auto elements = dyn_cast_or_null<DenseElementsAttr>(value);
  if (!elements || !elements.isSplat())
    return std::nullopt;
  if (isa<FloatType>(elements.getElementType()))
    return elements.getSplatValue<APFloat>().convertToDouble();
  APInt number = elements.getSplatValue<APInt>();
  bool isSigned = number.getBitWidth() > 1 &&
                  !elements.getElementType().isUnsignedInteger();
  return isSigned ? double(number.getSExtValue())
                  : double(number.getZExtValue());
}

std::optional<double> dt::nn::splatOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<ReshapeOp, BroadcastOp>(op))
    return splatOf(op->getOperand(0));
  if (auto cast = dyn_cast_or_null<CastOp>(op)) {
    auto number = splatOf(cast.getInput());
    Type to = elementOf(cast.getResult());
    if (number && to.isInteger(1))
      return *number != 0;
    if (number && !isa<FloatType>(to))
      number = std::trunc(*number);
    bool exact = number && (keepsCounts(cast) ||
                            (isa<IntegerType>(to) && std::abs(*number) < 128));
    return exact ? number : std::nullopt;
  }
  auto constant = dyn_cast_or_null<ConstantOp>(op);
  return constant ? splatOf(constant.getValue()) : std::nullopt;
}

std::optional<DimExpr> dt::nn::readSize(Value scalar) {
  Operation *op = scalar.getDefiningOp();
  APInt number;
  if (!op)
    return std::nullopt;
  if (matchPattern(scalar, m_ConstantInt(&number)))
    return DimExpr(number.getSExtValue());
  if (auto size = dyn_cast<SizeOp>(op))
    return size.getSize();
  if (isa<arith::IndexCastOp, arith::ExtSIOp, arith::SIToFPOp>(op))
    return readSize(op->getOperand(0));
  if (!isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op))
    return std::nullopt;
  auto a = readSize(op->getOperand(0)), b = readSize(op->getOperand(1));
  if (!a || !b)
    return std::nullopt;
  return isa<arith::AddIOp>(op)   ? *a + *b
         : isa<arith::SubIOp>(op) ? *a - *b
                                  : *a * *b;
}

bool dt::nn::isSumOverItems(const DimExpr &count,
                            llvm::function_ref<bool(StringRef)> isItem) {
  return llvm::all_of(count.terms(), [&](const DimExpr::Term &term) {
    return llvm::count_if(term.symbols, [&](const std::string &symbol) {
             return isItem(symbol);
           }) == 1;
  });
}
