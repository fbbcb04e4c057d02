//===- MessagePlanTest.cpp - which blocks a rank's messages need ----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Figures that can be counted by hand. That steps allocate these and nothing
// else is looked at wherever the small program trains (PlannedMessages.h).
//
//===----------------------------------------------------------------------===//

#include "runtime/step/MessagePlan.h"
#include "runtime/device/Pool.h"
#include "test/runtime/SmallProgram.h"

#include <gtest/gtest.h>

using namespace dt::rt;
using small::SmallPlan;
using small::SmallProgram;

namespace {

MessageBlocks planOf(const SmallProgram &program, int rank,
                     Carrier carrier = Carrier::Tcp) {
  Placement placement(program.info, rank, int(program.info.ranks.size));
  Ownership ownership(program.info, placement);
  return planMessages(program.info, placement, ownership, carrier);
}

constexpr size_t kImage = 2 * sizeof(float); ///< of embeddings

} // namespace

/// Images by towers, samples by heads: rows need not lie together. Two
/// microbatches.
TEST(MessagePlan, PackedRows) {
  SmallProgram program(3, SmallPlan{1, 1});
  MessageBlocks tower = planOf(program, 0), head = planOf(program, 1);
  size_t part = small::kImages * kImage;
  EXPECT_EQ(tower.message, (std::vector<size_t>{part, part}));
  EXPECT_EQ(head.task, (std::vector<size_t>(4, part)));
  // The head asks for both; one has come when the first gradient leaves. The
  // tower has slots for both, so nothing waits for what it sent, and asks for
  // a gradient then.
  EXPECT_EQ(head.packed, (BlockCounts{{part, 2}}));
  EXPECT_EQ(head.deviceBytes(), 2 * part);
  EXPECT_EQ(tower.packed, (BlockCounts{{part, 3}}));
  EXPECT_TRUE(head.pinned.empty() && head.beside.empty());
}

/// Whatever part of the other end an item comes from or goes to, it is packed
/// once: replicas at the other end change nothing.
TEST(MessagePlan, PackedOnce) {
  SmallProgram one(3, SmallPlan{1, 1}), many(3, SmallPlan{3, 2});
  EXPECT_EQ(planOf(many, 0).packed, planOf(one, 0).packed);
  EXPECT_EQ(planOf(many, 3).packed, planOf(one, 1).packed);
}

/// A tensor-parallel rank has its chunk of the items, rounded up.
TEST(MessagePlan, Chunks) {
  SmallProgram program(6, SmallPlan{1, 1, 2});
  MessageBlocks head = planOf(program, 1);
  EXPECT_EQ(head.message[0], size_t(4 * kImage));
  EXPECT_EQ(head.task[0], size_t(4 * kImage));
}

/// Equal shares: nothing is packed, whatever the pieces.
TEST(MessagePlan, RowsThatLieTogether) {
  SmallProgram program(3, SmallPlan{1, 1});
  program.modules[0].item = "sample";
  EXPECT_TRUE(planOf(program, 1).packed.empty());
  program.modules[0].sub = 2; // images of samples in a piece
  EXPECT_FALSE(planOf(program, 1).packed.empty());
}

/// A part goes into the whole batch as it is; there its rows may lie anywhere.
TEST(MessagePlan, WholeBatch) {
  SmallProgram program(3, SmallPlan{1, 1});
  program.modules[1].wholeBatch = true;
  size_t part = small::kImages * kImage;
  // Received and sent forward, gradients received and sent.
  EXPECT_EQ(planOf(program, 0).task, (std::vector<size_t>{part, 0, 0, part}));
}

/// What carries it decides over host memory: pinned blocks for all messages and
/// sums, and what is combined.
TEST(MessagePlan, Carriers) {
  SmallProgram program(3, SmallPlan{2, 2, 1});
  size_t numbers = StepNumbers::bytes(1);
  MessageBlocks tcp = planOf(program, 0),
                mpi = planOf(program, 0, Carrier::Mpi),
                host = planOf(program, 0, Carrier::Host),
                nccl = planOf(program, 0, Carrier::Nccl);
  // The tower's one bucket of 64 bytes, of two replicas.
  // Beside it a number of each of four ranks.
  EXPECT_EQ(tcp.combined, (BlockCounts{{32, 1}, {128, 1}}));
  EXPECT_EQ(tcp.hostBytes(), 32 + 128 + numbers);
  EXPECT_EQ(mpi.hostBytes(), numbers);
  EXPECT_EQ(nccl.hostBytes(), 32 + numbers + device::uploadBytes(0, 0));
  EXPECT_TRUE(nccl.pinned.empty());
  EXPECT_EQ(host.packed, nccl.packed);
  EXPECT_EQ(host.pinned.count(64), 1u); // the bucket
  EXPECT_GE(bytesOf(host.pinned), 64 + 4 * host.message[0]);
}

TEST(MessagePlan, PackedSides) {
  const CollectiveForm &gather = formOf(CollectiveKind::AllGather),
                       &scatter = formOf(CollectiveKind::ReduceScatter);
  EXPECT_EQ(packedSides(gather, 100, 4, false, false).bytes(), 0u);
  EXPECT_EQ(packedSides(gather, 100, 4, true, false).bytes(), 400u);
  EXPECT_EQ(packedSides(gather, 100, 4, true, true).bytes(), 128u + 400u);
  EXPECT_EQ(packedSides(scatter, 100, 4, true, false).bytes(), 448u);
  EXPECT_EQ(packedSides(scatter, 100, 4, true, true).bytes(), 448u + 100u);
  EXPECT_EQ(packedSides(formOf(CollectiveKind::AllReduce), 100, 4, true, false)
                .bytes(),
            0u);
}

TEST(MessagePlan, Pools) {
  device::Pool pool(device::Pool::Host);
  pool.reserve({{100, 2}, {5000, 1}});
  EXPECT_EQ(pool.bytes(), 5200u);
  {
    device::Pool::Block a = pool.take(100), b = pool.take(100),
                        c = pool.take(4000);
    EXPECT_FALSE(pool.take(0));
    EXPECT_EQ(pool.bytes(), 5200u);
    device::Pool::Block forgotten = pool.take(10);
    EXPECT_GT(pool.bytes(), 5200u);
  }
  pool.reserve({{100, 1}});
  EXPECT_EQ(pool.bytes(), 100u);
}
