//===- ExprEval.cpp - Values and text of expressions ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/symbolic/Expr.h"

#include "llvm/ADT/STLExtras.h"

using namespace dt::symbolic;

namespace {
/// Folds one node whose children are leaves: the builders know how.
std::optional<Scalar> scalarOf(const Expr &e) {
  if (e->kind == Kind::Int)
    return Scalar{e->i, 0};
  if (e->kind == Kind::Float)
    return Scalar{0, e->f};
  return std::nullopt;
}

Expr leaf(const Expr &like, const Scalar &v) {
  if (like->type == Type::Float)
    return real(v.f);
  return like->type == Type::Bool ? boolean(v.i != 0) : integer(v.i);
}

std::optional<Scalar> evaluateSum(const Expr &e,
                                  llvm::ArrayRef<int64_t> indices) {
  uint64_t total = 0;
  for (const Term &t : e->terms) {
    uint64_t product = t.coefficient;
    for (const Expr &f : t.factors) {
      std::optional<Scalar> v = evaluate(f, indices);
      if (!v)
        return std::nullopt;
      product *= static_cast<uint64_t>(v->i);
    }
    total += product;
  }
  return Scalar{static_cast<int64_t>(total), 0};
}

const char *infix(Kind kind) {
  switch (kind) {
  case Kind::FloorDiv:
    return " floordiv ";
  case Kind::Mod:
    return " mod ";
  case Kind::FAdd:
    return " + ";
  case Kind::FSub:
    return " - ";
  case Kind::FMul:
    return " * ";
  case Kind::FDiv:
    return " / ";
  case Kind::FLess:
    return " < ";
  case Kind::FLessEqual:
    return " <= ";
  case Kind::FEqual:
    return " == ";
  case Kind::And:
    return " and ";
  case Kind::Or:
    return " or ";
  default:
    return nullptr;
  }
}

const char *prefix(Kind kind) {
  switch (kind) {
  case Kind::Min:
  case Kind::FMin:
    return "min";
  case Kind::Max:
  case Kind::FMax:
    return "max";
  case Kind::ToFloat:
    return "float";
  case Kind::Not:
    return "not";
  case Kind::Select:
    return "select";
  default:
    return "table";
  }
}

std::string sumToString(const Expr &e) {
  std::string out;
  for (const Term &t : e->terms) {
    bool negative = t.coefficient < 0;
    uint64_t size = negative ? 0 - static_cast<uint64_t>(t.coefficient)
                             : static_cast<uint64_t>(t.coefficient);
    if (!out.empty())
      out += negative ? " - " : " + ";
    else if (negative)
      out += "-";
    std::string product;
    for (const Expr &f : t.factors)
      product += (product.empty() ? "" : "*") + toString(f);
    if (product.empty())
      out += std::to_string(size);
    else
      out += (size == 1 ? "" : std::to_string(size) + "*") + product;
  }
  return out;
}
} // namespace

std::optional<Scalar> dt::symbolic::evaluate(const Expr &e,
                                             llvm::ArrayRef<int64_t> indices) {
  switch (e->kind) {
  case Kind::Int:
  case Kind::Float:
    return scalarOf(e);
  case Kind::Index:
    if (static_cast<size_t>(e->i) >= indices.size())
      return std::nullopt;
    return Scalar{indices[e->i], 0};
  case Kind::Symbol:
    return std::nullopt;
  case Kind::Sum:
    return evaluateSum(e, indices);
  case Kind::Select: {
    std::optional<Scalar> c = evaluate(e->args[0], indices);
    if (!c)
      return std::nullopt;
    return evaluate(e->args[c->i ? 1 : 2], indices);
  }
  default:
    break;
  }
  // The rest folds in the builders once its operands are numbers.
  Node shallow{e->kind, e->type};
  shallow.table = e->table;
  for (const Expr &a : e->args) {
    std::optional<Scalar> v = evaluate(a, indices);
    if (!v)
      return std::nullopt;
    shallow.args.push_back(leaf(a, *v));
  }
  Expr wrapped = std::make_shared<const Node>(std::move(shallow));
  return scalarOf(mapChildren(wrapped, [](const Expr &c) { return c; }));
}

std::string dt::symbolic::toString(const Expr &e) {
  switch (e->kind) {
  case Kind::Int:
    if (e->type == Type::Bool)
      return e->i ? "true" : "false";
    return std::to_string(e->i);
  case Kind::Float: {
    char text[32];
    snprintf(text, sizeof text, "%g", e->f);
    return text;
  }
  case Kind::Index:
    return "d" + std::to_string(e->i);
  case Kind::Symbol:
    return e->name;
  case Kind::Sum:
    return "(" + sumToString(e) + ")";
  case Kind::NonNegative:
    return toString(e->args[0]) + " >= 0";
  case Kind::IsZero:
    return toString(e->args[0]) + " == 0";
  default:
    break;
  }
  if (const char *op = infix(e->kind))
    return "(" + toString(e->args[0]) + op + toString(e->args[1]) + ")";
  std::string out = prefix(e->kind);
  out += "(";
  for (const Expr &a : e->args)
    out += (&a == &e->args[0] ? "" : ", ") + toString(a);
  return out + ")";
}
