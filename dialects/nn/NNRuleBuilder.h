//===- NNRuleBuilder.h - Writes sharding rules ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_NNRULEBUILDER_H
#define DIALECTS_NN_NNRULEBUILDER_H

#include "dialects/nn/NNOps.h"

namespace dt::nn {

/// Factors of a rule, by number.
using Letters = llvm::SmallVector<unsigned>;

class RuleBuilder {
public:
  /// One list after the other.
  static Letters join(Letters a, llvm::ArrayRef<unsigned> b);
  explicit RuleBuilder(mlir::Operation *op);

  unsigned factor(const DimExpr &size, FactorKind kind = FactorKind::pass) {
    rule.factors.push_back({size, kind});
    return rule.factors.size() - 1;
  }
  /// One factor a dim.
  Letters letters(llvm::ArrayRef<DimExpr> dims,
                  FactorKind kind = FactorKind::pass);
  /// One factor a dim of a value, the last ones of which fit `list` (broadcast:
  /// dims of 1 against larger factors have none).
  void operand(unsigned index, llvm::ArrayRef<unsigned> list);
  void result(unsigned index, llvm::ArrayRef<unsigned> list);
  /// Several factors, major to minor, for one dim.
  void operandDim(unsigned index, unsigned dim, Letters list) {
    rule.operands[index][dim].assign(list.begin(), list.end());
  }
  void resultDim(unsigned index, unsigned dim, Letters list) {
    rule.results[index][dim].assign(list.begin(), list.end());
  }
  void linear(llvm::SmallVector<unsigned> group) {
    rule.linear.push_back(std::move(group));
  }
  ShardingRule finish();
  /// Of a product of operands 0 and 1, to which a bias, operand 2, is added.
  ShardingRule finishProduct(mlir::Value bias = {});

  ShardingRule rule;

private:
  static size_t rankOf(mlir::Value v);
  void setDims(ShardingRule::Dims &dims, llvm::ArrayRef<DimExpr> shape,
               llvm::ArrayRef<unsigned> list);
  mlir::Operation *op;
};

/// All values have one shape; one axis stays whole. `linear`: operand in which
/// the op is linear, if any.
ShardingRule wholeAxisRule(mlir::Operation *op, int64_t axis,
                           std::optional<unsigned> linear = {});

} // namespace dt::nn

#endif // DIALECTS_NN_NNRULEBUILDER_H
