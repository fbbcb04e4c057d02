//===- CommTest.cpp - messages and groups of ranks --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/runtime/comm/mpi/Ranks.h"

#include <cstring>
#include <set>
#include <unistd.h>

using namespace dt::rt;

namespace {

/// Every rank sends to every rank, itself too; messages of one tag arrive in
/// order and tags may be waited for in any order.
TEST(Comm, MessagesArriveInOrderByTag) {
  constexpr int kMessages = 4;
  constexpr int64_t kSizes[kMessages] = {1, 0, 1000, 100000};
  Comm &comm = ranks();
  std::vector<Request> sends, receives;
  std::vector<std::vector<float>> data, got;
  for (int to = 0; to < comm.size(); ++to)
    for (int tag : {7, 8})
      for (int m = 0; m < kMessages; ++m)
        data.push_back(valuesOf(comm.rank() + 10 * tag + m, kSizes[m]));
  size_t at = 0;
  for (int to = 0; to < comm.size(); ++to)
    for (int tag : {7, 8})
      for (int m = 0; m < kMessages; ++m, ++at)
        sends.push_back(comm.isend(data[at].data(), kSizes[m] * sizeof(float),
                                   to, tag, "test.order"));
  for (int i = 0; i < comm.size() * 2 * kMessages; ++i)
    got.emplace_back(kSizes[i % kMessages]);
  at = 0;
  for (int from = 0; from < comm.size(); ++from)
    for (int tag : {8, 7})
      for (int m = 0; m < kMessages; ++m, ++at)
        receives.push_back(
            comm.irecv(got[at].data(), kSizes[m] * sizeof(float), from, tag));
  for (size_t i = receives.size(); i-- > 0;)
    while (!receives[i].test())
      comm.poll();
  waitAll(sends);
  at = 0;
  for (int from = 0; from < comm.size(); ++from)
    for (int tag : {8, 7})
      for (int m = 0; m < kMessages; ++m, ++at)
        EXPECT_EQ(got[at], valuesOf(from + 10 * tag + m, kSizes[m]));
  const Traffic &traffic = comm.traffic().at("test.order");
  EXPECT_EQ(traffic.calls, uint64_t(comm.size()) * 2 * kMessages);
  EXPECT_EQ(traffic.bytes, uint64_t(comm.size()) * 2 * 101001 * sizeof(float));
}

/// All send to all before anybody receives, more than any buffer takes; a small
/// message that is sent last is not kept behind them.
TEST(Comm, LargeMessagesMeet) {
  constexpr int64_t kLarge = 3000001;
  Comm &comm = ranks();
  int n = comm.size(), next = (comm.rank() + 1) % n,
      before = (comm.rank() + n - 1) % n;
  std::vector<float> data = valuesOf(comm.rank(), kLarge), small(n);
  std::vector<std::vector<float>> got;
  std::vector<Request> requests;
  for (int r = 0; r < n; ++r)
    got.emplace_back(size_t(kLarge));
  for (int to = 0; to < n; ++to)
    if (to != comm.rank())
      requests.push_back(
          comm.isend(data.data(), kLarge * sizeof(float), to, 1, "test"));
  float mine = float(comm.rank()), theirs = -1;
  Request sends = comm.isend(&mine, sizeof mine, next, 2, "test");
  comm.irecv(&theirs, sizeof theirs, before, 2).wait();
  EXPECT_EQ(theirs, float(before));
  sends.wait();
  for (int from = 0; from < n; ++from)
    if (from != comm.rank())
      requests.push_back(
          comm.irecv(got[from].data(), kLarge * sizeof(float), from, 1));
  waitAll(requests);
  for (int from = 0; from < n; ++from)
    if (from != comm.rank())
      EXPECT_EQ(got[from], valuesOf(from, kLarge));
}

/// A library may keep back that it has got a message until there is room to say
/// so (Open MPI: some 80 notes to a rank that computes). Who has all of its own
/// and sleeps must still say it.
TEST(Comm, WhoSleepsStillAnswers) {
  constexpr size_t kMessages = 400, kBytes = 20000;
  Comm &comm = ranks();
  int last = comm.size() - 1;
  std::vector<std::byte> data(kMessages * kBytes);
  std::vector<Request> requests;
  for (size_t m = 0; m < kMessages; ++m)
    if (comm.rank() == 0) {
      requests.push_back(comm.irecv(&data[m * kBytes], kBytes, last, 5));
    } else if (comm.rank() == last) {
      requests.push_back(
          comm.isend(&data[m * kBytes], kBytes, 0, 5, "test.many"));
      if (m % 10 == 9)
        ::usleep(2000); // they come in time
    }
  if (comm.rank() == last)
    ::usleep(300000); // it computes
  waitAll(requests);
  requests.clear();
  comm.world().barrier();
}

TEST(Comm, Broadcast) {
  Comm &comm = ranks();
  for (int root = 0; root < comm.size(); ++root)
    for (int64_t n : {0, 1, 70001}) {
      std::vector<float> data = valuesOf(comm.rank(), n);
      comm.world().broadcast(data.data(), n * sizeof(float), root, "test");
      EXPECT_EQ(data, valuesOf(root, n));
    }
}

TEST(Comm, TagsOfMessagesThatMeetDiffer) {
  std::set<int> tags;
  for (int edge = 0; edge < 5; ++edge)
    for (int microbatch = 0; microbatch < 1000; ++microbatch)
      for (bool gradient : {false, true})
        tags.insert(ranks().tag(edge, 5, microbatch, gradient));
  EXPECT_EQ(tags.size(), 10000u);
  EXPECT_GE(*tags.begin(), 0);
  EXPECT_GE(ranks().tag(4, 5, int64_t(1) << 40, true), 0);
}

TEST(Comm, GroupsKeepTheirOrder) {
  Comm &comm = ranks();
  int n = comm.size(), last = n - 1;
  Group *backwards = comm.group({last, 0});
  Group *others = comm.group({1});
  EXPECT_EQ(comm.group({last, 0}), backwards);
  EXPECT_EQ(others != nullptr, comm.rank() == 1);
  ASSERT_EQ(backwards != nullptr, comm.rank() == 0 || comm.rank() == last);
  if (!backwards)
    return;
  EXPECT_EQ(backwards->rank(), comm.rank() == last ? 0 : 1);
  int mine = comm.rank(), all[2];
  backwards->allGather(&mine, sizeof mine, all, "test");
  EXPECT_EQ(all[0], last);
  EXPECT_EQ(all[1], 0);
}

/// Ranks may mix calls of two groups of the same members as they like.
TEST(Comm, GroupsOfOtherPurposesAreApart) {
  Comm &comm = ranks();
  std::vector<int> all = comm.world().ranks();
  Group *one = comm.group(all), *other = comm.group(all, "other");
  EXPECT_NE(one, other);
  EXPECT_EQ(other, comm.group(all, "other"));
  float mine = float(comm.rank() + 1), sum = 0, most = 0;
  auto begin = [&] {
    return other->iallReduce(Reduction::Sum, DType::F32, &mine, &sum, 1,
                             "test.purpose");
  };
  Request request = comm.rank() % 2 ? Request() : begin();
  one->allReduce(Reduction::Max, DType::F32, &mine, &most, 1, "test.purpose");
  if (comm.rank() % 2)
    request = begin();
  request.wait();
  EXPECT_EQ(most, float(comm.size()));
  EXPECT_EQ(sum, float(comm.size() * (comm.size() + 1)) / 2);
}

TEST(Comm, BadGroupsAreErrors) {
  Comm &comm = ranks();
  EXPECT_THROW(comm.group({0, 0}), Error);
  EXPECT_THROW(comm.group({0, comm.size()}), Error);
  EXPECT_THROW(comm.group({-1}), Error);
  EXPECT_THROW(comm.group({}), Error);
}

TEST(Comm, FailedCallsAreErrorsOfOneLine) {
  char byte = 0;
  EXPECT_ERROR(ranks().isend(&byte, 1, ranks().size() + 5, 0, "test"), "rank");
}

TEST(Comm, TextsAndNumbersOfAllRanks) {
  Comm &comm = ranks();
  std::vector<std::string> texts =
      comm.allGatherText(std::string(comm.rank() * 3, 'x'));
  ASSERT_EQ(int(texts.size()), comm.size());
  for (int i = 0; i < comm.size(); ++i)
    EXPECT_EQ(texts[i], std::string(i * 3, 'x'));
  std::vector<double> numbers =
      comm.allGather(std::vector<double>{comm.rank() + 0.5, 1.0}, "numbers");
  for (int i = 0; i < comm.size(); ++i)
    EXPECT_EQ(numbers[2 * i], i + 0.5);
}

TEST(Comm, AnErrorOfSomeIsKnownToAll) {
  Comm &comm = ranks();
  comm.agree("");
  try {
    comm.agree(comm.rank() > 0 ? "rank " + std::to_string(comm.rank()) : "");
    FAIL() << "expected an error";
  } catch (const CommonError &e) {
    EXPECT_STREQ(e.what(), "rank 1");
  }
  comm.expectRanks(comm.size());
  EXPECT_THROW(comm.expectRanks(comm.size() + 1), CommonError);
}

//===----------------------------------------------------------------------===//
// Collectives of the world
//===----------------------------------------------------------------------===//

float sumOf(int64_t i) {
  float sum = 0;
  for (int r = 0; r < ranks().size(); ++r)
    sum += valueOf(r, i);
  return sum;
}

TEST(Comm, AllReduce) {
  Group &world = ranks().world();
  for (int64_t n : {0, 1, 3, 1000, 300001}) {
    std::vector<float> in = valuesOf(world.rank(), n), out(n), place = in,
                       later(n);
    world.allReduce(Reduction::Sum, DType::F32, in.data(), out.data(), n,
                    "test.reduce");
    world.allReduce(Reduction::Sum, DType::F32, place.data(), place.data(), n,
                    "test.reduce");
    Request request = world.iallReduce(Reduction::Sum, DType::F32, in.data(),
                                       later.data(), n, "test.reduce");
    while (!request.test())
      ranks().poll();
    for (int64_t i = 0; i < n; ++i)
      ASSERT_EQ(out[i], sumOf(i));
    EXPECT_EQ(place, out);
    EXPECT_EQ(later, out);
  }
  EXPECT_EQ(ranks().traffic().at("test.reduce").calls, 15u);
  EXPECT_EQ(ranks().traffic().at("test.reduce").bytes, 3u * 301005 * 4);
}

TEST(Comm, AllReduceOfOtherKinds) {
  Group &world = ranks().world();
  int n = world.size();
  int64_t mine = world.rank() - 1, sum, least;
  double half = world.rank() + 0.5, total;
  world.allReduce(Reduction::Sum, DType::I64, &mine, &sum, 1, "test");
  world.allReduce(Reduction::Min, DType::I64, &mine, &least, 1, "test");
  world.allReduce(Reduction::Max, DType::F64, &half, &total, 1, "test");
  EXPECT_EQ(sum, n * (n - 1) / 2 - n);
  EXPECT_EQ(least, -1);
  EXPECT_EQ(total, n - 0.5);
  EXPECT_THROW(
      world.allReduce(Reduction::Sum, DType::F16, &mine, &sum, 1, "test"),
      Error);
  EXPECT_THROW(
      world.iallReduce(Reduction::Max, DType::BF16, &mine, &sum, 1, "test"),
      Error);
}

/// All ranks have the same bits, and twice the same.
TEST(Comm, ReductionsAreRepeatable) {
  Group &world = ranks().world();
  for (int64_t n : {1, 100, 5000, 300000}) {
    std::vector<float> in = valuesOf(world.rank(), n, roughOf), first(n),
                       again(n), zero(n);
    world.allReduce(Reduction::Sum, DType::F32, in.data(), first.data(), n, "");
    world.allReduce(Reduction::Sum, DType::F32, in.data(), again.data(), n, "");
    EXPECT_EQ(std::memcmp(first.data(), again.data(), n * 4), 0);
    zero = first;
    world.broadcast(zero.data(), n * 4, 0, "");
    EXPECT_EQ(std::memcmp(first.data(), zero.data(), n * 4), 0);
    Request request = world.iallReduce(Reduction::Sum, DType::F32, in.data(),
                                       again.data(), n, "");
    request.wait();
    zero = again;
    world.broadcast(zero.data(), n * 4, world.size() - 1, "");
    EXPECT_EQ(std::memcmp(again.data(), zero.data(), n * 4), 0);
  }
}

TEST(Comm, AllGather) {
  Group &world = ranks().world();
  int n = world.size();
  std::vector<float> in = valuesOf(world.rank(), 50), out(50 * n),
                     later(50 * n);
  world.allGather(in.data(), 200, out.data(), "test");
  std::copy(in.begin(), in.end(), later.begin() + 50 * world.rank());
  Request request =
      world.iallGather(&later[50 * world.rank()], 200, later.data(), "test");
  std::vector<size_t> sizes;
  std::vector<float> expected;
  for (int r = 0; r < n; ++r)
    sizes.push_back(size_t(r) * 40);
  std::vector<float> parts(5 * n * (n - 1));
  world.allGatherV(in.data(), parts.data(), sizes, "test");
  request.wait();
  for (int r = 0; r < n; ++r)
    for (float v : valuesOf(r, 50))
      expected.push_back(v);
  EXPECT_EQ(out, expected);
  EXPECT_EQ(later, expected);
  expected.clear();
  for (int r = 0; r < n; ++r)
    for (float v : valuesOf(r, 10 * r))
      expected.push_back(v);
  EXPECT_EQ(parts, expected);
}

TEST(Comm, ReduceScatter) {
  Group &world = ranks().world();
  int n = world.size();
  for (int64_t count : {1, 77, 50000}) {
    std::vector<float> in = valuesOf(world.rank(), count * n), out(count),
                       same = in, later = in;
    world.reduceScatter(DType::F32, in.data(), out.data(), count, "test");
    size_t mine = count * world.rank();
    world.reduceScatter(DType::F32, same.data(), &same[mine], count, "test");
    Request request = world.ireduceScatter(DType::F32, later.data(),
                                           &later[mine], count, "test");
    request.wait();
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(out[i], sumOf(mine + i));
      ASSERT_EQ(same[mine + i], out[i]);
      ASSERT_EQ(later[mine + i], out[i]);
    }
    if (n > 1) // other blocks are left alone
      EXPECT_EQ(same[world.rank() ? 0 : count], in[world.rank() ? 0 : count]);
  }
}

/// Small whole numbers are exact in bf16, however often they are rounded.
TEST(Comm, NarrowSumsWhileOtherWorkGoesOn) {
  Group &world = ranks().world();
  int n = world.size(), total = n * (n + 1) / 2;
  constexpr int64_t count = 1001;
  std::vector<bf16> in(size_t(count) * size_t(n)), all(in.size()), own(count);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = float(world.rank() + 1) * float(i % 3);
  Request both[] = {
      world.iallReduce(Reduction::Sum, DType::BF16, in.data(), all.data(),
                       int64_t(in.size()), "test"),
      world.ireduceScatter(DType::BF16, in.data(), own.data(), count, "test")};
  for (Request &request : both)
    request.wait();
  for (size_t i = 0; i < all.size(); ++i)
    ASSERT_EQ(float(all[i]), float(total) * float(i % 3)) << i;
  for (size_t i = 0; i < own.size(); ++i)
    ASSERT_EQ(float(own[i]), float(all[size_t(world.rank()) * count + i]));
}

} // namespace
