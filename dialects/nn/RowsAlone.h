//===- RowsAlone.h - Ops that treat rows alone ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_ROWSALONE_H
#define DIALECTS_NN_ROWSALONE_H

#include "dialects/nn/NNOps.h"

namespace dt::nn {

/// Whether each row of the only result depends on that row of operands with
/// rows, and on operands without, as the op's sharding rule says; `rows`:
/// operands with rows.
inline bool treatsRowsAlone(mlir::Operation *op,
                            llvm::SmallVectorImpl<bool> &rows) {
  auto sharded = llvm::dyn_cast<ShardingOpInterface>(op);
  if (!sharded || op->getNumResults() != 1 || op->getNumRegions() != 0)
    return false;
  ShardingRule rule = sharded.getShardingRule();
  const ShardingRule::Dims &result = rule.results[0];
  if (result.empty() || result[0].size() != 1)
    return false;
  unsigned row = result[0][0];
  if (rule.factors[row].kind != FactorKind::pass)
    return false;
  auto leads = [&](const ShardingRule::Dims &dims) {
    for (auto [i, factors] : llvm::enumerate(dims))
      if (llvm::is_contained(factors, row) && (i != 0 || factors.size() != 1))
        return false;
    return true;
  };
  rows.clear();
  for (const ShardingRule::Dims &operand : rule.operands) {
    if (!leads(operand))
      return false;
    rows.push_back(!operand.empty() && llvm::is_contained(operand[0], row));
  }
  return leads(result);
}

} // namespace dt::nn

#endif // DIALECTS_NN_ROWSALONE_H
