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

/// As many rows as there is room for. `begin`: behind how many others; `part`.
int64_t takeRows(int64_t rows, int64_t begin, int64_t part, const RouteShape &s,
                 const IndexCheck &check, Fault *fault) {
  int64_t most = s.slots ? s.slots : s.room - begin;
  if (rows <= most)
    return rows;
  if (fault && !fault->found) {
    *fault = {1, check, s.slots ? rows : begin + rows, part};
    fault->check.extent = s.slots ? s.slots : s.room;
  }
  return most;
}

template <typename T>
void sortRows(const T *experts, int64_t first, int32_t *order, int32_t *place,
              int32_t *offsets, const RouteShape &s, const IndexCheck &check,
              Fault *fault) {
  // -1: of an expert that is elsewhere.
  auto partOf = [&](int64_t row) -> int64_t {
    int64_t e = expertOf(experts[row], s.count) - first;
    return e >= 0 && e < s.placed * s.group ? e / s.group : -1;
  };
  std::vector<int64_t> counts(s.placed), next(s.placed), ends(s.placed);
  for (int64_t row = 0; row < s.rows; ++row)
    if (int64_t part = partOf(row); part >= 0)
      ++counts[part];
  offsets[0] = 0;
  for (int64_t part = 0; part < s.placed; ++part) {
    int64_t begin = offsets[part],
            taken = takeRows(counts[part], begin, part, s, check, fault);
    next[part] = s.slots ? part * s.slots : begin;
    ends[part] = next[part] + taken;
    offsets[part + 1] = int32_t(begin + taken);
  }
  std::fill(order + (s.slots ? 0 : offsets[s.placed]), order + s.room, -1);
  for (int64_t row = 0; row < s.rows; ++row) {
    int64_t part = partOf(row);
    bool has = part >= 0 && next[part] < ends[part];
    place[row] = has ? int32_t(next[part]++) : -1;
    if (has)
      order[place[row]] = int32_t(row);
  }
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
           int32_t *place, int32_t *offsets, const RouteShape &shape,
           const IndexCheck &check, Fault *fault) {
  sortRows(experts, first ? *first : 0, order, place, offsets, shape, check,
           fault);
}
void route(const int64_t *experts, const int64_t *first, int32_t *order,
           int32_t *place, int32_t *offsets, const RouteShape &shape,
           const IndexCheck &check, Fault *fault) {
  sortRows(experts, first ? *first : 0, order, place, offsets, shape, check,
           fault);
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
