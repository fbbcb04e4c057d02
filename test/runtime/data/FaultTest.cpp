//===- FaultTest.cpp - indices from data that are out of range --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Fault.h"
#include "runtime/device/cpu/Check.h"
#include "runtime/train/Train.h"
#include "test/runtime/SmallProgram.h"

#include <gtest/gtest.h>

using namespace dt::rt;
using namespace small;

namespace {

IndexCheck below(int64_t extent) {
  IndexCheck check{};
  check.what = "rows of gather 'embed'", check.extent = extent;
  check.stride = check.row = 1, check.symbol = -1;
  return check;
}

template <typename T>
Fault faultOf(std::vector<T> indices, const IndexCheck &check) {
  Fault fault{};
  checkIndices(indices.data(), int64_t(indices.size()), check, &fault);
  return fault;
}

TEST(Fault, FindsTheFirstIndexOutOfRange) {
  EXPECT_FALSE(faultOf<int64_t>({0, 3, 6}, below(7)).found);
  EXPECT_FALSE(faultOf<int64_t>({}, below(0)).found);
  Fault fault = faultOf<int64_t>({0, 7, -1}, below(7));
  EXPECT_TRUE(fault.found);
  EXPECT_EQ(fault.value, 7);
  EXPECT_EQ(fault.place, 1);
  EXPECT_EQ(faultOf<int64_t>({0, -1, 7}, below(7)).value, -1);
  EXPECT_EQ(faultOf<int32_t>({5, 6, INT32_MIN}, below(7)).value, INT32_MIN);
  EXPECT_EQ(faultOf<int64_t>({1, int64_t(1) << 32}, below(7)).place, 1);
  EXPECT_TRUE(faultOf<int64_t>({0}, below(0)).found);
}

TEST(Fault, NegativeOnesAndIgnoredOnesAreRightWhereTheyAreAllowed) {
  IndexCheck check = below(7);
  check.wrap = true;
  EXPECT_FALSE(faultOf<int64_t>({-7, 6}, check).found);
  EXPECT_EQ(faultOf<int64_t>({-7, -8}, check).value, -8);
  check = below(7);
  check.ignores = true, check.ignored = -100;
  EXPECT_FALSE(faultOf<int64_t>({-100, 6}, check).found);
  EXPECT_EQ(faultOf<int64_t>({-100, -1}, check).value, -1);
}

TEST(Fault, TuplesHaveAnAxisEach) {
  IndexCheck check = below(2);
  check.offset = 1, check.stride = 2;
  EXPECT_FALSE(faultOf<int64_t>({9, 1, 9, 0}, check).found);
  EXPECT_EQ(faultOf<int64_t>({9, 1, 9, 2}, check).place, 3);
}

TEST(Fault, BlocksCountFromTheirBegin) {
  IndexCheck check = below(10);
  check.wrap = check.local = true, check.base = 5;
  EXPECT_FALSE(faultOf<int64_t>({-5, 4}, check).found);
  EXPECT_EQ(faultOf<int64_t>({-5, 5}, check).value, 10);
  // -11 has been counted from the end once.
  Fault fault = faultOf<int64_t>({-6}, check);
  EXPECT_EQ(fault.value, -1);
  SmallProgram program(6);
  EXPECT_EQ(describeFault(fault, program.info, nullptr, {}),
            "module 'tower', element 0: -11 is none of the 10 rows of gather "
            "'embed' (-10 to 9)");
}

TEST(Fault, PlacesAreAsManyAsRowsInEachItemOrInAll) {
  IndexCheck check = below(2);
  check.what = "rows that fill them in order";
  check.per = check.row = 3, check.symbol = 0;
  EXPECT_FALSE(faultOf<int64_t>({-1, 0, 1, 2, 3, 3}, check).found);
  Fault fault = faultOf<int64_t>({-1, 0, 1, 2, 2, 2}, check);
  SmallProgram program(6);
  EXPECT_EQ(describeFault(fault, program.info, nullptr, {}),
            "module 'tower', image 1 of a microbatch: 1 places for 2 rows that "
            "fill them in order");
  EXPECT_EQ(faultOf<int64_t>({0, 1, 2, 3, 3, 3}, check).place, 2);
  check.per = 6, check.extent = 4;
  EXPECT_FALSE(faultOf<int64_t>({0, 1, 2, 3, 3, 3}, check).found);
  fault = faultOf<int64_t>({0, 1, 2, 2, 2, 2}, check);
  EXPECT_EQ(describeFault(fault, program.info, nullptr, {}),
            "module 'tower', image 0 of a microbatch to image 1 of a "
            "microbatch: 3 places for 4 rows that fill them in order");
  EXPECT_FALSE(faultOf<int64_t>({}, check).found);
}

TEST(Fault, MoreRowsThanThereIsRoomFor) {
  IndexCheck check;
  check.what = "experts 'mlp.up'", check.counts = true, check.extent = 56;
  SmallProgram program(6);
  EXPECT_EQ(describeFault({1, check, 61, 3}, program.info, nullptr, {}),
            "module 'tower': 61 rows of experts 'mlp.up', where their "
            "capacity leaves room for 56");
}

TEST(Fault, TheFirstOneStays) {
  Fault fault{};
  int64_t first = 8, second = 9;
  checkIndices(&first, 1, below(7), &fault);
  checkIndices(&second, 1, below(7), &fault);
  EXPECT_EQ(fault.value, 8);
  checkIndices(&first, 1, below(7), nullptr); // nobody asks
}

/// The head with a check of its token ids, all 0, that fails in microbatch 1:
/// the one of three images.
void headChecksIds(const TaskContext &c) {
  headForward<1>(c);
  IndexCheck check = below(c.dims[1] == 3 ? 0 : 1);
  check.input = "ids", check.row = kTokens, check.module = 1, check.symbol = 0;
  checkIndices(in<int64_t>(c, kIds) + 0, c.dims[0] * kTokens, check, c.fault);
}

/// And of its images' positions, of which the second image's are above 12.
void headChecksPositions(const TaskContext &c) {
  headForward<1>(c);
  IndexCheck check = below(12);
  check.wrap = true, check.row = 2, check.module = 1, check.symbol = 1;
  checkIndices(in<int64_t>(c, kPositions), c.dims[1] * 2, check, c.fault);
}

std::string trainingError(int64_t micro, TaskFn forward) {
  ProgramFolder folder;
  SmallProgram program(micro);
  program.modules[1].forward = forward;
  Options options;
  options.steps = 3, options.batch = {folder / "batch"}, options.threads = 1;
  int64_t done = 0;
  TrainHooks hooks;
  hooks.afterStep = [&](Trainer &, const StepReport &) { ++done; };
  try {
    runTraining(program.info, folder.path, options, solo(), hooks);
  } catch (const Error &e) {
    EXPECT_EQ(done, 0);
    return e.what();
  }
  return "";
}

TEST(Fault, EndsTheStepWithInputAndSample) {
  EXPECT_EQ(trainingError(2, headChecksIds),
            "input 'head.ids', sample 2: there are "
            "no rows of gather 'embed', and number "
            "0 is asked for");
  // The record is free again.
  EXPECT_EQ(trainingError(6, headChecksIds), "");
}

TEST(Fault, CountsTheItemsThatRowsAre) {
  EXPECT_EQ(trainingError(6, headChecksPositions),
            "module 'head', image 1: 13 is none of the 12 rows of gather "
            "'embed' (-12 to 11)");
}

TEST(Fault, NamesWhatIsKnown) {
  SmallProgram program(6);
  Part part;
  part.items = {{4, 5}, {}};
  Fault fault{1, below(7), 9, 7};
  fault.check.module = 1;
  auto text = [&](const Part *of) {
    return describeFault(fault, program.info, of,
                         [](int64_t place) { return std::to_string(place); });
  };
  EXPECT_EQ(text(&part), "module 'head', element 7: 9 is none of the 7 rows "
                         "of gather 'embed' (0 to 6)");
  fault.check.symbol = 0, fault.check.row = 4;
  fault.check.ignores = true, fault.check.ignored = -100;
  EXPECT_EQ(text(&part), "module 'head', sample '5': 9 is none of the 7 rows "
                         "of gather 'embed' (0 to 6, or -100)");
  EXPECT_EQ(text(nullptr),
            "module 'head', sample 1 of a microbatch: 9 is none of the 7 rows "
            "of gather 'embed' (0 to 6, or -100)");
}

} // namespace
