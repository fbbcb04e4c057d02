//===- AttentionPartsTest.cpp - attention, a part of the keys at a time ---===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Queries of each of several ranks meet the keys of all, one rank's at a time.
// What comes of it, merged by its log-sum-exp, is attention over all keys, and
// the gradients of the parts add up to those of the whole.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/device/AttentionCases.h"

#include <gtest/gtest.h>

using namespace dt::rt;
using namespace dt::rt::attention;

namespace {

/// Rows of [batch, rows, width] that one rank has of all.
struct OwnRows {
  int64_t batch, all, own;
  Stripes stripes;

  template <typename T>
  std::vector<T> take(const std::vector<T> &from, int64_t width) const {
    std::vector<T> to;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t i = 0; i < own; ++i) {
        auto row = from.begin() + (b * all + stripes.getPlace(i)) * width;
        to.insert(to.end(), row, row + width);
      }
    return to;
  }
  template <typename T>
  void add(std::vector<double> &to, const std::vector<T> &from,
           int64_t width) const {
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t i = 0; i < own; ++i)
        for (int64_t e = 0; e < width; ++e)
          to[(b * all + stripes.getPlace(i)) * width + e] +=
              float(from[(b * own + i) * width + e]);
  }
};

template <typename T> std::vector<T> convertTo(const std::vector<float> &x) {
  return std::vector<T>(x.begin(), x.end());
}
std::vector<float> asFloats(const std::vector<double> &x) {
  return std::vector<float>(x.begin(), x.end());
}

/// Of one rank's queries: the results of the parts, merged.
struct Merged {
  std::vector<double> o;
  std::vector<float> lse;

  Merged(const AttentionShape &s)
      : o(s.b * s.ob), lse(s.b * s.h * s.t, -INFINITY) {}
  template <typename T>
  void add(const AttentionShape &s, const std::vector<T> &part,
           const std::vector<float> &of) {
    for (int64_t b = 0; b < s.b; ++b)
      for (int64_t h = 0; h < s.h; ++h)
        for (int64_t i = 0; i < s.t; ++i) {
          int64_t row = (b * s.h + h) * s.t + i,
                  at = b * s.ob + i * s.ot + h * s.oh;
          double top = std::max(lse[row], of[row]);
          if (top == -INFINITY) {
            EXPECT_EQ(float(part[at]), 0);
            continue;
          }
          double mine = std::exp(lse[row] - top),
                 more = std::exp(of[row] - top), sum = mine + more;
          for (int64_t e = 0; e < s.dv; ++e)
            o[at + e] =
                (o[at + e] * mine + double(float(part[at + e])) * more) / sum;
          lse[row] = float(top + std::log(sum));
        }
  }
};

