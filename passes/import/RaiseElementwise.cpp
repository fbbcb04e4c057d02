//===- RaiseElementwise.cpp - Recover biases and activations ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/import/Match.h"
#include "passes/import/Passes.h"

#include "mlir/IR/Matchers.h"

#include <cmath>

using namespace mlir;
using namespace dt;
using namespace dt::import;

namespace dt::import {
#define GEN_PASS_DEF_RAISEELEMENTWISE
#include "passes/import/Passes.h.inc"
} // namespace dt::import

namespace {

/// linear(x, w) + b  ->  linear(x, w, b)
LogicalResult biasIntoLinear(nn::AddOp add, PatternRewriter &rewriter) {
  auto pair = matchEither<nn::AddOp>(add, [](Value v) {
    auto linear = v.getDefiningOp<nn::LinearOp>();
    return linear && !linear.getBias() && linear->hasOneUse();
  });
  if (!pair || pair->first.getType() != add.getType())
    return failure();
  auto linear = pair->first.getDefiningOp<nn::LinearOp>();
  nn::Shape bias = nn::getShape(pair->second);
  if (bias != nn::Shape{nn::getShape(linear.getResult()).back()})
    return failure();
  rewriter.replaceOpWithNewOp<nn::LinearOp>(add, linear.getInput(),
                                            linear.getWeight(), pair->second,
                                            linear.getInOut());
  return success();
}

/// reshape(x) * w over [rows, in] stays a product of the unreshaped input:
/// reshape(linear(reshape(x), w)) -> linear(x, w) when only leading dims move.
LogicalResult linearOfReshape(nn::ReshapeOp reshape,
                              PatternRewriter &rewriter) {
  auto linear = reshape.getInput().getDefiningOp<nn::LinearOp>();
  if (!linear || !linear->hasOneUse())
    return failure();
  nn::Shape out = nn::getShape(reshape.getResult());
  nn::Shape flat = nn::getShape(linear.getResult());
  if (out.empty() || out.back() != flat.back())
    return failure();
  nn::Shape in = out;
  in.back() = nn::getShape(linear.getInput()).back();
  auto inner = linear.getInput().getDefiningOp<nn::ReshapeOp>();
  if (!inner || nn::getShape(inner.getInput()) != in)
    return failure();
  rewriter.replaceOpWithNewOp<nn::LinearOp>(
      reshape, inner.getInput(), linear.getWeight(), linear.getBias(),
      linear.getInOut());
  return success();
}

/// x * sigmoid(x)  ->  silu(x)
LogicalResult raiseSilu(nn::MulOp mul, PatternRewriter &rewriter) {
  auto pair = matchEither<nn::MulOp>(
      mul, [](Value v) { return v.getDefiningOp<nn::SigmoidOp>() != nullptr; });
  if (!pair)
    return failure();
  if (pair->first.getDefiningOp<nn::SigmoidOp>().getInput() != pair->second)
    return failure();
  rewriter.replaceOpWithNewOp<nn::SiluOp>(mul, pair->second);
  return success();
}

/// log(sigmoid(x))  ->  -softplus(-x), which does not saturate (PyTorch's
/// logsigmoid and losses of logits are exported as the former).
LogicalResult raiseLogSigmoid(nn::LogOp log, PatternRewriter &rewriter) {
  auto sigmoid = log.getInput().getDefiningOp<nn::SigmoidOp>();
  if (!sigmoid)
    return failure();
  Location loc = log.getLoc();
  Value x = nn::NegOp::create(rewriter, loc, sigmoid.getInput());
  rewriter.replaceOpWithNewOp<nn::NegOp>(
      log, nn::SoftplusOp::create(rewriter, loc, x));
  return success();
}

/// x of max(log(x), -100).
Value matchClampedLog(Value v) {
  auto clamped = matchWithSplat<nn::MaxOp>(v);
  auto log = clamped && clamped->second == -100.0
                 ? clamped->first.getDefiningOp<nn::LogOp>()
                 : nn::LogOp();
  return log ? Value(log.getInput()) : Value();
}

/// Whether `v` = x - 1.
bool isOneLess(Value v, Value x) {
  if (auto sub = v.getDefiningOp<nn::SubOp>())
    return sub.getLhs() == x && isSplat(sub.getRhs(), 1.0);
  if (auto sum = matchWithSplat<nn::AddOp>(v))
    return sum->first == x && sum->second == -1.0;
  DenseFPElementsAttr a, b;
  if (!matchPattern(v, m_Constant(&a)) || !matchPattern(x, m_Constant(&b)) ||
      a.getType() != b.getType())
    return false;
  return llvm::all_of(llvm::zip(a.getValues<APFloat>(), b.getValues<APFloat>()),
                      [](auto pair) {
                        auto [less, number] = pair;
                        APFloat one(number.getSemantics(), 1);
                        return less == number - one;
                      });
}

/// Whether `v` = 1 - x.
bool isOneMinus(Value v, Value x) {
  if (auto sub = v.getDefiningOp<nn::SubOp>())
    return isSplat(sub.getLhs(), 1.0) && sub.getRhs() == x;
  auto sum = matchWithSplat<nn::AddOp>(v);
  auto minus = sum ? sum->first.getDefiningOp<nn::NegOp>() : nn::NegOp();
  return minus && sum->second == 1.0 && minus.getInput() == x;
}

/// (y - 1) * max(log(1 - x), -100) - y * max(log(x), -100), as PyTorch's
/// exporter writes binary_cross_entropy.
LogicalResult raiseBinaryCrossEntropy(nn::SubOp sub,
                                      PatternRewriter &rewriter) {
  auto clamped = [](Value v) { return bool(matchClampedLog(v)); };
  auto no = matchEither<nn::MulOp>(sub.getLhs(), clamped),
       yes = matchEither<nn::MulOp>(sub.getRhs(), clamped);
  if (!no || !yes || !isOneLess(no->second, yes->second))
    return failure();
  Value x = matchClampedLog(yes->first);
  if (!isOneMinus(matchClampedLog(no->first), x))
    return failure();
  rewriter.replaceOpWithNewOp<nn::BinaryCrossEntropyOp>(sub, x, yes->second);
  return success();
}

/// Factors of a product (through nested nn.mul), numbers multiplied together.
struct Product {
  double number = 1.0;
  double rounding = 0; ///< relative, of all numbers in it
  SmallVector<Value> factors;

