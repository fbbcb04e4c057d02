//===- AttentionTest.cpp - attention against plain loops --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/runtime/device/AttentionCases.h"

#include <gtest/gtest.h>
#include <limits>

using namespace dt::rt;
using namespace dt::rt::attention;

namespace {

TEST(Attention, Plain) {
  check({2, 44, 44, 4, 4, 16, false});
  check({2, 44, 44, 4, 4, 16, true});
  check({1, 150, 150, 2, 2, 8, true}); // several tiles
  check({1, 70, 65, 1, 1, 131, true}); // wide and odd heads
}

TEST(Attention, GroupedHeadsAndCrossLengths) {
  check({2, 20, 33, 6, 2, 8, false});
  check({2, 20, 33, 6, 2, 8, true});
  check({1, 90, 70, 4, 1, 8, true}); // the first 20 queries see no key
  check({1, 90, 70, 4, 1, 8, true, MaskKind::None, EmptyRow::Zero});
}

/// Queries of one rank of several: blocks of the whole, which stand where they
/// do there.
TEST(Attention, Stripes) {
  for (int64_t place : {0, 1, 2})
    for (bool causal : {false, true})
      for (int64_t window : {0, 20}) {
        Case c{2, 80, 240, 2, 1, 8, causal};
        c.window = window, c.stripes = {16, 3, place};
        check(c);
        c.stripes.chunk = 80; // one run
        check(c);
        c.s = 200, c.stripes.chunk = 1; // the first queries see no key
        check(c);
        c.segments = Segments::Mixed;
        check(c);
        c.more = 8; // whole packs
        checkNarrow(c);
      }
}

TEST(Attention, MasksAndEmptyRows) {
  for (MaskKind kind : {MaskKind::Additive, MaskKind::Boolean})
    for (EmptyRow empty : {EmptyRow::Mean, EmptyRow::Zero})
      for (bool causal : {false, true})
        check({2, 12, 12, 4, 2, 8, causal, kind, empty});
}

/// Scores have a spread of about 1, so that some are far up the cap and some
/// hardly bent.
TEST(Attention, SoftCap) {
  for (float cap : {0.5f, 3.f}) {
    Case c{2, 44, 44, 4, 2, 16, true};
    c.softCap = cap;
    check(c);
    c = {1, 150, 150, 2, 2, 8, true};
    c.softCap = cap, c.window = 20, c.segments = Segments::Packed;
    check(c);
    for (MaskKind kind : {MaskKind::Additive, MaskKind::Boolean})
      for (EmptyRow empty :
           {EmptyRow::Mean, EmptyRow::Zero, EmptyRow::Filled}) {
        c = {2, 12, 12, 4, 2, 8, false, kind, empty};
        c.softCap = cap;
        check(c);
        checkNarrow(c);
      }
  }
}

TEST(Attention, LargeFiniteMaskKeepsItsProbabilities) {
  // All scores near -65504 (a half-precision mask constant): the log-sum-exp
  // alone is too coarse there.
  Case c{1, 8, 8, 2, 2, 8, false, MaskKind::Additive, EmptyRow::Zero};
  AttentionShape s = shapeFor(c);
  Data x(c, s);
  for (float &m : x.additive)
    m = -65504;
  Outcome<float> got = run(x, s);
  double fromDv = 0,
         fromDout = 0; // rows of probabilities sum to one: the totals agree
  for (float value : got.dv)
    fromDv += value;
  for (float value : x.dout)
    fromDout += value;
  EXPECT_NEAR(fromDv, fromDout, 1e-4);
}

TEST(Attention, FiniteNumbersHideNothing) {
  // Keys at the lowest number, or all at the same one: where nothing else is
  // seen, they are weighed by what is left of their scores.
  for (float number : {-1e4f, -1e30f, std::numeric_limits<float>::lowest()})
    for (EmptyRow empty : {EmptyRow::Mean, EmptyRow::Zero, EmptyRow::NaN}) {
      Case c{1, 8, 8, 2, 2, 8, false, MaskKind::Additive, empty};
      AttentionShape s = shapeFor(c);
      Data x(c, s);
      for (size_t i = 0; i < x.additive.size(); ++i)
        x.additive[i] = i / c.s == 2 ? number : 0;
      std::fill(x.dout.begin(), x.dout.end(), 0.f);
      std::fill_n(x.dout.begin() + 2 * s.ot, s.ot, 1.f);
      Outcome<float> got = run(x, s);
      std::vector<double> p(s.s);
      double sum = 0;
      for (int64_t j = 0; j < s.s; ++j) {
        float score = 0;
        for (int64_t e = 0; e < s.d; ++e)
          score += x.q[2 * s.qt + e] * x.k[j * s.ks + e];
        sum += p[j] = std::exp(double(s.scale * score + number) - number);
      }
      for (int64_t e = 0; e < s.dv; ++e) {
        double expected = 0;
        for (int64_t j = 0; j < s.s; ++j)
          expected += p[j] / sum * x.v[j * s.vs + e];
        EXPECT_NEAR(got.o[2 * s.ot + e], expected, 2e-3); // digits lost at -1e4
      }
      for (int64_t j = 0; j < s.s; ++j)
        EXPECT_NEAR(got.dv[j * s.vs], p[j] / sum, 1e-3);
    }
}

TEST(Attention, NoVisibleKeyIsNotANumber) {
  for (MaskKind kind : {MaskKind::Additive, MaskKind::Boolean}) {
    Case c{1, 8, 8, 2, 2, 8, false, kind, EmptyRow::NaN};
    AttentionShape s = shapeFor(c);
    Data x(c, s);
    auto [o, dq, dk, dv] = run(x, s);
    for (int64_t i = 0; i < s.t; ++i) // query 2 sees nothing
      EXPECT_EQ(std::isnan(o[i * s.ot]), i == 2);
    EXPECT_TRUE(std::isnan(dq[2 * s.qt]));
    EXPECT_FALSE(std::isnan(dq[3 * s.qt]));
    EXPECT_TRUE(std::isnan(dv[0]));
  }
}

TEST(Attention, NotANumberSpreads) {
  AttentionShape s = shapeFor({1, 8, 8, 1, 1, 8, false});
  Data x({1, 8, 8, 1, 1, 8, false}, s);
  x.q[3 * s.qt] = NAN;
  auto [o, dq, dk, dv] = run(x, s);
  for (int64_t i = 0; i < s.t; ++i)
    EXPECT_EQ(std::isnan(o[i * s.ot]), i == 3);
  EXPECT_TRUE(std::isnan(dq[3 * s.qt]));
  EXPECT_TRUE(std::isnan(dk[0]) && std::isnan(dv[0]));
}

/// Gradients of q, k and v as columns of the same rows, over nines, are those
/// that stand apart, bit for bit, and nothing else is written.
template <typename T> void checkColumns(const Case &c) {
  AttentionShape s = shapeFor(c);
  Data x(c, s);
  auto as = [](const std::vector<float> &from) {
    return std::vector<T>(from.begin(), from.end());
  };
  std::vector<T> q = as(x.q), k = as(x.k), v = as(x.v), dout = as(x.dout);
  Outcome<T> apart(q, k, v, dout, x.mask, s);
  // Eight elements of nobody stand between keys and values.
  int64_t ofK = s.qt, ofV = ofK + s.ks + 8, pitch = ofV + s.vs;
  s.dqStrides = {s.t * pitch, pitch, s.qh};
  s.dkStrides = {s.s * pitch, pitch, s.kh};
  s.dvStrides = {s.s * pitch, pitch, s.vh};
  std::vector<T> rows(s.b * s.t * pitch, T(9));
  std::vector<float> lse(s.b * s.h * s.t);
  std::vector<T> o(apart.o.size());
  attentionForward(q.data(), k.data(), v.data(), x.mask, o.data(), lse.data(),
                   s);
  attentionBackward(q.data(), k.data(), v.data(), x.mask, o.data(), lse.data(),
                    dout.data(), rows.data(), rows.data() + ofK,
                    rows.data() + ofV, s);
  for (int64_t row = 0; row < s.b * s.t; ++row)
    for (int64_t i = 0; i < pitch; ++i) {
      float expected = i < ofK       ? apart.dq[row * s.qt + i]
                       : i < ofV - 8 ? apart.dk[row * s.ks + i - ofK]
                       : i < ofV     ? T(9)
                                     : apart.dv[row * s.vs + i - ofV];
      ASSERT_EQ(float(rows[row * pitch + i]), expected)
          << "row " << row << ", element " << i;
    }
}

TEST(Attention, GradientsAsColumns) {
  for (Case c :
       {Case{2, 44, 44, 4, 2, 16, true, MaskKind::None, EmptyRow::Mean,
             /*more=*/0},
        Case{2, 40, 40, 4, 4, 8, false, MaskKind::None, EmptyRow::Mean, 8},
        Case{2, 12, 12, 4, 2, 8, false, MaskKind::Boolean}}) {
    checkColumns<float>(c);
    if (c.kind == MaskKind::None)
      checkColumns<bf16>(c);
  }
}

TEST(Attention, NothingToDo) {
  for (Case c : {Case{0, 5, 5, 2, 2, 8, true}, Case{2, 0, 0, 2, 2, 8, true},
                 Case{2, 5, 0, 2, 2, 8, false, MaskKind::None, EmptyRow::Zero},
                 Case{2, 5, 3, 2, 2, 0, false}}) // heads of size 0: a mean
    check(c);
}

//===----------------------------------------------------------------------===//
// Narrow operands
//===----------------------------------------------------------------------===//

TEST(Attention, NarrowOperands) {
  checkNarrow({2, 44, 44, 4, 4, 16, true});
  checkNarrow({1, 90, 70, 4, 1, 8, true});
  for (MaskKind kind : {MaskKind::Additive, MaskKind::Boolean})
    for (EmptyRow empty : {EmptyRow::Mean, EmptyRow::Zero})
      checkNarrow({2, 12, 12, 4, 2, 8, false, kind, empty});
  checkNarrow({0, 5, 5, 2, 2, 8, true});
  checkNarrow({2, 5, 0, 2, 2, 8, false, MaskKind::None, EmptyRow::Zero});
}

/// Heads of whole packs of eight: what tensor cores take. Probabilities are
/// then rounded before they weigh.
TEST(Attention, NarrowPacks) {
  for (bool causal : {false, true}) {
    Case c{2, 44, 44, 4, 4, 16, causal};
    c.more = 8;
    checkNarrow(c);
    c.hk = 2;
    checkNarrow(c);
    c.s = 33; // as many keys as queries, or none of these rules
    checkNarrow(c);
  }
}

/// Queries that see the second tile of a block of keys, and none of the first.
TEST(Attention, NarrowPacksOfManyTiles) {
  for (bool causal : {false, true}) {
    Case c{1, 200, 200, 2, 1, 8, causal};
    c.window = 20, c.more = 8;
    checkNarrow(c);
  }
}

/// The same with masks, rules that hide all keys of a query, and tiles in which
/// some queries or none have such a row.
TEST(Attention, NarrowPacksWithMasks) {
  for (MaskKind kind : {MaskKind::Additive, MaskKind::Boolean})
    for (EmptyRow empty : {EmptyRow::Mean, EmptyRow::Zero})
      for (bool causal : {false, true}) {
        Case c{2, 12, 12, 4, 2, 16, causal, kind, empty, 8};
        checkNarrow(c);
        c.s = 21, c.byHead = true;
        checkNarrow(c);
      }
  for (EmptyRow empty : {EmptyRow::Mean, EmptyRow::Zero})
    checkNarrow({2, 110, 70, 2, 2, 8, true, MaskKind::None, empty, 8});
  for (float shift : {-1e4f, -1e30f})
    checkNarrow(
        {2, 70, 21, 4, 2, 8, false, MaskKind::Additive, EmptyRow::Zero, 8},
        shift);
}

/// Queries, keys and values are columns of one matrix, and their gradients of
/// another.
TEST(Attention, NarrowColumnsOfOneMatrix) {
  Case c{2, 9, 9, 2, 2, 8, true};
  AttentionShape s = shapeFor(c);
  Data x(c, s);
  std::vector<bf16> q = narrow(x.q), k = narrow(x.k), v = narrow(x.v),
                    dout = narrow(x.dout), lone(q.size());
  int64_t wide = 2 * s.qt;
  std::vector<bf16> both(s.b * s.t * wide, bf16(7));
  for (int64_t i = 0; i < s.b * s.t * s.qt; ++i)
    both[i / s.qt * wide + i % s.qt] = q[i];
  Outcome apart(q, k, v, dout, nullptr, s);
  s.qt = wide, s.qb = s.t * wide;
  Outcome same(both, k, v, dout, nullptr, s);
  EXPECT_EQ(widen(apart.o), widen(same.o));
  for (int64_t i = 0; i < s.b * s.t * s.h * s.d; ++i)
    lone[i] = same.dq[i / (s.h * s.d) * wide + i % (s.h * s.d)];
  EXPECT_EQ(widen(apart.dq), widen(lone));
  for (int64_t i = 0; i < int64_t(same.dq.size()); ++i)
    if (i % wide >= s.h * s.d) {
      ASSERT_EQ(float(same.dq[i]), 9.f); // another's columns
    }
}

} // namespace
