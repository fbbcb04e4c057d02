//===- Routers.cpp - Losses of routers, auxiliary to others -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Of scores [samples, .., experts], before any softmax (docs/routers.md).
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/losses/LossBuilder.h"
#include "models/frontend/recipe/losses/LossRule.h"

using namespace mlir;

namespace dt::models {

namespace {

/// Scores as float32 [samples, rows of one, experts]; null with an error where
/// a sample has no fixed number of rows.
Value bySample(LossBuilder &l, Value scores) {
  nn::Shape shape = nn::getShape(scores);
  std::optional<int64_t> experts =
      shape.size() < 2 ? std::nullopt : shape.back().asConstant();
  nn::DimExpr samples = shape.empty() ? nn::DimExpr(1) : shape[0];
  nn::DimExpr rows = 1;
  // [c * samples, ..]: c rows of a sample, one after another.
  if (samples.terms().size() == 1 && !samples.asConstant()) {
    rows = nn::DimExpr(samples.terms()[0].coefficient);
    samples = *samples.exactDiv(rows);
  }
  if (experts)
    rows = rows * nn::getNumElements(ArrayRef(shape).drop_front().drop_back());
  if (!experts || !rows.asConstant()) {
    emitError(l.loc) << "a loss of routers needs scores [samples, .., experts] "
                        "whose other dims are numbers, not "
                     << scores.getType();
    return {};
  }
  if (!getElementTypeOrSelf(scores).isF32())
    scores = l.make<nn::CastOp>(
        nn::withElementType(scores.getType(), l.b.getF32Type()), scores);
  return l.make<nn::ReshapeOp>(
      nn::makeTensorType({samples, rows, shape.back()}, l.b.getF32Type()),
      scores);
}

/// Adds along the rows of a sample, over their number.
Value meanOfSample(LossBuilder &l, Value values) {
  return l.make<nn::ReduceOp>(nn::ReduceKind::mean, values,
                              ArrayRef<int64_t>{1}, false);
}

/// How often each row chose each expert, [samples, rows, experts]: 1 from the
/// k-th largest score on. It has no gradient.
Value choices(LossBuilder &l, Value scores, int64_t each) {
  nn::Shape shape = nn::getShape(scores);
  shape.back() = nn::DimExpr(each);
  Type f32 = l.b.getF32Type(), i64 = l.b.getI64Type();
  auto top =
      l.make<nn::TopKOp>(nn::makeTensorType(shape, f32),
                         nn::makeTensorType(shape, i64), scores, 2, false);
  // [.., k, 1] == [experts]
  shape.push_back(nn::DimExpr(1));
  Value chosen =
      l.make<nn::ReshapeOp>(nn::makeTensorType(shape, i64), top.getIndices());
  Value numbers = l.rowNumbers(nn::getShape(scores).back());
  Value same = l.make<nn::CmpOp>(nn::Compare::eq, chosen, numbers);
  shape.back() = nn::getShape(scores).back();
  Value ones = l.make<nn::CastOp>(nn::makeTensorType(shape, f32), same);
  return l.make<nn::ReduceOp>(nn::ReduceKind::sum, ones, ArrayRef<int64_t>{2},
                              false);
}

/// How often each expert was chosen in a sample, over its rows: [samples,
/// experts]; null with an error. `scores`: as bySample() gives them.
Value loadsOfSamples(LossBuilder &l, Value scores) {
  int64_t experts = nn::getShape(scores)[2].constant(), each = l.loss.setting;
  if (each >= 1 && each <= experts)
    return meanOfSample(l, choices(l, scores, each));
  emitError(l.loc) << "\"experts_per_token\" is " << each
                   << "; expected 1 to the router's " << experts;
  return {};
}

/// Of each item with each: sums of products of their rows, [samples, samples].
/// A mean over samples alone would be a part's where the batch is cut, and is
/// an error; behind this it is one over the batch.
Value pairs(LossBuilder &l, Value rows, Value others) {
  return l.make<nn::MatmulOp>(
      rows, l.make<nn::TransposeOp>(others, ArrayRef<int64_t>{1, 0}));
}

/// experts * sum over experts of (share of rows that chose it) * (its mean
/// probability): Switch Transformers (Fedus et al. 2021), section 2.2, for k
/// choices of a row as transformers' load_balancing_loss_func. Both means are
/// over the batch, so the product is one of every sample with every other; a
/// row of the products is as long as there are samples.
Value loadBalance(LossBuilder &l, Value output) {
  Value scores = bySample(l, output);
  Value chosen = scores ? loadsOfSamples(l, scores) : Value();
  if (!chosen)
    return {};
  nn::Shape shape = nn::getShape(scores);
  Value likely = meanOfSample(l, l.make<nn::SoftmaxOp>(scores, 2));
  Value means =
      l.make<nn::ReduceOp>(nn::ReduceKind::mean, pairs(l, chosen, likely),
                           ArrayRef<int64_t>{1}, false);
  l.countElements(nn::makeTensorType({shape[0]}, l.b.getF32Type()));
  Value sum = l.sum(means);
  return l.make<nn::MulOp>(sum,
                           l.splat(sum.getType(), double(shape[2].constant())));
}

/// Rows of the expert with the most, over those of one on average; it has no
/// gradient. A sample's loads are k together, so with another's they make pairs
/// of k^2, of which a mean over samples is one over the batch.
Value maxLoad(LossBuilder &l, Value output) {
  if (l.loss.weight != 0) {
    emitError(l.loc) << "a max_load trains nothing, expected \"weight\": 0";
    return {};
  }
  Value scores = bySample(l, output);
  Value chosen = scores ? loadsOfSamples(l, scores) : Value();
  if (!chosen)
    return {};
  double each = double(l.loss.setting);
  nn::DimExpr samples = nn::getShape(chosen)[0],
              experts = nn::getShape(chosen)[1];
  Type f32 = l.b.getF32Type();
  auto mean = [&](Value value, int64_t axis) -> Value {
    return l.make<nn::ReduceOp>(nn::ReduceKind::mean, value,
                                ArrayRef<int64_t>{axis}, false);
  };
  Value total = l.make<nn::ReduceOp>(nn::ReduceKind::sum, chosen,
                                     ArrayRef<int64_t>{1}, true);
  Value column =
      l.make<nn::ReshapeOp>(nn::makeTensorType({samples, nn::DimExpr(1)}, f32),
                            mean(pairs(l, total, total), 1));
  Value loads = mean(l.make<nn::MulOp>(chosen, column), 0);
  Value most = l.make<nn::ReduceOp>(nn::ReduceKind::max, loads,
                                    ArrayRef<int64_t>{0}, false);
  auto perSample = nn::makeTensorType({samples}, f32);
  l.countElements(perSample);
  Value sum = l.sum(l.make<nn::BroadcastOp>(perSample, most));
  return l.make<nn::MulOp>(sum,
                           l.splat(sum.getType(), double(experts.constant()) /
                                                      (each * each * each)));
}

/// Mean of (log of the sum of exp(scores))^2: ST-MoE (Zoph et al. 2022),
/// equation 5. It is the loss of any class plus its score.
Value routerZ(LossBuilder &l, Value output) {
  Value scores = bySample(l, output);
  if (!scores)
    return {};
  nn::Shape rows = nn::getShape(scores);
  rows.pop_back();
  auto labels = nn::makeTensorType(rows, l.b.getI64Type());
  Value first = l.make<nn::BroadcastOp>(labels, l.splat(labels, 0));
  Value loss = l.make<nn::CrossEntropyOp>(scores, first, Value(), -100);
  nn::Shape column = nn::getShape(scores);
  column.back() = nn::DimExpr(1);
  Value score = l.make<nn::SliceOp>(
      nn::makeTensorType(column, l.b.getF32Type()), scores,
      ArrayRef<int64_t>{0, 0, 0}, ArrayRef<int64_t>{1, 1, 1});
  auto flat = nn::makeTensorType(rows, l.b.getF32Type());
  Value z = l.make<nn::AddOp>(loss, l.make<nn::ReshapeOp>(flat, score));
  l.countElements(flat);
  return l.sum(l.make<nn::MulOp>(z, z));
}

} // namespace

void addRouters(LossRules &rules) {
  rules.push_back(
      {"load_balance", "logits", "", loadBalance, "experts_per_token", 0});
  rules.push_back({"max_load", "logits", "", maxLoad, "experts_per_token", 0});
  rules.push_back({"router_z", "logits", "", routerZ});
}

} // namespace dt::models
