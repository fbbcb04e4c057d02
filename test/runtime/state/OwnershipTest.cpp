//===- OwnershipTest.cpp - every element belongs to one rank ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/state/Ownership.h"
#include "runtime/state/ParameterLayout.h"
#include "runtime/state/Wholes.h"
#include "test/runtime/TestSupport.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace dt::rt;

namespace {

constexpr Extent kRows[] = {{0, -1, 40}, {0, -1, 4}},
                 kHalf[] = {{0, -1, 20}, {0, -1, 4}}, kVector[] = {{0, -1, 37}};
constexpr int64_t kWhole[] = {40, 4};
constexpr CutInfo kCut[] = {{0, 5, 2, 1}};

/// Two modules: the first cut over two ranks with three replicas, the second a
/// rank of its own with a copy of the first's "a.tied".
struct Tables {
  explicit Tables(int32_t zero) {
    auto add = [&](const char *name, int32_t module, size_t offset, bool cut,
                   bool vector) {
      ParameterInfo p{};
      p.tensor = {name, DType::F32, vector ? 1 : 2,
                  vector ? kVector
                  : cut  ? kHalf
                         : kRows};
      p.module = module, p.offset = p.gradient = offset;
      p.trainable = p.hasGradient = true;
      if (cut)
        p.whole = kWhole, p.cuts = kCut;
      parameters.push_back(p);
      return &parameters.back();
    };
    add("a.cut", 0, 0, true, false);
    add("a.vector", 0, 320, false, true)->decay = true;
    add("a.tied", 0, 512, false, false);
    add("a.idle", 0, 1152, false, true)->hasGradient = false;
    add("a.last", 0, 1344, true, false);
    add("a.frozen", 0, 1664, false, true)->trainable = false;
    add("b.tied", 1, 0, false, false)->tied = 2;
    add("b.own", 1, 640, false, true);
    ModuleInfo a{}, b{};
    a.name = "a", b.name = "b";
    a.tp = 2, a.dp = 3, a.ranks = ranksA, a.zero = zero;
    a.trainableBytes = 1664, a.parameterBytes = 1856;
    b.tp = 1, b.dp = 2, b.ranks = ranksB, b.zero = zero;
    b.trainableBytes = b.parameterBytes = 832;
    modules = {a, b};
    info.parameters = {parameters.data(), parameters.size()};
    info.modules = {modules.data(), modules.size()};
    info.ranks = rows;
    info.bucketBytes = 256;
  }
  int32_t ranksA[6] = {0, 1, 2, 3, 4, 5}, ranksB[2] = {3, 6};
  RankInfo rows[7];
  std::vector<ParameterInfo> parameters;
  std::vector<ModuleInfo> modules;
  ProgramInfo info{};
};

class OwnershipTest : public testing::TestWithParam<int32_t> {};

TEST_P(OwnershipTest, EachElementIsCountedOnce) {
  Tables tables(GetParam());
  for (size_t p = 0; p < tables.parameters.size(); ++p) {
    const ParameterInfo &info = tables.parameters[p];
    std::vector<int> seen;
    for (int rank = 0; rank < 7; ++rank) {
      Placement placement(tables.info, rank, 7);
      Ownership ownership(tables.info, placement);
      const Placement::Place &place = placement.at(size_t(info.module));
      if (!place.runs())
        continue;
      ParameterLayout layout(info, place.tp);
      seen.resize(size_t(layout.wholeElements()));
      for (const OwnedPiece &piece : ownership.owned(p))
        for (const ParameterLayout::Run &run :
             layout.runs(piece.begin, piece.end))
          for (int64_t i = 0; i < run.count; ++i)
            ++seen[size_t(run.whole + i)];
    }
    int wanted = info.tied >= 0 ? 0 : 1;
    EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [&](int n) {
      return n == wanted;
    })) << info.tensor.name;
  }
}

