//===- Simplify.cpp - Expressions under known index ranges ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/symbolic/Simplify.h"

#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cstdlib>
#include <numeric>

using namespace dt::symbolic;

/// Numbers beyond this take part in no proof: bounds of them could overflow.
static constexpr int64_t provable = int64_t(1) << 40;

Ranges::Ranges(llvm::ArrayRef<DimExpr> shape, Least least)
    : least(std::move(least)) {
  for (const DimExpr &d : shape) {
    low.push_back(DimExpr(0));
    high.push_back(d - DimExpr(1));
    learn(d);
  }
}

/// A dim of a tensor with an element is at least 1: so are the factors of a
/// product, and a * s + b >= 1 says s >= (1 - b) / a.
void Ranges::learn(const DimExpr &atLeastOne) {
  auto raise = [&](const std::string &symbol, int64_t value) {
    int64_t &known = proven[symbol];
    known = std::max(known, value);
  };
  if (atLeastOne.terms().size() == 1 && atLeastOne.terms()[0].coefficient > 0)
    for (const std::string &symbol : atLeastOne.terms()[0].symbols)
      raise(symbol, 1);
  auto affine = atLeastOne.asAffine();
  if (affine && !affine->symbol.empty() && affine->scale > 0 &&
      std::abs(affine->offset) < provable)
    raise(affine->symbol, -*asInt(floorDiv(integer(affine->offset - 1),
                                           integer(affine->scale))));
}

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

bool Ranges::provenNonNegative(const DimExpr &size) const {
  // With s = least + s', s' >= 0: no negative coefficient, no negative value.
  DimExpr shifted = size.substitute([&](llvm::StringRef s) {
    int64_t known = least ? least(s) : 0;
    if (auto it = proven.find(s); it != proven.end())
      known = std::max(known, it->second);
    return std::optional<DimExpr>(DimExpr::symbol(s) + DimExpr(known));
  });
  return llvm::all_of(shifted.terms(), [](const DimExpr::Term &t) {
    return t.coefficient >= 0;
  });
}

bool Ranges::provenNonNegative(const Expr &e) const {
  std::optional<DimExpr> l = lower(e);
  return l && provenNonNegative(*l);
}
bool Ranges::provenLessEqual(const Expr &a, const Expr &b) const {
  return provenNonNegative(sub(b, a));
}

std::optional<DimExpr> Ranges::lower(const Expr &e) const {
  return bound(e, false);
}
std::optional<DimExpr> Ranges::upper(const Expr &e) const {
  return bound(e, true);
}

std::optional<DimExpr> Ranges::boundTerm(const Term &t, bool up) const {
  if (t.coefficient > provable || t.coefficient < -provable)
    return std::nullopt;
  bool wantUp = (t.coefficient > 0) == up;
  DimExpr product(t.coefficient);
  bool single = t.factors.size() == 1;
  for (const Expr &f : t.factors) {
    // A product's bounds are the products of bounds only without signs.
    if (!single && !provenNonNegative(f))
      return std::nullopt;
    std::optional<DimExpr> b = bound(f, wantUp);
    if (!b)
      return std::nullopt;
    product = product * *b;
  }
  return product;
}

/// Bound of min(a, b) or, with `largest`, max(a, b).
std::optional<DimExpr> Ranges::boundOfPair(const Expr &a, const Expr &b,
                                           bool up, bool largest) const {
  std::optional<DimExpr> x = bound(a, up), y = bound(b, up);
  // min is below either bound, max above either.
  if (up != largest) {
    if (!x || !y)
      return x ? x : y;
    bool takeX = up ? provenNonNegative(*y - *x) : provenNonNegative(*x - *y);
    return takeX ? x : y;
  }
  if (!x || !y)
    return std::nullopt;
  if (provenNonNegative(*x - *y))
    return up ? x : y;
  if (provenNonNegative(*y - *x))
    return up ? y : x;
  return std::nullopt;
}

