//===- TensorCores.h - products of a warp in bf16 ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What a warp multiplies at once: 16 x 16 by 16 x 8 elements, the sums in
// float32 (mma.sync.m16n8k16 of PTX). Each lane holds some elements of an
// operand; where they lie is PTX's, so that sums can be the left operand of the
// next product without leaving registers. Compilers but CUDA's compute the same
// products from what lanes tell one another.
//
// All lanes of a warp call these functions. A tile is in shared memory and says
// where an element is: find(row, column, r, c) as swizzle does. Packs of 16
// bytes, columns from a multiple of 8 on, are whole and at multiples of 16
// bytes.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CUDA_TENSORCORES_H
#define DT_RUNTIME_DEVICE_CUDA_TENSORCORES_H

#include "runtime/device/BFloat16.h"
#include "runtime/device/cuda/Cuda.h"

#include <cmath>
#include <cstring>

namespace dt::rt::tensor {

inline constexpr int kDeep = 16; ///< of the contracted axis, a product
inline constexpr int kRows = 16; ///< of sums
inline constexpr int kWide = 8;  ///< columns of sums
inline constexpr int kPack = 8;  ///< elements of 16 bytes

/// Where element (row + r, column + c) of a tile of rows of `width` is, in
/// elements; row is a multiple of 8, column of 16, c < 16. Packs of a row
/// change places, so that those of one column in eight rows, which a warp reads
/// at once, are in different banks. What a lane adds to all of its places is
/// (r, c), apart from them, since rows and columns are constants where loops
/// are unrolled.
template <int width> __device__ int swizzle(int row, int column, int r, int c) {
  static_assert(width % 32 == 0);
  int by = (width % 64 ? r / 2 % 4 : r % 8) ^ (c / kPack);
  return row * width + r * width + ((column / kPack) ^ by) * kPack + c % kPack;
}

/// Operands of kRows x kDeep and kDeep x kWide: two elements a register.
struct Left {
  uint32_t pair[4];
};
struct Right {
  uint32_t pair[2];
};
/// kRows x kWide; element e of a lane is at (rowOf(e), columnOf(e)).
struct Sums {
  float at[4] = {};
};

inline __device__ int getLane() { return int(threadIdx.x) % 32; }
inline __device__ int rowOf(int e) { return getLane() / 4 + e / 2 * 8; }
inline __device__ int columnOf(int e) { return getLane() % 4 * 2 + e % 2; }

/// Rounds to bf16; `low` is the first in memory.
inline __device__ uint32_t packPair(float low, float high) {
#ifdef __CUDACC__
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return uint32_t(bf16(high).bits) << 16 | bf16(low).bits;
#endif
}

/// 2^x as the GPU has it; results below the least normal number are 0.
inline __device__ float exp2Fast(float x) {
#ifdef __CUDACC__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

/// Sums of two products beside one another as the left operand of the next.
inline __device__ Left toLeft(const Sums &first, const Sums &second) {
  return {{packPair(first.at[0], first.at[1]),
           packPair(first.at[2], first.at[3]),
           packPair(second.at[0], second.at[1]),
           packPair(second.at[2], second.at[3])}};
}

#ifdef __CUDACC__

namespace detail {
inline __device__ unsigned sharedAddress(const void *at) {
  return unsigned(__cvta_generic_to_shared(at));
}
/// Four squares of 8 x 8, of which lane l says where row l % 8 of square l / 8
/// begins.
inline __device__ void loadSquares(uint32_t *to, const bf16 *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(sharedAddress(row))
               : "memory");
}
inline __device__ void loadTurnedSquares(uint32_t *to, const bf16 *row) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
      : "r"(sharedAddress(row))
      : "memory");
}
} // namespace detail

/// The elements from (row, deep) on of tile[row][deep].
template <typename Tile>
__device__ Left loadLeft(const Tile &tile, int row, int deep) {
  Left a;
  int lane = getLane();
  detail::loadSquares(a.pair, tile.find(row, deep, lane % 16, lane / 16 * 8));
  return a;
}
/// Those from (deep, row) on of tile[deep][row].
template <typename Tile>
__device__ Left loadTurnedLeft(const Tile &tile, int deep, int row) {
  Left a;
  int lane = getLane();
  detail::loadTurnedSquares(
      a.pair, tile.find(deep, row, lane % 8 + lane / 16 * 8, lane / 8 % 2 * 8));
  return a;
}
/// Two operands beside one another, from (column, deep) on of
/// tile[column][deep].
template <typename Tile>
__device__ void loadRights(Right (&b)[2], const Tile &tile, int column,
                           int deep) {
  int lane = getLane();
  detail::loadSquares(
      b[0].pair,
      tile.find(column, deep, lane % 8 + lane / 16 * 8, lane / 8 % 2 * 8));
}
/// The same from (deep, column) on of tile[deep][column].
template <typename Tile>
__device__ void loadTurnedRights(Right (&b)[2], const Tile &tile, int deep,
                                 int column) {
  int lane = getLane();
  detail::loadTurnedSquares(b[0].pair,
                            tile.find(deep, column, lane % 16, lane / 16 * 8));
}