/// What a rank updates: each element of its region on one replica or on all,
/// and moments in places of their own.
TEST_P(OwnershipTest, Updates) {
  Tables tables(GetParam());
  std::vector<int> updates(1664 / 4);
  for (int rank : {0, 2, 4}) {
    Placement placement(tables.info, rank, 7);
    Ownership ownership(tables.info, placement);
    std::vector<int> moments(ownership.momentFloats(0));
    for (const UpdateRange &u : ownership.updates(0))
      for (size_t i = 0; i < u.range.count; ++i) {
        ++updates[u.range.begin + i];
        ++moments.at(u.moment + i);
      }
    EXPECT_LE(*std::max_element(moments.begin(), moments.end()), 1);
    for (size_t p = 0; p < tables.parameters.size(); ++p)
      for (const OwnedPiece &piece : ownership.owned(p))
        if (ownership.updated(p) && tables.parameters[p].module == 0)
          EXPECT_EQ(moments.at(piece.moment), 1);
    if (GetParam())
      EXPECT_LT(ownership.momentFloats(0), 1344u / 4);
  }
  for (size_t p = 0; p < 6; ++p) {
    const ParameterInfo &info = tables.parameters[p];
    for (size_t i = 0; info.trainable && i < partElements(info); ++i) {
      int n = updates[info.gradient / 4 + i];
      EXPECT_TRUE(!info.hasGradient ? n == 0
                  : p == 2          ? n == 3
                  : GetParam()      ? n == 1 || n == 3
                                    : n == 3)
          << info.tensor.name << " " << i << ": " << n;
    }
  }
}

/// Where a parameter ends, with blocks at the last whole line of all replicas
/// before that; what is left of a run is a bucket that has no blocks.
TEST_P(OwnershipTest, BucketsEndWithParameters) {
  Tables tables(GetParam());
  tables.info.bucketBytes = 400;
  using Range = std::tuple<size_t, size_t, bool>;
  std::vector<Range> wanted = {
      {0, 80, false}, {80, 48, false}, {336, 80, false}};
  if (GetParam())
    wanted = {{0, 48, true},
              {48, 48, true},
              {96, 32, false},
              {336, 48, true},
              {384, 32, false}};
  for (int rank = 0; rank < 6; ++rank) {
    std::vector<Range> found;
    Placement placement(tables.info, rank, 7);
    Ownership ownership(tables.info, placement);
    for (const Bucket &b : ownership.buckets(0))
      found.push_back({b.range.begin, b.range.count, b.scatter});
    EXPECT_EQ(found, wanted) << rank;
  }
}

/// One module on three replicas: two parameters in bf16, two in float32 that
/// are neighbours among the gradients only, and a frozen one.
struct MixedTables {
  explicit MixedTables(int32_t zero) {
    auto add = [&](const char *name, DType type, size_t offset, size_t gradient,
                   bool vector) {
      ParameterInfo p{};
      p.tensor = {name, type, vector ? 1 : 2, vector ? kVector : kRows};
      p.offset = offset, p.gradient = gradient;
      p.trainable = p.hasGradient = true;
      parameters.push_back(p);
      return &parameters.back();
    };
    add("narrow.matrix", DType::BF16, 0, 0, false);
    add("narrow.vector", DType::BF16, 320, 640, true);
    add("wide.vector", DType::F32, 448, 896, true);
    add("wide.matrix", DType::F32, 768, 1152, false);
    add("frozen", DType::BF16, 1408, 0, true)->trainable = false;
    a.name = "a", a.tp = 1, a.dp = 3, a.ranks = ranks, a.zero = zero;
    a.trainableBytes = 1792, a.parameterBytes = 1536;
    info.parameters = {parameters.data(), parameters.size()};
    info.modules = {&a, 1};
    info.ranks = rows;
    info.bucketBytes = 512;
  }
  int32_t ranks[3] = {0, 1, 2};
  RankInfo rows[3];
  std::vector<ParameterInfo> parameters;
  ModuleInfo a{};
  ProgramInfo info{};
};

/// Every float of a range stands for the element that its parameter stores
/// there.
void expectStored(const MixedTables &tables, const FloatRange &range) {
  for (size_t f = range.begin; f < range.end(); ++f)
    for (size_t p = 0; p < 4; ++p) {
      const ParameterInfo &info = tables.parameters[p];
      size_t first = info.gradient / sizeof(float);
      if (f < first || f >= first + partElements(info))
        continue;
      EXPECT_EQ(range.type, info.tensor.type) << info.tensor.name;
      EXPECT_EQ(range.part(f, 1).stored,
                info.offset + (f - first) * sizeOf(range.type))
          << info.tensor.name << " " << f - first;
    }
}

