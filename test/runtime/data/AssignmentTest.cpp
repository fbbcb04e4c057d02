//===- AssignmentTest.cpp - who works on which items ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Every item is worked on exactly once, parts keep their bounds, reordering
// keeps the samples of a step and evens the work.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/data/Fixture.h"
#include "test/runtime/data/TestProgram.h"

#include "runtime/data/BatchSource.h"
#include "runtime/data/Cut.h"

#include <numeric>
#include <random>
#include <set>

using namespace dt;
using namespace dt::rt;
using namespace dt::test;

namespace {
using Counts = std::vector<int>;
constexpr Reorder kModes[] = {Reorder::None, Reorder::Intra, Reorder::Inter,
                              Reorder::Both};

Items range(int64_t from, int64_t to) {
  Items out(static_cast<size_t>(to - from));
  std::iota(out.begin(), out.end(), from);
  return out;
}

StepItems stepItems(int64_t samples, std::vector<StepItems::Kind> kinds) {
  StepItems items;
  items.samples = samples;
  items.kinds = std::move(kinds);
  items.where = "step 3";
  return items;
}

/// vision (image) -> llm (sample, knows its images) -> generator (target).
struct Chain : TestProgram {
  Chain(int64_t global, int64_t micro, int32_t vision, int32_t llm,
        int32_t generator, int64_t most = 1000)
      : TestProgram(global, micro) {
    add("vision", "image", vision, most);
    add("llm", "sample", llm, most, vision)
        .symbols.push_back({"images", "image", most});
    add("generator", "target", generator, most, vision + llm);
    edge(0, 1), edge(1, 2);
    info.pace = 1;
    rows1F1B();
    finish();
  }
};

/// Symbol `symbol` of all parts of a module, joined and sorted.
Items joined(const Assignment &a, size_t module, size_t symbol = 0) {
  Items all;
  for (const auto &replicas : a.modules[module])
    for (const PartItems &part : replicas) {
      const Items &own = part.symbols[symbol];
      EXPECT_TRUE(std::is_sorted(own.begin(), own.end()));
      all.insert(all.end(), own.begin(), own.end());
    }
  std::sort(all.begin(), all.end());
  return all;
}

TEST(Assignment, SamplesAndItemsInContiguousRuns) {
  Chain program(8, 4, 3, 2, 1);
  StepItems items = stepItems(8, {kindOf("image", {2, 0, 3, 1, 0, 0, 0, 0}),
                                  kindOf("target", {1, 0, 1, 0, 2, 0, 0, 0})});
  Assignment a = Assigner(program.info, Reorder::None).assign(items);
  ASSERT_EQ(a.microbatches, (std::vector<Items>{range(0, 4), range(4, 8)}));
  EXPECT_EQ(a.part(1, 0, 0).symbols[0], range(0, 2));
  EXPECT_EQ(a.part(1, 0, 1).symbols[0], range(2, 4));
  EXPECT_EQ(a.part(1, 0, 0).symbols[1], range(0, 2)); // images of samples 0, 1
  EXPECT_EQ(a.part(1, 0, 1).symbols[1], range(2, 6));
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(a.part(0, 0, r).symbols[0], range(2 * r, 2 * r + 2));
    EXPECT_EQ(a.part(0, 1, r).symbols[0], Items()); // a microbatch without
  }
  EXPECT_EQ(a.part(2, 0, 0).symbols[0], range(0, 2));
  EXPECT_EQ(a.part(2, 1, 0).symbols[0], range(2, 4));
  EXPECT_EQ(a.part(0, 0, 1).samples, (Items{2}));
  // What message vision 1 -> llm 1 holds.
  Overlap o = overlap(a.part(0, 0, 1).symbols[0], a.part(1, 0, 1).symbols[1]);
  EXPECT_EQ(o.inA, range(0, 2));
  EXPECT_EQ(o.inB, range(0, 2));
  EXPECT_TRUE(overlap(a.part(0, 0, 0).symbols[0], a.part(1, 0, 1).symbols[1])
                  .inA.empty());
}

