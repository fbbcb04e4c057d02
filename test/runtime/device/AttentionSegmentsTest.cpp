//===- AttentionSegmentsTest.cpp - segments and windows ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/runtime/device/AttentionCases.h"

#ifdef _OPENMP
#include <omp.h>
#endif

using namespace dt::rt;
using namespace dt::rt::attention;

namespace {

constexpr Segments kAll[] = {Segments::One, Segments::Packed, Segments::Mixed,
                             Segments::Padding, Segments::Strangers};

/// Several tiles, heads that share keys, two batch elements.
Case segmented(Segments segments, bool causal,
               EmptyRow empty = EmptyRow::Mean) {
  Case c{2, 130, 130, 2, 1, 4, causal, MaskKind::None, empty};
  c.segments = segments;
  return c;
}

void expectSame(const Outcome<float> &a, const Outcome<float> &b) {
  EXPECT_EQ(a.o, b.o);
  EXPECT_EQ(a.dq, b.dq);
  EXPECT_EQ(a.dk, b.dk);
  EXPECT_EQ(a.dv, b.dv);
}

Outcome<float> runCase(const Case &c) {
  AttentionShape s = shapeFor(c);
  Data x(c, s);
  return run(x, s);
}

TEST(AttentionSegments, EachSeesItsOwn) {
  for (Segments segments : kAll)
    for (bool causal : {false, true}) {
      Case c = segmented(segments, causal);
      if (!causal)
        c.t = 70, c.number = SegmentKind::Int32; // fewer queries than keys
      check(c);
    }
  for (Segments segments : {Segments::Packed, Segments::Mixed})
    for (bool causal : {false, true}) {
      Case c = segmented(segments, causal);
      c.t = 150, c.s = 65; // the first queries see no key when causal
      check(c);
    }
}

TEST(AttentionSegments, QueriesWithoutKeys) {
  for (EmptyRow empty : {EmptyRow::Mean, EmptyRow::Zero, EmptyRow::Filled})
    for (Segments segments : {Segments::Mixed, Segments::Strangers}) {
      Case c = segmented(segments, true, empty);
      c.b = 1;
      check(c);
    }
}

TEST(AttentionSegments, QueriesWithoutKeysAreNoNumbers) {
  // Two tiles of queries, of which the second alone has one without keys.
  Case c{1, 128, 192, 1, 1, 8, false, MaskKind::None, EmptyRow::NaN};
  c.segments = Segments::One;
  AttentionShape s = shapeFor(c);
  Data x(c, s);
  x.ofQueries[100] = 5;
  auto [o, dq, dk, dv] = run(x, s);
  for (int64_t i = 0; i < s.t; ++i) {
    EXPECT_EQ(std::isnan(o[i * s.ot]), i == 100) << i;
    EXPECT_EQ(std::isnan(dq[i * s.qt]), i == 100) << i;
  }
  for (int64_t j = 0; j < s.s; ++j)
    EXPECT_TRUE(std::isnan(dk[j * s.ks]) && std::isnan(dv[j * s.vs])) << j;
}

TEST(AttentionSegments, Windows) {
  for (int64_t window : {2, 64, 1000})
    for (bool causal : {false, true}) {
      Case c = segmented(Segments::None, causal, EmptyRow::Zero);
      c.window = window;
      check(c);
      c.segments = Segments::Packed, c.t = 70, c.b = 1;
      check(c);
      c.segments = Segments::None, c.t = 150, c.s = 65;
      check(c);
    }
  Case c{1, 9, 9, 1, 1, 8, true};
  c.window = INT64_MAX;
  check(c);
}

/// A query that sees one key has its value, and no gradient but that.
TEST(AttentionSegments, OneKeyEach) {
  Case c{1, 70, 70, 2, 2, 8, true};
  c.window = 1, c.more = 0;
  AttentionShape s = shapeFor(c);
  Data x(c, s);
  auto [o, dq, dk, dv] = run(x, s);
  EXPECT_EQ(o, x.v);
  EXPECT_EQ(dv, x.dout);
  for (float d : dq)
    EXPECT_LT(std::fabs(d), 1e-5); // sums of 8 products less the same sums
  for (float d : dk)
    EXPECT_LT(std::fabs(d), 1e-5);
}

TEST(AttentionSegments, BesideMasks) {
  for (MaskKind kind : {MaskKind::Additive, MaskKind::Boolean})
    for (Segments segments : {Segments::Packed, Segments::Mixed})
      for (int64_t window : {0, 20}) {
        Case c = segmented(segments, true, EmptyRow::Zero);
        c.kind = kind, c.window = window, c.byHead = true;
        check(c);
      }
}

TEST(AttentionSegments, NothingToDo) {
  for (Segments segments : kAll)
    for (Case c :
         {Case{0, 5, 5, 2, 2, 8, true}, Case{2, 0, 0, 2, 2, 8, true},
          Case{2, 5, 0, 2, 2, 8, false, MaskKind::None, EmptyRow::Zero},
          Case{2, 0, 5, 2, 2, 8, false}}) {
      c.segments = segments, c.window = 2;
      check(c);
    }
}

TEST(AttentionSegments, OneIsNone) {
  for (bool causal : {false, true})
    expectSame(runCase(segmented(Segments::One, causal)),
               runCase(segmented(Segments::None, causal)));
}

TEST(AttentionSegments, NumbersOf32BitsSayTheSame) {
  Case wide = segmented(Segments::Packed, true), narrow = wide;
  narrow.number = SegmentKind::Int32;
  expectSame(runCase(wide), runCase(narrow));
}

/// 0 times what is not a number is none: a tile that is computed shows.
TEST(AttentionSegments, ForeignTilesAreNotComputed) {
  for (bool windowed : {false, true}) {
    Case c{1, 256, 256, 2, 1, 8, false};
    c.segments = windowed ? Segments::None : Segments::One;
    c.window = windowed ? 32 : 0;
    AttentionShape s = shapeFor(c);
    Data x(c, s);
    for (int64_t i = 128; i < 256 && !windowed; ++i)
      x.ofQueries[i] = x.ofKeys[i] = -3; // less than what stands before
    int64_t from = windowed ? 192 : 128;
    std::fill(x.k.begin() + from * s.ks, x.k.end(), NAN);
    std::fill(x.v.begin() + from * s.vs, x.v.end(), NAN);
    auto [o, dq, dk, dv] = run(x, s);
    for (int64_t i = 0; i < 128; ++i) {
      EXPECT_FALSE(std::isnan(o[i * s.ot]) || std::isnan(dq[i * s.qt])) << i;
      EXPECT_FALSE(!windowed &&
                   (std::isnan(dk[i * s.ks]) || std::isnan(dv[i * s.vs])))
          << i;
    }
    EXPECT_TRUE(std::isnan(o[255 * s.ot]));
  }
}

#if defined(_OPENMP) && !defined(DT_TEST_CUDA)
TEST(AttentionSegments, BitsAreThoseOfOneThread) {
  Case c = segmented(Segments::Packed, true);
  int before = omp_get_max_threads();
  omp_set_num_threads(1);
  Outcome<float> one = runCase(c);
  omp_set_num_threads(3);
  Outcome<float> three = runCase(c);
  omp_set_num_threads(before);
  expectSame(one, three);
}
#endif

TEST(AttentionSegments, NarrowOperands) {
  for (Segments segments : kAll)
    for (bool causal : {false, true}) {
      Case c{2, 40, 40, 2, 1, 8, causal, MaskKind::None, EmptyRow::Zero, 8};
      c.segments = segments, c.window = causal ? 10 : 0;
      checkNarrow(c);
      c.kind = MaskKind::Additive, c.s = 60;
      checkNarrow(c);
    }
  // Several tiles, heads that end within a tile's columns.
  for (int64_t width : {8, 72, 128})
    for (EmptyRow empty : {EmptyRow::Zero, EmptyRow::Mean, EmptyRow::Filled}) {
      Case c{1, 100, 150, 2, 1, width, width == 72, MaskKind::None, empty};
      c.more = width == 128 ? 0 : 8;
      c.segments = width == 8 ? Segments::Strangers : Segments::Mixed;
      c.window = width == 128 ? 60 : 0;
      checkNarrow(c);
    }
  for (Segments segments :
       {Segments::None, Segments::Packed, Segments::Mixed}) {
    // No whole packs: not for tensor cores.
    Case c{1, 70, 90, 2, 1, 8, true, MaskKind::None, EmptyRow::Zero, 4};
    c.segments = segments, c.window = 20;
    checkNarrow(c);
  }
}

} // namespace