TEST_P(OwnershipTest, TypesAreApart) {
  MixedTables tables(GetParam());
  std::vector<int> seen(1792 / 4);
  for (int rank = 0; rank < 3; ++rank) {
    Placement placement(tables.info, rank, 3);
    Ownership ownership(tables.info, placement);
    EXPECT_EQ(ownership.gradientStep(0), 32u);
    size_t narrow = 0, end = 0;
    for (const Bucket &b : ownership.buckets(0)) {
      expectStored(tables, b.range);
      EXPECT_EQ(b.range.begin, end);
      end = b.range.end();
      narrow += b.range.type == DType::BF16 ? b.range.count : 0;
    }
    EXPECT_EQ(end, 1792u / 4);
    EXPECT_EQ(narrow, 896u / 4);
    size_t masters = 0;
    for (const UpdateRange &u : ownership.updates(0)) {
      expectStored(tables, u.range);
      if (u.range.type == DType::BF16)
        masters = std::max(masters, u.moment + u.range.count);
      else
        EXPECT_GE(u.moment, ownership.masterFloats(0));
    }
    EXPECT_LE(masters, ownership.masterFloats(0));
    EXPECT_GE(ownership.masterFloats(0), GetParam() ? 64u : 224u);
    EXPECT_LE(ownership.masterFloats(0), GetParam() ? 128u : 224u);
    for (size_t p = 0; p < 5; ++p) {
      EXPECT_EQ(ownership.hasMaster(p), p < 2);
      for (const OwnedPiece &piece : ownership.owned(p)) {
        if (ownership.hasMaster(p))
          EXPECT_LE(piece.moment + size_t(piece.end - piece.begin),
                    ownership.masterFloats(0));
        for (int64_t i = piece.begin; p < 4 && i < piece.end; ++i)
          ++seen[tables.parameters[p].gradient / 4 + size_t(i)];
      }
    }
  }
  for (size_t p = 0; p < 4; ++p)
    for (size_t i = 0; i < partElements(tables.parameters[p]); ++i)
      EXPECT_EQ(seen[tables.parameters[p].gradient / 4 + i], 1)
          << p << " " << i;
}

/// With gradients in bf16, which take half the bytes: the same elements, each
/// once, in buckets of one type.
TEST_P(OwnershipTest, NarrowGradients) {
  MixedTables wide(GetParam()), tables(GetParam());
  constexpr size_t places[] = {0, 320, 448, 704}, kBytes = 1344;
  for (size_t p = 0; p < 4; ++p) {
    tables.parameters[p].gradient = places[p];
    if (p < 2)
      tables.parameters[p].gradientType = DType::BF16;
  }
  tables.a.trainableBytes = kBytes;
  Ownership before(wide.info, Placement(wide.info, 0, 3));
  std::vector<int> seen(kBytes);
  for (int rank = 0; rank < 3; ++rank) {
    Placement placement(tables.info, rank, 3);
    Ownership ownership(tables.info, placement);
    EXPECT_EQ(ownership.gradientPlace(0, kBytes), 1792u / 4);
    size_t end = 0;
    for (const Bucket &b : ownership.buckets(0)) {
      EXPECT_EQ(b.range.begin, end);
      EXPECT_EQ(b.range.gradient, b.range.type);
      EXPECT_LE(b.range.count * sizeOf(b.range.gradient), 512u);
      end = b.range.end();
    }
    EXPECT_EQ(end, 1792u / 4);
    for (const UpdateRange &u : ownership.updates(0))
      for (size_t i = 0; i < u.range.count; ++i) {
        size_t at = ownership.gradientBytes(0, u.range.begin + i);
        EXPECT_EQ(ownership.gradientPlace(0, at), u.range.begin + i);
        EXPECT_EQ(at < 448, u.range.gradient == DType::BF16);
      }
    for (size_t p = 0; p < 4; ++p)
      for (const OwnedPiece &piece : ownership.owned(p))
        for (int64_t i = piece.begin; i < piece.end; ++i)
          ++seen[places[p] +
                 size_t(i) * sizeOf(tables.parameters[p].gradientType)];
    if (GetParam())
      EXPECT_LT(ownership.sumFloats(0), before.sumFloats(0));
  }
  for (size_t p = 0; p < 4; ++p)
    for (size_t i = 0; i < partElements(tables.parameters[p]); ++i)
      EXPECT_EQ(seen[places[p] + i * sizeOf(tables.parameters[p].gradientType)],
                1)
          << p << " " << i;
}

