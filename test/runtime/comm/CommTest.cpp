//===- CommTest.cpp - one rank alone ----------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Several ranks: test/runtime/comm/mpi.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Comm.h"
#include "test/runtime/TestSupport.h"

using namespace dt::rt;

TEST(SoloComm, TalksToItself) {
  auto comm = Comm::start();
  ASSERT_EQ(comm->size(), 1);
  int a = 1, b = 2, x = 0, y = 0;
  Request first = comm->irecv(&x, sizeof x, 0, 7);
  Request other = comm->irecv(&y, sizeof y, 0, 8);
  EXPECT_FALSE(first.test());
  EXPECT_ERROR(other.wait(), "this rank itself would have to send");
  EXPECT_TRUE(comm->isend(&b, sizeof b, 0, 8, "message").test());
  EXPECT_TRUE(comm->isend(&a, sizeof a, 0, 7, "message").test());
  EXPECT_TRUE(first.test());
  EXPECT_EQ(x, 1);
  EXPECT_EQ(y, 2);
  Request early = comm->isend(&a, sizeof a, 0, 9, "message");
  EXPECT_FALSE(early.test());
  comm->irecv(&y, sizeof y, 0, 9).wait();
  early.wait();
  EXPECT_EQ(y, 1);
  EXPECT_EQ(comm->traffic().at("message").calls, 3u);
  EXPECT_EQ(comm->traffic().at("message").bytes, 3 * sizeof a);
  EXPECT_ERROR(comm->isend(&a, sizeof a, 1, 0, "message"), "no rank 1");
  comm->finish();
}

TEST(SoloComm, CollectivesAreCopies) {
  auto comm = Comm::start();
  float in[2] = {1, 2}, out[2] = {};
  comm->world().allReduce(Reduction::Sum, DType::F32, in, out, 2, "sum");
  EXPECT_EQ(out[1], 2);
  EXPECT_EQ(comm->allGatherText("me"), std::vector<std::string>{"me"});
  EXPECT_EQ(comm->group({0}), &comm->world());
  EXPECT_ERROR(comm->group({0, 1}), "no rank 1");
  EXPECT_ERROR(comm->expectRanks(4),
               "the plan has 4 ranks, but 1 runs: start with --ranks 4");
  EXPECT_ERROR(comm->agree("bad file"), "bad file");
  EXPECT_EQ(makeTensorParallel(*comm, {1}, "tp", {}), nullptr);
  auto group = makeTensorParallel(*comm, {0}, "tp", {});
  ASSERT_TRUE(group);
  EXPECT_EQ(placeOnAxis(group.get(), 1, 1), 0);
  collective(group.get(),
             {.kind = CollectiveKind::AllGather,
              .type = DType::F32,
              .chunk = 2,
              .over = 1,
              .stride = 1},
             out, in);
  EXPECT_EQ(in[0], 1);
}
