//===- CrossEntropy.cpp - Cross-entropy of classes --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/losses/LossBuilder.h"
#include "models/frontend/recipe/losses/LossRule.h"

using namespace mlir;

namespace dt::models {

namespace {

/// Over the rows whose label is not the ignored one.
Value crossEntropy(LossBuilder &l, Value logits) {
  nn::Shape shape = nn::getShape(logits);
  if (shape.empty()) {
    emitError(l.loc)
        << "cross_entropy needs logits with an axis of classes, not "
        << logits.getType();
    return {};
  }
  shape.pop_back();
  Value labels = l.getTarget(nn::makeTensorType(shape, l.b.getI64Type()));
  if (!labels)
    return {};
  int64_t ignored = l.loss.setting;
  Value rows = l.make<nn::CrossEntropyOp>(logits, labels, Value(), ignored);
  l.countTargets(labels, [&](OpBuilder &at, Value given) {
    Value counted =
        nn::CmpOp::create(at, l.loc, nn::Compare::ne, given,
                          l.splat(at, given.getType(), double(ignored)));
    return l.sum(at, counted);
  });
  return l.sum(rows);
}

} // namespace

void addCrossEntropy(LossRules &rules) {
  rules.push_back({"cross_entropy", "logits", "labels", crossEntropy,
                   "ignore_index", -100});
}

} // namespace dt::models