/// Under an optimizer of matrices: state of rows and columns has places of its
/// own beside that of elements; of a whole parameter replicas count each
/// element once, or each of them all.
TEST_P(OwnershipTest, Wholes) {
  Tables tables(GetParam());
  tables.info.optimizer.kind = OptimizerKind::Adafactor;
  for (size_t p : {0, 2, 4})
    tables.parameters[p].matrix = true;
  std::vector<std::vector<int>> counted(8, std::vector<int>(160));
  for (int rank : {0, 2, 4}) {
    Placement placement(tables.info, rank, 7);
    Ownership ownership(tables.info, placement);
    size_t floats[] = {ownership.keptFloats(0, 0), ownership.keptFloats(0, 1),
                       ownership.keptFloats(0, 2)};
    EXPECT_EQ(floats[0], 32u + 48 + 32); // rows 20, 40, 20 in lines
    EXPECT_EQ(floats[1], 3u * 16);
    EXPECT_LE(floats[2], 48u); // the vector
    EXPECT_EQ(ownership.momentShape(0, 0), MomentShape::Rows);
    EXPECT_EQ(ownership.momentShape(1, 0), MomentShape::None);
    EXPECT_EQ(ownership.momentShape(1, 2), MomentShape::Elements);
    EXPECT_EQ(ownership.factors(2, 0), 32u);
    EXPECT_FALSE(ownership.spread(2)); // tied
    for (size_t p = 0; p < 8; ++p)
      for (const OwnedPiece &piece : ownership.updatedPieces(p)) {
        EXPECT_TRUE(p == 2 || ownership.isWhole(p));
        if (p == 1)
          EXPECT_LE(piece.kept.at[2] + size_t(piece.end - piece.begin),
                    floats[2]);
        for (int64_t i = piece.begin; i < piece.end; ++i)
          counted[p][size_t(i)] += piece.counts || !ownership.spread(p);
      }
    WholePlan plan = planWholes(tables.info, placement, ownership);
    EXPECT_EQ(plan.tensors.size(), 4u);
    bool zero = GetParam();
    for (const SharedSum &sum : allSums(plan))
      EXPECT_TRUE(sum.isShared());
    EXPECT_EQ(std::any_of(plan.sums[0].begin(), plan.sums[0].end(),
                          [](auto &sum) { return sum.overGroup(); }),
              zero && ownership.spread(0));
  }
  for (size_t p : {0, 1, 2, 4}) {
    size_t n = partElements(tables.parameters[p]);
    int wanted = counted[p][0];
    EXPECT_TRUE(wanted == 1 || wanted == 3) << p;
    EXPECT_TRUE(std::all_of(counted[p].begin(), counted[p].begin() + n,
                            [&](int count) { return count == wanted; }))
        << p;
  }
}

/// A routing bias is updated by element and has no state, whatever the
/// optimizer does with others.
TEST_P(OwnershipTest, RoutingBiases) {
  Tables tables(GetParam());
  tables.info.optimizer.kind = OptimizerKind::Adafactor;
  tables.parameters[1].routingRate = 0.25;
  Placement placement(tables.info, 0, 7);
  Ownership ownership(tables.info, placement);
  EXPECT_TRUE(ownership.isRouting(1));
  EXPECT_FALSE(ownership.isWhole(1));
  EXPECT_TRUE(ownership.isWhole(2));
  for (size_t k = 0; k < 3; ++k)
    EXPECT_EQ(ownership.momentShape(1, k), MomentShape::None);
  EXPECT_EQ(planWholes(tables.info, placement, ownership).tensors.size(), 3u);
  size_t begin = tables.parameters[1].gradient / sizeof(float), updated = 0;
  for (const UpdateRange &u : ownership.updates(0)) {
    bool inside = u.range.begin >= begin && u.range.end() <= begin + 37;
    EXPECT_EQ(u.rule.isRouting(), inside);
    updated += inside ? u.range.count : 0;
  }
  EXPECT_LE(updated, 37u);
  EXPECT_GT(updated, 0u);
}

INSTANTIATE_TEST_SUITE_P(Zero, OwnershipTest, testing::Values(0, 1));

TEST(Placement, Errors) {
  Tables tables(0);
  EXPECT_ERROR(Placement(tables.info, 0, 6), "made for 7 ranks, but 6 were");
  tables.ranksA[2] = 0;
  EXPECT_ERROR(Placement(tables.info, 0, 7), "rank 0 appears twice");
  tables.ranksA[2] = 9;
  EXPECT_ERROR(Placement(tables.info, 0, 7), "rank 9 is not one of 7");
}

} // namespace
