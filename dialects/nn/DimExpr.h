//===- DimExpr.h - Sizes of tensor dims as polynomials ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A dim of a tensor is a polynomial with integer coefficients over the symbols
// of its module ("16*images", "batch*seq", "seq + 1"). The class is free of IR
// so that the importer, the cost model and code generation share it. Terms are
// kept sorted, so equal sizes compare equal and print equally.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_DIMEXPR_H
#define DIALECTS_NN_DIMEXPR_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>

#include <optional>
#include <string>
#include <vector>

namespace dt::nn {

class DimExpr {
public:
  /// A product of symbols (sorted, repeated for powers) and its coefficient.
  struct Term {
    std::vector<std::string> symbols;
    int64_t coefficient;
    bool operator==(const Term &o) const {
      return coefficient == o.coefficient && symbols == o.symbols;
    }
  };

  DimExpr(int64_t constant = 0);
  static DimExpr symbol(llvm::StringRef name);

  bool isConstant() const;
  /// The value of a constant expression; asserts that it is one.
  int64_t constant() const;
  std::optional<int64_t> asConstant() const;
  /// The only symbol, when the expression is `scale * symbol + offset`.
  struct Affine {
    int64_t scale;
    std::string symbol; ///< empty: the expression is the number `offset`
    int64_t offset;
  };
  std::optional<Affine> asAffine() const;

  llvm::ArrayRef<Term> terms() const { return sum; }
  llvm::SmallVector<std::string> symbols() const;

  DimExpr operator+(const DimExpr &o) const;
  DimExpr operator-(const DimExpr &o) const;
  DimExpr operator*(const DimExpr &o) const;
  bool operator==(const DimExpr &o) const { return sum == o.sum; }
  bool operator!=(const DimExpr &o) const { return !(*this == o); }

  /// `*this / o` when the division leaves no remainder for any value of the
  /// symbols; nothing otherwise.
  std::optional<DimExpr> exactDiv(const DimExpr &o) const;

  /// Replaces each symbol for which `value` has an answer.
  DimExpr substitute(
      llvm::function_ref<std::optional<DimExpr>(llvm::StringRef)> value) const;
  /// The number, when `value` answers for every symbol.
  std::optional<int64_t> evaluate(
      llvm::function_ref<std::optional<int64_t>(llvm::StringRef)> value) const;

  /// "16*images + 1"; parse() reads what str() writes and what exporters write
  /// ("16*batch", "seq + 1", parentheses).
  std::string str() const;
  static std::optional<DimExpr> parse(llvm::StringRef text);

  friend llvm::hash_code hash_value(const DimExpr &e);

private:
  void add(Term term);
  std::vector<Term> sum; // sorted by symbols (higher degree first), no zeros
};

} // namespace dt::nn

#endif // DIALECTS_NN_DIMEXPR_H
