//===- Match.cpp - Looking at nn values when raising ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/import/Match.h"

#include "dialects/nn/NNNames.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cmath>

using namespace mlir;
using namespace dt;
using namespace dt::import;

namespace {
/// The constant that `v` repeats, and the element types that its number goes
/// through: the constant's own, then those of casts.
struct SplatChain {
  DenseElementsAttr elements;
  SmallVector<Type, 2> types;
};

std::optional<SplatChain> readChain(Value v) {
  SplatChain chain;
  while (Operation *op = v.getDefiningOp()) {
    if (isa<nn::CastOp>(op))
      chain.types.push_back(getElementTypeOrSelf(v.getType()));
    if (isa<nn::BroadcastOp, nn::ReshapeOp, nn::CastOp>(op)) {
      v = op->getOperand(0);
      continue;
    }
    auto constant = dyn_cast<nn::ConstantOp>(op);
    if (constant)
      chain.elements = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!chain.elements || !chain.elements.isSplat())
      return std::nullopt;
    chain.types.push_back(chain.elements.getElementType());
    std::reverse(chain.types.begin(), chain.types.end());
    return chain;
  }
  return std::nullopt;
}

/// What nn.cast makes of a number; nothing where the result is undefined.
std::optional<double> castNumber(double x, Type type) {
  if (auto to = dyn_cast<FloatType>(type)) {
    APFloat number(x);
    bool loses;
    number.convert(to.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                   &loses);
    return number.convertToDouble();
  }
  if (type.isInteger(1))
    return x != 0;
  double whole = std::trunc(x);
  int bits = static_cast<int>(type.getIntOrFloatBitWidth());
  bool isUnsigned = type.isUnsignedInteger();
  double least = isUnsigned ? 0 : -std::ldexp(1, bits - 1);
  double most = std::ldexp(1, isUnsigned ? bits : bits - 1);
  if (!(whole >= least && whole < most))
    return std::nullopt;
  return whole;
}
} // namespace

std::optional<double> import::getSplat(Value v) {
  std::optional<SplatChain> chain = readChain(v);
  if (!chain)
    return std::nullopt;
  Type own = chain->types.front();
  std::optional<double> number;
  if (isa<FloatType>(own)) {
    number = chain->elements.getSplatValue<APFloat>().convertToDouble();
  } else {
    APInt whole = chain->elements.getSplatValue<APInt>();
    number = own.isInteger(1) || own.isUnsignedInteger()
                 ? static_cast<double>(whole.getZExtValue())
                 : static_cast<double>(whole.getSExtValue());
  }
  for (Type type : ArrayRef(chain->types).drop_front())
    number = number ? castNumber(*number, type) : std::nullopt;
  return number;
}

bool import::isSplat(Value v, double number) {
  std::optional<double> actual = getSplat(v);
  if (!actual)
    return false;
  double wanted = number;
  std::optional<SplatChain> chain = readChain(v);
  for (Type type : chain->types) {
    std::optional<double> next = castNumber(wanted, type);
    // Only floats round: 0.5 as an integer is another number.
    if (!next || (!isa<FloatType>(type) && *next != number))
      return false;
    wanted = *next;
  }
  return *actual == wanted;
}

bool import::hasNarrowNumbers(Operation *op) {
  auto function = op->getParentOfType<func::FuncOp>();
  return function && function->hasAttr(nn::kNarrowNumbersAttr);
}

/// By how much rounding to a type may move a number, relative to it.
static double roundingOf(const llvm::fltSemantics &type) {
  return std::ldexp(1, -static_cast<int>(APFloat::semanticsPrecision(type)));
}

/// The same of a number that its file keeps in 16 bits. One that they cannot
/// hold was in float32 there too; one whose cast is undefined has none.
static double narrowRoundingOf(Value v) {
  std::optional<double> splat = getSplat(v);
  if (!splat || !hasNarrowNumbers(v.getDefiningOp()))
    return 0;
  double rounding = 0, number = *splat;
  Builder b(v.getContext());
  for (FloatType type : {FloatType(b.getF16Type()), FloatType(b.getBF16Type())})
    if (castNumber(number, type) == number)
      rounding = std::max(rounding, roundingOf(type.getFloatSemantics()));
  return rounding;
}

double import::getSplatRounding(Value v) {
  std::optional<SplatChain> chain = readChain(v);
  double rounding = 0;
  for (Type type : chain ? chain->types : SmallVector<Type>())
    if (auto f = dyn_cast<FloatType>(type))
      rounding = std::max(rounding, roundingOf(f.getFloatSemantics()));
  return rounding > 0 ? std::max(rounding, narrowRoundingOf(v)) : 0;
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