template <typename T> class Parts {
public:
  Parts(Case c, int64_t chunk, int64_t over)
      : c(c), whole(shapeFor(c)), x(c, whole), chunk(chunk), over(over),
        own(c.t / over), o(x.dout.size()), dq(x.q.size()), dk(x.k.size()),
        dv(x.v.size()) {
    for (std::vector<float> *values : {&x.q, &x.k, &x.v, &x.dout})
      *values = widenAll(convertTo<T>(*values));
    for (int64_t place = 0; place < over; ++place)
      run(place);
  }

  void compare() {
    Expected expected(x, whole);
    double rounding = std::is_same_v<T, bf16> ? kNarrowEps : kEps,
           output = sumLimit(double(whole.s)) + 8 * kEps + 2 * rounding;
    EXPECT_LT(relativeError(asFloats(o), expected.o), output);
    EXPECT_LT(relativeError(asFloats(dq), expected.dq), 4 * output);
    EXPECT_LT(relativeError(asFloats(dk), expected.dk), 4 * output);
    EXPECT_LT(relativeError(asFloats(dv), expected.dv), 4 * output);
  }

private:
  static std::vector<float> widenAll(const std::vector<T> &x) {
    return std::vector<float>(x.begin(), x.end());
  }
  OwnRows rows(int64_t place) const {
    return {c.b, c.t, own, {chunk, over, place}};
  }
  AttentionShape shapeOf(int64_t place, int64_t keys) const {
    Case part = c;
    part.t = part.s = own;
    part.empty = EmptyRow::Zero;
    part.stripes = {chunk, over, place};
    AttentionShape s = shapeFor(part);
    s.keyStripes = {chunk, over, keys};
    s.partial = true;
    return s;
  }

  void run(int64_t place) {
    OwnRows mine = rows(place);
    AttentionShape s = shapeOf(place, place);
    std::vector<T> q = convertTo<T>(mine.take(x.q, s.qt)),
                   dout = convertTo<T>(mine.take(x.dout, s.ot)),
                   part(dout.size());
    std::vector<float> lse(s.b * s.h * s.t);
    Merged merged(s);
    auto forKeys = [&](auto call) {
      for (int64_t keys = 0; keys < over; ++keys) {
        OwnRows theirs = rows(keys);
        std::vector<T> k = convertTo<T>(theirs.take(x.k, s.ks)),
                       v = convertTo<T>(theirs.take(x.v, s.vs));
        std::vector<int64_t> ofQueries, ofKeys;
        if (c.segments != Segments::None)
          ofQueries = mine.take(x.ofQueries, 1),
          ofKeys = theirs.take(x.ofKeys, 1);
        call(theirs, k, v,
             AttentionMask(nullptr, ofQueries.data(), ofKeys.data()),
             shapeOf(place, keys));
      }
    };
    forKeys([&](const OwnRows &, auto &k, auto &v, auto mask, auto shape) {
      attentionForward(q.data(), k.data(), v.data(), mask, part.data(),
                       lse.data(), shape);
      merged.add(shape, part, lse);
    });
    mine.add(o, merged.o, s.ot);
    std::vector<T> all = convertTo<T>(asFloats(merged.o)), gq(q.size());
    forKeys(
        [&](const OwnRows &theirs, auto &k, auto &v, auto mask, auto shape) {
          std::vector<T> gk(k.size(), T(9)), gv(v.size(), T(9));
          attentionBackward(q.data(), k.data(), v.data(), mask, all.data(),
                            merged.lse.data(), dout.data(), gq.data(),
                            gk.data(), gv.data(), shape);
          mine.add(dq, gq, s.qt);
          theirs.add(dk, gk, s.ks);
          theirs.add(dv, gv, s.vs);
        });
  }

  Case c;
  AttentionShape whole;
  Data x;
  int64_t chunk, over, own;
  std::vector<double> o, dq, dk, dv;
};

TEST(AttentionParts, AddUpToTheWhole) {
  for (bool causal : {false, true})
    for (int64_t window : {0, 20})
      for (Segments segments : {Segments::None, Segments::Packed}) {
        Case c{1, 240, 240, 2, 1, 8, causal};
        c.window = window, c.segments = segments, c.more = 8;
        Parts<float>(c, 16, 3).compare();
        if (causal)
          Parts<bf16>(c, 16, 3).compare();
      }
}

TEST(AttentionParts, BlocksOfOneRowAndOfAll) {
  for (int64_t chunk : {1, 80}) {
    Case c{1, 240, 240, 2, 1, 8, true};
    c.window = 20, c.more = 8;
    Parts<float>(c, chunk, 3).compare();
    Parts<bf16>(c, chunk, 3).compare();
  }
}

TEST(AttentionParts, SoftCapAndTwoRanks) {
  Case c{1, 32, 32, 4, 2, 16, true};
  c.softCap = 0.5f;
  Parts<float>(c, 2, 2).compare();
}

TEST(AttentionParts, ManyRanksOfFewKeys) {
  Case c{1, 16, 16, 2, 2, 8, true};
  Parts<float>(c, 1, 16).compare();
  c.causal = false;
  Parts<bf16>(c, 1, 8).compare();
}

} // namespace
