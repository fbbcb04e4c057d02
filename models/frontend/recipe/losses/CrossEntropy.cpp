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

/// Which rows of the chooser are of the kind that the loss is of.
Value chosen(LossBuilder &l, OpBuilder &at, Value chooser) {
  return nn::CmpOp::create(at, l.loc, nn::Compare::eq, chooser,
                           l.splat(at, chooser.getType(), double(l.loss.is)));
}

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
  RankedTensorType type = nn::makeTensorType(shape, l.b.getI64Type());
  Value labels = l.getTarget(type), chooser;
  if (labels && !l.loss.where.empty())
    chooser = l.getChooser(type);
  if (!labels || (!chooser && !l.loss.where.empty()))
    return {};
  int64_t ignored = l.loss.setting;
  l.padTarget(ignored);
  Value rows = l.make<nn::CrossEntropyOp>(logits, labels, Value(), ignored);
  if (chooser)
    rows = l.make<nn::WhereOp>(chosen(l, l.b, chooser), rows,
                               l.splat(rows.getType(), 0));
  l.countTargets(labels, chooser, [&](OpBuilder &at, ValueRange given) {
    Value counted =
        nn::CmpOp::create(at, l.loc, nn::Compare::ne, given[0],
                          l.splat(at, given[0].getType(), double(ignored)));
    if (chooser)
      counted = nn::AndOp::create(at, l.loc, counted, chosen(l, at, given[1]));
    return l.sum(at, counted);
  });
  return l.sum(rows);
}

} // namespace

void addCrossEntropy(LossRules &rules) {
  rules.push_back({"cross_entropy", "logits", "labels", crossEntropy,
                   "ignore_index", -100, /*choosesRows=*/true});
}

} // namespace dt::models
