//===- DimExpr.cpp - Sizes of tensor dims as polynomials --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/DimExpr.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <cassert>
#include <limits>

using namespace dt::nn;

static bool before(const std::vector<std::string> &a,
                   const std::vector<std::string> &b) {
  if (a.size() != b.size())
    return a.size() > b.size();
  return a < b;
}

/// Stands for a size that no tensor has: a coefficient beyond 64 bits, or more
/// terms than any graph's. Arithmetic with it gives it again; it is no
/// constant, and no text of a size is read as it.
static const char *const kTooLarge = "too large";
static constexpr size_t kMostTerms = 256, kMostFactors = 32;

static bool isTooLarge(llvm::ArrayRef<DimExpr::Term> sum) {
  return sum.size() == 1 && sum[0].symbols.size() == 1 &&
         sum[0].symbols[0] == kTooLarge;
}

DimExpr::DimExpr(int64_t constant) {
  if (constant)
    sum.push_back({{}, constant});
}

DimExpr DimExpr::symbol(llvm::StringRef name) {
  DimExpr e;
  e.sum.push_back({{name.str()}, 1});
  return e;
}

void DimExpr::add(Term term) {
  auto it = std::lower_bound(sum.begin(), sum.end(), term,
                             [](const Term &a, const Term &b) {
                               return before(a.symbols, b.symbols);
                             });
  if (it != sum.end() && it->symbols == term.symbols) {
    if (llvm::AddOverflow(it->coefficient, term.coefficient, it->coefficient))
      *this = symbol(kTooLarge);
    else if (it->coefficient == 0)
      sum.erase(it);
    return;
  }
  if (term.coefficient)
    sum.insert(it, std::move(term));
}

bool DimExpr::isConstant() const {
  return sum.empty() || (sum.size() == 1 && sum[0].symbols.empty());
}

int64_t DimExpr::constant() const {
  assert(isConstant() && "not a constant size");
  return sum.empty() ? 0 : sum[0].coefficient;
}

std::optional<int64_t> DimExpr::asConstant() const {
  if (!isConstant())
    return std::nullopt;
  return constant();
}

std::optional<DimExpr::Affine> DimExpr::asAffine() const {
  Affine a{0, "", 0};
  for (const Term &t : sum) {
    if (t.symbols.empty()) {
      a.offset = t.coefficient;
    } else if (t.symbols.size() == 1 && a.symbol.empty()) {
      a.symbol = t.symbols[0];
      a.scale = t.coefficient;
    } else {
      return std::nullopt;
    }
  }
  return a;
}

llvm::SmallVector<std::string> DimExpr::symbols() const {
  llvm::SmallVector<std::string> names;
  for (const Term &t : sum)
    for (const std::string &s : t.symbols)
      if (!llvm::is_contained(names, s))
        names.push_back(s);
  llvm::sort(names);
  return names;
}

DimExpr DimExpr::operator+(const DimExpr &o) const {
  if (isTooLarge(sum) || isTooLarge(o.sum))
    return symbol(kTooLarge);
  DimExpr r = *this;
  for (const Term &t : o.sum) {
    r.add(t);
    if (isTooLarge(r.sum) || r.sum.size() > kMostTerms)
      return symbol(kTooLarge);
  }
  return r;
}

DimExpr DimExpr::operator-(const DimExpr &o) const {
  return *this + o * DimExpr(-1);
}

DimExpr DimExpr::operator*(const DimExpr &o) const {
  if (isTooLarge(sum) || isTooLarge(o.sum))
    return symbol(kTooLarge);
  DimExpr r;
  for (const Term &a : sum)
    for (const Term &b : o.sum) {
      Term t{a.symbols, 0};
      bool large =
          llvm::MulOverflow(a.coefficient, b.coefficient, t.coefficient);
      t.symbols.insert(t.symbols.end(), b.symbols.begin(), b.symbols.end());
      if (large || t.symbols.size() > kMostFactors)
        return symbol(kTooLarge);
      llvm::sort(t.symbols);
      r.add(std::move(t));
      if (isTooLarge(r.sum) || r.sum.size() > kMostTerms)
        return symbol(kTooLarge);
    }
  return r;
}

/// a / b for single terms.
static std::optional<DimExpr::Term> divide(const DimExpr::Term &a,
                                           const DimExpr::Term &b) {
  // The one quotient that does not fit.
  if (b.coefficient == -1 &&
      a.coefficient == std::numeric_limits<int64_t>::min())
    return std::nullopt;
  if (a.coefficient % b.coefficient != 0)
    return std::nullopt;
  DimExpr::Term q{a.symbols, a.coefficient / b.coefficient};
  for (const std::string &s : b.symbols) {
    auto it = llvm::find(q.symbols, s);
    if (it == q.symbols.end())
      return std::nullopt;
    q.symbols.erase(it);
  }
  return q;
}

