//===- RaiseElementwise.cpp - Recover biases, SiLU and GELU -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/import/Match.h"
#include "passes/import/Passes.h"

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
struct BiasIntoLinear : OpRewritePattern<nn::AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::AddOp add,
                                PatternRewriter &rewriter) const override {
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
};

/// reshape(x) * w over [rows, in] stays a product of the unreshaped input:
/// reshape(linear(reshape(x), w)) -> linear(x, w) when only leading dims move.
struct LinearOfReshape : OpRewritePattern<nn::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::ReshapeOp reshape,
                                PatternRewriter &rewriter) const override {
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
};

/// x * sigmoid(x)  ->  silu(x)
struct Silu : OpRewritePattern<nn::MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::MulOp mul,
                                PatternRewriter &rewriter) const override {
    auto pair = matchEither<nn::MulOp>(mul, [](Value v) {
      return v.getDefiningOp<nn::SigmoidOp>() != nullptr;
    });
    if (!pair)
      return failure();
    if (pair->first.getDefiningOp<nn::SigmoidOp>().getInput() != pair->second)
      return failure();
    rewriter.replaceOpWithNewOp<nn::SiluOp>(mul, pair->second);
    return success();
  }
};

/// Factors of a product (through nested nn.mul), numbers multiplied together.
struct Product {
  double number = 1.0;
  SmallVector<Value> factors;
};
Product collectFactors(Value v, int depth = 0) {
  Product p;
  if (std::optional<double> c = getSplat(v)) {
    p.number = *c;
  } else if (auto mul = v.getDefiningOp<nn::MulOp>(); mul && depth < 4) {
    for (Value operand : {Value(mul.getLhs()), Value(mul.getRhs())}) {
      Product part = collectFactors(operand, depth + 1);
      p.number *= part.number;
      p.factors.append(part.factors);
    }
  } else if (auto div = v.getDefiningOp<nn::DivOp>();
             div && depth < 4 && getSplat(div.getRhs())) {
    p = collectFactors(div.getLhs(), depth + 1);
    p.number /= *getSplat(div.getRhs());
  } else {
    p.factors.push_back(v);
  }
  return p;
}

bool close(double a, double b) { return std::abs(a - b) <= 1e-4 * std::abs(b); }

/// `v` = c * x with the expected c.
bool isScaled(Value v, Value x, double c) {
  Product p = collectFactors(v);
  return p.factors.size() == 1 && p.factors[0] == x && close(p.number, c);
}

/// x^3 in any spelling, times c.
bool isScaledCube(Value v, Value x, double c) {
  Product p = collectFactors(v);
  if (!close(p.number, c))
    return false;
  int power = 0;
  for (Value f : p.factors) {
    if (f == x)
      ++power;
    else if (auto pow = f.getDefiningOp<nn::PowOp>();
             pow && pow.getLhs() == x && getSplat(pow.getRhs()))
      power += static_cast<int>(*getSplat(pow.getRhs()));
    else
      return false;
  }
  return power == 3;
}

/// sqrt(2 / pi) * (x + 0.044715 x^3), also factored as x * (1 + 0.044715 x^2).
bool isTanhArgument(Value v, Value x) {
  Product p = collectFactors(v);
  if (!close(p.number, std::sqrt(2.0 / M_PI)))
    return false;
  if (p.factors.size() == 1) {
    auto sum =
        matchEither<nn::AddOp>(p.factors[0], [&](Value f) { return f == x; });
    return sum && isScaledCube(sum->second, x, 0.044715);
  }
  if (p.factors.size() != 2)
    return false;
  Value other = p.factors[0] == x ? p.factors[1] : p.factors[0];
  auto sum =
      matchEither<nn::AddOp>(other, [](Value f) { return isSplat(f, 1.0); });
  if (!sum || (p.factors[0] != x && p.factors[1] != x))
    return false;
  Product square = collectFactors(sum->second);
  bool two =
      square.factors.size() == 2
          ? square.factors[0] == x && square.factors[1] == x
          : square.factors.size() == 1 && matchSquare(square.factors[0]) == x;
  return two && close(square.number, 0.044715);
}

/// 0.5 * x * (1 + erf(x / sqrt 2))  and the tanh form.
struct Gelu : OpRewritePattern<nn::MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::MulOp mul,
                                PatternRewriter &rewriter) const override {
    Product p = collectFactors(mul);
    if (p.factors.size() != 2 || !close(p.number, 0.5))
      return failure();
    for (int i : {0, 1}) {
      auto sum = matchEither<nn::AddOp>(
          p.factors[i], [](Value f) { return isSplat(f, 1.0); });
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
};

struct RaiseElementwisePass
    : import::impl::RaiseElementwiseBase<RaiseElementwisePass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<BiasIntoLinear, LinearOfReshape, Silu, Gelu>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
