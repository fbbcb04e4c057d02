//===- RaiseExperts.cpp - Recover products of rows by experts' weights ----===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// docs/experts.md. Exporters gather the weight of each row's expert and
// multiply in a batch of one row each.
//
//===----------------------------------------------------------------------===//

#include "passes/import/Match.h"
#include "passes/import/Passes.h"

using namespace mlir;
using namespace dt;
using namespace dt::import;
using nn::DimExpr;

namespace dt::import {
#define GEN_PASS_DEF_RAISEEXPERTS
#include "passes/import/Passes.h.inc"
} // namespace dt::import

namespace {

/// table[ids] along the first axis.
struct Picked {
  Value table, ids;
};

/// Whether a value is a parameter, or a view of one.
bool isWeight(Value v) {
  while (Operation *op = v.getDefiningOp()) {
    if (isa<nn::ReadOp>(op))
      return true;
    if (!isa<nn::ReshapeOp, nn::TransposeOp, nn::SliceOp, nn::CastOp>(op))
      return false;
    v = op->getOperand(0);
  }
  return false;
}

/// `rank`: of the table.
std::optional<Picked> matchPicked(Value v, size_t rank) {
  Picked picked;
  if (auto gather = v.getDefiningOp<nn::GatherOp>()) {
    if (gather.getAxis() != 0 || gather.getZeroOutOfRange() ||
        gather.getInOrder())
      return std::nullopt;
    picked = {gather.getInput(), gather.getIndices()};
  } else if (auto tuples = v.getDefiningOp<nn::GatherNdOp>()) {
    if (tuples.getBatchDims() != 0 ||
        nn::getShape(tuples.getIndices()).back() != DimExpr(1))
      return std::nullopt;
    picked = {tuples.getInput(), tuples.getIndices()};
  } else {
    return std::nullopt;
  }
  if (nn::getShape(picked.table).size() != rank || !isWeight(picked.table))
    return std::nullopt;
  return picked;
}

Value reshape(OpBuilder &b, Location loc, Value v, ArrayRef<DimExpr> shape) {
  if (nn::getShape(v) == nn::Shape(shape))
    return v;
  Type element = getElementTypeOrSelf(v.getType());
  return nn::ReshapeOp::create(b, loc, nn::makeTensorType(shape, element), v);
}

/// W[ids] x, with one row a number: x [.., in, 1], or [.., 1, in] on the left.
struct RowProduct {
  Picked picked;
  Value row;
  bool inOut;