std::optional<DimExpr> Ranges::boundOfQuotient(const Expr &e, bool up) const {
  std::optional<DimExpr> b = bound(e->args[0], up);
  std::optional<int64_t> d = asInt(e->args[1]);
  if (!b)
    return std::nullopt;
  if (d && *d > 0)
    if (std::optional<int64_t> n = b->asConstant())
      return DimExpr(*asInt(floorDiv(integer(*n), integer(*d))));
  // A divisor is never 0.
  if (!provenNonNegative(e->args[0]) || !provenNonNegative(e->args[1]))
    return std::nullopt;
  return up ? b : std::optional<DimExpr>(DimExpr(0));
}

std::optional<DimExpr> Ranges::bound(const Expr &e, bool up) const {
  switch (e->kind) {
  case Kind::Int:
    if (e->i > provable || e->i < -provable)
      return std::nullopt;
    return DimExpr(e->i);
  case Kind::Symbol:
    return DimExpr::symbol(e->name);
  case Kind::Index:
    if (static_cast<size_t>(e->i) >= low.size())
      return std::nullopt;
    return up ? high[e->i] : low[e->i];
  case Kind::Sum: {
    DimExpr total;
    for (const Term &t : e->terms) {
      std::optional<DimExpr> b = boundTerm(t, up);
      if (!b)
        return std::nullopt;
      total = total + *b;
    }
    return total;
  }
  case Kind::FloorDiv:
    return boundOfQuotient(e, up);
  case Kind::Mod: {
    if (!provenNonNegative(e->args[1]))
      return std::nullopt;
    if (!up)
      return DimExpr(0);
    std::optional<DimExpr> m = upper(e->args[1]);
    return m ? std::optional<DimExpr>(*m - DimExpr(1)) : std::nullopt;
  }
  case Kind::Min:
    return boundOfPair(e->args[0], e->args[1], up, false);
  case Kind::Max:
    return boundOfPair(e->args[0], e->args[1], up, true);
  case Kind::Select:
    if (e->type != Type::Int)
      return std::nullopt;
    // Either branch may be the value: the looser bound.
    return boundOfPair(e->args[1], e->args[2], up, up);
  case Kind::Table: {
    if (e->table->type != Type::Int || e->table->ints.empty())
      return std::nullopt;
    auto [lo, hi] =
        std::minmax_element(e->table->ints.begin(), e->table->ints.end());
    int64_t v = up ? *hi : *lo;
    if (v > provable || v < -provable)
      return std::nullopt;
    return DimExpr(v);
  }
  default:
    return std::nullopt;
  }
}

//===----------------------------------------------------------------------===//
// Refinement
//===----------------------------------------------------------------------===//

/// `condition` holds: tightens the range of an index that it bounds alone.
void Ranges::refineBound(const Expr &condition) {
  if (condition->kind == Kind::And) {
    refineBound(condition->args[0]);
    refineBound(condition->args[1]);
    return;
  }
  if (condition->kind != Kind::NonNegative && condition->kind != Kind::IsZero)
    return;
  std::vector<Term> terms = termsOf(condition->args[0]);
  for (size_t k = 0; k < terms.size(); ++k) {
    const Term &t = terms[k];
    if (t.factors.size() != 1 || t.factors[0]->kind != Kind::Index ||
        (t.coefficient != 1 && t.coefficient != -1))
      continue;
    size_t i = t.factors[0]->i;
    if (i >= low.size())
      continue;
    std::vector<Term> rest = terms;
    rest.erase(rest.begin() + k);
    // d + rest >= 0: d >= -rest. -d + rest >= 0: d <= rest.
    Expr r = sumOf(std::move(rest));
    std::optional<DimExpr> limit = asDim(t.coefficient == 1 ? scale(r, -1) : r);
    if (!limit)
      continue;
    bool both = condition->kind == Kind::IsZero;
    if ((both || t.coefficient == 1) && provenNonNegative(*limit - low[i]))
      low[i] = *limit;
    // Where a number and a size cannot be compared, the number proves more.
    bool tighter = provenNonNegative(high[i] - *limit) ||
                   (limit->isConstant() && !high[i].isConstant() &&
                    !provenNonNegative(*limit - high[i]));
    if ((both || t.coefficient == -1) && tighter)
      high[i] = *limit;
  }
}

