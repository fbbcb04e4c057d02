//===- SymbolicTest.cpp - Element functions of tensors ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/symbolic/Simplify.h"
#include "models/frontend/symbolic/SymbolicTensor.h"

#include "gtest/gtest.h"

using namespace dt;
using namespace dt::symbolic;
using nn::DimExpr;

namespace {
DimExpr sym(const char *name) { return DimExpr::symbol(name); }
SymbolicTensor number(int64_t v) { return scalar(Element::Int64, integer(v)); }
SymbolicTensor sizeOf(const char *name) {
  return scalar(Element::Int64, symbol(name));
}
std::string text(const Result &r) {
  return r ? toString(r->value) : "not representable";
}
Result arange(const char *size) {
  return range(number(0), sizeOf(size), number(1));
}
Result literalOf(std::vector<int64_t> shape, std::vector<int64_t> values,
                 Element e = Element::Int64) {
  return literal(shape, e, {typeOf(e), std::move(values), {}});
}
} // namespace

TEST(Expr, PolynomialsCancel) {
  Expr d = index(0), n = symbol("n");
  EXPECT_EQ(toString(sub(mul(add(d, n), add(d, n)), add(mul(d, d), mul(n, n)))),
            "(2*d0*n)");
  EXPECT_EQ(toString(sub(add(d, integer(3)), d)), "3");
}

TEST(Expr, ComparisonsAreNormal) {
  Expr a = index(0), b = index(1);
  EXPECT_TRUE(same(equal(a, b), equal(b, a)));
  EXPECT_TRUE(same(logicalNot(less(a, b)), lessEqual(b, a)));
  EXPECT_TRUE(same(logicalAnd(lessEqual(a, b), less(a, b)), less(a, b)));
}

TEST(Ranges, DecideWithUnboundSizes) {
  Ranges r({sym("seq"), sym("seq") + DimExpr(1)});
  EXPECT_EQ(toString(r.simplify(less(index(0), symbol("seq")))), "true");
  EXPECT_EQ(toString(r.simplify(lessEqual(index(1), symbol("seq")))), "true");
  EXPECT_EQ(toString(r.simplify(less(index(0), integer(0)))), "false");
  EXPECT_NE(toString(r.simplify(less(index(1), symbol("seq")))), "true");
}

/// A batch may have no images, but where there is an element there is one.
TEST(Ranges, SizesMayBeZero) {
  Ranges none({}), some({DimExpr(4) * sym("images")}),
      two({sym("n") - DimExpr(1)});
  Expr images = symbol("images");
  EXPECT_NE(toString(none.simplify(maximum(images, integer(1)))), "images");
  EXPECT_EQ(toString(some.simplify(maximum(images, integer(1)))), "images");
  EXPECT_EQ(toString(two.simplify(lessEqual(integer(2), symbol("n")))), "true");
  EXPECT_NE(toString(two.simplify(lessEqual(integer(3), symbol("n")))), "true");
  EXPECT_EQ(toString(none.simplify(maximum(images, integer(0)))), "images");
  EXPECT_NE(toString(none.simplify(less(integer(0), images))), "true");
  EXPECT_NE(toString(none.simplify(isZero(images))), "false");
  // Who divides by a size says that it is not 0.
  EXPECT_EQ(toString(none.simplify(floorDiv(scale(images, 4), images))), "4");
  Ranges least({}, [](llvm::StringRef) { return int64_t(1); });
  EXPECT_EQ(toString(least.simplify(maximum(images, integer(1)))), "images");
}

TEST(SymbolicTensor, MostOfNothingIsNotKnown) {
  Result ones = broadcast(number(1), {sym("images"), DimExpr(2)});
  EXPECT_FALSE(reduce(Reduction::Max, *ones, {0}, false));
  EXPECT_EQ(text(reduce(Reduction::Max, *ones, {1}, false)), "1");
  EXPECT_EQ(text(reduce(Reduction::Sum, *ones, {0}, false)), "images");
  EXPECT_FALSE(range(number(1), sizeOf("images"), number(1)));
}