TEST(Assignment, AnEarlierReplicaHasTheLargerPart) {
  Chain program(7, 3, 2, 2, 5);
  StepItems items = stepItems(7, {kindOf("image", {1, 2, 0, 0, 0, 0, 1}),
                                  kindOf("target", {3, 3, 1, 0, 0, 0, 0})});
  Assignment a = Assigner(program.info, Reorder::None).assign(items);
  ASSERT_EQ(a.microbatches.size(), 3u);
  EXPECT_EQ(a.part(1, 0, 0).symbols[0], range(0, 2));
  EXPECT_EQ(a.part(1, 0, 1).symbols[0], range(2, 3));
  EXPECT_EQ(a.part(1, 2, 0).symbols[0], range(6, 7)); // one sample left
  EXPECT_EQ(a.part(1, 2, 1).symbols[0], Items());
  EXPECT_EQ(a.part(0, 0, 0).symbols[0], range(0, 2));
  EXPECT_EQ(a.part(0, 0, 1).symbols[0], range(2, 3));
  EXPECT_EQ(a.part(2, 0, 0).symbols[0], range(0, 2));
  EXPECT_EQ(a.part(2, 0, 1).symbols[0], range(2, 4));
  EXPECT_EQ(a.part(2, 0, 4).symbols[0], range(6, 7));
}

TEST(Assignment, SharesFollowSpeeds) {
  Chain program(8, 8, 3, 2, 1);
  static constexpr int32_t kVision[] = {1, 3, 2}, kModel[] = {3, 1};
  program.modules[0].info.speeds = kVision;
  program.modules[1].info.speeds = kModel;
  program.finish();
  StepItems items = stepItems(8, {kindOf("image", {3, 0, 3, 1, 0, 2, 3, 0}),
                                  kindOf("target", {1, 0, 0, 0, 0, 0, 0, 0})});
  for (Reorder mode : kModes) {
    Assignment a = Assigner(program.info, mode).assign(items);
    // Contiguous, as many as the replica is fast.
    EXPECT_EQ(a.part(0, 0, 0).symbols[0], range(0, 2));
    EXPECT_EQ(a.part(0, 0, 1).symbols[0], range(2, 8));
    EXPECT_EQ(a.part(0, 0, 2).symbols[0], range(8, 12));
    EXPECT_EQ(a.part(1, 0, 0).symbols[0], range(0, 6));
    EXPECT_EQ(a.part(1, 0, 1).symbols[0], range(6, 8));
    EXPECT_EQ(a.part(2, 0, 0).symbols[0], range(0, 1));
    // All are done at the same time.
    EXPECT_EQ(a.balance[0].after, 1);
    EXPECT_EQ(a.balance[1].after, 1);
  }
  // By cost where items differ in it: a sample with images is dear.
  program.modules[1].symbols[1].cost = 10;
  program.finish();
  Assignment a = Assigner(program.info, Reorder::Intra).assign(items);
  double cost[2];
  for (int r : {0, 1})
    cost[r] = double(a.part(1, 0, r).symbols[0].size()) +
              10.0 * double(a.part(1, 0, r).symbols[1].size());
  EXPECT_NEAR(cost[0] / cost[1], 3, 0.3);
  EXPECT_EQ(joined(a, 1), range(0, 8));
}

/// Replicas of equal number share samples only if they are equally fast.
TEST(Assignment, UnequalSpeedsCutForThemselves) {
  TestProgram program(6, 6);
  program.add("a", "sample", 2, 1000);
  program.add("b", "sample", 2, 1000);
  program.edge(0, 1);
  EXPECT_EQ(partGroups(program.finish()).size(), 1u);
  static constexpr int32_t kSpeeds[] = {2, 1};
  program.modules[1].info.speeds = kSpeeds;
  program.finish();
  EXPECT_EQ(partGroups(program.info).size(), 2u);
  Assignment a = Assigner(program.info, Reorder::None).assign(stepItems(6, {}));
  EXPECT_EQ(a.part(0, 0, 0).symbols[0], range(0, 3));
  EXPECT_EQ(a.part(1, 0, 0).symbols[0], range(0, 4));
}

