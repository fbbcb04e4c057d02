//===- Simplify.h - Expressions under known index ranges --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// With 0 <= d_i < dim_i comparisons are decided, divisions of a reshape cancel
// and masks shrink to what they say. Conditions refine the ranges in the
// branches they guard. A symbol may be 0 (a batch without images), unless an
// element of the tensor proves more: where there is one no dim is 0.
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_FRONTEND_SYMBOLIC_SIMPLIFY_H
#define MODELS_FRONTEND_SYMBOLIC_SIMPLIFY_H

#include "models/frontend/symbolic/Expr.h"

#include <map>

namespace dt::symbolic {

class Ranges {
public:
  /// Indices 0 <= d_i < shape[i]. `least`: the smallest value of symbols that
  /// the shape says nothing of.
  explicit Ranges(llvm::ArrayRef<DimExpr> shape, Least least = nullptr);

  Expr simplify(const Expr &e);

  /// Bounds as sizes; nothing where none is known.
  std::optional<DimExpr> lower(const Expr &e) const;
  std::optional<DimExpr> upper(const Expr &e) const;
  /// Proven for every index in range and every size.
  bool provenNonNegative(const Expr &e) const;
  bool provenLessEqual(const Expr &a, const Expr &b) const;

  bool provenNonNegative(const DimExpr &size) const;

private:
  std::optional<DimExpr> bound(const Expr &e, bool up) const;
  std::optional<DimExpr> boundTerm(const Term &t, bool up) const;
  std::optional<DimExpr> boundOfPair(const Expr &a, const Expr &b, bool up,
                                     bool largest) const;
  std::optional<DimExpr> boundOfQuotient(const Expr &e, bool up) const;
  Expr simplifyNode(const Expr &e);
  Expr simplifyDivision(const Expr &e);
  Expr simplifyComparison(const Expr &e);
  Expr simplifySelect(const Expr &e);
  Expr simplifyMinMax(const Expr &e);
  /// These ranges where `condition` is `holds`.
  Ranges refined(const Expr &condition, bool holds) const;
  void refineBound(const Expr &condition);
  void learn(const DimExpr &atLeastOne);

  std::vector<DimExpr> low, high;
  Least least;
  std::map<std::string, int64_t, std::less<>> proven; ///< symbols' least values
};

} // namespace dt::symbolic

#endif // MODELS_FRONTEND_SYMBOLIC_SIMPLIFY_H
