//===- Experts.cpp - products of rows by their experts' weights -*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// One product of Matmul.h an expert that has rows.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu/Experts.h"
#include "runtime/device/cpu/Matmul.h"

#include <omp.h>

#include <algorithm>
#include <vector>

namespace dt::rt {

namespace {

/// Numbers from the end are counted from there, others that are none are taken
/// for the nearest.
template <typename T> int64_t expertOf(T number, int64_t count) {
  int64_t e = number;
  return std::clamp<int64_t>(e < 0 ? e + count : e, 0, count - 1);
}

/// The choices of one sample. `taken`: of each expert, 0 before.
template <typename T>
void limitSample(const T *experts, bool *kept, int64_t choices, int64_t most,
                 std::vector<int64_t> &taken) {
  auto count = int64_t(taken.size());
  for (int64_t i = 0; i < choices; ++i)
    kept[i] = taken[expertOf(experts[i], count)]++ < most;
}

template <typename T>
void limitAll(const T *experts, const int64_t *segments, bool *kept,
              int64_t samples, int64_t choices, int64_t each, int64_t count,
              int64_t most, double capacity) {
#pragma omp parallel for schedule(static)
  for (int64_t s = 0; s < samples; ++s) {
    std::vector<int64_t> taken(count);
    const int64_t *numbers =
        segments ? segments + s * (choices / each) : nullptr;
    for (int64_t begin = 0, end = 0; begin < choices; begin = end) {
      do
        end = numbers ? end + each : choices;
      while (end < choices && numbers[end / each] == numbers[begin / each]);
      std::fill(taken.begin(), taken.end(), 0);
      int64_t first = s * choices + begin, size = end - begin;
      limitSample(experts + first, kept + first, size,
                  numbers ? capacityOf(size, count, capacity) : most, taken);
    }
  }
}

template <typename T>
void sortRows(const T *experts, int64_t first, int32_t *order, int32_t *place,
              int32_t *offsets, int64_t rows, int64_t room, int64_t count,
              int64_t placed) {
  // Below 0 or from `placed` on: of an expert that is elsewhere.
  auto partOf = [=](int64_t row) {
    return expertOf(experts[row], count) - first;
  };
  auto isPlaced = [=](int64_t e) { return e >= 0 && e < placed; };
  std::fill(offsets, offsets + placed + 1, 0);
  for (int64_t row = 0; row < rows; ++row)
    if (int64_t e = partOf(row); isPlaced(e))
      ++offsets[e + 1];
  for (int64_t e = 0; e < placed; ++e)
    offsets[e + 1] += offsets[e];
  std::fill(order + offsets[placed], order + room, -1);
  // Each begin moves to its end, which is the next one's begin.
  for (int64_t row = 0; row < rows; ++row) {
    int64_t e = partOf(row);
    place[row] = isPlaced(e) ? offsets[e]++ : -1;
    if (place[row] >= 0)
      order[place[row]] = int32_t(row);
  }
  std::copy_backward(offsets, offsets + placed, offsets + placed + 1);
  offsets[0] = 0;
}

/// Calls run(e) for each expert. One with more rows than a thread's share
/// occupies all of them, the others are one a thread; `serial`: all as the
/// first.
template <typename Run>
void forExperts(const int32_t *offsets, int64_t count, bool serial, Run run) {
  const int64_t threads = omp_get_max_threads();
  auto isLarge = [=](int64_t e) {
    return (offsets[e + 1] - offsets[e]) * threads > offsets[count];
  };
  serial |= threads == 1;
  for (int64_t e = 0; e < count; ++e)
    if (serial || isLarge(e))
      run(e);
  if (serial)
    return;
#pragma omp parallel for schedule(dynamic)
  for (int64_t e = 0; e < count; ++e)
    if (!isLarge(e))
      run(e);
}

/// Narrow products come from a cache that one thread uses.
template <typename T> constexpr bool kSerial = !std::is_same_v<T, float>;

template <typename T> const T *rowOf(const T *matrix, int64_t elements) {
  return matrix ? matrix + elements : nullptr;
}
Floats rowOf(Floats values, int64_t elements) {
  if (values.wide)
    return values.wide + elements;
  return rowOf(values.narrow, elements);
}

template <typename T, typename Bias, typename C>
void multiply(const T *a, const T *b, const int32_t *offsets, Bias bias, C *c,
              const GroupedShape &s) {
  forExperts(offsets, s.count, kSerial<T>, [&](int64_t e) {
    int64_t first = offsets[e], rows = offsets[e + 1] - first;
    if (rows == 0)
      return;
    MatmulShape shape{1, rows, s.n, s.k, false, s.transB, 0, 0, 0, 0, 0, 0};
    matmul(a + first * s.k, b + e * s.k * s.n, rowOf(bias, e * s.n),
           c + first * s.n, shape);
  });
  std::fill(c + offsets[s.count] * s.n, c + s.m * s.n, C(0.f));
}

template <typename T, typename C>
void multiplyDw(const T *a, const T *b, const int32_t *offsets, C *c,
                const GroupedShape &s, float beta) {
  forExperts(offsets, s.count, kSerial<T>, [&](int64_t e) {
    int64_t first = offsets[e], rows = offsets[e + 1] - first;
    C *weight = c + e * s.k * s.n;
    if (rows == 0) {
      if (beta == 0)
        std::fill(weight, weight + s.k * s.n, C(0.f));
      return;
    }
    MatmulShape shape{1, s.k, s.n, rows, true, false, 0, 0, 0, 0, 0, 0};
    matmul(a + first * s.k, b + first * s.n, nullptr, weight, shape, beta);
  });
}

} // namespace

void limitChoices(const int32_t *experts, const int64_t *segments, bool *kept,
                  int64_t samples, int64_t choices, int64_t each, int64_t count,
                  int64_t most, double capacity) {
  limitAll(experts, segments, kept, samples, choices, each, count, most,
           capacity);
}
void limitChoices(const int64_t *experts, const int64_t *segments, bool *kept,
                  int64_t samples, int64_t choices, int64_t each, int64_t count,
                  int64_t most, double capacity) {
  limitAll(experts, segments, kept, samples, choices, each, count, most,
           capacity);
}

void route(const int32_t *experts, const int64_t *first, int32_t *order,
           int32_t *place, int32_t *offsets, int64_t rows, int64_t room,
           int64_t count, int64_t placed) {
  sortRows(experts, first ? *first : 0, order, place, offsets, rows, room,
           count, placed);
}
void route(const int64_t *experts, const int64_t *first, int32_t *order,
           int32_t *place, int32_t *offsets, int64_t rows, int64_t room,
           int64_t count, int64_t placed) {
  sortRows(experts, first ? *first : 0, order, place, offsets, rows, room,
           count, placed);
}

void groupedMatmul(const float *a, const float *b, const int32_t *offsets,
                   const float *bias, float *c, const GroupedShape &shape) {
  multiply(a, b, offsets, bias, c, shape);
}
void groupedMatmul(const bf16 *a, const bf16 *b, const int32_t *offsets,
                   Floats bias, float *c, const GroupedShape &shape) {
  multiply(a, b, offsets, bias, c, shape);
}
void groupedMatmul(const bf16 *a, const bf16 *b, const int32_t *offsets,
                   Floats bias, bf16 *c, const GroupedShape &shape) {
  multiply(a, b, offsets, bias, c, shape);
}

void groupedMatmulDw(const float *a, const float *b, const int32_t *offsets,
                     float *c, const GroupedShape &shape, float beta) {
  multiplyDw(a, b, offsets, c, shape, beta);
}
void groupedMatmulDw(const bf16 *a, const bf16 *b, const int32_t *offsets,
                     float *c, const GroupedShape &shape, float beta) {
  multiplyDw(a, b, offsets, c, shape, beta);
}
void groupedMatmulDw(const bf16 *a, const bf16 *b, const int32_t *offsets,
                     bf16 *c, const GroupedShape &shape, float beta) {
  multiplyDw(a, b, offsets, c, shape, beta);
}

} // namespace dt::rt
