//===- AttentionMask.cu - masks of attention for cuDNN --------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/AttentionMask.h"
#include "runtime/device/cuda/AttentionScore.h"
#include "runtime/device/cuda/Cuda.h"
#include "runtime/device/cuda/Reduce.h"

namespace dt::rt::cudnn {

namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;

/// What a hidden key has: in bf16, times log2(e) or with any score added it
/// stays finite.
constexpr float kHidden = -1e30f;

/// A query all of whose keys lie further from 0 than this is marked: a float
/// has 16 bits behind the point there, as many as bf16's weights can show.
constexpr float kFar = 256;

/// The number of tiles of queries.
__host__ __device__ int64_t tilesOf(const AttentionShape &s) {
  return (s.t + kQueryTile - 1) / kQueryTile;
}

/// What a mask, the causal rule, the window and segments add to a score.
__device__ float addedTo(const AttentionMask &mask, const AttentionShape &s,
                         int64_t b, int64_t h, int64_t i, int64_t j) {
  return isVisible(mask, s, b, i, j) ? maskOf(mask, s, b, h, i, j) : -INFINITY;
}

/// A block has the queries of a tile, a warp one at a time.
__global__ void biasKernel(AttentionMask mask, AttentionShape s,
                           BiasShape shape, bf16 *bias, uint64_t *marks) {
  __shared__ bool marked[kQueryTile];
  int64_t tile = blockIdx.x % tilesOf(s), head = blockIdx.x / tilesOf(s),
          b = head / shape.h, h = head % shape.h;
  int lane = int(threadIdx.x) % 32;
  for (int r = int(threadIdx.x) / 32; r < kQueryTile; r += kWarps) {
    int64_t i = tile * kQueryTile + r;
    float top = -INFINITY;
    for (int64_t j = lane; j < s.s && i < s.t; j += 32)
      top = fmaxf(top, addedTo(mask, s, b, h, i, j));
    top = cuda::reduceWarp<cuda::MaxNum>(top);
    bool far = !(fabsf(top) <= kFar);
    bf16 *row = bias + (head * s.t + i) * shape.row;
    for (int64_t j = lane; j < shape.row && i < s.t; j += 32) {
      float added = j < s.s && !far ? addedTo(mask, s, b, h, i, j) : 0.f;
      row[j] = added < kHidden ? kHidden : added;
    }
    if (lane == 0)
      marked[r] = far && i < s.t;
  }
  __syncthreads();
  if (threadIdx.x > 0)
    return;
  uint64_t word = 0;
  for (int r = 0; r < kQueryTile; ++r)
    word |= uint64_t(marked[r]) << r;
  marks[head * tilesOf(s) + tile] = word;
}

__global__ void coverKernel(const float *lse, float *to, AttentionShape s,
                            Queries marked) {
  int64_t n = s.b * s.h * s.t;
  for (int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; e < n;
       e += int64_t(gridDim.x) * blockDim.x) {
    int64_t i = e % s.t, h = e / s.t % s.h, b = e / s.t / s.h;
    to[e] = contains(marked, b, h, i) ? -kHidden : lse[e];
  }
}

} // namespace

size_t getMarkBytes(const AttentionShape &s) {
  BiasShape shape = getBiasShape(s);
  return size_t(shape.b * shape.h * tilesOf(s)) * sizeof(uint64_t);
}

Queries getMarked(const AttentionShape &s, const uint64_t *marks) {
  BiasShape shape = getBiasShape(s);
  int64_t tiles = tilesOf(s);
  return {marks, shape.b > 1 ? shape.h * tiles : 0, shape.h > 1 ? tiles : 0};
}

void writeBias(const AttentionShape &s, AttentionMask mask, bf16 *bias,
               uint64_t *marks, void *stream) {
  BiasShape shape = getBiasShape(s);
  cuda::launch("bias of attention", biasKernel,
               unsigned(shape.b * shape.h * tilesOf(s)), kThreads, 0, stream,
               mask, s, shape, bias, marks);
}

void coverMarked(const AttentionShape &s, const float *lse, float *to,
                 const Queries &marked, void *stream) {
  cuda::launch("cover of attention's rows", coverKernel,
               cuda::blocksFor(s.b * s.h * s.t), kThreads, 0, stream, lse, to,
               s, marked);
}

} // namespace dt::rt::cudnn
