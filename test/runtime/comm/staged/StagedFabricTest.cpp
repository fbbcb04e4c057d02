//===- StagedFabricTest.cpp - device buffers over host memory ---*- C++ -*-===//
//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The staged fabric does what Comm does, which here are the same memory, and
// counts as much. Its buffers are free when a call returns.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/staged/StagedFabric.h"
#include "test/runtime/comm/mpi/Ranks.h"

#include <numeric>

using namespace dt::rt;

namespace {

constexpr int64_t kN = 1000;

struct Staged : testing::Test {
  Staged() {
    std::vector<int> all(size_t(ranks().size()));
    std::iota(all.begin(), all.end(), 0);
    host = ranks().group(all, "staged");
    group = fabric->group(all, "staged");
    mine = valuesOf(host->rank(), kN * host->size());
    mine.resize(size_t(kN * host->size()));
  }
  /// Both calls on equal buffers.
  template <typename Run> void expectSame(Run run) {
    std::vector<float> want(mine.size()), got(mine.size());
    Traffic before = ranks().traffic().count("staged")
                         ? ranks().traffic().at("staged")
                         : Traffic();
    run(*host, mine.data(), want.data());
    Traffic once = ranks().traffic().at("staged");
    run(*group, mine.data(), got.data());
    Traffic twice = ranks().traffic().at("staged");
    EXPECT_EQ(got, want);
    EXPECT_EQ(twice.bytes - once.bytes, once.bytes - before.bytes);
    EXPECT_EQ(twice.calls - once.calls, once.calls - before.calls);
  }

  std::shared_ptr<Fabric> fabric = makeStagedFabric(ranks());
  Group *host;
  FabricGroup *group;
  std::vector<float> mine;
};

} // namespace

TEST_F(Staged, Collectives) {
  const size_t bytes = kN * sizeof(float);
  std::vector<size_t> sizes;
  for (int r = 0; r < host->size(); ++r)
    sizes.push_back(size_t(r) * 8);
  expectSame([&](FabricGroup &g, float *in, float *out) {
    g.allReduce(Reduction::Max, DType::F32, in, out, kN, "staged");
  });
  expectSame([&](FabricGroup &g, float *in, float *out) {
    g.allGather(in, bytes, out, "staged");
  });
  expectSame([&](FabricGroup &g, float *in, float *out) {
    g.allGatherV(in, out, sizes, "staged");
  });
  expectSame([&](FabricGroup &g, float *in, float *out) {
    g.reduceScatter(DType::F32, in, out, kN, "staged");
  });
  expectSame([&](FabricGroup &g, float *in, float *out) {
    g.allToAll(in, out, bytes, "staged");
  });
  expectSame([&](FabricGroup &g, float *in, float *out) {
    g.shift(in, out, bytes, "staged");
  });
}

TEST_F(Staged, CollectivesBesideOtherWork) {
  expectSame([&](FabricGroup &g, float *in, float *out) {
    g.iallReduce(Reduction::Sum, DType::F32, in, out, kN, "staged").wait();
  });
  expectSame([&](FabricGroup &g, float *in, float *out) {
    Request request = g.ireduceScatter(DType::F32, in, out, kN, "staged");
    while (!request.test())
      ranks().poll();
  });
  expectSame([&](FabricGroup &g, float *in, float *out) {
    g.iallGather(in, kN * sizeof(float), out, "staged").wait();
  });
}

/// Around the ring; what is sent may change at once.
TEST_F(Staged, Messages) {
  int size = host->size(), self = host->rank(), next = (self + 1) % size,
      last = (self + size - 1) % size;
  std::vector<float> sent = valuesOf(self, kN), got(kN);
  Request receive = fabric->irecv(got.data(), kN * sizeof(float), last, 7);
  Request send =
      fabric->isend(sent.data(), kN * sizeof(float), next, 7, "staged");
  std::fill(sent.begin(), sent.end(), -1.f);
  receive.wait();
  send.wait();
  EXPECT_EQ(got, valuesOf(last, kN));
}

TEST_F(Staged, GroupsOfOthers) {
  EXPECT_EQ(fabric->group({(ranks().rank() + 1) % ranks().size()}), nullptr);
}
