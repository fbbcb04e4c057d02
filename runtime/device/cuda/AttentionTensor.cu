//===- AttentionTensor.cu - attention by rows on tensor cores -------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Products by warps in bf16 (FlashAttention-2, Dao 2023): a block has 128
// queries, or keys, and walks over tiles of the others, as in Attention.cu.
// Scores and sums of a warp's rows stay in registers, while the next tile is
// copied. A block owns what it writes and adds in one order, so runs repeat bit
// by bit; scores are computed once for the gradient of queries and once for
// those of keys and values. Probabilities, and gradients of scores, are rounded
// to bf16 before they weigh, as cuDNN does.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/AttentionTensor.h"
#include "runtime/device/cuda/AttentionWarps.h"

namespace dt::rt::tensor {

namespace {

constexpr int kWidest = 128; ///< of a head
constexpr float kLog2e = 1.4426950408889634f, kLn2 = 0.6931471805599453f;

/// Four warps have 32 queries each, or eight warps 16 keys each.
constexpr int kQueries = 2 * kTile, kKeys = 2 * kTile;
constexpr int kQueryThreads = 128, kKeyThreads = 256;
constexpr int kGroups = 2; ///< of kRows queries, a warp

/// The first row of this thread's warp.
__device__ int firstRow(int rowsOfWarp) {
  return int(threadIdx.x) / 32 * rowsOfWarp;
}

//===--- Results

template <int width> struct ForwardShared {
  Tile<width, kQueries, kQueryThreads> q;
  Tile<width, kTile, kQueryThreads> k[2], v[2];
};

/// Of a group: this lane's two rows.
struct RowState {
  float top[2] = {-INFINITY, -INFINITY}; ///< of scores times log2(e)
  float sum[2] = {};                     ///< this lane's part
};

/// Turns scores, -inf where they are hidden, into exp2(scores - top) and
/// rescales what was summed up.
template <int count, int wide>
__device__ void exponentiate(Sums (&scores)[count], Sums (&sums)[wide],
                             RowState &state) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float top = -INFINITY;
#pragma unroll
    for (const Sums &each : scores)
      top = fmaxf(top, fmaxf(each.at[2 * half], each.at[2 * half + 1]));
    top = fmaxf(state.top[half], reduceRow<cuda::MaxNum>(top));
    float from = top == -INFINITY ? 0.f : top, sum = 0;
    float shrink = exp2Fast(state.top[half] - from);
#pragma unroll
    for (Sums &each : scores)
#pragma unroll
      for (int e = 2 * half; e < 2 * half + 2; ++e)
        sum += each.at[e] = exp2Fast(each.at[e] - from);
    state.top[half] = top;
    state.sum[half] = state.sum[half] * shrink + sum;
#pragma unroll
    for (Sums &each : sums)
      each.at[2 * half] *= shrink, each.at[2 * half + 1] *= shrink;
  }
}

/// Writes a group's results, rows from `row` on.
template <int wide>
__device__ void finish(Sums (&sums)[wide], const RowState &state,
                       const Rows<bf16> &v, int row, bf16 *o, float *lse,
                       const AttentionShape &s) {
  float factor[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = reduceRow<cuda::Add>(state.sum[half]);
    int i = row + rowOf(2 * half);
    factor[half] = 1 / sum;
    if (i < s.t && getLane() % 4 == 0)
      lse[i] = sum == 0 ? -INFINITY : state.top[half] * kLn2 + logf(sum);
    if (sum != 0)
      continue;
    factor[half] = 1;
#pragma unroll
    for (int n = 0; n < wide; ++n)
#pragma unroll
      for (int e = 2 * half; e < 2 * half + 2; ++e)
        sums[n].at[e] =
            i < s.t ? emptyValue(v, n * kWide + columnOf(e), s.emptyRow) : 0.f;
  }
  store(sums, o, s.ot, row, int(s.t), int(s.dv), factor);
}

