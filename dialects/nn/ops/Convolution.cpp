//===- Convolution.cpp - Convolutions and pooling ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNCost.h"
#include "dialects/nn/NNGradient.h"
#include "dialects/nn/NNInference.h"
#include "dialects/nn/NNRuleBuilder.h"

using namespace mlir;
using namespace dt::nn;

static constexpr char kNeedsWindow[] =
    "needs 1 to 3 spatial axes with a stride, dilation and two pads each";

template <typename Op> static bool hasWindow(Op op, Value image) {
  size_t rank = getShape(image).size(), spatial = rank < 3 ? 0 : rank - 2;
  return spatial >= 1 && spatial <= 3 && op.getStrides().size() == spatial &&
         op.getDilations().size() == spatial &&
         op.getPads().size() == 2 * spatial;
}

template <typename Op> static LogicalResult verifyWindow(Op op, Value image) {
  if (!hasWindow(op, image))
    return op.emitOpError(kNeedsWindow);
  if (llvm::any_of(op.getStrides(), [](int64_t s) { return s < 1; }) ||
      llvm::any_of(op.getDilations(), [](int64_t d) { return d < 1; }))
    return op.emitOpError("needs positive strides and dilations");
  return success();
}

//===----------------------------------------------------------------------===//
// Convolution
//===----------------------------------------------------------------------===//

/// Of a convolution and both its gradients: each element on the output's side
/// meets each weight of its channel.
static DimExpr convFlops(Value output, Value weight) {
  Shape w = getShape(weight);
  return elements(output) * getNumElements(ArrayRef(w).drop_front()) *
         DimExpr(2);
}

namespace {
/// Factors of a convolution and both its gradients: channels are groups times
/// channels a group; space is never cut (that needs halos).
struct ConvFactors {
  ConvFactors(RuleBuilder &b, Value image, Value weight, uint64_t groups)
      : b(b), groups(groups) {
    Shape w = getShape(weight);
    n = b.factor(getShape(image)[0]);
    if (groups > 1)
      g = b.factor(DimExpr(groups), FactorKind::group);
    c = b.factor(w[1]);
    o = b.factor(*w[0].exactDiv(DimExpr(groups)));
  }
  Letters channels(unsigned inner) const {
    return groups > 1 ? Letters{g, inner} : Letters{inner};
  }
  void space(ShardingRule::Dims &dims, ArrayRef<DimExpr> shape) {
    for (size_t i = 2; i < shape.size(); ++i)
      dims[i] = {b.factor(shape[i], FactorKind::replicate)};
  }
  void setImage(ShardingRule::Dims &dims, Value v, unsigned inner) {
    dims[0] = {n};
    Letters list = channels(inner);
    dims[1].assign(list.begin(), list.end());
    space(dims, getShape(v));
  }
  void setWeight(ShardingRule::Dims &dims, Value v) {
    Letters list = channels(o);
    dims[0].assign(list.begin(), list.end());
    dims[1] = {c};
    space(dims, getShape(v));
  }
  RuleBuilder &b;
  uint64_t groups;
  unsigned n, g = 0, c, o;
};
} // namespace

/// The result's size along one spatial axis with padding `low` and `high`.
static LogicalResult convolvedSize(MaybeLoc loc, const DimExpr &size,
                                   const DimExpr &kernel, int64_t stride,
                                   int64_t dilation, int64_t low, int64_t high,
                                   Shape &result) {
  std::optional<int64_t> in = size.asConstant(), k = kernel.asConstant();
  if (!k || stride < 1)
    return fail(loc, "kernel sizes must be numbers and strides positive");
  // Numbers of a file: a kernel's reach and the padding are bounded, so that
  // what follows fits into 64 bits.
  constexpr int64_t most = int64_t(1) << 40;
  int64_t reach, pad;
  if (*k < 1 || dilation < 1 ||
      llvm::MulOverflow<int64_t>(dilation, *k - 1, reach) || reach >= most)
    return fail(loc, "kernel sizes and dilations must be at least 1 and reach "
                     "over less than 2^40 elements");
  ++reach;
  if (llvm::AddOverflow<int64_t>(low, high, pad) || std::abs(pad) >= most ||
      (in && *in >= std::numeric_limits<int64_t>::max() - most))
    return fail(loc, "paddings must be less than 2^40");
  if (in) {
    if (*in + pad < reach)
      return fail(loc, "kernel is larger than the padded input");
    result.push_back(DimExpr((*in + pad - reach) / stride + 1));
  } else if (stride == 1) {
    result.push_back(size + DimExpr(pad - reach + 1));
  } else {
    // floor division of a symbol is no polynomial
    std::optional<DimExpr> steps =
        (size + DimExpr(pad - reach)).exactDiv(DimExpr(stride));
    if (!steps)
      return fail(loc, "spatial size " + size.str() +
                           " must be bound to a number under stride " +
                           Twine(stride));
    result.push_back(*steps + DimExpr(1));
  }
  return success();
}