Ranges Ranges::refined(const Expr &condition, bool holds) const {
  Ranges r = *this;
  r.refineBound(holds ? condition : logicalNot(condition));
  return r;
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

namespace {
/// Splits `e` into `quotient * divisor + rest`, where each product of indices
/// whose coefficient (a size) the divisor divides goes into the quotient.
std::pair<Expr, Expr> splitDivisible(const Expr &e, const DimExpr &divisor) {
  struct Group {
    std::vector<Expr> factors;
    DimExpr coefficient;
  };
  std::vector<Group> groups;
  for (const Term &t : termsOf(e)) {
    std::vector<Expr> factors;
    DimExpr c(t.coefficient);
    for (const Expr &f : t.factors) {
      if (f->kind == Kind::Symbol)
        c = c * DimExpr::symbol(f->name);
      else
        factors.push_back(f);
    }
    auto it = llvm::find_if(groups, [&](const Group &g) {
      return g.factors.size() == factors.size() &&
             llvm::all_of(llvm::zip(g.factors, factors), [](auto pair) {
               return same(std::get<0>(pair), std::get<1>(pair));
             });
    });
    if (it == groups.end())
      groups.push_back({std::move(factors), c});
    else
      it->coefficient = it->coefficient + c;
  }
  Expr quotient = integer(0), rest = integer(0);
  for (const Group &g : groups) {
    Expr product = integer(1);
    for (const Expr &f : g.factors)
      product = mul(product, f);
    std::optional<DimExpr> q = g.coefficient.exactDiv(divisor);
    // A number leaves its remainder: (4*d + 9) / 4 = d + 2 + 1/4.
    std::optional<int64_t> n = g.coefficient.asConstant(),
                           d = divisor.asConstant();
    if (!q && g.factors.empty() && n && d) {
      Expr whole = floorDiv(integer(*n), integer(*d));
      quotient = add(quotient, whole);
      rest = add(rest, integer(*n - *asInt(whole) * *d));
    } else if (q) {
      quotient = add(quotient, mul(fromDim(*q), product));
    } else {
      rest = add(rest, mul(fromDim(g.coefficient), product));
    }
  }
  return {quotient, rest};
}

/// The one Select that occurs as a term of its own, else null.
const Expr *onlySelect(const Expr &e, Term &found) {
  const Expr *choice = nullptr;
  if (e->kind == Kind::Select)
    return &e;
  if (e->kind != Kind::Sum)
    return nullptr;
  for (const Term &t : e->terms)
    for (const Expr &f : t.factors)
      if (f->kind == Kind::Select) {
        if (choice || t.factors.size() != 1)
          return nullptr;
        choice = &f;
        found = t;
      }
  return choice;
}
} // namespace

Expr Ranges::simplifyDivision(const Expr &e) {
  const Expr &divisor = e->args[1];
  bool isMod = e->kind == Kind::Mod;
  std::optional<DimExpr> d = asDim(divisor);
  if (!d || !provenNonNegative(*d)) // and never 0
    return e;
  auto [quotient, rest] = splitDivisible(e->args[0], *d);
  quotient = simplify(quotient);
  bool below = provenNonNegative(rest) &&
               provenLessEqual(add(rest, integer(1)), divisor);
  if (below || asInt(rest) == 0)
    return isMod ? rest : quotient;
  if (isMod)
    return mod(rest, divisor);
  return add(quotient, floorDiv(rest, divisor));
}

Expr Ranges::simplifyComparison(const Expr &e) {
  Expr x = e->args[0];
  bool ge = e->kind == Kind::NonNegative;
  auto build = [&](const Expr &v) { return ge ? nonNegative(v) : isZero(v); };
  // Common factors: 2*d + 3 >= 0 is d + 1 >= 0; 2*d + 4 == 0 is d + 2 == 0.
  std::vector<Term> terms = termsOf(x);
  int64_t g = 0;
  for (const Term &t : terms)
    if (!t.factors.empty() && t.coefficient > -provable)
      g = std::gcd(g, t.coefficient);
  if (g > 1) {
    bool exact = true;
    for (Term &t : terms) {
      exact &= t.coefficient % g == 0;
      t.coefficient = *asInt(floorDiv(integer(t.coefficient), integer(g)));
    }
    if (!ge && !exact)
      return boolean(false);
    x = sumOf(std::move(terms));
  }
  std::optional<DimExpr> lo = lower(x), hi = upper(x);
  bool positive = lo && provenNonNegative(*lo - DimExpr(1));
  bool negative = hi && provenNonNegative(DimExpr(-1) - *hi);
  if (ge && lo && provenNonNegative(*lo))
    return boolean(true);
  if (negative || (!ge && positive))
    return boolean(false);
  if (ge && hi && *hi == DimExpr(0)) // at most 0: the only way is 0
    return simplifyNode(isZero(x));
  Term t;
  if (const Expr *choice = onlySelect(x, t)) {
    int64_t c = x->kind == Kind::Select ? 1 : t.coefficient;
    Expr rest = sub(x, scale(*choice, c));
    const Expr &cond = (*choice)->args[0];
    Expr yes = refined(cond, true)
                   .simplify(build(add(rest, scale((*choice)->args[1], c))));
    Expr no = refined(cond, false)
                  .simplify(build(add(rest, scale((*choice)->args[2], c))));
    if (isConstant(yes) || isConstant(no))
      return select(cond, yes, no);
  }
  return build(x);
}

Expr Ranges::simplifySelect(const Expr &e) {
  Expr c = simplify(e->args[0]);
  if (std::optional<bool> v = asBool(c))
    return simplify(e->args[*v ? 1 : 2]);
  Expr yes = refined(c, true).simplify(e->args[1]);
  Expr no = refined(c, false).simplify(e->args[2]);
  // d == k ? f(k) : f(d) is f(d): how a concatenation continues a range.
  if (c->kind == Kind::IsZero) {
    for (const Term &t : termsOf(c->args[0])) {
      if (t.factors.size() != 1 || t.factors[0]->kind != Kind::Index ||
          t.coefficient != 1)
        continue;
      size_t i = t.factors[0]->i;
      Expr value = sub(t.factors[0], c->args[0]);
      std::vector<Expr> at;
      for (size_t k = 0; k < low.size(); ++k)
        at.push_back(k == i ? value : index(k));
      if (i < low.size() && same(substitute(no, at), substitute(yes, at)))
        return no;
    }
  }
  return select(c, yes, no);
}

Expr Ranges::simplifyMinMax(const Expr &e) {
  const Expr &a = e->args[0], &b = e->args[1];
  bool isMin = e->kind == Kind::Min;
  if (provenLessEqual(a, b))
    return isMin ? a : b;
  if (provenLessEqual(b, a))
    return isMin ? b : a;
  return e;
}

Expr Ranges::simplifyNode(const Expr &e) {
  switch (e->kind) {
  case Kind::Index:
    if (static_cast<size_t>(e->i) < low.size() && low[e->i] == high[e->i])
      return fromDim(low[e->i]);
    return e;
  case Kind::FloorDiv:
  case Kind::Mod:
    return simplifyDivision(e);
  case Kind::NonNegative:
  case Kind::IsZero:
    return simplifyComparison(e);
  case Kind::Min:
  case Kind::Max:
    return simplifyMinMax(e);
  default:
    return e;
  }
}

Expr Ranges::simplify(const Expr &e) {
  if (!e->hasIndex && e->args.empty() && e->terms.empty())
    return e;
  if (e->kind == Kind::Select)
    return simplifySelect(e);
  if (e->kind == Kind::And || e->kind == Kind::Or) {
    // The second operand only matters where the first does not decide.
    Expr a = simplify(e->args[0]);
    Expr b = refined(a, e->kind == Kind::And).simplify(e->args[1]);
    return e->kind == Kind::And ? logicalAnd(a, b) : logicalOr(a, b);
  }
  Expr r = mapChildren(e, [&](const Expr &c) { return simplify(c); });
  return simplifyNode(r);
}
