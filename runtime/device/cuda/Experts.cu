//===- Experts.cu - products of rows by their experts' weights ------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// One launch for all experts. How many rows an expert has is known on the
// device only, so there are blocks for the most tiles that there may be, and
// each finds its expert by itself: the host waits for nothing. Sums have a
// fixed order.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/Calls.h"
#include "runtime/device/cuda/GroupedTiles.h"
#include "runtime/device/cuda/Packs.h"
#include "runtime/device/cuda/Reduce.h"

namespace dt::rt {

namespace {

constexpr int kThreads = 256;

/// As on a CPU: from the end, or the nearest.
__device__ int64_t expertOf(int64_t e, int64_t count) {
  e = e < 0 ? e + count : e;
  return e < 0 ? 0 : e >= count ? count - 1 : e;
}

template <typename T>
__device__ bool isOf(const T *experts, int64_t row, int64_t rows, int64_t count,
                     int64_t expert) {
  return row < rows && expertOf(experts[row], count) == expert;
}

//===----------------------------------------------------------------------===//
// Choices within a capacity
//===----------------------------------------------------------------------===//

/// Behind how many numbers the run of those equal to the one at `begin` ends.
/// All threads of a block call this.
__device__ int64_t endOfRun(const int64_t *numbers, int64_t begin,
                            int64_t size) {
  for (int64_t at = begin; at < size; at += kThreads) {
    int64_t i = at + threadIdx.x;
    bool other = i < size && numbers[i] != numbers[begin];
    int64_t first = cuda::reduceBlock<cuda::Min, kThreads>(other ? i : size);
    if (first < size)
      return first;
  }
  return size;
}

/// A block for each expert of each sample.
template <typename T>
__global__ void limitKernel(const T *experts, const int64_t *segments,
                            bool *kept, int64_t choices, int64_t each,
                            int64_t count, int64_t most, double capacity) {
  int64_t expert = blockIdx.x % count, sample = blockIdx.x / count,
          size = choices / each, all = sample * choices;
  const int64_t *numbers = segments ? segments + sample * size : nullptr;
  for (int64_t first = 0, end = 0; first < size; first = end) {
    end = numbers ? endOfRun(numbers, first, size) : size;
    int64_t limit =
        numbers ? capacityOf((end - first) * each, count, capacity) : most;
    int taken = 0, more;
    for (int64_t at = first * each; at < end * each; at += kThreads) {
      int64_t i = at + threadIdx.x;
      bool own = isOf(experts + all, i, end * each, count, expert);
      int before = taken + cuda::countBefore<kThreads>(own, more);
      if (own)
        kept[all + i] = before < limit;
      taken += more;
    }
  }
}

template <typename T>
void limitAll(const T *experts, const int64_t *segments, bool *kept,
              int64_t samples, int64_t choices, int64_t each, int64_t count,
              int64_t most, double capacity, void *stream) {
  if (samples * choices > 0)
    cuda::launch("choices within a capacity", limitKernel<T>,
                 unsigned(samples * count), kThreads, 0, stream, experts,
                 segments, kept, choices, each, count, most, capacity);
}

//===----------------------------------------------------------------------===//
// Sorting
//===----------------------------------------------------------------------===//

/// Whether a row's expert is one of the part that a block is for.
template <typename T>
__device__ bool isOfPart(const T *experts, int64_t row, const int64_t *first,
                         const RouteShape &s) {
  if (row >= s.rows)
    return false;
  int64_t e = expertOf(experts[row], s.count) - (first ? *first : 0) -
              blockIdx.x * s.group;
  return e >= 0 && e < s.group;
}

/// Rows have no place, and places no row.
__global__ void clearKernel(int32_t *order, int32_t *place, int64_t rows,
                            int64_t room) {
  int64_t row = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (row < room)
    order[row] = -1;
  if (row < rows)
    place[row] = -1;
}

/// A block a part: how many rows it has, at the place behind its own.
template <typename T>
__global__ void countKernel(const T *experts, const int64_t *first,
                            int32_t *offsets, RouteShape s) {
  int sum = 0;
  for (int64_t row = threadIdx.x; row < s.rows; row += kThreads)
    sum += isOfPart(experts, row, first, s);
  sum = cuda::reduceBlock<cuda::Add, kThreads>(sum);
  if (threadIdx.x == 0)
    offsets[blockIdx.x + 1] = sum;
}

/// One thread: counts become offsets, of as many rows as there is room for.
__global__ void offsetsKernel(int32_t *offsets, RouteShape s, IndexCheck check,
                              Fault *fault) {
  if (threadIdx.x != 0)
    return;
  check.extent = s.slots ? s.slots : s.room;
  offsets[0] = 0;
  for (int64_t part = 0; part < s.placed; ++part) {
    int64_t begin = offsets[part], rows = offsets[part + 1],
            most = s.slots ? s.slots : s.room - begin;
    offsets[part + 1] = int32_t(begin + (rows < most ? rows : most));
    if (rows <= most || !fault || atomicCAS_system(&fault->found, 0, 1))
      continue;
    fault->check = check;
    fault->value = s.slots ? rows : begin + rows;
    fault->place = part;
  }
}

/// A block a part: places of its rows, in order.
template <typename T>
__global__ void placeKernel(const T *experts, const int64_t *first,
                            const int32_t *offsets, int32_t *order,
                            int32_t *place, RouteShape s) {
  int64_t part = blockIdx.x, taken = offsets[part + 1] - offsets[part];
  int64_t next = s.slots ? part * s.slots : offsets[part], end = next + taken;
  int all;
  for (int64_t begin = 0; begin < s.rows; begin += kThreads) {
    int64_t row = begin + threadIdx.x;
    bool own = isOfPart(experts, row, first, s);
    int64_t to = next + cuda::countBefore<kThreads>(own, all);
    if (own && to < end) {
      order[to] = int32_t(row);
      place[row] = int32_t(to);
    }
    next += all;
  }
}

template <typename T>
void sortRows(const T *experts, const int64_t *first, int32_t *order,
              int32_t *place, int32_t *offsets, const RouteShape &s,
              const IndexCheck &check, Fault *fault, void *stream) {
  int64_t most = s.rows > s.room ? s.rows : s.room;
  if (first && most > 0)
    cuda::launch("rows without a place", clearKernel,
                 unsigned((most + kThreads - 1) / kThreads), kThreads, 0,
                 stream, order, place, s.rows, s.room);
  cuda::launch("rows of experts", countKernel<T>, unsigned(s.placed), kThreads,
               0, stream, experts, first, offsets, s);
  cuda::launch("offsets of experts", offsetsKernel, 1, 32, 0, stream, offsets,
               s, check, fault);
  cuda::launch("order of rows", placeKernel<T>, unsigned(s.placed), kThreads, 0,
               stream, experts, first, offsets, order, place, s);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Tiles of rows begin for expert e at offsets[e] / side + e, so that they need
/// no sum over the experts before it: what lies between is idle. Expert `count`
/// has the rows behind all others.
struct RowTiles {
  const int32_t *offsets;
  int64_t count, rows;
  int side;

  __device__ int64_t beginOf(int64_t expert) const {
    return offsets[expert] / side + expert;
  }
  /// The last expert that begins at `tile` or before.
  __device__ int64_t expertOf(int64_t tile) const {
    int64_t low = 0, high = count + 1;
    while (high - low > 1) {
      int64_t middle = (low + high) / 2;
      (beginOf(middle) <= tile ? low : high) = middle;
    }
    return low;
  }
  __device__ int64_t endOf(int64_t expert) const {
    return expert < count ? offsets[expert + 1] : rows;
  }
};

/// Zeros in a tile of rows of no expert.
template <typename C>
__device__ void clearTile(C *c, int64_t row, int64_t end, int64_t column,
                          int64_t columns, int side) {
  for (int i = int(threadIdx.x); i < side * side; i += grouped::kThreads)
    if (row + i / side < end && column + i % side < columns)
      c[(row + i / side) * columns + column + i % side] = C(0.f);
}

/// Whether rows of so many elements are whole packs of 16 bytes.
template <typename T> bool arePacks(const T *data, int64_t elements) {
  return uintptr_t(data) % 16 == 0 && elements * int64_t(sizeof(T)) % 16 == 0;
}

/// Writes the pair of a row from `column` on, or adds to it, as far as there
/// are columns. `packed`: pairs are aligned.
template <typename C>
__device__ void storePair(C *row, int64_t column, int64_t columns, float first,
                          float second, bool packed, bool adds) {
  using Pair = cuda::Pack<C, 2>;
  C *to = row + column;
  if (packed && column + 1 < columns) {
    Pair pair{};
    if (adds)
      pair = *reinterpret_cast<Pair *>(to);
    pair.of[0] = C((adds ? float(pair.of[0]) : 0.f) + first);
    pair.of[1] = C((adds ? float(pair.of[1]) : 0.f) + second);
    *reinterpret_cast<Pair *>(to) = pair;
    return;
  }
  if (column < columns)
    to[0] = C((adds ? float(to[0]) : 0.f) + first);
  if (column + 1 < columns)
    to[1] = C((adds ? float(to[1]) : 0.f) + second);
}

/// Whether pairs of rows of so many elements are aligned.
template <typename C> bool arePairs(const C *data, int64_t elements) {
  return uintptr_t(data) % (2 * sizeof(C)) == 0 && elements % 2 == 0;
}

template <typename T, typename C, bool transB>
__global__ void __launch_bounds__(grouped::kThreads, 2)
    groupedKernel(const T *a, const T *b, const int32_t *offsets, Floats bias,
                  C *c, GroupedShape s, bool packedA, bool packedB,
                  bool packedC) {
  constexpr int side = grouped::kSide<T>;
  int64_t columnTiles = (s.n + side - 1) / side;
  RowTiles tiles{offsets, s.count, s.m, side};
  int64_t tile = blockIdx.x / columnTiles, expert = tiles.expertOf(tile);
  int64_t row = offsets[expert] + (tile - tiles.beginOf(expert)) * side,
          end = tiles.endOf(expert), column = blockIdx.x % columnTiles * side;
  if (row >= end)
    return;
  if (expert == s.count)
    return clearTile(c, row, end, column, s.n, side);
  using A = grouped::Operand<T, true>;
  using B = grouped::Operand<T, transB>;
  const T *weight = b + expert * s.k * s.n;
  int n = int(s.n), k = int(s.k);
  A left{a, k, int(end), k, packedA};
  B right{weight, transB ? k : n, transB ? n : k, transB ? k : n, packedB};
  int64_t ofExpert = expert * s.n;
  grouped::multiplyTile<T>(left, right, row, column, 0, s.k,
                           [&](int i, int j, float first, float second) {
                             if (row + i >= end)
                               return;
                             if (bias && column + j < s.n)
                               first += bias[ofExpert + column + j];
                             if (bias && column + j + 1 < s.n)
                               second += bias[ofExpert + column + j + 1];
                             storePair(c + (row + i) * s.n, column + j, s.n,
                                       first, second, packedC, false);
                           });
}

template <typename T, typename C>
__global__ void __launch_bounds__(grouped::kThreads, 2)
    groupedDwKernel(const T *a, const T *b, const int32_t *offsets, C *c,
                    GroupedShape s, bool packedA, bool packedB, bool packedC,
                    bool adds) {
  constexpr int side = grouped::kSide<T>;
  int64_t columnTiles = (s.n + side - 1) / side,
          rowTiles = (s.k + side - 1) / side;
  int64_t expert = blockIdx.x / columnTiles / rowTiles,
          row = blockIdx.x / columnTiles % rowTiles * side,
          column = blockIdx.x % columnTiles * side;
  int64_t begin = offsets[expert], end = offsets[expert + 1];
  using Rows = grouped::Operand<T, false>;
  int n = int(s.n), k = int(s.k), last = int(end);
  Rows left{a, k, last, k, packedA}, right{b, n, last, n, packedB};
  C *weight = c + expert * s.k * s.n;
  grouped::multiplyTile<T>(left, right, row, column, begin, end,
                           [&](int i, int j, float first, float second) {
                             if (row + i < s.k)
                               storePair(weight + (row + i) * s.n, column + j,
                                         s.n, first, second, packedC, adds);
                           });
}

template <typename T, typename C>
void multiply(const T *a, const T *b, const int32_t *offsets, Floats bias, C *c,
              const GroupedShape &s, void *stream) {
  constexpr int side = grouped::kSide<T>;
  if (s.m == 0 || s.n == 0)
    return;
  int64_t blocks = (s.m / side + s.count + 1) * ((s.n + side - 1) / side);
  auto *kernel =
      s.transB ? groupedKernel<T, C, true> : groupedKernel<T, C, false>;
  using A = grouped::Operand<T, true>;
  size_t shared = s.transB
                      ? grouped::sharedBytes<A, A>()
                      : grouped::sharedBytes<A, grouped::Operand<T, false>>();
  cuda::launch("grouped product", kernel, unsigned(blocks), grouped::kThreads,
               shared, stream, a, b, offsets, bias, c, s, arePacks(a, s.k),
               arePacks(b, s.transB ? s.k : s.n), arePairs(c, s.n));
}

template <typename T, typename C>
void multiplyDw(const T *a, const T *b, const int32_t *offsets, C *c,
                const GroupedShape &s, float beta, void *stream) {
  constexpr int side = grouped::kSide<T>;
  int64_t blocks =
      s.count * ((s.k + side - 1) / side) * ((s.n + side - 1) / side);
  if (blocks == 0)
    return;
  using Rows = grouped::Operand<T, false>;
  cuda::launch("gradient of a grouped product", groupedDwKernel<T, C>,
               unsigned(blocks), grouped::kThreads,
               grouped::sharedBytes<Rows, Rows>(), stream, a, b, offsets, c, s,
               arePacks(a, s.k), arePacks(b, s.n), arePairs(c, s.n), beta != 0);
}

} // namespace

void limitChoices(const int32_t *experts, const int64_t *segments, bool *kept,
                  int64_t samples, int64_t choices, int64_t each, int64_t count,
                  int64_t most, double capacity, void *stream) {
  limitAll(experts, segments, kept, samples, choices, each, count, most,
           capacity, stream);
}
void limitChoices(const int64_t *experts, const int64_t *segments, bool *kept,
                  int64_t samples, int64_t choices, int64_t each, int64_t count,
                  int64_t most, double capacity, void *stream) {
  limitAll(experts, segments, kept, samples, choices, each, count, most,
           capacity, stream);
}

void route(const int32_t *experts, const int64_t *first, int32_t *order,
           int32_t *place, int32_t *offsets, const RouteShape &shape,
           const IndexCheck &check, Fault *fault, void *stream) {
  sortRows(experts, first, order, place, offsets, shape, check, fault, stream);
}
void route(const int64_t *experts, const int64_t *first, int32_t *order,
           int32_t *place, int32_t *offsets, const RouteShape &shape,
           const IndexCheck &check, Fault *fault, void *stream) {
  sortRows(experts, first, order, place, offsets, shape, check, fault, stream);
}

void groupedMatmul(const float *a, const float *b, const int32_t *offsets,
                   const float *bias, float *c, const GroupedShape &shape,
                   void *stream) {
  multiply(a, b, offsets, bias, c, shape, stream);
}
void groupedMatmul(const bf16 *a, const bf16 *b, const int32_t *offsets,
                   Floats bias, float *c, const GroupedShape &shape,
                   void *stream) {
  multiply(a, b, offsets, bias, c, shape, stream);
}
void groupedMatmul(const bf16 *a, const bf16 *b, const int32_t *offsets,
                   Floats bias, bf16 *c, const GroupedShape &shape,
                   void *stream) {
  multiply(a, b, offsets, bias, c, shape, stream);
}

void groupedMatmulDw(const float *a, const float *b, const int32_t *offsets,
                     float *c, const GroupedShape &shape, float beta,
                     void *stream) {
  multiplyDw(a, b, offsets, c, shape, beta, stream);
}
void groupedMatmulDw(const bf16 *a, const bf16 *b, const int32_t *offsets,
                     float *c, const GroupedShape &shape, float beta,
                     void *stream) {
  multiplyDw(a, b, offsets, c, shape, beta, stream);
}
void groupedMatmulDw(const bf16 *a, const bf16 *b, const int32_t *offsets,
                     bf16 *c, const GroupedShape &shape, float beta,
                     void *stream) {
  multiplyDw(a, b, offsets, c, shape, beta, stream);
}

} // namespace dt::rt