LogicalResult ConvOp::inferReturnTypes(MLIRContext *, MaybeLoc loc, Adaptor op,
                                       Types &out) {
  Shape x = getShape(op.getInput()), w = getShape(op.getWeight());
  if (w.size() != x.size() || !hasWindow(op, op.getInput()))
    return fail(loc, kNeedsWindow);
  if (x[1] != w[1] * DimExpr(op.getGroups()))
    return fail(loc, "input has " + x[1].str() +
                         " channels, the weight takes " +
                         (w[1] * DimExpr(op.getGroups())).str());
  if (op.getBias() && getShape(op.getBias()) != Shape{w[0]})
    return fail(loc, "bias must be [" + w[0].str() + "]");
  Shape y = {x[0], w[0]};
  size_t spatial = x.size() - 2;
  for (size_t i = 0; i < spatial; ++i)
    if (failed(convolvedSize(loc, x[i + 2], w[i + 2], op.getStrides()[i],
                             op.getDilations()[i], op.getPads()[i],
                             op.getPads()[i + spatial], y)))
      return failure();
  out.push_back(makeTensorType(y, elementOf(op.getInput())));
  return success();
}

LogicalResult ConvOp::buildVjp(OpBuilder &builder, ValueRange grads,
                               Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  Value dy = grads[0];
  if (wanted[0])
    result[0] =
        g.make<ConvDxOp>(getInput().getType(), dy, getWeight(), getStrides(),
                         getPads(), getDilations(), getGroups());
  if (wanted[1])
    result[1] =
        g.make<ConvDwOp>(getWeight().getType(), getInput(), dy, getStrides(),
                         getPads(), getDilations(), getGroups());
  if (getBias() && wanted[2])
    result[2] = g.sumChannels(dy);
  return success();
}

DimExpr ConvOp::getFlops() { return convFlops(getResult(), getWeight()); }
PrecisionRule ConvOp::getPrecisionRule() { return sumsInFull(*this); }
ShardingRule ConvOp::getShardingRule() {
  RuleBuilder b(*this);
  ConvFactors f(b, getInput(), getWeight(), getGroups());
  f.setImage(b.rule.operands[0], getInput(), f.c);
  f.setWeight(b.rule.operands[1], getWeight());
  f.setImage(b.rule.results[0], getResult(), f.o);
  if (getBias())
    b.operandDim(2, 0, f.channels(f.o));
  return b.finishProduct(getBias());
}

ItemState ConvOp::inferItems(ItemStates operands, const ItemContext &) {
  return leadingItems(*this, operands, 1);
}

LogicalResult ConvDxOp::verify() {
  if (failed(verifyWindow(*this, getGrad())))
    return failure();
  Shape dy = getShape(getGrad()), w = getShape(getWeight()),
        dx = getShape(getResult());
  if (w.size() != dy.size() || dx.size() != dy.size() || dy[1] != w[0] ||
      dx[0] != dy[0] || dx[1] != w[1] * DimExpr(getGroups()))
    return emitOpError() << "gradient " << shapeToString(dy) << " and weight "
                         << shapeToString(w) << " do not give "
                         << shapeToString(dx);
  return success();
}

LogicalResult ConvDxOp::buildVjp(OpBuilder &builder, ValueRange grads,
                                 Wanted wanted, Gradients &result) {
  // As the transposed convolution: its gradient is the convolution.
  GradientBuilder g(builder, *this);
  Value dy = grads[0];
  if (wanted[0])
    result[0] = g.make<ConvOp>(dy, getWeight(), Value(), getStrides(),
                               getPads(), getDilations(), getGroups());
  if (wanted[1])
    result[1] =
        g.make<ConvDwOp>(getWeight().getType(), dy, getGrad(), getStrides(),
                         getPads(), getDilations(), getGroups());
  return success();
}

