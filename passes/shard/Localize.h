//===- Localize.h - Local forms of ops --------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SHARD_LOCALIZE_H
#define PASSES_SHARD_LOCALIZE_H

#include "passes/shard/ShardProblem.h"

namespace dt::shard {

/// A factor of an op's rule, seen as [outer][axis.over][chunk].
struct FactorCut {
  const nn::ShardingRule *rule;
  unsigned factor;
  int64_t chunk;
  Axis axis;
  /// Log-sum-exp of rows over a cut vocabulary: a loss writes it, its gradient
  /// reads it (null: computed again).
  mutable mlir::Value rowSum;
  bool ring = false; ///< Strategy::ring
  /// Rows travel to their experts (SendRows.h).
  bool sends = false;

  nn::DimExpr size() const { return rule->factors[factor].size; }
  bool contiguous() const { return size() == nn::DimExpr(chunk * axis.over); }
  /// Whether that dim of that operand has the factor.
  bool inOperand(unsigned operand, unsigned dim) const {
    return llvm::is_contained(rule->operands[operand][dim], factor);
  }
};

/// A copy of `op` with local operands and result types.
mlir::Operation *cloneLocal(mlir::OpBuilder &builder, mlir::Operation *op,
                            mlir::ValueRange operands, mlir::TypeRange types);

void registerLocalizeIndexedModels(mlir::DialectRegistry &registry);
void registerLocalizeExpertModels(mlir::DialectRegistry &registry);

/// rank * chunk, a tensor<i64>.
mlir::Value buildOffset(mlir::OpBuilder &builder, mlir::Location loc,
                        const FactorCut &cut);

} // namespace dt::shard

#include "passes/shard/ShardInterfaces.h.inc"

#endif // PASSES_SHARD_LOCALIZE_H
