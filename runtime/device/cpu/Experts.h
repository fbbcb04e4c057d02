//===- Experts.h - products of rows by their experts' weights ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Rows of an expert stand one after another: expert e has rows offsets[e] up to
// offsets[e + 1]. docs/experts.md of the compiler.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CPU_EXPERTS_H
#define DT_RUNTIME_DEVICE_CPU_EXPERTS_H

#include "runtime/HostDevice.h"
#include "runtime/data/IndexCheck.h"
#include "runtime/device/Floats.h"

#include <cstdint>

namespace dt::rt {

/// Rows that an expert of `count` takes of `choices` at the most.
DT_HOST_DEVICE inline int64_t capacityOf(int64_t choices, int64_t count,
                                         double capacity) {
  double most = capacity * double(choices) / double(count);
  if (most >= double(choices))
    return choices;
  auto below = int64_t(most);
  return below + (double(below) < most);
}

/// kept[i]: whether fewer than `most` choices before i, of its sample, have its
/// expert. `experts` are `samples` times `choices` numbers below `count`, as
/// for route(). With `segments`, a number for each `each` choices, a sample is
/// a run of equal ones among `choices`, and the most is capacityOf the run's
/// choices.
void limitChoices(const int32_t *experts, const int64_t *segments, bool *kept,
                  int64_t samples, int64_t choices, int64_t each, int64_t count,
                  int64_t most, double capacity);
void limitChoices(const int64_t *experts, const int64_t *segments, bool *kept,
                  int64_t samples, int64_t choices, int64_t each, int64_t count,
                  int64_t most, double capacity);

/// What route() sorts. Experts come in `placed` parts of `group`, one after
/// another.
struct RouteShape {
  int64_t rows, room, count, placed;
  int64_t group = 1;
  int64_t slots = 0; ///< not 0: places of each part, `room` together
};

/// A stable counting sort of `rows` numbers below `count`; negative ones count
/// from the end, and what is out of range after that is taken for the nearest.
/// order[i]: the row at place i; place[order[i]] = i; offsets: placed + 1. With
/// `first` only rows of `placed` parts from expert *first on have a place:
/// order is -1 behind them, and place of others is -1. Without, these are all
/// experts. order is as long as `room`; place as `rows`.
///
/// With `slots` rows of part p stand from place p * slots on, order is -1 where
/// there are fewer, and offsets count the rows of the parts before.
///
/// Rows for which there is no room have no place, and the first part that has
/// more of them is taken down in `fault`.
void route(const int32_t *experts, const int64_t *first, int32_t *order,
           int32_t *place, int32_t *offsets, const RouteShape &shape,
           const IndexCheck &check, Fault *fault);
void route(const int64_t *experts, const int64_t *first, int32_t *order,
           int32_t *place, int32_t *offsets, const RouteShape &shape,
           const IndexCheck &check, Fault *fault);

/// Products of `count` experts: m rows in all, row-major and dense. tf32 as in
/// MatmulShape.
struct GroupedShape {
  int64_t m, n, k, count;
  bool transB = false;
  bool tf32 = false;
};

/// c = a b[e] + bias[e] for the rows of each expert e: a m x k, b[e] k x n (n x
/// k with transB), bias count rows of n floats or null, c m x n. Rows behind
/// the last expert's are 0.
void groupedMatmul(const float *a, const float *b, const int32_t *offsets,
                   const float *bias, float *c, const GroupedShape &shape);
void groupedMatmul(const bf16 *a, const bf16 *b, const int32_t *offsets,
                   Floats bias, float *c, const GroupedShape &shape);
void groupedMatmul(const bf16 *a, const bf16 *b, const int32_t *offsets,
                   Floats bias, bf16 *c, const GroupedShape &shape);

/// c[e] = a^T b over the rows of expert e, + c[e] if beta is 1: a m x k, b m x
/// n, c[e] k x n. Without rows 0 (or as it is).
void groupedMatmulDw(const float *a, const float *b, const int32_t *offsets,
                     float *c, const GroupedShape &shape, float beta);
void groupedMatmulDw(const bf16 *a, const bf16 *b, const int32_t *offsets,
                     float *c, const GroupedShape &shape, float beta);
void groupedMatmulDw(const bf16 *a, const bf16 *b, const int32_t *offsets,
                     bf16 *c, const GroupedShape &shape, float beta);

} // namespace dt::rt

#endif // DT_RUNTIME_DEVICE_CPU_EXPERTS_H
