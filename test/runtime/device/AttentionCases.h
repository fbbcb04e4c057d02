//===- AttentionCases.h - attention by plain loops --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Operands of a case, and what comes of them by the definition, in double.
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_RUNTIME_DEVICE_ATTENTIONCASES_H
#define DT_TEST_RUNTIME_DEVICE_ATTENTIONCASES_H

#include "runtime/device/cpu/Attention.h"
#include "test/runtime/TestSupport.h"

#include <gtest/gtest.h>

namespace dt::rt::attention {

/// How numbers of segments stand.
enum class Segments {
  None,
  One,      ///< all the same
  Packed,   ///< one after another, some of one row; the last t keys' queries
  Mixed,    ///< in no order, some far apart, some numbers of queries alone
  Padding,  ///< all queries see keys 0 or more, of each batch element others
  Strangers ///< no query sees a key
};

struct Case {
  int64_t b, t, s, h, hk, d;
  bool causal;
  MaskKind kind = MaskKind::None;
  EmptyRow empty = EmptyRow::Mean;
  int64_t more = 4;    ///< elements that a value has more than a key
  bool byHead = false; ///< each head has a mask of its own
  int64_t window = 0;
  Segments segments = Segments::None;
  SegmentKind number = SegmentKind::Int64;
  float softCap = 0;
  Stripes stripes{};
};

inline AttentionShape shapeFor(const Case &c) {
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
  s.window = c.window, s.softCap = c.softCap, s.stripes = c.stripes;
  if (c.segments != Segments::None) {
    s.segments = c.number;
    bool padding = c.segments == Segments::Padding;
    s.querySegmentT = padding ? 0 : 1, s.querySegmentB = padding ? 0 : c.t;
    s.keySegmentB = c.s;
  }
  return s;
}

/// Numbers of segments that queries of a batch element have.
inline int64_t queriesOf(const Case &c) {
  return c.segments == Segments::Padding ? 1 : c.t;
}

struct Data {
  std::vector<float> q, k, v, dout, additive;
  std::vector<uint8_t> boolean;
  std::vector<int64_t> ofQueries, ofKeys; ///< numbers of segments
  std::vector<int32_t> shortQueries, shortKeys;
  AttentionMask mask;

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
    mask.mask = c.kind == MaskKind::Additive
                    ? static_cast<const void *>(additive.data())
                : c.kind == MaskKind::Boolean ? boolean.data()
                                              : nullptr;
    number(c);
  }
  Data(const Data &) = delete;

private:
  void number(const Case &c) {
    if (c.segments == Segments::None)
      return;
    Random random(7, 0);
    for (int64_t b = 0; b < c.b; ++b) {
      int64_t packed = 0;
      for (int64_t j = 0; j < c.s; ++j) {
        float x = random.uniform(b * c.s + j);
        packed += x < 0.1f ? 1 : 0;
        if (j == 3 || j == 4) // a segment of one row
          ++packed;
        ofKeys.push_back(keyNumber(c, packed, x));
      }
      for (int64_t i = 0; i < queriesOf(c); ++i)
        ofQueries.push_back(
            queryNumber(c, b, i, random.uniform(1000000 + b * c.t + i)));
    }
    shortQueries.assign(ofQueries.begin(), ofQueries.end());
    shortKeys.assign(ofKeys.begin(), ofKeys.end());
    bool narrow = c.number == SegmentKind::Int32;
    mask.ofQueries = narrow ? static_cast<const void *>(shortQueries.data())
                            : ofQueries.data();
    mask.ofKeys =
        narrow ? static_cast<const void *>(shortKeys.data()) : ofKeys.data();
  }
  static int64_t keyNumber(const Case &c, int64_t packed, float x) {
    switch (c.segments) {
    case Segments::Packed:
      return packed;
    case Segments::Mixed:
      return x < 0.3f ? -7 : x < 0.6f ? 12 : far(c);
    case Segments::Padding:
      return x < 0.7f;
    default:
      return 1;
    }
  }
  int64_t queryNumber(const Case &c, int64_t b, int64_t i, float x) const {
    switch (c.segments) {
    case Segments::Packed:
      return i + c.s >= c.t && c.s > 0 ? ofKeys[b * c.s + i + c.s - c.t] : -1;
    case Segments::Mixed:
      return x < 0.3f ? 12 : x < 0.6f ? -7 : x < 0.9f ? far(c) : 99;
    case Segments::Strangers:
      return 2;
    default:
      return 1;
    }
  }
  /// Numbers of 32 bits have no 1 << 40.
  static int64_t far(const Case &c) {
    return c.number == SegmentKind::Int32 ? 1 << 30 : int64_t(1) << 40;
  }
};

/// Everything in double, straight from the definition.
struct Expected {
  std::vector<float> o, dq, dk, dv;
  std::vector<double> slopes; ///< of a query's capped scores