template <int width>
__global__ void __launch_bounds__(kQueryThreads, 2)
    forwardKernel(const bf16 *q, const bf16 *k, const bf16 *v,
                  AttentionMask mask, SegmentTiles segments, bf16 *o,
                  float *lse, AttentionShape s) {
  DT_DYNAMIC_SHARED(ForwardShared<width>, shared);
  Block p(s.t, kQueries, s.h, s.causal);
  Head<bf16> head(q, k, v, o, s, p.b, p.h);
  Hiding hiding{mask, s, segments, p.b};
  Steps<kTile> walk(s.s);
  auto isSeen = [&](int tile) {
    return hiding.maySee(p.row, kQueries, tile * kTile, kTile);
  };
  auto load = [&](int j, int stage) {
    loadPair(shared->k[stage], head.k, shared->v[stage], head.v, j, walk.end);
  };
  int first = firstRow(kGroups * kRows), stage = 0;
  shared->q.load(head.q, p.row);
  int j0 = walk.next(isSeen);
  load(j0, stage);
  Sums sums[kGroups][width / kWide];
  RowState state[kGroups];
  float scale = s.scale * kLog2e;
  while (j0 < walk.end) {
    int after = walk.next(isSeen);
    load(after, stage ^ 1);
    bool all = hiding.isNone(p.row, kQueries, j0, kTile);
    Seen<kGroups, false> seen(hiding, all, p.row + first, j0, kTile / kWide);
    awaitGroups<1>();
    __syncthreads();
    Sums scores[kGroups][kTile / kWide];
    multiplyRows(scores, shared->q, first, shared->k[stage]);
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
#pragma unroll
      for (int n = 0; n < kTile / kWide; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          scores[g][n].at[e] *= scale;
      if (!all)
        seen.hide(g, scores[g], [](int, int) { return -INFINITY; });
      exponentiate(scores[g], sums[g], state[g]);
    }
    addWeighted(sums, scores, shared->v[stage]);
    __syncthreads();
    j0 = after, stage ^= 1;
  }
#pragma unroll
  for (int g = 0; g < kGroups; ++g)
    finish(sums[g], state[g], head.v, p.row + first + g * kRows,
           o + p.b * s.ob + p.h * s.oh, lse + (p.b * s.h + p.h) * s.t, s);
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
  Block p(s.t, kTile, s.h, false);
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

/// Whether a key of those from j0 on has a probability for a query of those
/// from i0 on: it may be seen, or a query sees none and has the same for all.
__device__ bool hasWeights(const Hiding &hiding, const RowFacts &rows,
                           int64_t h, int i0, int queries, int j0, int keys) {
  const AttentionShape &s = hiding.s;
  bool any = false;
  if (s.emptyRow != EmptyRow::Zero)
    for (int i = i0; i < i0 + queries && i < s.t; i += kTile)
      any |= rows.empty[(hiding.b * s.h + h) * tilesOf(s.t) + i / kTile];
  return any || hiding.maySee(i0, queries, j0, keys);
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
    return exp2Fast(product * scale - lse * kLog2e);
  }
};

template <int width> struct QueryShared {
  Tile<width, kQueries, kQueryThreads> q, d;
  Tile<width, kHalf, kQueryThreads> k[2], v[2];
};

