//===- GradientGroupsTest.cpp - ranks with other tokens, and replicas -----===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// One module: two replicas of four ranks, (c, t) at 2 c + t, of which c says
// the tokens and t the tensor-parallel place.
//
//===----------------------------------------------------------------------===//

#include "runtime/state/Ownership.h"
#include "runtime/state/ParameterLayout.h"
#include "runtime/step/LinkPlan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

using namespace dt::rt;

namespace {

constexpr size_t kDense = 0, kNorm = 1, kExperts = 2, kAlike = 3, kTied = 4,
                 kCopy = 5, kEntries = 6;
constexpr int kGroupRanks = 8;

constexpr Extent kPart[] = {{0, -1, 8}, {0, -1, 16}},
                 kVectorOf64[] = {{0, -1, 64}};
constexpr int64_t kUncut[] = {16, 16};
constexpr CutInfo kOverTensors[] = {{0, 8, 2, 1}},
                  kExpertCut[] = {{0, 8, 2, 2}},
                  kOverTokens[] = {{kTokenAxis, 1, 2, 2}},
                  kBoth[] = {{0, 1, 2, 1}, {kTokenAxis, 1, 2, 2}},
                  kNoTokens[] = {{0, 1, 2, 1}, {0, 1, 2, 2}};

struct GroupTables {
  explicit GroupTables(int32_t zero) {
    auto add = [&](const char *name, Span<CutInfo> cuts,
                   Span<CutInfo> partial) {
      ParameterInfo p{};
      bool cut = cuts.size > 0;
      p.tensor = {name, DType::F32, cut ? 2 : 1, cut ? kPart : kVectorOf64};
      p.offset = p.gradient = next;
      next += partElements(p) * sizeof(float);
      p.trainable = p.hasGradient = true;
      p.cuts = cuts, p.partial = partial;
      if (cut)
        p.whole = kUncut;
      parameters.push_back(p);
    };
    add("dense", kOverTensors, kOverTokens);
    add("norm", {}, kBoth);
    add("experts", kExpertCut, {});
    add("alike", {}, {});
    add("tied", {}, kOverTokens);
    add("copy", {}, kOverTokens);
    parameters[kCopy].tied = int32_t(kTied);
    module.name = "m";
    module.tp = 4, module.dp = 2, module.ranks = ranks;
    module.zero = zero;
    module.trainableBytes = module.parameterBytes = next;
    info.parameters = {parameters.data(), parameters.size()};
    info.modules = {&module, 1};
    info.ranks = rows;
    info.bucketBytes = 1 << 20;
  }
  size_t next = 0;
  int32_t ranks[kGroupRanks] = {0, 1, 2, 3, 4, 5, 6, 7};
  RankInfo rows[kGroupRanks];
  std::vector<ParameterInfo> parameters;
  ModuleInfo module{};
  ProgramInfo info{};
};

class GradientGroupsTest : public testing::TestWithParam<int32_t> {};

/// By the parameter's cuts and partial sums, not by the plan.
TEST_P(GradientGroupsTest, AreOfEachParameter) {
  GroupTables tables(GetParam());
  Placement placement(tables.info, 5, kGroupRanks); // replica 1, c 0, t 1
  Ownership ownership(tables.info, placement);
  auto membersOf = [&](size_t p) {
    return ownership.groups(0)[ownership.groupOf(p)].members(placement, 0, 1);
  };
  EXPECT_EQ(membersOf(kDense), (std::vector<int>{1, 3, 5, 7}));
  EXPECT_EQ(membersOf(kNorm), (std::vector<int>{1, 3, 5, 7}));
  EXPECT_EQ(membersOf(kExperts), (std::vector<int>{1, 5}));
  EXPECT_EQ(membersOf(kAlike), (std::vector<int>{1, 5}));
  EXPECT_EQ(ownership.groupOf(kTied), Ownership::kNoGroup);
  // What is left is summed before: over the tensor-parallel axis, and all axes
  // of copies.
  std::map<size_t, Axes> before;
  for (size_t p = 0; p < kEntries; ++p)
    for (const CutInfo &axis : ownership.summedBefore(p))
      before[p].insert({axis.over, axis.stride});
  EXPECT_EQ(before,
            (std::map<size_t, Axes>{
                {kNorm, {{2, 1}}}, {kTied, {{2, 2}}}, {kCopy, {{2, 2}}}}));
  EXPECT_EQ(
      ownership.groups(0)[ownership.groupOf(kDense)].place(placement.at(0)), 2);
}

/// Each element is updated by one rank of those that have it, or by all.
TEST_P(GradientGroupsTest, ShareOutUpdates) {
  GroupTables tables(GetParam());
  std::vector<std::vector<int>> saved(kEntries), updates(kEntries);
  for (int rank = 0; rank < kGroupRanks; ++rank) {
    Placement placement(tables.info, rank, kGroupRanks);
    Ownership ownership(tables.info, placement);
    for (size_t p = 0; p < kEntries; ++p) {
      ParameterLayout layout(tables.parameters[p], placement.at(0).tp);
      auto add = [&](const std::vector<OwnedPiece> &pieces,
                     std::vector<int> &count) {
        count.resize(size_t(layout.wholeElements()));
        for (const OwnedPiece &piece : pieces)
          for (const ParameterLayout::Run &run :
               layout.runs(piece.begin, piece.end))
            for (int64_t i = 0; i < run.count; ++i)
              ++count[size_t(run.whole + i)];
      };
      add(ownership.owned(p), saved[p]);
      add(ownership.updatedPieces(p), updates[p]);
    }
    // A quarter of what four ranks share, half of what replicas do: of the last
    // two the copies, which each updates.
    if (GetParam())
      EXPECT_EQ(ownership.momentFloats(0),
                (128 + 64) / 4 + (128 + 64) / 2 + 128u)
          << rank;
  }
  auto all = [](const std::vector<int> &count, int wanted) {
    return std::all_of(count.begin(), count.end(),
                       [&](int n) { return n == wanted; });
  };
  bool zero = GetParam();
  for (size_t p = 0; p < kEntries; ++p)
    EXPECT_TRUE(all(saved[p], p == kCopy ? 0 : 1)) << p;
  // On so many ranks is an element of it.
  for (auto [p, ranks, shared] : {std::tuple{kDense, 4, 4},
                                  {kNorm, 8, 4},
                                  {kExperts, 4, 2},
                                  {kAlike, 8, 2},
                                  {kTied, 8, 1},
                                  {kCopy, 8, 1}})
    EXPECT_TRUE(all(updates[p], zero ? ranks / shared : ranks)) << p;
}

/// The axis of tokens is none of a replica's own where buckets go over it; each
/// group is a communicator and a stream.
TEST_P(GradientGroupsTest, Links) {
  GroupTables tables(GetParam());
  LinkPlan plan = planLinks(tables.info);
  EXPECT_EQ(plan.modules[0].reduces, 2);
  EXPECT_EQ(plan.modules[0].axes, (Axes{{2, 1}, {2, 2}})); // norm, copies
  for (size_t p : {kTied, kCopy})
    tables.parameters[p].partial = {};
  EXPECT_EQ(planLinks(tables.info).modules[0].axes, (Axes{{2, 1}}));
  Placement placement(tables.info, 2, kGroupRanks);
  Ownership ownership(tables.info, placement);
  PlannedGroups groups = plannedGroups(plan, tables.info, placement, ownership);
  EXPECT_EQ(groups.count({"gradients m", {0, 2, 4, 6}}), 1u);
  EXPECT_EQ(groups.count({"gradients m", {2, 6}}), 1u);
}

/// Other partial sums are over ranks of a replica only.
TEST_P(GradientGroupsTest, OtherAxesAreNoTokens) {
  GroupTables tables(GetParam());
  for (size_t p : {kDense, kTied, kCopy})
    tables.parameters[p].partial = {};
  tables.parameters[kNorm].partial = kNoTokens;
  Placement placement(tables.info, 0, kGroupRanks);
  Ownership ownership(tables.info, placement);
  EXPECT_EQ(ownership.groups(0).size(), 1u);
  EXPECT_EQ(ownership.summedBefore(kNorm).size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Zero, GradientGroupsTest, testing::Values(0, 1));

} // namespace
