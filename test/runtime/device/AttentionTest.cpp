//===- AttentionTest.cpp - attention against plain loops --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu/Attention.h"
#include "test/runtime/TestSupport.h"

#include <gtest/gtest.h>
#include <limits>

using namespace dt::rt;

namespace {

struct Case {
  int64_t b, t, s, h, hk, d;
  bool causal;
  MaskKind kind = MaskKind::None;
  EmptyRow empty = EmptyRow::Mean;
  int64_t more = 4;    ///< elements that a value has more than a key
  bool byHead = false; ///< each head has a mask of its own
};

AttentionShape shapeFor(const Case &c) {
  AttentionShape s{};
  s.b = c.b, s.t = c.t, s.s = c.s, s.h = c.h, s.hk = c.hk, s.d = c.d,
  s.dv = c.d + c.more;
  s.qh = s.d, s.qt = s.h * s.d, s.qb = s.t * s.qt;
  s.kh = s.d, s.ks = s.hk * s.d, s.kb = s.s * s.ks;
  s.vh = s.dv, s.vs = s.hk * s.dv, s.vb = s.s * s.vs;
  s.oh = s.dv, s.ot = s.h * s.dv, s.ob = s.t * s.ot;
  s.scale = 0.3f, s.causal = c.causal, s.emptyRow = c.empty, s.mask = c.kind;
  if (c.kind != MaskKind::None)
    s.maskT = c.s, s.maskS = 1, s.maskH = c.byHead ? c.t * c.s : 0,
    s.maskB = (c.byHead ? c.h : 1) * c.t * c.s;
  return s;
}

struct Data {
  std::vector<float> q, k, v, dout, additive;
  std::vector<uint8_t> boolean;
  const void *mask = nullptr;

  Data(const Case &c, const AttentionShape &s, float shift = 0) {
    q = randoms(s.b * s.qb, 1), k = randoms(s.b * s.kb, 2),
    v = randoms(s.b * s.vb, 3), dout = randoms(s.b * s.ob, 4);
    additive = randoms(c.b * (c.byHead ? c.h : 1) * c.t * c.s, 5);
    Random random(6, 0);
    for (size_t i = 0; i < additive.size(); ++i) {
      bool hidden = random.uniform(i) < 0.3f ||
                    i / c.s % c.t == 2; // query 2 sees nothing
      boolean.push_back(!hidden);
      additive[i] = hidden ? -HUGE_VALF : additive[i] + shift;
    }
    mask = c.kind == MaskKind::Additive
               ? static_cast<const void *>(additive.data())
           : c.kind == MaskKind::Boolean ? boolean.data()
                                         : nullptr;
  }
};

/// Everything in double, straight from the definition.
struct Expected {
  std::vector<float> o, dq, dk, dv;

  Expected(const Data &x, const AttentionShape &s)
      : o(s.b * s.ob), dq(x.q.size()), dk(x.k.size()), dv(x.v.size()) {
    std::vector<double> p(s.s), dp(s.s);
    for (int64_t b = 0; b < s.b; ++b)
      for (int64_t h = 0; h < s.h; ++h)
        for (int64_t i = 0; i < s.t; ++i)
          row(x, s, b, h, i, p, dp);
  }

