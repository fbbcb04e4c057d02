//===- SnapshotTest.cpp - state that is read while work goes on -----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/Device.h"
#include "test/runtime/TestSupport.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>

using namespace dt::rt;
using namespace dt::rt::device;

namespace {

constexpr size_t kSizes[] = {4, 100, 64, 0, 1000, 128, 60};

/// Every byte lies in one part, blocks that are there at the same time lie
/// apart, and all of them in the memory that there is.
TEST(SnapshotBlocks, LieInTheirMemory) {
  std::vector<std::byte> state(4096);
  for (size_t memory : {128, 200, 256, 640, 1000, 1471, 1472, 1536, 1 << 20}) {
    SnapshotBlocks row;
    size_t from = 0, all = 0;
    std::vector<size_t> places;
    for (size_t bytes : kSizes) {
      places.push_back(row.add(state.data() + from, bytes));
      EXPECT_EQ(places.back(), all);
      from += bytes, all += (bytes + 63) / 64 * 64;
    }
    EXPECT_EQ(all, 1472u);
    row.cut(memory);
    EXPECT_LE(row.heldBytes(), memory);
    EXPECT_EQ(row.heldBytes() == all, memory >= all) << memory;
    EXPECT_LE(row.held(), row.blocks());
    std::set<size_t> seen;
    for (size_t first = 0; first + row.held() <= row.blocks(); ++first) {
      std::vector<bool> taken(row.heldBytes());
      for (size_t block = first; block < first + row.held(); ++block)
        row.parts(block, [&](size_t place, const std::byte *at, size_t bytes) {
          EXPECT_EQ(row.blockOf(place), block);
          EXPECT_LE(bytes, row.rest(place));
          for (size_t i = 0; i < bytes; ++i) {
            ASSERT_LT(row.offsetOf(place) + i, taken.size());
            EXPECT_FALSE(taken[row.offsetOf(place) + i]);
            taken[row.offsetOf(place) + i] = true;
            EXPECT_EQ(row.source(place + i), at + i);
            seen.insert(size_t(at + i - state.data()));
          }
        });
    }
    EXPECT_EQ(seen.size(), from) << memory;
  }
}

TEST(SnapshotBlocks, AreLargeWhereTheyMay) {
  SnapshotBlocks row;
  row.add(nullptr, size_t(100) << 20);
  row.cut(SIZE_MAX);
  EXPECT_EQ(row.blocks(), 7u);
  EXPECT_EQ(row.heldBytes(), size_t(100) << 20);
  row.cut(size_t(40) << 20);
  EXPECT_EQ(row.held(), 2u);
  EXPECT_EQ(row.heldBytes(), size_t(32) << 20);
  row.cut(size_t(20) << 20); // still one that is copied while one is read
  EXPECT_EQ(row.held(), 2u);
  EXPECT_EQ(row.heldBytes(), size_t(20) << 20);
}

/// Some state, and an optimizer's step that changes all of it.
struct TrainedState {
  std::vector<float> values = std::vector<float>(700),
                     gradients = std::vector<float>(700, 1.f),
                     momentum = gradients;
  TrainedState() { std::iota(values.begin(), values.end(), 0.f); }
  void update(bool applies = true) {
    UpdateRun run{values.data(),
                  gradients.data(),
                  {momentum.data()},
                  values.size(),
                  nullptr};
    Verdict verdict{0, 0, 1, applies};
    const double momentumOnly[2] = {0.9, 0};
    device::update(OptimizerKind::SGD, {momentumOnly, 0.5, 0, 0},
                   {&run, 1, run.count}, &verdict);
  }
};

/// All that a snapshot has, piece by piece.
std::vector<float> readAll(Snapshot &snapshot,
                           const std::vector<size_t> &places, size_t bytes) {
  std::vector<float> all;
  for (size_t place : places)
    for (size_t from = 0, n = 0; from < bytes; from += n) {
      n = bytes - from;
      const std::byte *at = snapshot.read(place + from, n);
      EXPECT_TRUE(n == bytes - from || n % 64 == 0);
      all.resize(all.size() + n / sizeof(float));
      std::memcpy(&all[all.size() - n / sizeof(float)], at, n);
    }
  return all;
}

/// An update waits while there is something to read that no memory had room
/// for, and what is read is what was.
TEST(Snapshot, AnUpdateWaitsForWhatIsNotCopied) {
  constexpr size_t kPieces = 7, kBytes = 400;
  for (size_t most : {size_t(128), size_t(512), size_t(1024), SIZE_MAX}) {
    TrainedState state;
    std::vector<float> before = state.values;
    Snapshot snapshot(most);
    std::vector<size_t> places;
    for (size_t p = 0; p < kPieces; ++p)
      places.push_back(snapshot.add(state.values.data() + p * 100, kBytes));
    ASSERT_TRUE(snapshot.begin());
    EXPECT_LE(snapshot.mostBytes(), most);
    std::atomic<bool> updated{false};
    std::thread trains([&] {
      state.update();
      updated = true;
    });
    if (most == SIZE_MAX) // nothing to wait for
      trains.join();
    else
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(updated, most == SIZE_MAX);
    EXPECT_EQ(readAll(snapshot, places, kBytes), before);
    if (most != SIZE_MAX)
      trains.join();
    EXPECT_TRUE(updated);
    EXPECT_NE(state.values, before);
    state.update(); // once is enough
  }
}

/// Nobody waits for a reader that has given up, nor for one that never came.
TEST(Snapshot, WhatIsDroppedIsNotWaitedFor) {
  TrainedState state;
  {
    Snapshot snapshot(128);
    for (bool reads : {false, true}) {
      snapshot.clear();
      size_t place = snapshot.add(state.values.data(), 2800), bytes = 2800;
      ASSERT_TRUE(snapshot.begin());
      if (reads)
        snapshot.read(place, bytes);
      std::thread gives([&] { snapshot.drop(); });
      state.update();
      gives.join();
      snapshot.settle();
    }
    snapshot.clear();
    snapshot.add(state.values.data(), 2800);
    ASSERT_TRUE(snapshot.begin());
    state.update(/*applies=*/false); // which changes nothing
  }
  state.update(); // the snapshot is gone
}

} // namespace