TEST(Ranges, DivisionCancels) {
  Ranges r({sym("batch"), sym("seq"), DimExpr(64)});
  Expr seq = symbol("seq");
  Expr position =
      add(mul(add(mul(index(0), seq), index(1)), integer(64)), index(2));
  EXPECT_EQ(toString(r.simplify(floorDiv(position, mul(seq, integer(64))))),
            "d0");
  EXPECT_EQ(toString(r.simplify(mod(floorDiv(position, integer(64)), seq))),
            "d1");
  EXPECT_EQ(toString(r.simplify(mod(position, integer(64)))), "d2");
}

TEST(Ranges, ConditionsRefineBranches) {
  Ranges r({sym("n")});
  Expr d = index(0);
  Expr inner = select(lessEqual(d, integer(5)), integer(1), integer(2));
  EXPECT_EQ(
      toString(r.simplify(select(lessEqual(d, integer(3)), inner, integer(7)))),
      toString(r.simplify(
          select(lessEqual(d, integer(3)), integer(1), integer(7)))));
  // d == 0 ? -1 : d - 1 is d - 1.
  EXPECT_EQ(toString(r.simplify(
                select(less(d, integer(1)), integer(-1), sub(d, integer(1))))),
            "(d0 - 1)");
}

TEST(SymbolicTensor, LiteralsShowTheirPattern) {
  EXPECT_EQ(text(literalOf({2, 3}, {5, 6, 7, 15, 16, 17})), "(10*d0 + d1 + 5)");
  EXPECT_EQ(text(literalOf({3, 3}, {1, 0, 0, 1, 1, 0, 1, 1, 1}, Element::Bool)),
            "(d0 - d1) >= 0");
  EXPECT_EQ(text(literalOf({2}, {4, 4})), "4");
  EXPECT_EQ(text(literalOf({3}, {4, 1, 2})), "table(d0)");
}

TEST(SymbolicTensor, LargeArraysOnlyAsPatterns) {
  int64_t n = 300;
  std::vector<int64_t> triangle, noise;
  for (int64_t i = 0; i < n * n; ++i) {
    triangle.push_back(i % n <= i / n);
    noise.push_back(i * i % 7919);
  }
  EXPECT_EQ(text(literalOf({n, n}, triangle, Element::Bool)), "(d0 - d1) >= 0");
  EXPECT_FALSE(literalOf({n, n}, noise));
}