  void row(const Data &x, const AttentionShape &s, int64_t b, int64_t h,
           int64_t i, std::vector<double> &p, std::vector<double> &dp) {
    int64_t kv = h / (s.h / s.hk), qi = b * s.qb + i * s.qt + h * s.qh,
            oi = b * s.ob + i * s.ot + h * s.oh;
    auto ki = [&](int64_t j) { return b * s.kb + j * s.ks + kv * s.kh; };
    auto vi = [&](int64_t j) { return b * s.vb + j * s.vs + kv * s.vh; };
    double sum = 0, top = -INFINITY;
    for (int64_t j = 0; j < s.s; ++j) {
      double score = 0;
      for (int64_t e = 0; e < s.d; ++e)
        score += double(x.q[qi + e]) * x.k[ki(j) + e];
      score *= s.scale;
      int64_t m = b * s.maskB + h * s.maskH + i * s.maskT + j * s.maskS;
      if (s.mask == MaskKind::Additive)
        score += x.additive[m];
      if ((s.mask == MaskKind::Boolean && !x.boolean[m]) ||
          (s.causal && j > i + s.s - s.t))
        score = -INFINITY;
      p[j] = score, top = std::max(top, score);
    }
    for (int64_t j = 0; j < s.s; ++j)
      sum += p[j] = top == -INFINITY ? (s.emptyRow == EmptyRow::Mean ? 1 : 0)
                                     : std::exp(p[j] - top);
    double delta = 0;
    for (int64_t j = 0; j < s.s; ++j) {
      p[j] = sum ? p[j] / sum : 0, dp[j] = 0;
      for (int64_t e = 0; e < s.dv; ++e) {
        o[oi + e] += float(p[j] * x.v[vi(j) + e]);
        dp[j] += double(x.dout[oi + e]) * x.v[vi(j) + e];
        dv[vi(j) + e] += float(p[j] * x.dout[oi + e]);
      }
      delta += p[j] * dp[j];
    }
    for (int64_t j = 0; j < s.s; ++j)
      for (int64_t e = 0; e < s.d; ++e) {
        double ds = p[j] * (dp[j] - delta) * s.scale;
        dq[qi + e] += float(ds * x.k[ki(j) + e]);
        dk[ki(j) + e] += float(ds * x.q[qi + e]);
      }
  }
};

/// What both functions write, over nines.
template <typename T> struct Outcome {
  std::vector<T> o, dq, dk, dv;

  Outcome(const std::vector<T> &q, const std::vector<T> &k,
          const std::vector<T> &v, const std::vector<T> &dout, const void *mask,
          const AttentionShape &s)
      : o(dout.size(), T(9)), dq(q.size(), T(9)), dk(k.size(), T(9)),
        dv(v.size(), T(9)) {
    std::vector<float> lse(s.b * s.h * s.t);
    attentionForward(q.data(), k.data(), v.data(), mask, o.data(), lse.data(),
                     s);
    attentionBackward(q.data(), k.data(), v.data(), mask, o.data(), lse.data(),
                      dout.data(), dq.data(), dk.data(), dv.data(), s);
  }
};

Outcome<float> run(const Data &x, const AttentionShape &s) {
  return {x.q, x.k, x.v, x.dout, x.mask, s};
}

void check(const Case &c, float shift = 0) {
  AttentionShape s = shapeFor(c);
  Data x(c, s, shift);
  Expected expected(x, s);
  auto [o, dq, dk, dv] = run(x, s);
  // A score of size c is off by c roundings more, and so is its exp,
  // relatively; shifted scores have fewer digits: two roundings at the size of
  // the shift.
  double scores = 8, output = sumLimit(double(s.s)) + scores * kEps;
  EXPECT_LT(relativeError(o, expected.o),
            shift == 0 ? output : 2 * kEps * std::fabs(shift));
  if (shift != 0)
    return;
  // dP minus its mean cancels: a few times the output's.
  EXPECT_LT(relativeError(dq, expected.dq), 4 * output);
  EXPECT_LT(relativeError(dk, expected.dk), 4 * output);
  EXPECT_LT(relativeError(dv, expected.dv), 4 * output);
}

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

TEST(Attention, MasksAndEmptyRows) {
  for (MaskKind kind : {MaskKind::Additive, MaskKind::Boolean})
    for (EmptyRow empty : {EmptyRow::Mean, EmptyRow::Zero})
      for (bool causal : {false, true})
        check({2, 12, 12, 4, 2, 8, causal, kind, empty});
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

/// Rounded operands, among them the mask; the output that the backward function
/// reads is rounded, too. `shift`: of the mask of every third query.
void checkNarrow(Case c, float shift = 0) {
  AttentionShape s = shapeFor(c);
  Data x(c, s);
  for (size_t i = 0; i < x.additive.size(); ++i)
    if (i / c.s % 3 == 1)
      x.additive[i] += shift;
  for (std::vector<float> *values : {&x.q, &x.k, &x.v, &x.dout, &x.additive})
    for (float &value : *values)
      value = bf16(value);
  Expected expected(x, s);
  std::vector<bf16> q = narrow(x.q), k = narrow(x.k), v = narrow(x.v),
                    dout = narrow(x.dout), mask = narrow(x.additive);
  for (bool narrowMask : {false, true}) {
    const void *given = x.mask;
    if (narrowMask && c.kind == MaskKind::Additive)
      s.mask = MaskKind::AdditiveNarrow, given = mask.data();
    auto [o, dq, dk, dv] = Outcome(q, k, v, dout, given, s);
    double output = sumLimit(double(s.s)) + 8 * kEps + kNarrowEps;
    EXPECT_LT(relativeError(widen(o), expected.o), output);
    EXPECT_LT(relativeError(widen(dq), expected.dq), 4 * output);
    EXPECT_LT(relativeError(widen(dk), expected.dk), 4 * output);
    EXPECT_LT(relativeError(widen(dv), expected.dv), 4 * output);
  }
}

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