TEST(Assignment, EverythingOnceWhateverTheLayoutAndTheMode) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    auto below = [&](int n) { return int(random() % unsigned(n)); };
    int64_t global = 1 + below(20), micro = 1 + below(int(global));
    Chain program(global, micro, 1 + below(5), 1 + below(3), 1 + below(4));
    program.modules[0].symbols[0].cost = 50;
    program.modules[1].symbols[1].cost = 3;
    program.finish();
    Counts images, targets;
    StepItems items;
    for (int64_t s = 0; s < global; ++s) {
      images.push_back(below(4));
      targets.push_back(below(2) * below(9));
    }
    items =
        stepItems(global, {kindOf("image", images), kindOf("target", targets)});
    for (Reorder mode : kModes) {
      Assigner assigner(program.info, mode);
      Assignment a = assigner.assign(items);
      ASSERT_EQ(a.microbatches.size(), size_t(microbatchCount(program.info)));
      Items samples;
      for (const Items &places : a.microbatches) {
        EXPECT_LE(int64_t(places.size()), micro);
        samples.insert(samples.end(), places.begin(), places.end());
      }
      std::sort(samples.begin(), samples.end());
      EXPECT_EQ(samples, range(0, global));
      EXPECT_EQ(joined(a, 0), range(0, items.kinds[0].count));
      EXPECT_EQ(joined(a, 1), range(0, global));
      EXPECT_EQ(joined(a, 1, 1), range(0, items.kinds[0].count));
      EXPECT_EQ(joined(a, 2), range(0, items.kinds[1].count));
      for (size_t k = 0; k < a.microbatches.size(); ++k) // items stay in it
        for (const PartItems &part : a.modules[0][k])
          for (int64_t image : part.symbols[0])
            EXPECT_TRUE(std::binary_search(
                a.microbatches[k].begin(), a.microbatches[k].end(),
                items.kinds[0].owner[size_t(image)]));
      EXPECT_EQ(a.hash(), Assigner(program.info, mode).assign(items).hash());
      EXPECT_LE(a.lengthAfter, a.lengthBefore + 1e-6);
      for (const Assignment::Balance &b : a.balance)
        EXPECT_GE(b.after, 1 - 1e-9);
    }
  }
}

/// Samples cost what they and their images do; images are all alike.
TEST(Assignment, IntraEvensTheWorkWithinBounds) {
  Chain program(8, 8, 2, 4, 1, 16);
  program.modules[1].symbols[0].max = 3;
  program.modules[1].symbols[0].cost = 1;
  program.modules[1].symbols[1].cost = 10;
  program.finish();
  // The first samples have the images: a contiguous cut puts them together.
  StepItems items = stepItems(8, {kindOf("image", {3, 3, 3, 3, 0, 0, 0, 0}),
                                  kindOf("target", {0, 0, 0, 0, 0, 0, 0, 0})});
  Assignment given = Assigner(program.info, Reorder::None).assign(items),
             even = Assigner(program.info, Reorder::Intra).assign(items);
  EXPECT_DOUBLE_EQ(given.balance[1].after, given.balance[1].before);
  EXPECT_GT(given.balance[1].after, 1.9);
  EXPECT_DOUBLE_EQ(even.balance[1].before, given.balance[1].before);
  EXPECT_LT(even.balance[1].after, 1.01);
  EXPECT_EQ(even.microbatches, given.microbatches);
  for (int r = 0; r < 4; ++r) {
    EXPECT_LE(even.part(1, 0, r).symbols[0].size(), 3u);
    EXPECT_EQ(even.part(1, 0, r).symbols[1].size(), 3u);
  }
  EXPECT_EQ(joined(even, 1), range(0, 8));
  for (int r = 0; r < 2; ++r)
    EXPECT_EQ(even.part(0, 0, r).symbols, given.part(0, 0, r).symbols);
}