TEST(SymbolicTensor, NonZero) {
  Result r = nonZero(*literalOf({2, 3}, {1, 0, 1, 0, 1, 0}, Element::Bool));
  ASSERT_TRUE(r);
  EXPECT_EQ(staticShape(r->shape), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(evaluateAll(*r)->ints, (std::vector<int64_t>{0, 0, 1, 0, 2, 1}));
  Result none = nonZero(*literalOf({2, 3}, {0, 0, 0, 0, 0, 0}));
  ASSERT_TRUE(none);
  EXPECT_EQ(staticShape(none->shape), (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(staticShape(nonZero(*literalOf({0, 3}, {}))->shape),
            (std::vector<int64_t>{2, 0}));
}

/// A mask of ones for any number of items; what depends on items is refused.
TEST(SymbolicTensor, NonZeroOfOpenSizes) {
  SymbolicTensor ones{{sym("n"), DimExpr(3)}, Element::Bool, boolean(true)};
  Result r = nonZero(ones);
  ASSERT_TRUE(r);
  EXPECT_EQ(r->shape, (Shape{DimExpr(2), DimExpr(3) * sym("n")}));
  Expr last = substitute(r->value, {integer(1), index(1)});
  EXPECT_EQ(toString(last), "(d1 mod 3)");
  EXPECT_FALSE(nonZero(*binary(Binary::Less, *arange("n"), number(2))));
}

TEST(SymbolicTensor, SizesBesideNumbers) {
  Result r = concat({fromDims({sym("n")}), *literalOf({3}, {3, 2, 2})}, 0);
  ASSERT_TRUE(r && asDims(*r));
  EXPECT_EQ((*asDims(*r))[0], sym("n"));
  EXPECT_EQ((*asDims(*r))[3], DimExpr(2));
}

TEST(SymbolicTensor, ShapeArithmetic) {
  SymbolicTensor s = fromDims({sym("batch"), sym("seq"), DimExpr(64)});
  Result tail = slice(s, {integer(1)}, {1}, {DimExpr(2)});
  std::optional<Shape> dims =
      asDims(*concat({*tail, fromDims({DimExpr(-1)})}, 0));
  ASSERT_TRUE(dims);
  EXPECT_EQ((*dims)[0], sym("seq"));
  EXPECT_EQ((*dims)[1], DimExpr(64));
  EXPECT_EQ((*dims)[2], DimExpr(-1));
  Result product = reduce(Reduction::Prod, s, {0}, false);
  EXPECT_EQ(text(product), "(64*batch*seq)");
}

TEST(SymbolicTensor, ReshapeSplitsAndMerges) {
  Result r = arange("batch");
  Result wide = broadcast(*reshape(*r, {sym("batch"), DimExpr(1)}),
                          {sym("batch"), DimExpr(16)});
  Result flat = reshape(*wide, {sym("batch") * DimExpr(16)});
  EXPECT_EQ(text(flat), "(d0 floordiv 16)");
  EXPECT_EQ(text(reshape(*flat, {sym("batch"), DimExpr(16)})), "d0");
}

TEST(SymbolicTensor, CumsumOfEqualElements) {
  Result ones = broadcast(number(2), {sym("batch"), sym("seq")});
  EXPECT_EQ(text(cumsum(*ones, 1, false, false)), "(2*d1 + 2)");
  EXPECT_EQ(text(cumsum(*ones, 1, true, false)), "(2*d1)");
  EXPECT_EQ(text(cumsum(*literalOf({3}, {1, 5, 2}), 0, false, false)),
            "table(d0)");
}

TEST(SymbolicTensor, OutOfRangeIsNotRead) {
  Result t = literalOf({3}, {4, 1, 2});
  EXPECT_FALSE(gather(*t, number(3), 0));
  EXPECT_EQ(text(gather(*t, number(-1), 0)), "2");
}

/// What transformers writes for a packed-sequence mask: positions, the places
/// where they do not go up by one, a running count of those, and the comparison
/// of the counts and positions of query and key. Without packing: causal.
TEST(SymbolicTensor, PackedSequenceMaskIsCausal) {
  DimExpr b = sym("batch"), s = sym("seq"), one(1);
  Result positions = broadcast(*reshape(*arange("seq"), {one, s}), {b, s});
  Result first = slice(*positions, {integer(0), integer(0)}, {1, 1}, {b, one});
  Result shifted =
      concat({*binary(Binary::Sub, *first, number(1)), *positions}, 1);
  Result before = slice(*shifted, {integer(0), integer(0)}, {1, 1}, {b, s});
  Result after = slice(*shifted, {integer(0), integer(1)}, {1, 1}, {b, s});
  Result jump = logicalNot(
      *binary(Binary::Equal, *binary(Binary::Sub, *after, *before), number(1)));
  Result segment = cumsum(*cast(*jump, Element::Int64), 1, false, false);
  EXPECT_EQ(text(segment), "0");
  auto pick = [&](const SymbolicTensor &t, Shape at) {
    Result i = reshape(*arange("batch"), {b, one, one, one});
    Result j = reshape(*arange("seq"), at);
    Shape full = at;
    full[0] = b;
    Shape column = full;
    column.push_back(one);
    Result tuple = concat({*reshape(*broadcast(*i, full), column),
                           *reshape(*broadcast(*j, full), column)},
                          4);
    return gatherNd(t, *tuple, 0);
  };
  Shape query{one, one, s, one}, key{one, one, one, s};
  Result together =
      binary(Binary::Equal, *pick(*segment, query), *pick(*segment, key));
  Result ordered = binary(Binary::LessEqual, *pick(*positions, key),
                          *pick(*positions, query));
  Result mask = binary(Binary::And, *together, *ordered);
  EXPECT_EQ(text(mask), "(d2 - d3) >= 0");
}

TEST(SymbolicTensor, GrowthIsGivenUp) {
  // x = max(x, transpose-like mix of x): a tree that doubles each time.
  Result t = arange("n");
  int rounds = 0;
  for (; rounds < 40 && t; ++rounds) {
    Result less = binary(Binary::Sub, *t, sizeOf("n"));
    Result product = less ? binary(Binary::Mul, *t, *less) : std::nullopt;
    t = product ? binary(Binary::Max, *t, *product) : std::nullopt;
    ASSERT_TRUE(!t || t->value->size <= maxExprSize);
  }
  EXPECT_LT(rounds, 40);
}
