//===- PiecesTest.cpp - parts of a replica's share, tasks of microbatches -===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Pieces are parts of what a replica has without them, tasks what several
// microbatches have.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/data/Chain.h"

#include <random>
#include <set>

using namespace dt;
using namespace dt::rt;
using namespace dt::test;

namespace {

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

} // namespace
