//===- CollectivesTest.cpp - what generated code calls ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Every collective on every axis of the group of all ranks (and of that group
// backwards) against what it means, computed from the ranks' values.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/BFloat16.h"
#include "test/runtime/comm/mpi/Ranks.h"

#include <numeric>

using namespace dt::rt;

namespace {

struct Axis {
  int over, stride;
};

std::vector<Axis> axesOf(int size) {
  std::vector<Axis> axes = {{1, 1}};
  for (int over = 2; over <= size; ++over)
    for (int stride = 1; over * stride <= size; ++stride)
      if (size % (over * stride) == 0)
        axes.push_back({over, stride});
  return axes;
}

Axes allAxesOf(int size) {
  Axes all;
  for (Axis axis : axesOf(size))
    if (axis.over > 1)
      all.insert({axis.over, axis.stride});
  return all;
}

class Collectives : public testing::TestWithParam<bool> {
protected:
  void SetUp() override {
    place = ranks().rank();
    members.resize(ranks().size());
    std::iota(members.begin(), members.end(), 0);
    if (GetParam()) {
      std::reverse(members.begin(), members.end());
      place = ranks().size() - 1 - place;
    }
    group =
        makeTensorParallel(ranks(), members, label, allAxesOf(ranks().size()));
  }

  /// Places of the axis that this rank is on, in order.
  std::vector<int> onAxis(Axis axis) const {
    int mine = place / axis.stride % axis.over;
    std::vector<int> places;
    for (int i = 0; i < axis.over; ++i)
      places.push_back(place + (i - mine) * axis.stride);
    return places;
  }

  /// `in` and `out` of [outer][chunk] or [outer][over][chunk], as the kind
  /// says; with `pitch`, chunks of the former are so far apart.
  template <typename T>
  void run(CollectiveKind kind, const std::vector<T> &in, std::vector<T> &out,
           int64_t outer, int64_t chunk, Axis axis,
           Reduction reduction = Reduction::Sum, int64_t pitch = 0) const {
    collective(group.get(),
               {.kind = kind,
                .reduction = reduction,
                .type = typeOf<T>(),
                .outer = outer,
                .chunk = chunk,
                .pitch = pitch,
                .over = axis.over,
                .stride = axis.stride},
               in.data(), out.data());
  }

  template <typename T> static DType typeOf() {
    return std::is_same_v<T, float>  ? DType::F32
           : std::is_same_v<T, bf16> ? DType::BF16
                                     : DType::I64;
  }

