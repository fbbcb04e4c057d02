//===- AssignmentTest.cpp - who works on which items ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Every item is worked on exactly once, whatever the layout and the order;
// parts keep their bounds.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/data/Chain.h"

#include <random>

using namespace dt;
using namespace dt::rt;
using namespace dt::test;

namespace {

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

TEST(Assignment, ReplicasWithRowsOfSeveralKindsHaveSamples) {
  TestProgram both(4, 4);
  both.add("vision", "image", 2, 9).symbols.push_back({"batch", "sample", 4});
  both.finish();
  StepItems items = stepItems(4, {kindOf("image", {1, 4, 0, 1})});
  Assignment a = Assigner(both.info, Reorder::None).assign(items);
  EXPECT_EQ(a.part(0, 0, 0).symbols,
            (std::vector<Items>{range(0, 5), range(0, 2)}));
  EXPECT_EQ(a.part(0, 0, 1).symbols,
            (std::vector<Items>{range(5, 6), range(2, 4)}));
  EXPECT_EQ(a.part(0, 0, 1).samples, range(2, 4));
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
