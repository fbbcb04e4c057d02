//===- RulesActivation.cpp - Activations and softmax ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Constants are the operators' defaults in the ONNX specification.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/import/NodeImporter.h"

using namespace mlir;
using namespace dt;
using namespace dt::models;

namespace {
template <typename OpT> LogicalResult plain(NodeImporter &n) {
  return n.set(0, n.make<OpT>(n.value(0)));
}

LogicalResult gelu(NodeImporter &n) {
  std::string form = n.stringAttr("approximate", "none");
  if (form != "none" && form != "tanh")
    return n.fail("approximate '" + form + "' is not none or tanh");
  SmallVector<NamedAttribute> attributes;
  if (form == "tanh")
    attributes.push_back(n.unit("tanh"));
  return n.set(0, n.make<nn::GeluOp>(n.value(0), attributes));
}

LogicalResult relu(NodeImporter &n) {
  if (n.isFloat(0))
    return plain<nn::ReluOp>(n);
  return n.set(0, n.make<nn::MaxOp>({n.value(0), n.number(0, n.element(0))}));
}

LogicalResult leakyRelu(NodeImporter &n) {
  return n.set(0, n.make<nn::LeakyReluOp>(
                      n.value(0), n.f64("alpha", n.floatAttr("alpha", 0.01))));
}

LogicalResult elu(NodeImporter &n) {
  return n.set(0, n.make<nn::EluOp>(n.value(0),
                                    n.f64("alpha", n.floatAttr("alpha", 1.0))));
}

LogicalResult selu(NodeImporter &n) {
  double alpha = n.floatAttr("alpha", 1.67326319217681884765625);
  double gamma = n.floatAttr("gamma", 1.05070102214813232421875);
  return n.set(0, n.make<nn::EluOp>(n.value(0), {n.f64("alpha", alpha),
                                                 n.f64("scale", gamma)}));
}

/// max(0, x) + min(0, alpha (exp(x / alpha) - 1)) = alpha elu(x / alpha)
LogicalResult celu(NodeImporter &n) {
  double alpha = n.floatAttr("alpha", 1.0);
  if (alpha == 0)
    return n.fail("alpha is 0");
  Value x = n.make<nn::MulOp>({n.value(0), n.number(1 / alpha, n.element(0))});
  Value y = n.make<nn::EluOp>(x);
  return n.set(0, n.make<nn::MulOp>({y, n.number(alpha, n.element(0))}));
}

Value hardSigmoidOf(NodeImporter &n, Value x, double alpha, double beta) {
  return n.make<nn::HardSigmoidOp>(
      x, {n.f64("alpha", alpha), n.f64("beta", beta)});
}

LogicalResult hardSigmoid(NodeImporter &n) {
  return n.set(0, hardSigmoidOf(n, n.value(0), n.floatAttr("alpha", 0.2),
                                n.floatAttr("beta", 0.5)));
}

LogicalResult hardSwish(NodeImporter &n) {
  Value x = n.value(0);
  return n.set(0, n.make<nn::MulOp>({x, hardSigmoidOf(n, x, 1.0 / 6.0, 0.5)}));
}

LogicalResult softsign(NodeImporter &n) {
  Value x = n.value(0);
  Value below =
      n.make<nn::AddOp>({n.make<nn::AbsOp>(x), n.number(1, n.element(0))});
  return n.set(0, n.make<nn::DivOp>({x, below}));
}

LogicalResult mish(NodeImporter &n) {
  Value x = n.value(0);
  Value t = n.make<nn::TanhOp>(n.make<nn::SoftplusOp>(x));
  return n.set(0, n.make<nn::MulOp>({x, t}));
}

LogicalResult swish(NodeImporter &n) {
  double alpha = n.floatAttr("alpha", 1.0);
  Value x = n.value(0);
  if (alpha == 1)
    return n.set(0, n.make<nn::SiluOp>(x));
  Value scaled = n.make<nn::MulOp>({x, n.number(alpha, n.element(0))});
  return n.set(0, n.make<nn::MulOp>({x, n.make<nn::SigmoidOp>(scaled)}));
}

LogicalResult prelu(NodeImporter &n) {
  Value x = n.value(0), slope = n.value(1);
  Value positive = n.compare(nn::Compare::gt, x, n.number(0, n.element(0)));
  return n.set(
      0, n.make<nn::WhereOp>({positive, x, n.make<nn::MulOp>({x, slope})}));
}

LogicalResult thresholdedRelu(NodeImporter &n) {
  Value x = n.value(0);
  Value above = n.compare(nn::Compare::gt, x,
                          n.number(n.floatAttr("alpha", 1.0), n.element(0)));
  return n.set(0, n.make<nn::WhereOp>({above, x, n.number(0, n.element(0))}));
}

template <typename OpT> LogicalResult softmax(NodeImporter &n) {
  FailureOr<int64_t> axis = n.axis(n.intAttr("axis", -1), n.rank(0));
  if (failed(axis))
    return failure();
  return n.set(0, n.make<OpT>(n.value(0), n.i64("axis", *axis)));
}
} // namespace

void models::addActivationRules(RuleTable &rules) {
  rules["Relu"] = relu;
  rules["Gelu"] = gelu;
  rules["LeakyRelu"] = leakyRelu;
  rules["Elu"] = elu;
  rules["Selu"] = selu;
  rules["Celu"] = celu;
  rules["HardSigmoid"] = hardSigmoid;
  rules["HardSwish"] = hardSwish;
  rules["Softsign"] = softsign;
  rules["Mish"] = mish;
  rules["Swish"] = swish;
  rules["PRelu"] = prelu;
  rules["ThresholdedRelu"] = thresholdedRelu;
  rules["Softmax"] = softmax<nn::SoftmaxOp>;
  rules["LogSoftmax"] = softmax<nn::LogSoftmaxOp>;
}
