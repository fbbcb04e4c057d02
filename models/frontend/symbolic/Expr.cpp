//===- Expr.cpp - Scalar functions of tensor indices ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/symbolic/Expr.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cmath>

using namespace dt::symbolic;

//===----------------------------------------------------------------------===//
// Construction and order
//===----------------------------------------------------------------------===//

namespace {
// Integers wrap as the operators they stand for do.
int64_t wrapAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) +
                              static_cast<uint64_t>(b));
}
int64_t wrapMul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) *
                              static_cast<uint64_t>(b));
}
int64_t floorDivInt(int64_t a, int64_t b) {
  if (b == -1)
    return wrapMul(a, -1);
  int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
int64_t floorModInt(int64_t a, int64_t b) {
  if (b == -1)
    return 0;
  int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

uint32_t saturate(uint64_t n) {
  return n > (1u << 30) ? (1u << 30) : static_cast<uint32_t>(n);
}

int compareFactors(const std::vector<Expr> &a, const std::vector<Expr> &b) {
  if (a.size() != b.size())
    return a.size() > b.size() ? -1 : 1; // numbers last
  for (auto [x, y] : llvm::zip(a, b))
    if (int c = compare(x, y))
      return c;
  return 0;
}
template <typename T> int order(const T &a, const T &b) {
  return a < b ? -1 : b < a ? 1 : 0;
}
} // namespace

Expr dt::symbolic::finish(Node n) {
  uint64_t size = 1;
  auto child = [&](const Expr &c) {
    size += c->size;
    n.hasIndex |= c->hasIndex;
    n.hasTable |= c->hasTable;
  };
  for (const Expr &a : n.args)
    child(a);
  for (const Term &t : n.terms)
    for (const Expr &f : t.factors)
      child(f);
  n.hasIndex |= n.kind == Kind::Index;
  n.hasTable |= n.kind == Kind::Table;
  n.size = saturate(size);
  return std::make_shared<const Node>(std::move(n));
}

Expr dt::symbolic::make(Kind kind, Type type, std::vector<Expr> args) {
  Node n{kind, type};
  n.args = std::move(args);
  return finish(std::move(n));
}

int dt::symbolic::compare(const Expr &a, const Expr &b) {
  if (a == b)
    return 0;
  if (int c = order(a->kind, b->kind))
    return c;
  if (int c = order(a->type, b->type))
    return c;
  if (int c = order(a->i, b->i))
    return c;
  if (a->kind == Kind::Float) {
    // Not-a-number is equal to itself here: this orders trees, not values.
    bool an = std::isnan(a->f), bn = std::isnan(b->f);
    return an || bn ? order(an, bn) : order(a->f, b->f);
  }
  if (int c = order(a->name, b->name))
    return c;
  if (int c = order(a->size, b->size))
    return c;
  if (int c = order(a->table.get(), b->table.get()))
    return c;
  if (int c = order(a->args.size(), b->args.size()))
    return c;
  for (auto [x, y] : llvm::zip(a->args, b->args))
    if (int c = compare(x, y))
      return c;
  if (int c = order(a->terms.size(), b->terms.size()))
    return c;
  for (auto [x, y] : llvm::zip(a->terms, b->terms)) {
    if (int c = order(x.coefficient, y.coefficient))
      return c;
    if (int c = compareFactors(x.factors, y.factors))
      return c;
  }
  return 0;
}

bool dt::symbolic::same(const Expr &a, const Expr &b) {
  return compare(a, b) == 0;
}

Expr dt::symbolic::integer(int64_t value) {
  Node n{Kind::Int, Type::Int};
  n.i = value;
  return finish(std::move(n));
}
Expr dt::symbolic::boolean(bool value) {
  Node n{Kind::Int, Type::Bool};
  n.i = value;
  return finish(std::move(n));
}
Expr dt::symbolic::real(double value) {
  Node n{Kind::Float, Type::Float};
  n.f = value;
  return finish(std::move(n));
}
Expr dt::symbolic::index(int64_t i) {
  Node n{Kind::Index, Type::Int};
  n.i = i;
  return finish(std::move(n));
}
Expr dt::symbolic::symbol(const std::string &name) {
  Node n{Kind::Symbol, Type::Int};
  n.name = name;
  return finish(std::move(n));
}

//===----------------------------------------------------------------------===//
// Polynomials
//===----------------------------------------------------------------------===//

std::vector<Term> dt::symbolic::termsOf(const Expr &e) {
  if (e->kind == Kind::Sum)
    return e->terms;
  if (e->kind == Kind::Int)
    return e->i ? std::vector<Term>{{e->i, {}}} : std::vector<Term>{};
  return {{1, {e}}};
}

Expr dt::symbolic::sumOf(std::vector<Term> terms) {
  llvm::sort(terms, [](const Term &a, const Term &b) {
    return compareFactors(a.factors, b.factors) < 0;
  });
  std::vector<Term> merged;
  for (Term &t : terms) {
    if (!merged.empty() &&
        compareFactors(merged.back().factors, t.factors) == 0)
      merged.back().coefficient =
          wrapAdd(merged.back().coefficient, t.coefficient);
    else
      merged.push_back(std::move(t));
  }
  llvm::erase_if(merged, [](const Term &t) { return t.coefficient == 0; });
  if (merged.empty())
    return integer(0);
  if (merged.size() == 1) {
    Term &t = merged[0];
    if (t.factors.empty())
      return integer(t.coefficient);
    if (t.coefficient == 1 && t.factors.size() == 1)
      return t.factors[0];
  }
  Node n{Kind::Sum, Type::Int};
  n.terms = std::move(merged);
  return finish(std::move(n));
}

Expr dt::symbolic::fromDim(const DimExpr &dim) {
  std::vector<Term> terms;
  for (const DimExpr::Term &t : dim.terms()) {
    Term out{t.coefficient, {}};
    for (const std::string &s : t.symbols)
      out.factors.push_back(symbol(s));
    terms.push_back(std::move(out));
  }
  return sumOf(std::move(terms));
}

std::optional<DimExpr> dt::symbolic::asDim(const Expr &e) {
  if (e->type != Type::Int)
    return std::nullopt;
  DimExpr out;
  for (const Term &t : termsOf(e)) {
    DimExpr product(t.coefficient);
    for (const Expr &f : t.factors) {
      if (f->kind != Kind::Symbol)
        return std::nullopt;
      product = product * DimExpr::symbol(f->name);
    }
    out = out + product;
  }
  return out;
}

Expr dt::symbolic::add(const Expr &a, const Expr &b) {
  std::vector<Term> terms = termsOf(a);
  llvm::append_range(terms, termsOf(b));
  return sumOf(std::move(terms));
}
Expr dt::symbolic::scale(const Expr &a, int64_t factor) {
  std::vector<Term> terms = termsOf(a);
  for (Term &t : terms)
    t.coefficient = wrapMul(t.coefficient, factor);
  return sumOf(std::move(terms));
}
Expr dt::symbolic::sub(const Expr &a, const Expr &b) {
  return add(a, scale(b, -1));
}
Expr dt::symbolic::mul(const Expr &a, const Expr &b) {
  std::vector<Term> terms;
  std::vector<Term> as = termsOf(a), bs = termsOf(b);
  if (as.size() * bs.size() > maxExprSize) {
    // Too many terms to multiply out: keep one product of two atoms.
    std::vector<Expr> factors{a, b};
    llvm::sort(factors,
               [](const Expr &x, const Expr &y) { return compare(x, y) < 0; });
    return sumOf({{1, std::move(factors)}});
  }
  for (const Term &x : as)
    for (const Term &y : bs) {
      Term t{wrapMul(x.coefficient, y.coefficient), x.factors};
      llvm::append_range(t.factors, y.factors);
      llvm::sort(t.factors, [](const Expr &p, const Expr &q) {
        return compare(p, q) < 0;
      });
      terms.push_back(std::move(t));
    }
  return sumOf(std::move(terms));
}

Expr dt::symbolic::floorDiv(const Expr &a, const Expr &b) {
  if (std::optional<int64_t> d = asInt(b); d && *d != 0) {
    if (*d == 1)
      return a;
    if (std::optional<int64_t> n = asInt(a))
      return integer(floorDivInt(*n, *d));
  }
  return make(Kind::FloorDiv, Type::Int, {a, b});
}
Expr dt::symbolic::mod(const Expr &a, const Expr &b) {
  if (std::optional<int64_t> d = asInt(b); d && *d != 0) {
    if (*d == 1)
      return integer(0);
    if (std::optional<int64_t> n = asInt(a))
      return integer(floorModInt(*n, *d));
  }
  return make(Kind::Mod, Type::Int, {a, b});
}
static Expr extremum(Kind kind, const Expr &a, const Expr &b) {
  std::optional<int64_t> x = asInt(a), y = asInt(b);
  if (x && y)
    return integer(kind == Kind::Min ? std::min(*x, *y) : std::max(*x, *y));
  if (same(a, b))
    return a;
  return compare(a, b) < 0 ? make(kind, Type::Int, {a, b})
                           : make(kind, Type::Int, {b, a});
}
Expr dt::symbolic::minimum(const Expr &a, const Expr &b) {
  return extremum(Kind::Min, a, b);
}
Expr dt::symbolic::maximum(const Expr &a, const Expr &b) {
  return extremum(Kind::Max, a, b);
}

//===----------------------------------------------------------------------===//
// Queries and rewriting
//===----------------------------------------------------------------------===//

bool dt::symbolic::isConstant(const Expr &e) {
  return e->kind == Kind::Int || e->kind == Kind::Float;
}
std::optional<int64_t> dt::symbolic::asInt(const Expr &e) {
  if (e->kind == Kind::Int)
    return e->i;
  return std::nullopt;
}
std::optional<bool> dt::symbolic::asBool(const Expr &e) {
  if (e->kind == Kind::Int && e->type == Type::Bool)
    return e->i != 0;
  return std::nullopt;
}
std::optional<double> dt::symbolic::asFloat(const Expr &e) {
  if (e->kind == Kind::Float)
    return e->f;
  return std::nullopt;
}

Expr dt::symbolic::mapChildren(const Expr &e,
                               llvm::function_ref<Expr(const Expr &)> map) {
  auto arg = [&](int i) { return map(e->args[i]); };
  switch (e->kind) {
  case Kind::Int:
  case Kind::Float:
  case Kind::Index:
  case Kind::Symbol:
    return e;
  case Kind::Sum: {
    Expr total = integer(0);
    std::vector<Term> flat;
    for (const Term &t : e->terms) {
      Expr product = integer(t.coefficient);
      for (const Expr &f : t.factors)
        product = mul(product, map(f));
      llvm::append_range(flat, termsOf(product));
    }
    return sumOf(std::move(flat));
  }
  case Kind::FloorDiv:
    return floorDiv(arg(0), arg(1));
  case Kind::Mod:
    return mod(arg(0), arg(1));
  case Kind::Min:
    return minimum(arg(0), arg(1));
  case Kind::Max:
    return maximum(arg(0), arg(1));
  case Kind::FAdd:
  case Kind::FSub:
  case Kind::FMul:
  case Kind::FDiv:
  case Kind::FMin:
  case Kind::FMax:
    return floatBinary(e->kind, arg(0), arg(1), true);
  case Kind::ToFloat:
    return toFloat(arg(0));
  case Kind::NonNegative:
    return nonNegative(arg(0));
  case Kind::IsZero:
    return isZero(arg(0));
  case Kind::FLess:
    return less(arg(0), arg(1));
  case Kind::FLessEqual:
    return lessEqual(arg(0), arg(1));
  case Kind::FEqual:
    return equal(arg(0), arg(1));
  case Kind::And:
    return logicalAnd(arg(0), arg(1));
  case Kind::Or:
    return logicalOr(arg(0), arg(1));
  case Kind::Not:
    return logicalNot(arg(0));
  case Kind::Select:
    return select(arg(0), arg(1), arg(2));
  case Kind::Table:
    return table(e->table, arg(0));
  }
  return e;
}

Expr dt::symbolic::substitute(const Expr &root, llvm::ArrayRef<Expr> values) {
  llvm::DenseMap<const Node *, Expr> done;
  auto visit = [&](auto &&self, const Expr &e) -> Expr {
    if (!e->hasIndex)
      return e;
    if (e->kind == Kind::Index)
      return static_cast<size_t>(e->i) < values.size() ? values[e->i] : e;
    if (auto it = done.find(e.get()); it != done.end())
      return it->second;
    Expr r = mapChildren(e, [&](const Expr &c) { return self(self, c); });
    done[e.get()] = r;
    return r;
  };
  return visit(visit, root);
}

bool dt::symbolic::dependsOn(const Expr &e, int64_t i) {
  if (!e->hasIndex)
    return false;
  if (e->kind == Kind::Index)
    return e->i == i;
  for (const Expr &a : e->args)
    if (dependsOn(a, i))
      return true;
  for (const Term &t : e->terms)
    for (const Expr &f : t.factors)
      if (dependsOn(f, i))
        return true;
  return false;
}
