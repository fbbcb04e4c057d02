//===- AttentionTensor.cu - attention by rows on tensor cores -------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Tiles of 64 queries and 64 keys as in Attention.cu, products by warps in bf16
// (FlashAttention-2, Dao 2023): each of four warps has 16 rows of the block's,
// whose scores and sums stay in registers, while the next tile is copied. A
// block owns what it writes and adds in one order, so runs repeat bit by bit;
// scores are computed once for the gradient of queries and once for those of
// keys and values. Probabilities, and gradients of scores, are rounded to bf16
// before they weigh, as cuDNN does.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/AttentionTensor.h"
#include "runtime/device/cuda/AttentionWarps.h"

namespace dt::rt::tensor {

namespace {

constexpr int kWidest = 128; ///< of a head
constexpr float kLog2e = 1.4426950408889634f, kLn2 = 0.6931471805599453f;

//===--- Results

template <int width> struct ForwardShared {
  Tile<width> q, k[2], v[2];
};

/// Of a lane's two rows.
struct RowState {
  float top[2] = {-INFINITY, -INFINITY}; ///< of scores times log2(e)
  float sum[2] = {};                     ///< this lane's part
};

/// Turns scores into exp2(scores - top) and rescales what was summed up.
template <int count, int wide>
__device__ void exponentiate(Sums (&scores)[count], Sums (&sums)[wide],
                             RowState &state) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float top = state.top[half];
#pragma unroll
    for (const Sums &each : scores)
      top = fmaxf(top, fmaxf(each.at[2 * half], each.at[2 * half + 1]));
    top = reduceRow<cuda::MaxNum>(top);
    float from = top == -INFINITY ? 0.f : top, sum = 0;
    float shrink = exp2f(state.top[half] - from);
#pragma unroll
    for (Sums &each : scores)
#pragma unroll
      for (int e = 2 * half; e < 2 * half + 2; ++e)
        sum += each.at[e] = exp2f(each.at[e] - from);
    state.top[half] = top;
    state.sum[half] = state.sum[half] * shrink + sum;
#pragma unroll
    for (Sums &each : sums)
      each.at[2 * half] *= shrink, each.at[2 * half + 1] *= shrink;
  }
}

