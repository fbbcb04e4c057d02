//===- ExpertsTest.cpp - grouped products against plain loops ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu/Experts.h"
#include "test/runtime/TestSupport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <type_traits>

using namespace dt::rt;

namespace {

/// Which experts rows have.
enum class Choice {
  Random,
  First, ///< all the first
  Last,  ///< all the last
  Few    ///< every third expert
};

std::vector<int64_t> choose(Choice choice, int64_t rows, int64_t count) {
  std::vector<float> numbers = randoms(rows, 7);
  std::vector<int64_t> experts(rows);
  for (int64_t i = 0; i < rows; ++i) {
    auto e = int64_t(std::abs(numbers[i]) * 1000) % count;
    experts[i] = choice == Choice::Random  ? e
                 : choice == Choice::First ? 0
                 : choice == Choice::Last  ? count - 1
                                           : e / 3 * 3;
  }
  return experts;
}

struct Routed {
  std::vector<int32_t> order, place, offsets;
  template <typename T>
  Routed(const std::vector<T> &experts, int64_t count)
      : Routed(experts, nullptr, count, count) {}
  /// Of experts first up to first + placed.
  template <typename T>
  Routed(const std::vector<T> &experts, const int64_t *first, int64_t count,
         int64_t placed)
      : order(experts.size()), place(experts.size()), offsets(placed + 1) {
    auto rows = int64_t(experts.size());
    sort(experts, first, {rows, rows, count, placed});
  }
  /// As `shape` says, into vectors as long as that asks for and one more.
  template <typename T>
  Routed(const std::vector<T> &experts, const int64_t *first,
         const RouteShape &shape)
      : order(shape.room + 1, 7), place(experts.size()),
        offsets(shape.placed + 1) {
    sort(experts, first, shape);
  }
  Fault fault;

private:
  template <typename T>
  void sort(const std::vector<T> &experts, const int64_t *first,
            const RouteShape &shape) {
    IndexCheck check;
    check.what = "experts", check.counts = true;
    route(experts.data(), first, order.data(), place.data(), offsets.data(),
          shape, check, &fault);
  }
};

template <typename T> std::vector<T> as(const std::vector<float> &values) {
  std::vector<T> narrow(values.size());
  std::transform(values.begin(), values.end(), narrow.begin(),
                 [](float v) { return T(v); });
  return narrow;
}
std::vector<float> wide(const std::vector<float> &values) { return values; }
std::vector<float> wide(const std::vector<bf16> &values) {
  return {values.begin(), values.end()};
}

/// One rounding of the result, where it is narrow.
template <typename C> double limit(int64_t terms) {
  return sumLimit(double(terms) + 1) +
         (std::is_same_v<C, bf16> ? kNarrowEps : 0);
}

struct Sizes {
  int64_t m, n, k, count;
};

template <typename T, typename C>
void checkProduct(Sizes size, Choice choice, bool transB, bool biased) {
  Routed r(choose(choice, size.m, size.count), size.count);
  auto a = as<T>(randoms(size.m * size.k, 1)),
       b = as<T>(randoms(size.count * size.k * size.n, 2));
  std::vector<float> bias = randoms(size.count * size.n, 3),
                     expected(size.m * size.n);
  std::vector<C> c(size.m * size.n, C(-7.f));
  GroupedShape s{size.m, size.n, size.k, size.count, transB};
  groupedMatmul(a.data(), b.data(), r.offsets.data(),
                biased ? bias.data() : nullptr, c.data(), s);
  for (int64_t e = 0; e < size.count; ++e)
    for (int64_t i = r.offsets[e]; i < r.offsets[e + 1]; ++i)
      for (int64_t j = 0; j < size.n; ++j) {
        double sum = biased ? bias[e * size.n + j] : 0;
        for (int64_t k = 0; k < size.k; ++k)
          sum += double(float(a[i * size.k + k])) *
                 float(b[e * size.k * size.n +
                         (transB ? j * size.k + k : k * size.n + j)]);
        expected[i * size.n + j] = float(sum);
      }
  EXPECT_LT(relativeError(wide(c), expected), limit<C>(size.k));
}

template <typename T, typename C>
void checkGradient(Sizes size, Choice choice, float beta) {
  Routed r(choose(choice, size.m, size.count), size.count);
  auto a = as<T>(randoms(size.m * size.k, 1)),
       b = as<T>(randoms(size.m * size.n, 2));
  std::vector<C> c = as<C>(randoms(size.count * size.k * size.n, 3));
  std::vector<float> expected = wide(c);
  GroupedShape s{size.m, size.n, size.k, size.count};
  groupedMatmulDw(a.data(), b.data(), r.offsets.data(), c.data(), s, beta);
  for (int64_t e = 0; e < size.count; ++e)
    for (int64_t k = 0; k < size.k; ++k)
      for (int64_t j = 0; j < size.n; ++j) {
        float &element = expected[(e * size.k + k) * size.n + j];
        double sum = beta * element;
        for (int64_t i = r.offsets[e]; i < r.offsets[e + 1]; ++i)
          sum += double(float(a[i * size.k + k])) * float(b[i * size.n + j]);
        element = float(sum);
      }
  EXPECT_LT(relativeError(wide(c), expected), limit<C>(size.m));
}

constexpr Choice kChoices[] = {Choice::Random, Choice::First, Choice::Last,
                               Choice::Few};

TEST(Experts, RowsOfAnExpertKeepTheirOrder) {
  for (Choice choice : kChoices)
    for (int64_t rows : {0, 1, 255, 1000}) {
      std::vector<int64_t> experts = choose(choice, rows, 7);
      Routed r(experts, 7);
      std::vector<int32_t> expected(rows);
      std::iota(expected.begin(), expected.end(), 0);
      std::stable_sort(
          expected.begin(), expected.end(),
          [&](int32_t x, int32_t y) { return experts[x] < experts[y]; });
      EXPECT_EQ(r.order, expected);
      for (int64_t i = 0; i < rows; ++i)
        EXPECT_EQ(r.place[r.order[i]], i);
      EXPECT_EQ(r.offsets.front(), 0);
      for (int64_t e = 0; e < 7; ++e)
        EXPECT_EQ(r.offsets[e + 1] - r.offsets[e],
                  std::count(experts.begin(), experts.end(), e));
    }
}

TEST(Experts, NumbersFromTheEndAndOutside) {
  Routed r(std::vector<int32_t>{-1, 2, 9, -9, 0}, 3);
  EXPECT_EQ(r.offsets, (std::vector<int32_t>{0, 2, 2, 5}));
  EXPECT_EQ(r.order, (std::vector<int32_t>{3, 4, 0, 1, 2}));
}

/// Each rank has the rows of its experts as they stand among all.
TEST(Experts, PartsOfTheExperts) {
  constexpr int64_t kCount = 9, kPlaced = 3, kRows = 1000;
  for (Choice choice : kChoices) {
    std::vector<int64_t> experts = choose(choice, kRows, kCount);
    Routed all(experts, kCount);
    for (int64_t first = 0; first < kCount; first += kPlaced) {
      Routed own(experts, &first, kCount, kPlaced);
      int32_t begin = all.offsets[first];
      for (int64_t e = 0; e <= kPlaced; ++e)
        EXPECT_EQ(own.offsets[e], all.offsets[first + e] - begin);
      int32_t rows = own.offsets[kPlaced];
      for (int32_t i = 0; i < kRows; ++i)
        EXPECT_EQ(own.order[i], i < rows ? all.order[begin + i] : -1);
      for (int64_t i = 0; i < kRows; ++i) {
        int32_t at = all.place[i] - begin;
        EXPECT_EQ(own.place[i], at >= 0 && at < rows ? at : -1);
      }
    }
  }
}

/// Choices are kept that should be. `runs`: choices of each run of
/// equal segments in a sample; none: without segments.
template <typename T>
void checkLimit(const std::vector<T> &experts, int64_t samples, int64_t each,
                const std::vector<int64_t> &runs, int64_t count,
                double capacity) {
  int64_t choices = int64_t(experts.size()) / samples;
  std::vector<int64_t> ends = runs, segments;
  if (runs.empty())
    ends = {choices};
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  auto runOf = [&](int64_t i) {
    return std::upper_bound(ends.begin(), ends.end(), i) - ends.begin();
  };
  for (int64_t i = 0; i < samples * choices && !runs.empty(); i += each)
    segments.push_back(runOf(i % choices) % 2); // numbers come again
  std::unique_ptr<bool[]> kept(new bool[experts.size()]);
  limitChoices(experts.data(), runs.empty() ? nullptr : segments.data(),
               kept.get(), samples, choices, each, count,
               capacityOf(choices, count, capacity), capacity);
  for (int64_t i = 0; i < samples * choices; ++i) {
    int64_t sample = i - i % choices, run = runOf(i % choices),
            begin = sample + (run ? ends[run - 1] : 0);
    auto before = std::count(&experts[begin], &experts[i], experts[i]);
    double most = capacity * double(sample + ends[run] - begin) / double(count);
    EXPECT_EQ(kept[i], double(before) < std::ceil(most)) << i;
  }
}

TEST(Experts, ChoicesWithinACapacity) {
  for (Choice choice : kChoices)
    for (double capacity : {0.5, 1., 1.25, 7., 1e300}) {
      for (int64_t choices : {1, 40, 255, 1000})
        checkLimit(choose(choice, 3 * choices, 7), 3, 1, {}, 7, capacity);
      checkLimit(choose(choice, 1200, 5), 2, 2, {2, 300, 4, 294}, 5, capacity);
      checkLimit(choose(choice, 600, 5), 1, 4, {600}, 5, capacity);
    }
  checkLimit(std::vector<int32_t>{2, 2, 0, 2, 1, 2}, 1, 1, {}, 3, 1);
  limitChoices(static_cast<int64_t *>(nullptr), nullptr, nullptr, 0, 8, 1, 3, 3,
               1);
  limitChoices(static_cast<int64_t *>(nullptr), nullptr, nullptr, 1, 0, 2, 3, 0,
               1);
}

/// Room for just the rows that have a place.
TEST(Experts, RoomForOwnRows) {
  constexpr int64_t kCount = 9, kPlaced = 4, kRows = 1000;
  int64_t first = 2;
  for (Choice choice : kChoices) {
    std::vector<int64_t> experts = choose(choice, kRows, kCount);
    Routed all(experts, &first, kCount, kPlaced);
    Routed own(experts, &first, {kRows, all.offsets[kPlaced], kCount, kPlaced});
    EXPECT_TRUE(
        std::equal(own.order.begin(), own.order.end() - 1, all.order.begin()));
    EXPECT_EQ(own.order.back(), 7); // behind the room
    EXPECT_EQ(own.place, all.place);
    EXPECT_EQ(own.offsets, all.offsets);
    EXPECT_FALSE(own.fault.found);
  }
}

/// More rows than there is room for are nowhere, and are an error.
TEST(Experts, RowsBeyondTheRoom) {
  int64_t first = 1;
  std::vector<int64_t> experts{1, 2, 1, 0, 2, 2, 1};
  Routed dense(experts, &first, {7, 4, 4, 2});
  EXPECT_EQ(dense.order, (std::vector<int32_t>{0, 2, 6, 1, 7}));
  EXPECT_EQ(dense.place, (std::vector<int32_t>{0, 3, 1, -1, -1, -1, 2}));
  EXPECT_EQ(dense.offsets, (std::vector<int32_t>{0, 3, 4}));
  EXPECT_TRUE(dense.fault.found && dense.fault.check.counts);
  EXPECT_EQ(dense.fault.value, 6);
  EXPECT_EQ(dense.fault.check.extent, 4);
  Routed slots(experts, &first, {7, 4, 4, 2, 1, 2});
  EXPECT_EQ(slots.order, (std::vector<int32_t>{0, 2, 1, 4, 7}));
  EXPECT_EQ(slots.place, (std::vector<int32_t>{0, 2, 1, -1, 3, -1, -1}));
  EXPECT_TRUE(slots.fault.found);
  EXPECT_EQ(slots.fault.value, 3);
  EXPECT_EQ(slots.fault.check.extent, 2);
}

/// Slots for ranks of which each has some experts, in the order of rows.
TEST(Experts, SlotsForRanks) {
  constexpr int64_t kRanks = 3, kEach = 2, kRows = 600;
  for (int64_t first : {0, 2})
    for (Choice choice : kChoices) {
      std::vector<int64_t> experts = choose(choice, kRows, 9);
      std::vector<std::vector<int32_t>> want(kRanks);
      for (int64_t row = 0; row < kRows; ++row)
        if (int64_t e = experts[row] - first; e >= 0 && e < kRanks * kEach)
          want[e / kEach].push_back(int32_t(row));
      int64_t slots = 1;
      for (auto &rows : want)
        slots = std::max(slots, int64_t(rows.size()));
      Routed sent(experts, &first,
                  {kRows, kRanks * slots, 9, kRanks, kEach, slots});
      EXPECT_FALSE(sent.fault.found);
      EXPECT_EQ(sent.order.back(), 7);
      std::vector<int32_t> place(kRows, -1);
      for (int64_t rank = 0; rank < kRanks; ++rank) {
        auto has = int64_t(want[rank].size());
        EXPECT_EQ(sent.offsets[rank + 1] - sent.offsets[rank], has);
        for (int64_t i = 0; i < slots; ++i) {
          int32_t row = sent.order[rank * slots + i];
          EXPECT_EQ(row, i < has ? want[rank][i] : -1);
          if (row >= 0)
            place[row] = int32_t(rank * slots + i);
        }
      }
      EXPECT_EQ(sent.place, place);
    }
}

/// Slots that nothing fills, also where there are no rows at all.
TEST(Experts, SlotsWithoutRows) {
  int64_t first = 0;
  Routed none(std::vector<int64_t>{}, &first, {0, 6, 3, 2, 1, 3});
  EXPECT_EQ(none.order, (std::vector<int32_t>{-1, -1, -1, -1, -1, -1, 7}));
  EXPECT_EQ(none.offsets, (std::vector<int32_t>{0, 0, 0}));
}

TEST(Experts, RowsOfNoExpertAreZero) {
  constexpr int64_t kRows = 300, kIn = 33, kOut = 70, kPlaced = 4;
  int64_t first = 2;
  std::vector<float> a = randoms(kRows * kIn, 1),
                     b = randoms(kPlaced * kIn * kOut, 2);
  for (Choice choice : kChoices) {
    Routed own(choose(choice, kRows, 9), &first, 9, kPlaced);
    std::vector<float> c(kRows * kOut, NAN);
    groupedMatmul(a.data(), b.data(), own.offsets.data(), nullptr, c.data(),
                  {kRows, kOut, kIn, kPlaced});
    EXPECT_TRUE(std::none_of(c.begin(), c.end(),
                             [](float v) { return std::isnan(v); }));
    EXPECT_TRUE(std::all_of(c.begin() + own.offsets[kPlaced] * kOut, c.end(),
                            [](float v) { return v == 0; }));
  }
}

TEST(Experts, Products) {
  for (Choice choice : kChoices)
    for (bool transB : {false, true}) {
      checkProduct<float, float>({97, 40, 24, 5}, choice, transB, true);
      checkProduct<float, float>({300, 70, 33, 9}, choice, transB, false);
      checkProduct<bf16, bf16>({300, 72, 40, 9}, choice, transB, true);
      checkProduct<bf16, float>({97, 37, 29, 5}, choice, transB, false);
    }
}

TEST(Experts, Gradients) {
  for (Choice choice : kChoices)
    for (float beta : {0.f, 1.f}) {
      checkGradient<float, float>({97, 40, 24, 5}, choice, beta);
      checkGradient<float, float>({300, 70, 33, 9}, choice, beta);
      checkGradient<bf16, float>({300, 72, 40, 9}, choice, beta);
    }
  checkGradient<bf16, bf16>({97, 37, 29, 5}, Choice::Random, 0);
}

TEST(Experts, NoRows) {
  checkProduct<float, float>({0, 5, 6, 3}, Choice::Random, true, true);
  checkGradient<float, float>({0, 5, 6, 3}, Choice::Random, 0);
  checkGradient<float, float>({0, 5, 6, 3}, Choice::Random, 1);
  checkGradient<bf16, float>({0, 8, 8, 3}, Choice::Random, 0);
}

} // namespace