std::optional<DimExpr> DimExpr::exactDiv(const DimExpr &o) const {
  if (o.sum.empty() || isTooLarge(sum))
    return std::nullopt;
  if (o.sum.size() == 1) {
    DimExpr quotient;
    for (const Term &t : sum) {
      std::optional<Term> q = divide(t, o.sum.front());
      if (!q)
        return std::nullopt;
      quotient.add(std::move(*q));
    }
    return quotient;
  }
  // Polynomial long division by the leading term; each step cancels one.
  DimExpr quotient, rest = *this;
  while (!rest.sum.empty()) {
    std::optional<Term> q = divide(rest.sum.front(), o.sum.front());
    if (!q)
      return std::nullopt;
    DimExpr step;
    step.add(*q);
    quotient = quotient + step;
    DimExpr next = rest - step * o;
    if (!next.sum.empty() && next.sum.front() == rest.sum.front())
      return std::nullopt;
    rest = next;
  }
  return quotient;
}

DimExpr DimExpr::substitute(
    llvm::function_ref<std::optional<DimExpr>(llvm::StringRef)> value) const {
  DimExpr r;
  for (const Term &t : sum) {
    DimExpr product(t.coefficient);
    for (const std::string &s : t.symbols) {
      std::optional<DimExpr> v = value(s);
      product = product * (v ? *v : symbol(s));
    }
    r = r + product;
  }
  return r;
}

std::optional<int64_t> DimExpr::evaluate(
    llvm::function_ref<std::optional<int64_t>(llvm::StringRef)> value) const {
  return substitute([&](llvm::StringRef s) -> std::optional<DimExpr> {
           if (std::optional<int64_t> v = value(s))
             return DimExpr(*v);
           return std::nullopt;
         })
      .asConstant();
}

std::string DimExpr::str() const {
  if (sum.empty())
    return "0";
  std::string out;
  for (const Term &t : sum) {
    int64_t c = t.coefficient;
    if (!out.empty())
      out += c < 0 ? " - " : " + ";
    else if (c < 0)
      out += "-";
    uint64_t magnitude = c < 0 ? 0 - static_cast<uint64_t>(c) : c;
    std::string product = llvm::join(t.symbols, "*");
    if (product.empty())
      out += std::to_string(magnitude);
    else if (magnitude == 1)
      out += product;
    else
      out += std::to_string(magnitude) + "*" + product;
  }
  return out;
}

namespace {
/// sum := product (('+'|'-') product)*, product := factor ('*' factor)*.
class Parser {
public:
  explicit Parser(llvm::StringRef text) : text(text) {}

  std::optional<DimExpr> run() {
    std::optional<DimExpr> e = parseSum();
    if (!e || !text.ltrim().empty() || isTooLarge(e->terms()))
      return std::nullopt;
    return e;
  }

private:
  bool eat(char c) {
    text = text.ltrim();
    return text.consume_front(llvm::StringRef(&c, 1));
  }

  std::optional<DimExpr> parseSum() {
    bool negative = eat('-');
    std::optional<DimExpr> left = parseProduct();
    if (left && negative)
      left = DimExpr(0) - *left;
    while (left) {
      bool minus = false;
      if (!eat('+')) {
        if (!(minus = eat('-')))
          break;
      }
      std::optional<DimExpr> right = parseProduct();
      if (!right)
        return std::nullopt;
      left = minus ? *left - *right : *left + *right;
    }
    return left;
  }

  std::optional<DimExpr> parseProduct() {
    std::optional<DimExpr> left = parseFactor();
    while (left && eat('*')) {
      std::optional<DimExpr> right = parseFactor();
      if (!right)
        return std::nullopt;
      left = *left * *right;
    }
    return left;
  }

  std::optional<DimExpr> parseFactor() {
    // Each level of parentheses is one of recursion: bound it.
    if (eat('(')) {
      if (++depth > 32)
        return std::nullopt;
      std::optional<DimExpr> e = parseSum();
      --depth;
      if (!e || !eat(')'))
        return std::nullopt;
      return e;
    }
    text = text.ltrim();
    llvm::StringRef digits =
        text.take_while([](char c) { return llvm::isDigit(c); });
    if (!digits.empty()) {
      int64_t n;
      if (digits.getAsInteger(10, n))
        return std::nullopt;
      text = text.drop_front(digits.size());
      return DimExpr(n);
    }
    llvm::StringRef name = text.take_while(
        [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
    if (name.empty() || name[0] == '.')
      return std::nullopt;
    text = text.drop_front(name.size());
    return DimExpr::symbol(name);
  }

  llvm::StringRef text;
  int depth = 0;
};
} // namespace

llvm::hash_code dt::nn::hash_value(const DimExpr &e) {
  llvm::hash_code code(0);
  for (const DimExpr::Term &term : e.sum)
    code = llvm::hash_combine(
        code, term.coefficient,
        llvm::hash_combine_range(term.symbols.begin(), term.symbols.end()));
  return code;
}

std::optional<DimExpr> DimExpr::parse(llvm::StringRef text) {
  return Parser(text).run();
}