  /// Exporters compute with the numbers of a formula and round each of them to
  /// its type, so what they multiply to differs by these roundings, no more.
  bool isNumber(double wanted) const {
    return std::abs(number - wanted) <= rounding * std::abs(wanted);
  }
};
Product collectFactors(Value v, int depth = 0) {
  Product p;
  if (std::optional<double> c = getSplat(v)) {
    p.number = *c;
    p.rounding = getSplatRounding(v);
  } else if (auto mul = v.getDefiningOp<nn::MulOp>(); mul && depth < 4) {
    for (Value operand : {Value(mul.getLhs()), Value(mul.getRhs())}) {
      Product part = collectFactors(operand, depth + 1);
      p.number *= part.number;
      p.rounding += part.rounding;
      p.factors.append(part.factors);
    }
  } else if (auto div = v.getDefiningOp<nn::DivOp>();
             div && depth < 4 && getSplat(div.getRhs())) {
    p = collectFactors(div.getLhs(), depth + 1);
    p.number /= *getSplat(div.getRhs());
    p.rounding += getSplatRounding(div.getRhs());
  } else {
    p.factors.push_back(v);
  }
  return p;
}

/// `v` = c * x with the expected c.
bool isScaled(Value v, Value x, double c) {
  Product p = collectFactors(v);
  return p.factors.size() == 1 && p.factors[0] == x && p.isNumber(c);
}

/// Which power of x a factor is, or 0: x itself, or x to a number that is
/// whole.
int powerOf(Value factor, Value x) {
  if (factor == x)
    return 1;
  auto pow = factor.getDefiningOp<nn::PowOp>();
  if (!pow || pow.getLhs() != x)
    return 0;
  for (int power : {1, 2, 3})
    if (getSplat(pow.getRhs()) == static_cast<double>(power))
      return power;
  return 0;
}

/// x^power in any spelling, times c.
bool isScaledPower(Value v, Value x, int power, double c) {
  Product p = collectFactors(v);
  int sum = 0;
  for (Value f : p.factors) {
    int part = powerOf(f, x);
    if (part == 0)
      return false;
    sum += part;
  }
  return sum == power && p.isNumber(c);
}

/// sqrt(2 / pi) * (x + 0.044715 x^3), also factored as x * (1 + 0.044715 x^2).
bool isTanhArgument(Value v, Value x) {
  Product p = collectFactors(v);
  if (!p.isNumber(std::sqrt(2.0 / M_PI)))
    return false;
  if (p.factors.size() == 1) {
    auto sum =
        matchEither<nn::AddOp>(p.factors[0], [&](Value f) { return f == x; });
    return sum && isScaledPower(sum->second, x, 3, 0.044715);
  }
  if (p.factors.size() != 2 || (p.factors[0] != x && p.factors[1] != x))
    return false;
  Value other = p.factors[0] == x ? p.factors[1] : p.factors[0];
  auto sum =
      matchEither<nn::AddOp>(other, [](Value f) { return isSplat(f, 1.0); });
  return sum && isScaledPower(sum->second, x, 2, 0.044715);
}

/// 0.5 * x * (1 + erf(x / sqrt 2))  and the tanh form.
LogicalResult raiseGelu(nn::MulOp mul, PatternRewriter &rewriter) {
  Product p = collectFactors(mul);
  if (p.factors.size() != 2 || !p.isNumber(0.5))
    return failure();
  for (int i : {0, 1}) {
    auto sum = matchEither<nn::AddOp>(p.factors[i],
                                      [](Value f) { return isSplat(f, 1.0); });
    if (!sum)
      continue;
    Value x = p.factors[1 - i];
    auto erf = sum->second.getDefiningOp<nn::ErfOp>();
    auto tanh = sum->second.getDefiningOp<nn::TanhOp>();
    bool exact = erf && isScaled(erf.getInput(), x, std::sqrt(0.5));
    bool approximate = tanh && isTanhArgument(tanh.getInput(), x);
    if ((!exact && !approximate) || x.getType() != mul.getType())
      continue;
    rewriter.replaceOpWithNewOp<nn::GeluOp>(mul, x, approximate);
    return success();
  }
  return failure();
}

struct RaiseElementwisePass
    : import::impl::RaiseElementwiseBase<RaiseElementwisePass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add(biasIntoLinear)
        .add(linearOfReshape)
        .add(raiseSilu)
        .add(raiseLogSigmoid)
        .add(raiseBinaryCrossEntropy)
        .add(raiseGelu);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