/// sums += a * b.
inline __device__ void multiply(Sums &sums, const Left &a, const Right &b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(sums.at[0]), "+f"(sums.at[1]), "+f"(sums.at[2]),
                 "+f"(sums.at[3])
               : "r"(a.pair[0]), "r"(a.pair[1]), "r"(a.pair[2]), "r"(a.pair[3]),
                 "r"(b.pair[0]), "r"(b.pair[1]));
}

/// Begins to copy 16 bytes to shared memory, or writes zeros.
template <typename T>
__device__ void copyPack(T *to, const T *from, bool isThere) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(detail::sharedAddress(to)), "l"(from),
                 "r"(isThere ? 16 : 0)
               : "memory");
}
/// What this thread has begun up to here is a group.
inline __device__ void endGroup() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits for this thread's groups but for the last `last`.
template <int last> __device__ void awaitGroups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(last) : "memory");
}

#else

namespace detail {
inline __device__ uint32_t loadPair(const bf16 *at) {
  uint32_t pair;
  std::memcpy(&pair, at, sizeof pair);
  return pair;
}
/// Elements of two rows, one below the other.
template <typename Tile>
__device__ uint32_t gatherPair(const Tile &tile, int row, int column, int r,
                               int c) {
  return uint32_t(tile.find(row, column, r + 1, c)->bits) << 16 |
         tile.find(row, column, r, c)->bits;
}
inline __device__ float halfOf(uint32_t pair, int half) {
  return bf16::fromBits(uint16_t(half ? pair >> 16 : pair));
}
} // namespace detail

template <typename Tile>
__device__ Left loadLeft(const Tile &tile, int row, int deep) {
  Left a;
  for (int i = 0; i < 4; ++i)
    a.pair[i] = detail::loadPair(tile.find(row, deep, getLane() / 4 + i % 2 * 8,
                                           getLane() % 4 * 2 + i / 2 * 8));
  return a;
}
template <typename Tile>
__device__ Left loadTurnedLeft(const Tile &tile, int deep, int row) {
  Left a;
  for (int i = 0; i < 4; ++i)
    a.pair[i] =
        detail::gatherPair(tile, deep, row, getLane() % 4 * 2 + i / 2 * 8,
                           getLane() / 4 + i % 2 * 8);
  return a;
}
template <typename Tile>
__device__ void loadRights(Right (&b)[2], const Tile &tile, int column,
                           int deep) {
  for (int j = 0; j < 2; ++j)
    for (int i = 0; i < 2; ++i)
      b[j].pair[i] = detail::loadPair(tile.find(
          column, deep, j * 8 + getLane() / 4, i * 8 + getLane() % 4 * 2));
}
template <typename Tile>
__device__ void loadTurnedRights(Right (&b)[2], const Tile &tile, int deep,
                                 int column) {
  for (int j = 0; j < 2; ++j)
    for (int i = 0; i < 2; ++i)
      b[j].pair[i] = detail::gatherPair(
          tile, deep, column, i * 8 + getLane() % 4 * 2, j * 8 + getLane() / 4);
}

inline __device__ void multiply(Sums &sums, const Left &a, const Right &b) {
  constexpr int kMostWarps = 32;
  __shared__ Left lefts[kMostWarps][32];
  __shared__ Right rights[kMostWarps][32];
  int warp = int(threadIdx.x) / 32;
  lefts[warp][getLane()] = a;
  rights[warp][getLane()] = b;
  __syncwarp();
  for (int e = 0; e < 4; ++e)
    for (int k = 0; k < kDeep; ++k) {
      int lane = k % 8 / 2, row = rowOf(e), column = columnOf(e);
      sums.at[e] +=
          detail::halfOf(
              lefts[warp][row % 8 * 4 + lane].pair[row / 8 + k / 8 * 2],
              k % 2) *
          detail::halfOf(rights[warp][column * 4 + lane].pair[k / 8], k % 2);
    }
  __syncwarp();
}

template <typename T>
__device__ void copyPack(T *to, const T *from, bool isThere) {
  for (int i = 0; i < 16 / int(sizeof(T)); ++i)
    to[i] = isThere ? from[i] : T(0.f);
}
inline __device__ void endGroup() {}
template <int last> __device__ void awaitGroups() {}

#endif

} // namespace dt::rt::tensor

#endif // DT_RUNTIME_DEVICE_CUDA_TENSORCORES_H
