//===- RulesLoss.cpp - Losses that ONNX has operators for -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A loss a row, then an explicit sum and an explicit count: that is what later
// phases take apart into numerator and denominator.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/import/NodeImporter.h"

using namespace mlir;
using namespace dt;
using namespace dt::models;

namespace {
/// Scores [n, c, ...] with the classes last.
Value classesLast(NodeImporter &n, Value v) {
  SmallVector<int64_t> permutation{0};
  for (int64_t i = 2; i < n.rank(0); ++i)
    permutation.push_back(i);
  permutation.push_back(1);
  return n.transpose(v, permutation);
}

LogicalResult check(NodeImporter &n) {
  Shape scores = n.shape(0), labels = n.shape(1);
  if (scores.size() < 2)
    return n.fail("scores need a class axis");
  scores.erase(scores.begin() + 1);
  if (scores != labels)
    return n.fail("labels " + nn::shapeToString(labels) +
                  " do not fit scores " + nn::shapeToString(n.shape(0)));
  return success();
}

/// -scores[label] a row, 0 where the label is ignored.
Value pickRows(NodeImporter &n, Value scores, Value labels, int64_t ignore) {
  Type type = n.element(1);
  Value valid = n.compare(nn::Compare::ne, labels,
                          n.number(static_cast<double>(ignore), type));
  Value safe = n.make<nn::WhereOp>({valid, labels, n.number(0, type)});
  int64_t last = n.rank(0) - 1;
  Value picked = n.make<nn::GatherElementsOp>({scores, n.unsqueeze(safe, last)},
                                              n.i64("axis", last));
  Value loss = n.make<nn::NegOp>(n.squeeze(picked, last));
  return n.make<nn::WhereOp>({valid, loss, n.number(0, n.element(0))});
}

/// What a row counts: 1 or its class's weight, 0 if ignored.
Value rowWeights(NodeImporter &n, Value labels, int64_t ignore) {
  Value valid = n.compare(nn::Compare::ne, labels,
                          n.number(static_cast<double>(ignore), n.element(1)));
  Value one = n.castTo(valid, n.element(0));
  if (!n.has(2))
    return one;
  Value w = n.make<nn::GatherOp>(
      {n.value(2), labels}, {n.i64("axis", 0), n.unit("zero_out_of_range")});
  return n.make<nn::MulOp>({w, one});
}

LogicalResult setReduced(NodeImporter &n, Value rows, Value labels,
                         int64_t ignore) {
  std::string reduction = n.stringAttr("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    return n.fail("reduction '" + reduction + "' is not handled");
  Value weights;
  if (n.has(2) || reduction == "mean")
    weights = rowWeights(n, labels, ignore);
  if (n.has(2))
    rows = n.make<nn::MulOp>({rows, weights});
  if (reduction == "none")
    return n.set(0, rows);
  SmallVector<int64_t> axes;
  for (int64_t i = 0; i < n.rank(1); ++i)
    axes.push_back(i);
  Value sum = n.reduce(nn::ReduceKind::sum, rows, axes, /*keepdims=*/false);
  if (reduction == "sum")
    return n.set(0, sum);
  Value count = n.reduce(nn::ReduceKind::sum, weights, axes, false);
  return n.set(0, n.make<nn::DivOp>({sum, count}));
}

/// Without the attribute no label is ignored; -100 is no class either.
int64_t ignored(NodeImporter &n) { return n.intAttr("ignore_index", -100); }

LogicalResult softmaxCrossEntropy(NodeImporter &n) {
  if (failed(check(n)))
    return failure();
  Value labels = n.value(1), logits = classesLast(n, n.value(0));
  int64_t ignore = ignored(n);
  Value rows = n.make<nn::CrossEntropyOp>({logits, labels},
                                          n.i64("ignore_index", ignore));
  if (n.wants(1) &&
      failed(n.set(1, n.make<nn::LogSoftmaxOp>(n.value(0), n.i64("axis", 1)))))
    return failure();
  return setReduced(n, rows, labels, ignore);
}

LogicalResult negativeLogLikelihood(NodeImporter &n) {
  if (failed(check(n)))
    return failure();
  Value labels = n.value(1), scores = classesLast(n, n.value(0));
  int64_t ignore = ignored(n);
  return setReduced(n, pickRows(n, scores, labels, ignore), labels, ignore);
}
} // namespace

void models::addLossRules(RuleTable &rules) {
  rules["SoftmaxCrossEntropyLoss"] = softmaxCrossEntropy;
  rules["NegativeLogLikelihoodLoss"] = negativeLogLikelihood;
}