TEST(Assignment, InterShortensTheSchedule) {
  Chain program(12, 2, 1, 1, 1);
  program.modules[0].symbols[0].cost = 1000;
  program.modules[1].symbols[0].cost = 1500;
  program.modules[2].symbols[0].cost = 10;
  program.finish();
  // Samples with many images come in pairs.
  StepItems items =
      stepItems(12, {kindOf("image", {5, 5, 0, 0, 5, 5, 0, 0, 5, 5, 0, 0}),
                     kindOf("target", Counts(12, 1))});
  Assignment a = Assigner(program.info, Reorder::Inter).assign(items);
  EXPECT_GT(a.lengthBefore, 0);
  EXPECT_LT(a.lengthAfter, 0.9 * a.lengthBefore);
  EXPECT_EQ(joined(a, 0), range(0, 30));
  // Where ten images in a microbatch are too many, others come together.
  program.modules[0].symbols[0].max = 5;
  program.finish();
  EXPECT_ERROR(Assigner(program.info, Reorder::Intra).assign(items),
               "is 10 in microbatch 0");
  a = Assigner(program.info, Reorder::Inter).assign(items);
  for (const auto &replicas : a.modules[0])
    EXPECT_EQ(replicas[0].symbols[0].size(), 5u);
}

TEST(Assignment, StagesAndCopiesHaveEqualParts) {
  TestProgram program(6, 6);
  program.add("vision.0", "image", 3, 100).info.unit = "vision";
  program.add("vision.1", "image", 3, 100, 3).info.unit = "vision";
  program.add("llm.0", "sample", 2, 100, 6).info.unit = "llm";
  program.add("llm.1", "sample", 2, 100, 8).info.unit = "llm";
  program.add("eyes", "image", 2, 100, 6); // on the ranks of llm.0
  program.modules[1].symbols[0].cost = 7;
  for (int m : {2, 3})
    program.modules[size_t(m)].symbols.push_back({"images", "image", 100});
  program.modules[3].symbols[1].cost = 9;
  program.edge(0, 1), program.edge(1, 2), program.edge(2, 3);
  program.edge(4, 2);
  program.info.pace = 2;
  program.finish();
  StepItems items = stepItems(6, {kindOf("image", {4, 0, 2, 1, 0, 2})});
  Assignment a = Assigner(program.info, Reorder::Both).assign(items);
  for (int r = 0; r < 3; ++r)
    EXPECT_EQ(a.part(0, 0, r).symbols, a.part(1, 0, r).symbols);
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(a.part(2, 0, r).symbols, a.part(3, 0, r).symbols);
    EXPECT_EQ(a.part(4, 0, r).samples, a.part(2, 0, r).symbols[0]);
    for (int64_t image : a.part(4, 0, r).symbols[0])
      EXPECT_TRUE(std::binary_search(a.part(2, 0, r).symbols[0].begin(),
                                     a.part(2, 0, r).symbols[0].end(),
                                     items.kinds[0].owner[size_t(image)]));
  }
  EXPECT_EQ(joined(a, 4), range(0, 9));
  EXPECT_LT(a.balance[3].after, a.balance[3].before);
}