template <int width>
__global__ void __launch_bounds__(kThreads, 2)
    forwardKernel(const bf16 *q, const bf16 *k, const bf16 *v,
                  AttentionMask mask, SegmentTiles segments, bf16 *o,
                  float *lse, AttentionShape s) {
  DT_DYNAMIC_SHARED(ForwardShared<width>, shared);
  Place p(s.t, 1, s.h);
  Head<bf16> head(q, k, v, o, s, p.b, p.h);
  Hiding hiding{mask, s, segments, p.b};
  Walk walk{int(tilesOf(s.s))};
  auto isSeen = [&](int tile) {
    return !isHidden(s, segments, p.b, p.row, tile * kTile);
  };
  auto load = [&](int tile, int stage) {
    if (tile < walk.end) {
      shared->k[stage].load(head.k, tile * kTile);
      shared->v[stage].load(head.v, tile * kTile);
    }
    endGroup();
  };
  int first = int(threadIdx.x) / 32 * kRows, stage = 0;
  shared->q.load(head.q, p.row);
  int tile = walk.next(isSeen);
  load(tile, stage);
  Sums sums[width / kWide];
  RowState state;
  float scale = s.scale * kLog2e;
  while (tile < walk.end) {
    int after = walk.next(isSeen), j0 = tile * kTile;
    load(after, stage ^ 1);
    awaitGroups<1>();
    __syncthreads();
    Sums scores[kTile / kWide];
    multiplyRows(scores, shared->q, first, shared->k[stage]);
    bool all = hiding.isNone(p.row, j0);
#pragma unroll
    for (int n = 0; n < kTile / kWide; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        scores[n].at[e] = all || hiding.sees(p.row + first + rowOf(e),
                                             j0 + n * kWide + columnOf(e))
                              ? scores[n].at[e] * scale
                              : -INFINITY;
    exponentiate(scores, sums, state);
    addWeighted(sums, scores, shared->v[stage]);
    __syncthreads();
    tile = after, stage ^= 1;
  }
  float factor[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = reduceRow<cuda::Add>(state.sum[half]);
    int row = p.row + first + rowOf(2 * half);
    factor[half] = 1 / sum;
    if (row < s.t && getLane() % 4 == 0)
      lse[(p.b * s.h + p.h) * s.t + row] =
          sum == 0 ? -INFINITY : state.top[half] * kLn2 + logf(sum);
    if (sum != 0)
      continue;
    factor[half] = 1;
#pragma unroll
    for (int n = 0; n < width / kWide; ++n)
      for (int e = 2 * half; e < 2 * half + 2; ++e)
        sums[n].at[e] =
            row < s.t ? emptyValue(head.v, n * kWide + columnOf(e), s.emptyRow)
                      : 0.f;
  }
  store(sums, o + p.b * s.ob + p.h * s.oh, s.ot, p.row + first, int(s.t),
        int(s.dv), factor);
}

//===--- Gradients

/// What the backward needs of a query: its log-sum-exp, sum(do * o).
struct RowFacts {
  const float *lse;
  float *delta; ///< [b, h, t] both
  bool *empty;  ///< [b, h, tiles]: a query of it sees no key
};

/// Fills `delta` and `empty`; a warp has a query at a time.
__global__ void rowKernel(const bf16 *o, const bf16 *doutput, RowFacts rows,
                          AttentionShape s) {
  __shared__ bool empties[kTile];
  Place p(s.t, 1, s.h);
  int64_t at = p.b * s.ob + p.h * s.oh, facts = (p.b * s.h + p.h) * s.t;
  for (int r = int(threadIdx.x) / 32; r < kTile; r += int(blockDim.x) / 32) {
    int64_t i = p.row + r;
    float sum = 0;
    for (int64_t c = getLane(); c < s.dv && i < s.t; c += 32)
      sum += float(o[at + i * s.ot + c]) * float(doutput[at + i * s.ot + c]);
    sum = cuda::reduceWarp<cuda::Add>(sum);
    if (getLane() > 0)
      continue;
    empties[r] = i < s.t && rows.lse[facts + i] == -INFINITY;
    if (i < s.t)
      rows.delta[facts + i] = sum;
  }
  __syncthreads();
  if (threadIdx.x > 0)
    return;
  bool any = false;
  for (bool each : empties)
    any |= each;
  rows.empty[(p.b * s.h + p.h) * tilesOf(s.t) + p.row / kTile] = any;
}

/// Whether a tile of scores has probabilities: some key is seen, or a query
/// sees none and has the same for all.
__device__ bool hasWeights(const AttentionShape &s,
                           const SegmentTiles &segments, const RowFacts &rows,
                           int64_t b, int64_t h, int i, int j) {
  return !isHidden(s, segments, b, i, j) ||
         (s.emptyRow != EmptyRow::Zero &&
          rows.empty[(b * s.h + h) * tilesOf(s.t) + i / kTile]);
}

/// Probability of a key from its product with a query whose log-sum-exp is
/// `lse`, for the gradient of values or that of scores. A query without a key
/// gives the same to all; where a number was put for scores, these have none.
struct Probability {
  float scale; ///< times log2(e)
  float ofValues, ofScores;

  __device__ Probability(const AttentionShape &s) : scale(s.scale * kLog2e) {
    float mean = 1.f / float(s.s);
    ofValues = s.emptyRow == EmptyRow::NaN    ? NAN
               : s.emptyRow == EmptyRow::Zero ? 0.f
                                              : mean;
    ofScores = s.emptyRow == EmptyRow::Filled ? 0.f : ofValues;
  }
  __device__ float of(float product, float lse) const {
    return exp2f(product * scale - lse * kLog2e);
  }
};

template <int width> struct QueryShared {
  Tile<width> q, d;
  Tile<width, kHalf> k[2], v[2];
};

/// dq. The block's rows are queries.
template <int width>
__global__ void __launch_bounds__(kThreads, 2)
    queryKernel(const bf16 *q, const bf16 *k, const bf16 *v, AttentionMask mask,
                SegmentTiles segments, const bf16 *doutput, RowFacts rows,
                bf16 *dq, AttentionShape s) {
  DT_DYNAMIC_SHARED(QueryShared<width>, shared);
  Place p(s.t, 1, s.h);
  Head<bf16> head(q, k, v, doutput, s, p.b, p.h);
  Hiding hiding{mask, s, segments, p.b};
  HalfWalk walk(s.s);
  auto isSeen = [&](int tile) {
    return hasWeights(s, segments, rows, p.b, p.h, p.row, tile * kTile);
  };
  auto load = [&](int j, int stage) {
    if (j < walk.end) {
      shared->k[stage].load(head.k, j);
      shared->v[stage].load(head.v, j);
    }
    endGroup();
  };
  int first = int(threadIdx.x) / 32 * kRows, stage = 0;
  shared->q.load(head.q, p.row);
  shared->d.load(head.d, p.row);
  int j0 = walk.next(isSeen);
  load(j0, stage);
  Probability probability(s);
  float lse[2], delta[2];
  for (int half = 0; half < 2; ++half) {
    int64_t row = p.row + first + rowOf(2 * half);
    bool inside = row < s.t;
    int64_t at = (p.b * s.h + p.h) * s.t + row;
    lse[half] = inside ? rows.lse[at] : 0.f;
    delta[half] = inside ? rows.delta[at] : 0.f;
  }
  Sums sums[width / kWide];
  while (j0 < walk.end) {
    int after = walk.next(isSeen);
    load(after, stage ^ 1);
    awaitGroups<1>();
    __syncthreads();
    Sums scores[kHalf / kWide], gradients[kHalf / kWide];
    multiplyRows(scores, shared->q, first, shared->k[stage]);
    multiplyRows(gradients, shared->d, first, shared->v[stage]);
    bool all = hiding.isNone(p.row, j0 / kTile * kTile);
#pragma unroll
    for (int n = 0; n < kHalf / kWide; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        int i = p.row + first + rowOf(e), j = j0 + n * kWide + columnOf(e);
        float weight = 0;
        if (all || hiding.sees(i, j))
          weight = probability.of(scores[n].at[e], lse[e / 2]);
        else if (lse[e / 2] == -INFINITY && j < s.s)
          weight = probability.ofScores;
        scores[n].at[e] =
            weight * (gradients[n].at[e] - delta[e / 2]) * s.scale;
      }
    addWeighted(sums, scores, shared->k[stage]);
    __syncthreads();
    j0 = after, stage ^= 1;
  }
  HeadStrides by = s.getDq();
  float factor[2] = {1, 1};
  store(sums, dq + p.b * by.batch + p.h * by.head, by.row, p.row + first,
        int(s.t), int(s.d), factor);
}

template <int width> struct KeyShared {
  Tile<width> k, v;
  Tile<width, kHalf> q[2], d[2];
  float lse[2][kHalf], delta[2][kHalf];
};

/// dk and dv. The block's rows are keys; it walks over queries of all heads
/// that share them.
template <int width>
__global__ void __launch_bounds__(kThreads, 2)
    keyKernel(const bf16 *q, const bf16 *k, const bf16 *v, AttentionMask mask,
              SegmentTiles segments, const bf16 *doutput, RowFacts rows,
              bf16 *dk, bf16 *dv, AttentionShape s) {
  DT_DYNAMIC_SHARED(KeyShared<width>, shared);
  int64_t group = s.h / s.hk;
  Place p(s.s, 1, s.hk);
  Hiding hiding{mask, s, segments, p.b};
  Probability probability(s);
  int first = int(threadIdx.x) / 32 * kRows;
  {
    Head<bf16> head(q, k, v, doutput, s, p.b, p.h * group);
    shared->k.load(head.k, p.row);
    shared->v.load(head.v, p.row);
  }
  Sums ofKeys[width / kWide], ofValues[width / kWide];
  for (int64_t h = p.h * group; h < (p.h + 1) * group; ++h) {
    Head<bf16> head(q, k, v, doutput, s, p.b, h);
    int64_t facts = (p.b * s.h + h) * s.t;
    HalfWalk walk(s.t);
    auto isSeen = [&](int tile) {
      return hasWeights(s, segments, rows, p.b, h, tile * kTile, p.row);
    };
    auto load = [&](int i, int stage) {
      if (i < walk.end) {
        shared->q[stage].load(head.q, i);
        shared->d[stage].load(head.d, i);
        if (int r = int(threadIdx.x); r < kHalf) {
          bool inside = i + r < s.t;
          shared->lse[stage][r] = inside ? rows.lse[facts + i + r] : 0.f;
          shared->delta[stage][r] = inside ? rows.delta[facts + i + r] : 0.f;
        }
      }
      endGroup();
    };
    int i0 = walk.next(isSeen), stage = 0;
    load(i0, stage);
    while (i0 < walk.end) {
      int after = walk.next(isSeen);
      load(after, stage ^ 1);
      awaitGroups<1>();
      __syncthreads();
      Sums weights[kHalf / kWide], gradients[kHalf / kWide];
      multiplyRows(weights, shared->k, first, shared->q[stage]);
      multiplyRows(gradients, shared->v, first, shared->d[stage]);
      bool all = hiding.isNone(i0 / kTile * kTile, p.row);
#pragma unroll
      for (int n = 0; n < kHalf / kWide; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          int query = n * kWide + columnOf(e), i = i0 + query,
              j = p.row + first + rowOf(e);
          float lse = shared->lse[stage][query],
                delta = shared->delta[stage][query];
          float ofValue = 0, ofScore = 0;
          if (all || hiding.sees(i, j))
            ofValue = ofScore = probability.of(weights[n].at[e], lse);
          else if (lse == -INFINITY && i < s.t && j < s.s)
            ofValue = probability.ofValues, ofScore = probability.ofScores;
          weights[n].at[e] = ofValue;
          gradients[n].at[e] = ofScore * (gradients[n].at[e] - delta) * s.scale;
        }
      addWeighted(ofValues, weights, shared->d[stage]);
      addWeighted(ofKeys, gradients, shared->q[stage]);
      __syncthreads();
      i0 = after, stage ^= 1;
    }
  }
  float factor[2] = {1, 1};
  HeadStrides byK = s.getDk(), byV = s.getDv();
  store(ofKeys, dk + p.b * byK.batch + p.h * byK.head, byK.row, p.row + first,
        int(s.s), int(s.d), factor);
  store(ofValues, dv + p.b * byV.batch + p.h * byV.head, byV.row, p.row + first,
        int(s.s), int(s.dv), factor);
}

//===--- Calls

bool isOn() {
  static const bool on = cuda::isWanted("DT_TENSOR_ATTENTION");
  return on;
}

/// Whether all that a row begins at is a multiple of 16 bytes.
bool hasWholePacks(const AttentionShape &s,
                   std::initializer_list<const void *> addresses) {
  for (int64_t each : {s.d, s.dv, s.qb, s.qt, s.qh, s.kb, s.ks, s.kh, s.vb,
                       s.vs, s.vh, s.ob, s.ot, s.oh})
    if (each % kPack)
      return false;
  for (const HeadStrides &each : {s.getDq(), s.getDk(), s.getDv()})
    if (each.batch % kPack || each.row % kPack || each.head % kPack)
      return false;
  for (const void *address : addresses)
    if (reinterpret_cast<uintptr_t>(address) % 16)
      return false;
  return true;
}

bool isTaken(const AttentionShape &s,
             std::initializer_list<const void *> addresses) {
  return isOn() && s.mask == MaskKind::None &&
         s.b * s.t * s.s * s.h * s.d * s.dv > 0 &&
         std::max(s.d, s.dv) <= kWidest && hasWholePacks(s, addresses);
}

/// Calls run(integral constant) with the width that heads are filled up to.
template <typename Run> void forWidth(const AttentionShape &s, Run run) {
  int64_t width = std::max(s.d, s.dv);
  if (width <= 64)
    run(std::integral_constant<int, 64>());
  else if (width <= 96)
    run(std::integral_constant<int, 96>());
  else
    run(std::integral_constant<int, kWidest>());
}

} // namespace