DimExpr ConvDxOp::getFlops() { return convFlops(getGrad(), getWeight()); }
PrecisionRule ConvDxOp::getPrecisionRule() { return sumsInFull(*this); }
ShardingRule ConvDxOp::getShardingRule() {
  RuleBuilder b(*this);
  ConvFactors f(b, getGrad(), getWeight(), getGroups());
  f.setImage(b.rule.operands[0], getGrad(), f.o);
  f.setWeight(b.rule.operands[1], getWeight());
  f.setImage(b.rule.results[0], getResult(), f.c);
  return b.finishProduct();
}

ItemState ConvDxOp::inferItems(ItemStates operands, const ItemContext &) {
  return leadingItems(*this, operands, 1);
}

LogicalResult ConvDwOp::verify() {
  if (failed(verifyWindow(*this, getInput())))
    return failure();
  Shape x = getShape(getInput()), dy = getShape(getGrad()),
        dw = getShape(getResult());
  if (dy.size() != x.size() || dw.size() != x.size() || x[0] != dy[0] ||
      dw[0] != dy[1] || dw[1] * DimExpr(getGroups()) != x[1])
    return emitOpError() << "input " << shapeToString(x) << " and gradient "
                         << shapeToString(dy) << " do not give "
                         << shapeToString(dw);
  return success();
}

DimExpr ConvDwOp::getFlops() { return convFlops(getGrad(), getResult()); }
PrecisionRule ConvDwOp::getPrecisionRule() { return sumsUp(*this); }
ShardingRule ConvDwOp::getShardingRule() {
  RuleBuilder b(*this);
  ConvFactors f(b, getInput(), getResult(), getGroups());
  f.setImage(b.rule.operands[0], getInput(), f.c);
  f.setImage(b.rule.operands[1], getGrad(), f.o);
  f.setWeight(b.rule.results[0], getResult());
  return b.finishProduct();
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

static DimExpr windowSize(ArrayRef<int64_t> kernel) {
  int64_t n = 1;
  for (int64_t k : kernel)
    n *= k;
  return n;
}

/// Sample and channel pass, each value's space is its own. `linear`: operand in
/// which the op is linear, if any.
static ShardingRule pooledRule(Operation *op, std::optional<unsigned> linear) {
  RuleBuilder b(op);
  b.letters(ArrayRef(getShape(op->getOperand(0))).take_front(2));
  auto set = [&](ShardingRule::Dims &dims, Value v) {
    Shape shape = getShape(v);
    dims[0] = {0};
    dims[1] = {1};
    for (size_t i = 2; i < shape.size(); ++i)
      dims[i] = {b.factor(shape[i], FactorKind::replicate)};
  };
  for (auto [i, v] : llvm::enumerate(op->getOperands()))
    set(b.rule.operands[i], v);
  set(b.rule.results[0], op->getResult(0));
  if (linear)
    b.linear({*linear});
  return b.finish();
}

LogicalResult PoolOp::verify() {
  if (failed(verifyWindow(*this, getInput())))
    return failure();
  Shape in = getShape(getInput()), out = getShape(getResult());
  if (getKernel().size() + 2 != in.size() || out.size() != in.size() ||
      in[0] != out[0] || in[1] != out[1])
    return emitOpError() << "does not turn " << shapeToString(in) << " into "
                         << shapeToString(out);
  return success();
}

LogicalResult PoolOp::buildVjp(OpBuilder &builder, ValueRange grads,
                               Wanted wanted, Gradients &result) {
  GradientBuilder g(builder, *this);
  if (wanted[0])
    result[0] = g.make<PoolDxOp>(getKind(), getInput(), grads[0], getKernel(),
                                 getStrides(), getPads(), getDilations());
  return success();
}

DimExpr PoolOp::getFlops() {
  return elements(getResult()) * windowSize(getKernel());
}
PrecisionRule PoolOp::getPrecisionRule() { return sumsInFull(*this); }
ShardingRule PoolOp::getShardingRule() {
  bool linear = getKind() != PoolKind::max;
  return pooledRule(*this, linear ? std::optional(0u) : std::nullopt);
}

ItemState PoolOp::inferItems(ItemStates operands, const ItemContext &) {
  return leadingItems(*this, operands, 1);
}

DimExpr PoolDxOp::getFlops() {
  return elements(getGrad()) * windowSize(getKernel());
}
PrecisionRule PoolDxOp::getPrecisionRule() { return sumsInFull(*this); }
ShardingRule PoolDxOp::getShardingRule() { return pooledRule(*this, 1); }
