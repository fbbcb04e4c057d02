//===- Match.cpp - Looking at nn values when raising ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/import/Match.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cmath>

using namespace mlir;
using namespace dt;

std::optional<double> import::getSplat(Value v) {
  while (Operation *op = v.getDefiningOp()) {
    if (isa<nn::BroadcastOp, nn::ReshapeOp, nn::CastOp>(op)) {
      v = op->getOperand(0);
      continue;
    }
    auto constant = dyn_cast<nn::ConstantOp>(op);
    auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue())
                             : DenseElementsAttr();
    if (!elements || !elements.isSplat())
      return std::nullopt;
    if (isa<FloatType>(elements.getElementType()))
      return elements.getSplatValue<APFloat>().convertToDouble();
    if (elements.getElementType().isInteger(1))
      return elements.getSplatValue<APInt>().getZExtValue();
    return elements.getSplatValue<APInt>().getSExtValue();
  }
  return std::nullopt;
}

bool import::isSplat(Value v, double number) {
  std::optional<double> c = getSplat(v);
  return c && std::abs(*c - number) <= 1e-4 * std::abs(number);
}

Value import::matchSquare(Value v) {
  if (auto pow = v.getDefiningOp<nn::PowOp>())
    return isSplat(pow.getRhs(), 2.0) ? Value(pow.getLhs()) : Value();
  if (auto mul = v.getDefiningOp<nn::MulOp>())
    return mul.getLhs() == mul.getRhs() ? Value(mul.getLhs()) : Value();
  return {};
}

Value import::matchRsqrt(Value v) {
  auto squareRoot = [](Value s) -> Value {
    if (auto root = s.getDefiningOp<nn::SqrtOp>())
      return root.getInput();
    if (auto pow = s.getDefiningOp<nn::PowOp>())
      return isSplat(pow.getRhs(), 0.5) ? Value(pow.getLhs()) : Value();
    return {};
  };
  if (auto r = v.getDefiningOp<nn::RsqrtOp>())
    return r.getInput();
  if (auto r = v.getDefiningOp<nn::ReciprocalOp>())
    return squareRoot(r.getInput());
  if (auto div = v.getDefiningOp<nn::DivOp>())
    return isSplat(div.getLhs(), 1.0) ? squareRoot(div.getRhs()) : Value();
  if (auto pow = v.getDefiningOp<nn::PowOp>())
    return isSplat(pow.getRhs(), -0.5) ? Value(pow.getLhs()) : Value();
  return {};
}

Value import::matchMeanOfLast(Value v) {
  auto mean = v.getDefiningOp<nn::ReduceOp>();
  if (!mean || mean.getKind() != nn::ReduceKind::mean || !mean.getKeepdims())
    return {};
  int64_t rank = mean.getInput().getType().getRank();
  if (mean.getAxes().size() != 1 || mean.getAxes()[0] != rank - 1)
    return {};
  return mean.getInput();
}

bool import::mayNeedGradient(Value v) {
  SmallVector<Value> work = {v};
  llvm::SmallPtrSet<Value, 16> seen;
  while (!work.empty()) {
    Value value = work.pop_back_val();
    auto tensor = dyn_cast<RankedTensorType>(value.getType());
    if (!tensor || !isa<FloatType>(tensor.getElementType()) ||
        !seen.insert(value).second)
      continue;
    Operation *op = value.getDefiningOp();
    if (!op)
      return true;
    if (auto read = dyn_cast<nn::ReadOp>(op)) {
      auto parameter = SymbolTable::lookupNearestSymbolFrom<nn::ParameterOp>(
          read, read.getParameterAttr());
      if (!parameter || parameter.getTrainable())
        return true;
      continue;
    }
    if (!op->hasTrait<nn::ZeroGradient>())
      work.append(op->operand_begin(), op->operand_end());
  }
  return false;
}