/// Pieces are runs of what a replica has without them.
TEST(Assignment, PiecesOfAShare) {
  std::mt19937 random(2);
  for (int round = 0; round < 40; ++round) {
    auto below = [&](int n) { return int(random() % unsigned(n)); };
    int64_t global = 1 + below(20), micro = 1 + below(int(global));
    int32_t vision = 1 + below(3), llm = 1 + below(3), generator = 1 + below(3);
    Chain whole(global, micro, vision, llm, generator),
        cut(global, micro, vision, llm, generator);
    std::vector<int32_t> pieces = {1 + below(4), 1 + below(4), 1 + below(4)};
    Counts images, targets;
    for (int64_t s = 0; s < global; ++s)
      images.push_back(below(4)), targets.push_back(below(9));
    StepItems items =
        stepItems(global, {kindOf("image", images), kindOf("target", targets)});
    for (size_t m = 0; m < 3; ++m) {
      cut.modules[m].info.sub = pieces[m];
      for (Chain *program : {&whole, &cut})
        program->modules[m].symbols[0].cost = 3;
    }
    whole.finish(), cut.finish();
    for (Reorder mode : kModes) {
      Assignment a = Assigner(whole.info, mode).assign(items),
                 b = Assigner(cut.info, mode).assign(items);
      EXPECT_EQ(a.microbatches, b.microbatches);
      EXPECT_EQ(joined(b, 1, 1), range(0, items.kinds[0].count));
      EXPECT_DOUBLE_EQ(a.lengthAfter, b.lengthAfter);
      for (size_t m = 0; m < 3; ++m) {
        EXPECT_DOUBLE_EQ(a.balance[m].after, b.balance[m].after);
        for (size_t k = 0; k < a.microbatches.size(); ++k)
          for (size_t d = 0; d < a.modules[m][k].size(); ++d) {
            const Items &share = a.modules[m][k][d].symbols[0];
            Items sum;
            size_t least = share.size(), before = share.size();
            for (int32_t p = 0; p < pieces[m]; ++p) {
              const PartItems &part =
                  b.modules[m][k][d * size_t(pieces[m]) + size_t(p)];
              const Items &own = part.symbols[0];
              sum.insert(sum.end(), own.begin(), own.end());
              EXPECT_LE(own.size(), before); // an earlier one has more
              before = own.size(), least = std::min(least, own.size());
              if (m == 1) // images of the piece's samples
                for (int64_t image : part.symbols[1])
                  EXPECT_TRUE(
                      std::binary_search(own.begin(), own.end(),
                                         items.kinds[0].owner[size_t(image)]));
            }
            EXPECT_EQ(sum, share);
            EXPECT_LE(b.modules[m][k][d * size_t(pieces[m])].symbols[0].size(),
                      least + 1);
          }
      }
    }
  }
}

/// A task has what its microbatches have at the places that they are given, and
/// replicas share each of these out as they would alone.
TEST(Assignment, TasksOfSeveralMicrobatches) {
  std::mt19937 random(3);
  auto below = [&](int n) { return int(random() % unsigned(n)); };
  for (int round = 0; round < 60; ++round) {
    int64_t micro = 1 + below(3), global = micro * (2 + below(8)) - below(2);
    Chain program(global, micro, 1 + below(3), 1 + below(2), 1);
    Chain alone(global, micro, program.modules[0].info.dp,
                program.modules[1].info.dp, 1);
    for (Chain *chain : {&program, &alone}) {
      chain->modules[0].symbols[0].cost = 50;
      chain->modules[1].symbols[1].cost = 3;
    }
    int32_t span = 2 + below(3);
    program.modules[0].info.span = span;
    program.rows.clear(), program.rows1F1B();
    program.finish(), alone.finish();
    Counts images, targets;
    for (int64_t s = 0; s < global; ++s)
      images.push_back(below(4)), targets.push_back(below(2));
    StepItems items =
        stepItems(global, {kindOf("image", images), kindOf("target", targets)});
    for (Reorder mode : kModes) {
      Assignment a = Assigner(program.info, mode).assign(items);
      int64_t n = microbatchCount(program.info);
      ASSERT_EQ(a.modules[0].size(), size_t((n + span - 1) / span));
      ASSERT_EQ(a.modules[1].size(), size_t(n));
      for (int64_t task = 0; task < int64_t(a.modules[0].size()); ++task) {
        std::set<int64_t> samples;
        for (int64_t k = task * span; k < std::min(n, (task + 1) * span); ++k)
          samples.insert(a.microbatches[size_t(k)].begin(),
                         a.microbatches[size_t(k)].end());
        int64_t count = 0;
        for (const PartItems &part : a.modules[0][size_t(task)])
          for (int64_t item : part.symbols[0]) {
            EXPECT_TRUE(samples.count(items.kinds[0].owner[size_t(item)]));
            ++count;
          }
        int64_t all = 0;
        for (int64_t sample : samples)
          all += images[size_t(sample)];
        EXPECT_EQ(count, all);
      }
      EXPECT_EQ(joined(a, 0), range(0, items.kinds[0].count));
      if (mode == Reorder::Inter)
        EXPECT_LE(a.lengthAfter, a.lengthBefore);
      if (mode == Reorder::Inter || mode == Reorder::Both)
        EXPECT_GT(a.lengthAfter, 0);
      else // equal microbatches: the same shares, joined
        for (int64_t k = 0; k < n; ++k)
          for (int32_t d = 0; d < program.modules[0].info.dp; ++d) {
            Items own = Assigner(alone.info, mode)
                            .assign(items)
                            .part(0, k, d)
                            .symbols[0];
            const Items &task = a.part(0, k / span, d).symbols[0];
            EXPECT_TRUE(std::includes(task.begin(), task.end(), own.begin(),
                                      own.end()));
          }
    }
  }
}

