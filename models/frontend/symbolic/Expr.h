//===- Expr.h - Scalar functions of tensor indices --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Exporters write masks, positions and shape arithmetic as chains of tensor
// operators. Evaluated, a causal mask at sequence length 8192 is 270 MB; as a
// function of its indices it is `j <= i`. This is the expression such an
// element is: integers are kept as polynomials over atoms (indices, symbols of
// sizes, and what is not a polynomial), so that differences cancel.
//
// Builders do what is true everywhere; rules that need the indices' ranges are
// in Simplify.h. Nodes are immutable and shared.
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_FRONTEND_SYMBOLIC_EXPR_H
#define MODELS_FRONTEND_SYMBOLIC_EXPR_H

#include "dialects/nn/DimExpr.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dt::symbolic {

using nn::DimExpr;

/// The smallest value of a symbol: 0 or 1. Null: 0 of all.
using Least = std::function<int64_t(llvm::StringRef)>;

enum class Type { Bool, Int, Float };

enum class Kind {
  // leaves
  Int, ///< also Bool: 0 or 1
  Float,
  Index,  ///< d_i, the i-th index of the tensor
  Symbol, ///< a size
  // integers
  Sum, ///< coefficients times products of atoms
  FloorDiv,
  Mod, ///< sign of the divisor
  Min,
  Max,
  // floats
  FAdd,
  FSub,
  FMul,
  FDiv,
  FMin,
  FMax,
  ToFloat, ///< of an integer
  // booleans
  NonNegative, ///< integer >= 0
  IsZero,      ///< integer == 0
  FLess,
  FLessEqual,
  FEqual,
  And,
  Or,
  Not,
  // any type
  Select, ///< condition, then, else
  Table   ///< element of a small array at an integer position
};

struct Node;
using Expr = std::shared_ptr<const Node>;

/// A literal array; integers and booleans in `ints`, floats in `floats`.
struct TableData {
  Type type;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  size_t size() const {
    return type == Type::Float ? floats.size() : ints.size();
  }
};

struct Term {
  int64_t coefficient;
  std::vector<Expr> factors; ///< sorted; empty: a number
};

struct Node {
  Kind kind;
  Type type;
  int64_t i = 0;             ///< Int: value; Index: which
  double f = 0;              ///< Float
  std::string name{};        ///< Symbol
  std::vector<Term> terms{}; ///< Sum
  std::vector<Expr> args{};
  std::shared_ptr<const TableData> table{};
  uint32_t size = 1; ///< nodes of the tree, saturating: a bound on work
  bool hasIndex = false, hasTable = false;
};

/// Trees above this are given up: their owner makes a tensor of them instead.
constexpr uint32_t maxExprSize = 4096;

/// A node of that kind as it is; the builders below simplify.
Expr make(Kind kind, Type type, std::vector<Expr> args);
/// The same for a node with other fields filled in.
Expr finish(Node node);

// Leaves.
Expr integer(int64_t value);
Expr boolean(bool value);
Expr real(double value);
Expr index(int64_t i);
Expr symbol(const std::string &name);
Expr fromDim(const DimExpr &dim);

// Integers.
Expr add(const Expr &a, const Expr &b);
Expr sub(const Expr &a, const Expr &b);
Expr mul(const Expr &a, const Expr &b);
Expr scale(const Expr &a, int64_t factor);
Expr floorDiv(const Expr &a, const Expr &b); ///< b is never 0
Expr mod(const Expr &a, const Expr &b);
Expr minimum(const Expr &a, const Expr &b);
Expr maximum(const Expr &a, const Expr &b);

/// Floats: kinds FAdd ... FMax. `single` rounds folded numbers to 32 bits.
Expr floatBinary(Kind kind, const Expr &a, const Expr &b, bool single);
Expr toFloat(const Expr &integer);

// Booleans. Comparisons of integers become NonNegative or IsZero.
Expr nonNegative(const Expr &a);
Expr isZero(const Expr &a);
Expr lessEqual(const Expr &a, const Expr &b);
Expr less(const Expr &a, const Expr &b);
Expr equal(const Expr &a, const Expr &b);
Expr logicalAnd(const Expr &a, const Expr &b);
Expr logicalOr(const Expr &a, const Expr &b);
Expr logicalNot(const Expr &a);

Expr select(const Expr &condition, const Expr &yes, const Expr &no);
Expr table(std::shared_ptr<const TableData> data, const Expr &position);

bool isConstant(const Expr &e);
std::optional<int64_t> asInt(const Expr &e);
std::optional<bool> asBool(const Expr &e);
std::optional<double> asFloat(const Expr &e);
/// The size expression, where only numbers and symbols occur.
std::optional<DimExpr> asDim(const Expr &e);

bool same(const Expr &a, const Expr &b);
int compare(const Expr &a, const Expr &b);

/// The sum's terms, also of what is not a Sum.
std::vector<Term> termsOf(const Expr &e);
Expr sumOf(std::vector<Term> terms);

/// Rebuilds with each child mapped.
Expr mapChildren(const Expr &e, llvm::function_ref<Expr(const Expr &)> map);
/// Replaces index i by `values[i]`.
Expr substitute(const Expr &e, llvm::ArrayRef<Expr> values);
/// Whether index i occurs.
bool dependsOn(const Expr &e, int64_t i);

struct Scalar {
  int64_t i = 0;
  double f = 0;
};
/// The value at numeric indices; nothing where a symbol or a table position out
/// of range is met.
std::optional<Scalar> evaluate(const Expr &e, llvm::ArrayRef<int64_t> indices);

/// "d3 - d2 <= 0"-like text for tests and messages.
std::string toString(const Expr &e);

} // namespace dt::symbolic

#endif // MODELS_FRONTEND_SYMBOLIC_EXPR_H