bool attend(const AttentionShape &s, const bf16 *q, const bf16 *k,
            const bf16 *v, AttentionMask mask, bf16 *o, float *lse,
            void *stream) {
  if (!isTaken(s, {q, k, v, o}))
    return false;
  size_t bounds = SegmentTiles::getBytes(s);
  SegmentTiles segments = tiles::findBounds(
      mask, s, bounds ? cuda::scratch(1, bounds) : nullptr, stream);
  forWidth(s, [&](auto width) {
    cuda::launch("attention on tensor cores", forwardKernel<width()>,
                 tiles::blocksFor(s.b, s.h, s.t, 1), kThreads,
                 sizeof(ForwardShared<width()>), stream, q, k, v, mask,
                 segments, o, lse, s);
  });
  return true;
}

bool attendBackward(const AttentionShape &s, const bf16 *q, const bf16 *k,
                    const bf16 *v, AttentionMask mask, const bf16 *o,
                    const float *lse, const bf16 *doutput, bf16 *dq, bf16 *dk,
                    bf16 *dv, void *stream) {
  if (!isTaken(s, {q, k, v, o, doutput, dq, dk, dv}))
    return false;
  int64_t n = s.b * s.h * s.t;
  // Bounds of segments, then facts of rows, then of tiles.
  size_t bounds = SegmentTiles::getBytes(s);
  auto *memory = static_cast<char *>(
      cuda::scratch(1, bounds + n * sizeof(float) + s.b * s.h * tilesOf(s.t)));
  auto *delta = reinterpret_cast<float *>(memory + bounds);
  RowFacts rows{lse, delta, reinterpret_cast<bool *>(delta + n)};
  SegmentTiles segments = tiles::findBounds(mask, s, memory, stream);
  cuda::launch("rows of an attention gradient", rowKernel,
               tiles::blocksFor(s.b, s.h, s.t, 1), 256, 0, stream, o, doutput,
               rows, s);
  forWidth(s, [&](auto width) {
    cuda::launch("gradient of queries on tensor cores", queryKernel<width()>,
                 tiles::blocksFor(s.b, s.h, s.t, 1), kThreads,
                 sizeof(QueryShared<width()>), stream, q, k, v, mask, segments,
                 doutput, rows, dq, s);
    cuda::launch("gradient of keys on tensor cores", keyKernel<width()>,
                 tiles::blocksFor(s.b, s.hk, s.s, 1), kThreads,
                 sizeof(KeyShared<width()>), stream, q, k, v, mask, segments,
                 doutput, rows, dk, dv, s);
  });
  return true;
}

} // namespace dt::rt::tensor