/// On the same ranks: shares are of the same samples, whatever the pieces.
TEST(Assignment, PiecesOfColocatedModules) {
  TestProgram program(6, 6);
  program.add("eyes", "image", 2, 100).info.sub = 3;
  program.add("llm", "sample", 2, 100)
      .symbols.push_back({"images", "image", 100});
  program.modules[1].info.sub = 2;
  program.edge(0, 1);
  program.finish();
  StepItems items = stepItems(6, {kindOf("image", {4, 0, 1, 2, 0, 2})});
  Assignment a = Assigner(program.info, Reorder::None).assign(items);
  ASSERT_EQ(a.modules[0][0].size(), 6u);
  ASSERT_EQ(a.modules[1][0].size(), 4u);
  EXPECT_EQ(a.part(0, 0, 0).symbols[0], range(0, 2)); // of images 0 to 4
  EXPECT_EQ(a.part(0, 0, 1).symbols[0], range(2, 4));
  EXPECT_EQ(a.part(0, 0, 2).symbols[0], range(4, 5));
  EXPECT_EQ(a.part(0, 0, 3).symbols[0], range(5, 7));
  EXPECT_EQ(a.part(0, 0, 5).symbols[0], range(8, 9));
  EXPECT_EQ(a.part(1, 0, 0).symbols,
            (std::vector<Items>{range(0, 2), range(0, 4)}));
  EXPECT_EQ(a.part(1, 0, 1).symbols,
            (std::vector<Items>{range(2, 3), range(4, 5)}));
}

TEST(Assignment, WholeBatchModules) {
  Chain program(5, 2, 2, 2, 1);
  TestProgram::Module &head = program.add("head", "sample", 1, 5, 2, 3);
  head.info.wholeBatch = true;
  head.symbols.push_back({"images", "image", 9});
  program.finish();
  StepItems items = stepItems(
      5, {kindOf("image", {1, 1, 2, 0, 3}), kindOf("target", {0, 0, 0, 0, 0})});
  Assignment a = Assigner(program.info, Reorder::Both).assign(items);
  ASSERT_EQ(a.modules[3].size(), 1u);
  ASSERT_EQ(a.modules[3][0].size(), 3u);
  for (const PartItems &part : a.modules[3][0]) {
    EXPECT_EQ(part.symbols[0], range(0, 5));
    EXPECT_EQ(part.symbols[1], range(0, 7));
  }
  RankView view = viewOf(program.info, 3);
  EXPECT_EQ(view.replica, (std::vector<int32_t>{-1, 1, -1, 1}));
  EXPECT_EQ(viewOf(program.info, 4).replica,
            (std::vector<int32_t>{-1, -1, 0, 2}));
}