  const char *label = "tp";
  int place;
  std::vector<int> members;
  std::shared_ptr<TensorParallel> group;
};

TEST_P(Collectives, Place) {
  for (Axis axis : axesOf(ranks().size()))
    EXPECT_EQ(placeOnAxis(group.get(), axis.over, axis.stride),
              place / axis.stride % axis.over);
}

TEST_P(Collectives, AllReduce) {
  constexpr int64_t n = 1003;
  for (Axis axis : axesOf(ranks().size())) {
    std::vector<float> x = valuesOf(place, n), sum(n), most(n);
    run(CollectiveKind::AllReduce, x, most, 1, n, axis, Reduction::Max);
    sum = x;
    run(CollectiveKind::AllReduce, sum, sum, 1, n, axis);
    for (int64_t i = 0; i < n; ++i) {
      float total = 0, largest = -1e9;
      for (int r : onAxis(axis)) {
        total += valueOf(r, i);
        largest = std::max(largest, valueOf(r, i));
      }
      ASSERT_EQ(sum[i], total) << axis.over << " " << axis.stride;
      ASSERT_EQ(most[i], largest);
    }
  }
}

/// Sizes of chunks, and how far apart they are.
std::vector<std::pair<int64_t, int64_t>> chunks() {
  return {{0, 0}, {1, 1}, {6, 6}, {6, 9}, {0, 2}};
}

TEST_P(Collectives, AllGather) {
  for (Axis axis : axesOf(ranks().size()))
    for (int64_t outer : {1, 3, 40000})
      for (auto [chunk, pitch] : chunks()) {
        std::vector<float> x = valuesOf(place, outer * pitch),
                           y(outer * axis.over * chunk);
        run(CollectiveKind::AllGather, x, y, outer, chunk, axis, Reduction::Sum,
            pitch);
        std::vector<int> places = onAxis(axis);
        for (int64_t o = 0; o < outer; ++o)
          for (int n = 0; n < axis.over; ++n)
            for (int64_t c = 0; c < chunk; ++c)
              ASSERT_EQ(y[(o * axis.over + n) * chunk + c],
                        valueOf(places[n], o * pitch + c));
      }
}

TEST_P(Collectives, ReduceScatter) {
  for (Axis axis : axesOf(ranks().size()))
    for (int64_t outer : {1, 3, 40000})
      for (auto [chunk, pitch] : chunks()) {
        std::vector<float> x = valuesOf(place, outer * axis.over * chunk),
                           y(outer * pitch, -1);
        run(CollectiveKind::ReduceScatter, x, y, outer, chunk, axis,
            Reduction::Sum, pitch);
        int mine = place / axis.stride % axis.over;
        for (int64_t o = 0; o < outer; ++o)
          for (int64_t c = 0; c < chunk; ++c) {
            float sum = 0;
            for (int r : onAxis(axis))
              sum += valueOf(r, (o * axis.over + mine) * chunk + c);
            ASSERT_EQ(y[o * pitch + c], sum);
          }
        for (int64_t i = 0; i < outer * pitch; ++i)
          if (i % pitch >= chunk)
            ASSERT_EQ(y[i], -1) << "between chunks";
      }
}

bf16 narrowOf(int rank, int64_t i) { return bf16(roughOf(rank, i)); }

std::vector<bf16> narrowsOf(int rank, int64_t n) {
  std::vector<bf16> values;
  for (int64_t i = 0; i < n; ++i)
    values.push_back(narrowOf(rank, i));
  return values;
}

/// Summed in float32 in the order of places, rounded once.
TEST_P(Collectives, NarrowSumsAreRoundedOnce) {
  for (Axis axis : axesOf(ranks().size()))
    for (int64_t n : {0, 1, 2, 3, 1003, 100001}) {
      std::vector<bf16> x = narrowsOf(place, n), sum(x), most(x), least(x);
      run(CollectiveKind::AllReduce, x, most, 1, n, axis, Reduction::Max);
      run(CollectiveKind::AllReduce, x, least, 1, n, axis, Reduction::Min);
      run(CollectiveKind::AllReduce, sum, sum, 1, n, axis);
      std::vector<int> places = onAxis(axis);
      for (int64_t i = 0; i < n; ++i) {
        float total = 0, high = -1e9, low = 1e9;
        for (int r : places) {
          total += narrowOf(r, i);
          high = std::max<float>(high, narrowOf(r, i));
          low = std::min<float>(low, narrowOf(r, i));
        }
        ASSERT_EQ(sum[i].bits, bf16(total).bits) << n << " " << axis.over;
        ASSERT_EQ(float(most[i]), high);
        ASSERT_EQ(float(least[i]), low);
      }
    }
}

TEST_P(Collectives, NarrowReduceScatter) {
  for (Axis axis : axesOf(ranks().size()))
    for (int64_t outer : {1, 3})
      for (int64_t chunk : {0, 1, 6, 5000}) {
        std::vector<bf16> x = narrowsOf(place, outer * axis.over * chunk),
                          y(outer * chunk);
        run(CollectiveKind::ReduceScatter, x, y, outer, chunk, axis);
        int mine = place / axis.stride % axis.over;
        for (int64_t o = 0; o < outer; ++o)
          for (int64_t c = 0; c < chunk; ++c) {
            float sum = 0;
            for (int r : onAxis(axis))
              sum += narrowOf(r, (o * axis.over + mine) * chunk + c);
            ASSERT_EQ(y[o * chunk + c].bits, bf16(sum).bits);
          }
      }
}

TEST_P(Collectives, AllToAll) {
  for (Axis axis : axesOf(ranks().size()))
    for (int64_t count : {0, 1, 500}) {
      std::vector<int64_t> x(count * axis.over), y(x.size());
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = place * 1000000 + int64_t(i);
      run(CollectiveKind::AllToAll, x, y, 1, count, axis);
      std::vector<int> places = onAxis(axis);
      int64_t mine = place / axis.stride % axis.over;
      for (int n = 0; n < axis.over; ++n)
        for (int64_t i = 0; i < count; ++i)
          ASSERT_EQ(y[n * count + i], places[n] * 1000000 + mine * count + i);
    }
}

TEST_P(Collectives, Shift) {
  for (Axis axis : axesOf(ranks().size()))
    for (int64_t count : {0, 1, 500, 100000}) {
      std::vector<int64_t> x(count), y(count);
      for (int64_t i = 0; i < count; ++i)
        x[i] = place * 1000000 + i;
      run(CollectiveKind::Shift, x, y, 1, count, axis);
      std::vector<int> places = onAxis(axis);
      int64_t mine = placeOnAxis(group.get(), axis.over, axis.stride),
              before = placeOnAxis(group.get(), axis.over, axis.stride, 1);
      EXPECT_EQ(before, (mine + axis.over - 1) % axis.over);
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(y[i], places[before] * 1000000 + i);
    }
}

TEST_P(Collectives, AxesThatWereNotMadeAreErrors) {
  std::vector<float> x(1);
  Axis axis{ranks().size() + 1, 1};
  EXPECT_THROW(run(CollectiveKind::AllReduce, x, x, 1, 1, axis), Error);
  if (ranks().size() == 1)
    return;
  group = makeTensorParallel(ranks(), members, label, {});
  axis = {ranks().size(), 1};
  EXPECT_THROW(run(CollectiveKind::AllReduce, x, x, 1, 1, axis), Error);
}

TEST_P(Collectives, TrafficIsWhatARankHandsOver) {
  label = GetParam() ? "counted.backwards" : "counted";
  int n = ranks().size();
  group = makeTensorParallel(ranks(), members, label, {{n, 1}});
  std::vector<float> x(100 * n), y(100 * n);
  run(CollectiveKind::AllReduce, x, y, 1, 10, {n, 1});
  run(CollectiveKind::AllGather, x, y, 5, 20, {n, 1});
  run(CollectiveKind::ReduceScatter, x, y, 5, 20, {n, 1});
  run(CollectiveKind::AllToAll, x, y, 1, 100, {n, 1});
  run(CollectiveKind::Shift, x, y, 1, 100, {n, 1});
  std::vector<bf16> narrow(100 * n);
  run(CollectiveKind::AllReduce, narrow, narrow, 1, 100, {n, 1});
  auto bytes = [&](CollectiveKind kind) {
    const auto &traffic = ranks().traffic();
    auto it = traffic.find(collectiveLabel(label, kind, n, 1));
    return it == traffic.end() ? 0 : it->second.bytes;
  };
  EXPECT_EQ(bytes(CollectiveKind::AllReduce), 40u + 200u);
  EXPECT_EQ(bytes(CollectiveKind::AllGather), 400u);
  EXPECT_EQ(bytes(CollectiveKind::ReduceScatter), 400u * n);
  EXPECT_EQ(bytes(CollectiveKind::AllToAll), 400u * n);
  EXPECT_EQ(bytes(CollectiveKind::Shift), 400u);
}

INSTANTIATE_TEST_SUITE_P(Orders, Collectives, testing::Bool(), [](auto &info) {
  return info.param ? "Backwards" : "Forwards";
});

} // namespace