/// dq. The block's rows are queries.
template <int width>
__global__ void __launch_bounds__(kQueryThreads, 2)
    queryKernel(const bf16 *q, const bf16 *k, const bf16 *v, AttentionMask mask,
                SegmentTiles segments, const bf16 *doutput, RowFacts rows,
                bf16 *dq, AttentionShape s) {
  DT_DYNAMIC_SHARED(QueryShared<width>, shared);
  Block p(s.t, kQueries, s.h, s.causal);
  Head<bf16> head(q, k, v, doutput, s, p.b, p.h);
  Hiding hiding{mask, s, segments, p.b};
  Steps<kHalf> walk(s.s);
  auto isSeen = [&](int tile) {
    return hasWeights(hiding, rows, p.h, p.row, kQueries, tile * kTile, kTile);
  };
  auto load = [&](int j, int stage) {
    loadPair(shared->k[stage], head.k, shared->v[stage], head.v, j, walk.end);
  };
  int first = firstRow(kGroups * kRows), stage = 0;
  shared->q.load(head.q, p.row);
  shared->d.load(head.d, p.row);
  int j0 = walk.next(isSeen);
  load(j0, stage);
  Probability probability(s);
  float lse[kGroups][2], delta[kGroups][2];
  for (int g = 0; g < kGroups; ++g)
    for (int half = 0; half < 2; ++half) {
      int64_t row = p.row + first + g * kRows + rowOf(2 * half),
              at = (p.b * s.h + p.h) * s.t + row;
      lse[g][half] = row < s.t ? rows.lse[at] : 0.f;
      delta[g][half] = row < s.t ? rows.delta[at] : 0.f;
    }
  Sums sums[kGroups][width / kWide];
  while (j0 < walk.end) {
    int after = walk.next(isSeen);
    load(after, stage ^ 1);
    bool all = hiding.isNone(p.row, kQueries, j0, kHalf);
    Seen<kGroups, false> seen(hiding, all, p.row + first, j0, kHalf / kWide);
    awaitGroups<1>();
    __syncthreads();
    Sums scores[kGroups][kHalf / kWide], gradients[kGroups][kHalf / kWide];
    multiplyRows(scores, shared->q, first, shared->k[stage]);
    multiplyRows(gradients, shared->d, first, shared->v[stage]);
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
#pragma unroll
      for (int n = 0; n < kHalf / kWide; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          scores[g][n].at[e] =
              probability.of(scores[g][n].at[e], lse[g][e / 2]);
      if (!all)
        seen.hide(g, scores[g], [&](int, int e) {
          return lse[g][e / 2] == -INFINITY ? probability.ofScores : 0.f;
        });
#pragma unroll
      for (int n = 0; n < kHalf / kWide; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          scores[g][n].at[e] *=
              (gradients[g][n].at[e] - delta[g][e / 2]) * s.scale;
    }
    addWeighted(sums, scores, shared->k[stage]);
    __syncthreads();
    j0 = after, stage ^= 1;
  }
  HeadStrides by = s.getDq();
  float factor[2] = {1, 1};
#pragma unroll
  for (int g = 0; g < kGroups; ++g)
    store(sums[g], dq + p.b * by.batch + p.h * by.head, by.row,
          p.row + first + g * kRows, int(s.t), int(s.d), factor);
}

template <int width> struct KeyShared {
  Tile<width, kKeys, kKeyThreads> k, v;
  Tile<width, kHalf, kKeyThreads> q[2], d[2];
  float lse[2][kHalf], delta[2][kHalf];
};

/// dk and dv. The block's rows are keys; it walks over queries of all heads
/// that share them.
template <int width>
__global__ void __launch_bounds__(kKeyThreads, 1)
    keyKernel(const bf16 *q, const bf16 *k, const bf16 *v, AttentionMask mask,
              SegmentTiles segments, const bf16 *doutput, RowFacts rows,
              bf16 *dk, bf16 *dv, AttentionShape s) {
  DT_DYNAMIC_SHARED(KeyShared<width>, shared);
  int64_t group = s.h / s.hk;
  Block p(s.s, kKeys, s.hk, false);
  Hiding hiding{mask, s, segments, p.b};
  Probability probability(s);
  int first = firstRow(kRows);
  {
    Head<bf16> head(q, k, v, doutput, s, p.b, p.h * group);
    shared->k.load(head.k, p.row);
    shared->v.load(head.v, p.row);
  }
  Sums ofKeys[1][width / kWide], ofValues[1][width / kWide];
  for (int64_t h = p.h * group; h < (p.h + 1) * group; ++h) {
    Head<bf16> head(q, k, v, doutput, s, p.b, h);
    int64_t facts = (p.b * s.h + h) * s.t;
    Steps<kHalf> walk(s.t);
    auto isSeen = [&](int tile) {
      return hasWeights(hiding, rows, h, tile * kTile, kTile, p.row, kKeys);
    };
    auto load = [&](int i, int stage) {
      if (int r = int(threadIdx.x); i < walk.end && r < kHalf) {
        bool inside = i + r < s.t;
        shared->lse[stage][r] = inside ? rows.lse[facts + i + r] : 0.f;
        shared->delta[stage][r] = inside ? rows.delta[facts + i + r] : 0.f;
      }
      loadPair(shared->q[stage], head.q, shared->d[stage], head.d, i, walk.end);
    };
    int i0 = walk.next(isSeen), stage = 0;
    load(i0, stage);
    while (i0 < walk.end) {
      int after = walk.next(isSeen);
      load(after, stage ^ 1);
      bool all = hiding.isNone(i0, kHalf, p.row, kKeys);
      Seen<1, true> seen(hiding, all, p.row + first, i0, kHalf / kWide);
      awaitGroups<1>();
      __syncthreads();
      Sums weights[1][kHalf / kWide], gradients[1][kHalf / kWide];
      multiplyRows(weights, shared->k, first, shared->q[stage]);
      multiplyRows(gradients, shared->v, first, shared->d[stage]);
      const float *lse = shared->lse[stage], *delta = shared->delta[stage];
      auto queryOf = [](int n, int e) { return n * kWide + columnOf(e); };
#pragma unroll
      for (int n = 0; n < kHalf / kWide; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          weights[0][n].at[e] =
              probability.of(weights[0][n].at[e], lse[queryOf(n, e)]);
      if (!all)
        seen.hide(0, weights[0], [&](int n, int e) {
          return lse[queryOf(n, e)] == -INFINITY ? probability.ofValues : 0.f;
        });
#pragma unroll
      for (int n = 0; n < kHalf / kWide; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float &gradient = gradients[0][n].at[e];
          gradient =
              weights[0][n].at[e] * (gradient - delta[queryOf(n, e)]) * s.scale;
        }
      if (!all && s.emptyRow == EmptyRow::Filled)
        seen.hide(0, gradients[0], [](int, int) { return 0.f; });
      addWeighted(ofValues, weights, shared->d[stage]);
      addWeighted(ofKeys, gradients, shared->q[stage]);
      __syncthreads();
      i0 = after, stage ^= 1;
    }
  }
  float factor[2] = {1, 1};
  HeadStrides byK = s.getDk(), byV = s.getDv();
  store(ofKeys[0], dk + p.b * byK.batch + p.h * byK.head, byK.row,
        p.row + first, int(s.s), int(s.d), factor);
  store(ofValues[0], dv + p.b * byV.batch + p.h * byV.head, byV.row,
        p.row + first, int(s.s), int(s.dv), factor);
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
  return isOn() && s.mask == MaskKind::None && s.softCap == 0 &&
         s.b * s.t * s.s * s.h * s.d * s.dv > 0 &&
         std::max(s.d, s.dv) <= kWidest && hasWholePacks(s, addresses);
}

unsigned blocksFor(int64_t heads, int64_t rows, int64_t each) {
  return unsigned(heads * ((rows + each - 1) / each));
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
                 blocksFor(s.b * s.h, s.t, kQueries), kQueryThreads,
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
               blocksFor(s.b * s.h, s.t, kTile), 256, 0, stream, o, doutput,
               rows, s);
  forWidth(s, [&](auto width) {
    cuda::launch("gradient of queries on tensor cores", queryKernel<width()>,
                 blocksFor(s.b * s.h, s.t, kQueries), kQueryThreads,
                 sizeof(QueryShared<width()>), stream, q, k, v, mask, segments,
                 doutput, rows, dq, s);
    cuda::launch("gradient of keys on tensor cores", keyKernel<width()>,
                 blocksFor(s.b * s.hk, s.s, kKeys), kKeyThreads,
                 sizeof(KeyShared<width()>), stream, q, k, v, mask, segments,
                 doutput, rows, dk, dv, s);
  });
  return true;
}

} // namespace dt::rt::tensor