TEST(Assignment, Errors) {
  auto fails = [](const TestProgram &program, const StepItems &items,
                  const std::string &expected) {
    for (Reorder mode : kModes) {
      std::string text =
          errorOf([&] { Assigner(program.info, mode).assign(items); });
      EXPECT_CONTAINS(text, expected);
    }
  };
  Chain program(4, 4, 1, 2, 1, 4);
  StepItems items = stepItems(
      4, {kindOf("image", {1, 3, 1, 1}), kindOf("target", {0, 0, 0, 0})});
  items.nameOf = [](int64_t place) { return "k" + std::to_string(place); };
  fails(program, items,
        "step 3: dim vision.image is 6 in microbatch 0; the program was "
        "compiled for at most 4, which sample 2 (k2) exceeds");
  program.modules[0].symbols[0].max = 6;
  program.modules[1].symbols[1].max = 2;
  program.finish();
  fails(program, items, "dim llm.images is 4 in microbatch 0, replica 0");
  StepItems unknown = items;
  unknown.kinds[0].owner.clear();
  fails(program, unknown, "nothing tells which image belongs to which sample");
  items.kinds[0].name = "sound";
  fails(program, items,
        "step 3: module vision works by 'image', but the data have no items");

  TestProgram odd(4, 4);
  odd.add("vision", "image", 2, 9).symbols.push_back({"batch", "sample", 4});
  odd.finish();
  fails(odd, stepItems(4, {kindOf("image", {1, 1, 1, 1})}),
        "dim vision.batch does not count 'image'");
  odd.modules[0].ranks = {0};
  odd.modules[0].info.dp = 1, odd.modules[0].info.sub = 3;
  odd.finish();
  fails(odd, stepItems(4, {kindOf("image", {1, 1, 1, 1})}),
        "by which the module works in 3 parts: these have no samples");

  TestProgram pieces(4, 4);
  pieces.add("llm", "sample", 2, 4).info.sub = 2;
  pieces.modules[0].symbols.push_back({"images", "image", 2});
  pieces.finish();
  fails(pieces, stepItems(4, {kindOf("image", {1, 1, 1, 3})}),
        "dim llm.images is 3 in microbatch 0, replica 1, piece 1");
}

TEST(Assignment, OneReplicaMayCountAnything) {
  TestProgram one(4, 2);
  one.add("vision", "image", 1, 9).symbols.push_back({"batch", "sample", 4});
  one.finish();
  StepItems items = stepItems(4, {kindOf("image", {1, 2, 0, 1})});
  Assignment a = Assigner(one.info, Reorder::Both).assign(items);
  EXPECT_EQ(a.part(0, 0, 0).symbols,
            (std::vector<Items>{range(0, 3), range(0, 2)}));
  // Nobody knows the owners, but all are in one part.
  one.info.microBatch = 4;
  items.kinds[0].owner.clear();
  a = Assigner(one.info, Reorder::Both).assign(items);
  EXPECT_EQ(a.part(0, 0, 0).symbols,
            (std::vector<Items>{range(0, 4), range(0, 4)}));
}

TEST(Assignment, SchedulesThatWaitInACircleAreLeftAlone) {
  Chain program(4, 1, 1, 1, 1);
  std::swap(program.rows[0].front(), program.rows[0].back());
  program.finish();
  StepItems items = stepItems(
      4, {kindOf("image", {1, 3, 1, 1}), kindOf("target", {0, 0, 0, 0})});
  Assignment a = Assigner(program.info, Reorder::Inter).assign(items);
  EXPECT_EQ(a.lengthAfter, 0);
  EXPECT_EQ(joined(a, 0), range(0, 6));
}

TEST(Assignment, Given) {
  Chain program(6, 2, 2, 1, 1);
  StepItems items = stepItems(
      6, {kindOf("image", {5, 5, 0, 0, 5, 5}), kindOf("target", Counts(6, 1))});
  Assigner none(program.info, Reorder::None), both(program.info, Reorder::Both);
  EXPECT_EQ(both.given(items).hash(), none.assign(items).hash());
  program.modules[0].symbols[0].max = 1; // for reports only: no error
  program.finish();
  EXPECT_EQ(both.given(items).hash(), none.given(items).hash());
}
} // namespace
