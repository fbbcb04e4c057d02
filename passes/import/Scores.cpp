//===- Scores.cpp - What stands between two products ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/import/Scores.h"
#include "passes/import/Match.h"

#include <cmath>

using namespace mlir;
using namespace dt;
using namespace dt::import;

static bool isProduct(Value v) {
  if (auto reshape = v.getDefiningOp<nn::ReshapeOp>();
      reshape && nn::getRank(v) == 5)
    v = reshape.getInput();
  return static_cast<bool>(v.getDefiningOp<nn::MatmulOp>());
}

std::optional<Scores> import::matchScores(Value v) {
  Scores s;
  bool scaled = false;
  while (true) {
    if (isProduct(v)) {
      s.product = v;
      return s;
    }
    if (auto mul = matchWithSplat<nn::MulOp>(v);
        mul && mul->first.getType() == v.getType()) {
      s.scale *= mul->second;
      v = mul->first;
      scaled = true;
      continue;
    }
    if (auto div = matchWithSplat<nn::DivOp>(v);
        div && div->first.getType() == v.getType()) {
      s.scale /= div->second;
      v = div->first;
      scaled = true;
      continue;
    }
    // c * tanh(x): a scale so far is the cap, what is inside scales scores.
    if (auto tanh = v.getDefiningOp<nn::TanhOp>();
        tanh && !s.softCap && s.scale != 0) {
      s.softCap = std::abs(s.scale);
      v = tanh.getInput();
      continue;
    }
    // A scale outside a mask would scale the mask as well.
    if (scaled || s.softCap || !s.mask.peel(v))
      return std::nullopt;
  }
}

Value import::dropNanGuard(Value v, bool &guarded) {
  auto where = v.getDefiningOp<nn::WhereOp>();
  if (!where)
    return v;
  auto isNan = where.getCondition().getDefiningOp<nn::IsNanOp>();
  if (!isNan || isNan.getInput() != where.getRhs() ||
      getSplat(where.getLhs()) != 0.0)
    return v;
  guarded = true;
  return where.getRhs();
}

Value import::swapLast(PatternRewriter &rewriter, Location loc, Value v) {
  SmallVector<int64_t> p =
      llvm::to_vector(llvm::seq<int64_t>(0, nn::getRank(v)));
  std::swap(p[p.size() - 1], p[p.size() - 2]);
  return nn::TransposeOp::create(rewriter, loc, v, p);
}