  static std::optional<RowProduct> match(nn::MatmulOp op) {
    nn::Shape result = nn::getShape(op.getResult());
    size_t rank = result.size();
    if (auto picked = matchPicked(op.getLhs(), 3);
        picked && result[rank - 1] == DimExpr(1))
      return RowProduct{*picked, op.getRhs(), op.getTransA()}.checked(result);
    if (auto picked = matchPicked(op.getRhs(), 3);
        picked && result[rank - 2] == DimExpr(1))
      return RowProduct{*picked, op.getLhs(), !op.getTransB()}.checked(result);
    return std::nullopt;
  }

private:
  /// Each row has a number of its own.
  std::optional<RowProduct> checked(ArrayRef<DimExpr> result) const {
    DimExpr rows = nn::getNumElements(result.drop_back(2));
    DimExpr in = nn::getShape(picked.table)[inOut ? 1 : 2];
    if (nn::getNumElements(nn::getShape(picked.ids)) != rows ||
        nn::getNumElements(nn::getShape(row)) != rows * in)
      return std::nullopt;
    return *this;
  }
};

LogicalResult raiseProduct(nn::MatmulOp matmul, PatternRewriter &rewriter) {
  std::optional<RowProduct> p = RowProduct::match(matmul);
  if (!p)
    return failure();
  Location loc = matmul.getLoc();
  nn::Shape result = nn::getShape(matmul.getResult());
  DimExpr rows = nn::getNumElements(nn::getShape(p->picked.ids));
  DimExpr in = nn::getShape(p->picked.table)[p->inOut ? 1 : 2];
  Value x = reshape(rewriter, loc, p->row, {rows, in});
  Value ids = reshape(rewriter, loc, p->picked.ids, {rows});
  Value y = nn::ExpertLinearOp::create(rewriter, loc, x, ids, p->picked.table,
                                       Value(), p->inOut);
  rewriter.replaceOp(matmul, reshape(rewriter, loc, y, result));
  return success();
}

/// The product that is `v` with other dims, if nothing else uses it.
nn::ExpertLinearOp matchProduct(Value v) {
  while (auto reshape = v.getDefiningOp<nn::ReshapeOp>()) {
    if (!reshape->hasOneUse())
      return {};
    v = reshape.getInput();
  }
  auto product = v.getDefiningOp<nn::ExpertLinearOp>();
  return product && product->hasOneUse() ? product : nn::ExpertLinearOp();
}

/// expert_linear(x, W) + b[ids]  ->  expert_linear(x, W, b)
LogicalResult raiseBias(nn::AddOp add, PatternRewriter &rewriter) {
  auto pair = matchEither<nn::AddOp>(add, [](Value v) {
    nn::ExpertLinearOp product = matchProduct(v);
    return product && !product.getBias();
  });
  if (!pair || pair->first.getType() != add.getType())
    return failure();
  nn::ExpertLinearOp product = matchProduct(pair->first);
  auto bias = matchPicked(nn::throughReshapes(pair->second), 2);
  if (!bias || nn::throughReshapes(bias->ids) !=
                   nn::throughReshapes(product.getExperts()))
    return failure();
  nn::Shape rows = nn::getShape(product.getResult());
  nn::Shape weight = nn::getShape(product.getWeight());
  // The row's own bias is added to it.
  nn::Shape added = nn::getShape(pair->second);
  if (nn::getShape(bias->table) != nn::Shape{weight[0], rows[1]} ||
      nn::getNumElements(added) != rows[0] * rows[1])
    return failure();
  Value y = nn::ExpertLinearOp::create(
      rewriter, add.getLoc(), product.getInput(), product.getExperts(),
      product.getWeight(), bias->table, product.getInOut());
  rewriter.replaceOp(
      add, reshape(rewriter, add.getLoc(), y, nn::getShape(add.getResult())));
  return success();
}

/// expert_linear(x, W) * s  ->  expert_linear(x * s, W) for one factor a row,
/// where that is fewer numbers: the gradient of s needs what is multiplied.
LogicalResult raiseFactor(nn::MulOp mul, PatternRewriter &rewriter) {
  auto pair = matchEither<nn::MulOp>(
      mul, [](Value v) { return bool(matchProduct(v)); });
  if (!pair || pair->first.getType() != mul.getType())
    return failure();
  nn::ExpertLinearOp product = matchProduct(pair->first);
  nn::Shape in = nn::getShape(product.getInput());
  DimExpr out = nn::getShape(product.getResult())[1];
  std::optional<int64_t> narrow = in[1].asConstant(), wide = out.asConstant();
  nn::Shape factor = nn::getShape(pair->second);
  bool oneEach = !factor.empty() && factor.back() == DimExpr(1) &&
                 nn::getShape(mul.getResult()).back() == out &&
                 nn::getNumElements(factor) == in[0];
  if (product.getBias() || !oneEach || !narrow || !wide || *narrow >= *wide)
    return failure();
  Location loc = mul.getLoc();
  Value s = reshape(rewriter, loc, pair->second, {in[0], DimExpr(1)});
  Value x = nn::MulOp::create(rewriter, loc, product.getInput(), s);
  Value y = nn::ExpertLinearOp::create(rewriter, loc, x, product.getExperts(),
                                       product.getWeight(), Value(),
                                       product.getInOut());
  rewriter.replaceOp(mul,
                     reshape(rewriter, loc, y, nn::getShape(mul.getResult())));
  return success();
}

struct RaiseExperts : import::impl::RaiseExpertsBase<RaiseExperts> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add(raiseProduct);
    patterns.add(raiseBias);
    patterns.add(raiseFactor);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