  Expected(const Data &x, const AttentionShape &s)
      : o(s.b * s.ob), dq(x.q.size()), dk(x.k.size()), dv(x.v.size()) {
    std::vector<double> p(s.s), dp(s.s);
    slopes.resize(s.s);
    for (int64_t b = 0; b < s.b; ++b)
      for (int64_t h = 0; h < s.h; ++h)
        for (int64_t i = 0; i < s.t; ++i)
          row(x, s, b, h, i, p, dp);
  }

  /// Of all queries those of this place's blocks are counted out.
  static int64_t placeOf(const AttentionShape &s, int64_t i) {
    const Stripes &own = s.stripes;
    int64_t row = 0;
    if (!own.chunk)
      return i + s.s - s.t;
    for (int64_t seen = -1; seen < i; ++row)
      seen += row / own.chunk % own.over == own.place;
    return row - 1 + s.s - s.t * own.over;
  }

  static bool isHidden(const Data &x, const AttentionShape &s, int64_t b,
                       int64_t i, int64_t j) {
    int64_t own = placeOf(s, i);
    if ((s.causal && j > own) || (s.window && own - j >= s.window) ||
        (s.window && !s.causal && j - own >= s.window))
      return true;
    return s.segments != SegmentKind::None &&
           x.ofQueries[b * s.querySegmentB + i * s.querySegmentT] !=
               x.ofKeys[b * s.keySegmentB + j];
  }

  /// Before they are divided by their sum, what all keys of a query have that
  /// sees none.
  static double shareOf(EmptyRow kind) {
    return kind == EmptyRow::Zero ? 0 : kind == EmptyRow::NaN ? NAN : 1;
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
      slopes[j] = 1;
      if (s.softCap != 0) {
        double t = std::tanh(score / s.softCap);
        score = s.softCap * t, slopes[j] = 1 - t * t;
      }
      int64_t m = b * s.maskB + h * s.maskH + i * s.maskT + j * s.maskS;
      if (s.mask == MaskKind::Additive)
        score += x.additive[m];
      if ((s.mask == MaskKind::Boolean && !x.boolean[m]) ||
          isHidden(x, s, b, i, j))
        score = -INFINITY;
      p[j] = score, top = std::max(top, score);
    }
    for (int64_t j = 0; j < s.s; ++j)
      sum += p[j] =
          top == -INFINITY ? shareOf(s.emptyRow) : std::exp(p[j] - top);
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
    if (top == -INFINITY && s.emptyRow == EmptyRow::Filled)
      return; // of numbers in the place of scores
    for (int64_t j = 0; j < s.s; ++j)
      for (int64_t e = 0; e < s.d; ++e) {
        double ds = p[j] * (dp[j] - delta) * slopes[j] * s.scale;
        dq[qi + e] += float(ds * x.k[ki(j) + e]);
        dk[ki(j) + e] += float(ds * x.q[qi + e]);
      }
  }
};

/// What both functions write, over nines.
template <typename T> struct Outcome {
  std::vector<T> o, dq, dk, dv;

  Outcome(const std::vector<T> &q, const std::vector<T> &k,
          const std::vector<T> &v, const std::vector<T> &dout,
          AttentionMask mask, const AttentionShape &s)
      : o(dout.size(), T(9)), dq(q.size(), T(9)), dk(k.size(), T(9)),
        dv(v.size(), T(9)) {
    std::vector<float> lse(s.b * s.h * s.t);
    attentionForward(q.data(), k.data(), v.data(), mask, o.data(), lse.data(),
                     s);
    attentionBackward(q.data(), k.data(), v.data(), mask, o.data(), lse.data(),
                      dout.data(), dq.data(), dk.data(), dv.data(), s);
  }
};

inline Outcome<float> run(const Data &x, const AttentionShape &s) {
  return {x.q, x.k, x.v, x.dout, x.mask, s};
}

inline void check(const Case &c, float shift = 0) {
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

/// Rounded operands, among them the mask; the output that the backward function
/// reads is rounded, too. `shift`: of the mask of every third query.
inline void checkNarrow(Case c, float shift = 0) {
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
    AttentionMask given = x.mask;
    if (narrowMask && c.kind == MaskKind::Additive)
      s.mask = MaskKind::AdditiveNarrow, given.mask = mask.data();
    auto [o, dq, dk, dv] = Outcome(q, k, v, dout, given, s);
    double output = sumLimit(double(s.s)) + 8 * kEps + kNarrowEps;
    EXPECT_LT(relativeError(widen(o), expected.o), output);
    EXPECT_LT(relativeError(widen(dq), expected.dq), 4 * output);
    EXPECT_LT(relativeError(widen(dk), expected.dk), 4 * output);
    EXPECT_LT(relativeError(widen(dv), expected.dv), 4 * output);
  }
}

} // namespace dt::rt::attention

#endif // DT_TEST_RUNTIME_DEVICE_ATTENTIONCASES_H
