//===- Attention.cu - softmax attention on the GPU ------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Tiles of 64 queries and 64 keys; scores are never stored (Dao et al.,
// FlashAttention). The forward keeps a running maximum and sum a row, the
// backward computes probabilities again from the saved log-sum-exp. Each block
// owns 64 rows of its result, up to 128 columns of them, and adds to these in
// one order: nothing is atomic, runs repeat bit by bit. Tiles that the causal
// rule, a window or segments hide (AttentionSegments.h) are not computed. All
// is computed in float32, products without tensor cores. Of bf16 these kernels
// compute what neither AttentionTensor.cu nor cuDNN takes, and answer the
// queries that cuDNN does not (AttentionMask.h).
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/AttentionSegments.h"
#include "runtime/device/cuda/AttentionTensor.h"
#include "runtime/device/cuda/Calls.h"
#include "runtime/device/cuda/Cudnn.h"

namespace dt::rt {

namespace {

using namespace tiles;

constexpr float kPreciseLse =
    1e3f; ///< above, the rounding of the log-sum-exp itself would show

/// A scaled score, and what its gradient is times.
__device__ float capped(float score, const AttentionShape &s) {
  return s.softCap != 0 ? s.softCap * tanhf(score / s.softCap) : score;
}
__device__ float slopeOf(float score, const AttentionShape &s) {
  float t = s.softCap != 0 ? tanhf(score / s.softCap) : 0.f;
  return 1 - t * t;
}

/// The scaled, capped and masked score of query i and key j from their product,
/// -inf where j is not visible or there is none.
__device__ float scoreOf(float product, const AttentionMask &mask,
                         const AttentionShape &s, int64_t b, int64_t h,
                         int64_t i, int64_t j) {
  if (i >= s.t || j >= s.s || !isVisible(mask, s, b, i, j))
    return -INFINITY;
  float added = maskOf(mask, s, b, h, i, j);
  return s.mask == MaskKind::Boolean && added != 0
             ? added
             : capped(s.scale * product, s) + added;
}

/// Calls apply(value, i, j) for what this thread keeps in `scores`.
template <typename Apply> __device__ void forOwn(Shared &shared, Apply apply) {
#pragma unroll 1 // few registers
  for (int e = 0; e < kEach * kEach; ++e) {
    int i = rowOf(e / kEach), j = columnOf(e % kEach);
    apply(shared.scores[i][j], i, j);
  }
}

/// Products of rows of a and b into `scores`, for forOwn.
template <typename T>
__device__ void storeProducts(const Rows<T> &a, int firstA, const Rows<T> &b,
                              int firstB, Shared &shared) {
  float x[kEach][kEach] = {};
  multiplyRows(x, a, firstA, b, firstB, shared);
#pragma unroll
  for (int i = 0; i < kEach; ++i)
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      shared.scores[rowOf(i)][columnOf(j)] = x[i][j];
}

/// Turns a tile of scores into exp(score - top), top the greatest of each row
/// up to here, and keeps the rows' sums.
__device__ void exponentiate(Shared &shared) {
  int row = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  float *scores = shared.scores[row], top = shared.top[row];
  float mine = -INFINITY, sum = 0;
  for (int c = lane; c < kTile; c += kLanes)
    mine = fmaxf(mine, scores[c]);
  shared.part[row][lane] = mine;
  __syncthreads();
  float highest = top;
  for (int l = 0; l < kLanes; ++l)
    highest = fmaxf(highest, shared.part[row][l]);
  for (int c = lane; c < kTile; c += kLanes) {
    // What is not a number stays so, though it is no maximum.
    scores[c] = scores[c] == -INFINITY ? 0.f : expf(scores[c] - highest);
    sum += scores[c];
  }
  __syncthreads();
  shared.part[row][lane] = sum;
  __syncthreads();
  if (lane > 0)
    return;
  float shrink = highest == -INFINITY ? 1.f : expf(top - highest);
  sum = shared.sum[row] * shrink;
  for (int l = 0; l < kLanes; ++l)
    sum += shared.part[row][l];
  shared.top[row] = highest, shared.sum[row] = sum, shared.shrink[row] = shrink;
}

template <typename T>
__global__ void __launch_bounds__(kThreads, 2)
    forwardKernel(const T *q, const T *k, const T *v, AttentionMask mask,
                  SegmentTiles segments, T *o, float *lse, AttentionShape s,
                  Queries wanted) {
  DT_DYNAMIC_SHARED(Shared, shared);
  Place p(s.t, s.dv, s.h);
  if (!getWord(wanted, p.b, p.h, p.row / kTile))
    return;
  Head<T> head(q, k, v, o, s, p.b, p.h);
  if (threadIdx.x < kTile)
    shared->top[threadIdx.x] = -INFINITY, shared->sum[threadIdx.x] = 0;
  float sums[kEach][kWide] = {};
  for (int first = 0; first < s.s; first += kTile) {
    if (isHidden(s, segments, p.b, p.row, first))
      continue;
    storeProducts(head.q, p.row, head.k, first, *shared);
    forOwn(*shared, [&](float &x, int i, int j) {
      x = scoreOf(x, mask, s, p.b, p.h, p.row + i, first + j);
    });
    __syncthreads();
    exponentiate(*shared);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kEach; ++i)
#pragma unroll
      for (int j = 0; j < kWide; ++j)
        sums[i][j] *= shared->shrink[rowOf(i)];
    addWeighted(sums, head.v, first, p.column, *shared);
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    int64_t row = p.row + rowOf(i);
    float top = shared->top[rowOf(i)], sum = shared->sum[rowOf(i)];
    bool empty = sum == 0;
    if (row >= s.t || !contains(wanted, p.b, p.h, row))
      continue;
#pragma unroll
    for (int j = 0; j < kWide; ++j)
      if (int c = p.column + columnOf(j); c < s.dv)
        o[p.b * s.ob + row * s.ot + p.h * s.oh + c] =
            empty ? emptyValue(head.v, c, s.emptyRow) : sums[i][j] / sum;
    if (p.column == 0 && columnOf(0) == 0)
      lse[(p.b * s.h + p.h) * s.t + row] = empty ? -INFINITY : top + logf(sum);
  }
}

/// What the backward needs of a row: its log-sum-exp, what exp(score - lse)
/// adds up to (1 but for the rounding of a large lse), sum(do * o).
struct RowFacts {
  const float *lse;
  float *total, *delta; ///< [b, h, t] each
  bool *empty;          ///< [b, h, tiles]: a query of it sees no key
};

/// Probability of a key for query i of the tile; an empty row gives the same to
/// all. `ofValues`: for the gradient of values, which alone has any where a
/// number was put for scores.
__device__ float probability(float score, const Shared &shared, int i,
                             bool ofValues, const AttentionShape &s) {
  if (shared.lse[i] == -INFINITY)
    return s.emptyRow == EmptyRow::Mean ||
                   (s.emptyRow == EmptyRow::Filled && ofValues)
               ? 1.f / float(s.s)
           : s.emptyRow == EmptyRow::NaN ? NAN
                                         : 0.f;
  return expf(score - shared.lse[i]) / shared.total[i];
}

/// Fills `total`, `delta` and `empty`.
template <typename T>
__global__ void __launch_bounds__(kThreads, 2)
    rowKernel(const T *q, const T *k, AttentionMask mask, SegmentTiles segments,
              const T *o, const T *doutput, RowFacts rows, AttentionShape s,
              Queries wanted) {
  DT_DYNAMIC_SHARED(Shared, shared);
  Place p(s.t, 1, s.h);
  if (!getWord(wanted, p.b, p.h, p.row / kTile))
    return;
  Head<T> head(q, k, k, o, s, p.b, p.h);
  Rows<T> gradient = head.d;
  gradient.data = doutput + (head.d.data - o);
  int row = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  int64_t first = (p.b * s.h + p.h) * s.t + p.row, count = s.t - p.row;
  float sum = 0, total = 0;
  for (int64_t c = lane; c < s.dv; c += kLanes)
    sum += head.d.at(p.row + row, c) * gradient.at(p.row + row, c);
  // A sum over some of the keys is not 1.
  bool precise = false, empty = false; // the same for all threads
  for (int r = 0; r < kTile && r < count; ++r) {
    bool none = rows.lse[first + r] == -INFINITY;
    empty |= none;
    precise |= !s.partial && fabsf(rows.lse[first + r]) > kPreciseLse && !none;
  }
  if (threadIdx.x == 0)
    rows.empty[(p.b * s.h + p.h) * tilesOf(s.t) + p.row / kTile] = empty;
  for (int j0 = 0; precise && j0 < s.s; j0 += kTile) {
    if (isHidden(s, segments, p.b, p.row, j0))
      continue;
    storeProducts(head.q, p.row, head.k, j0, *shared);
    forOwn(*shared, [&](float &x, int i, int j) {
      x = scoreOf(x, mask, s, p.b, p.h, p.row + i, j0 + j);
    });
    __syncthreads();
    for (int c = lane; c < kTile && row < count; c += kLanes)
      total += expf(shared->scores[row][c] - rows.lse[first + row]);
    __syncthreads();
  }
  shared->part[row][lane] = sum;
  shared->scores[row][lane] = total;
  __syncthreads();
  if (lane > 0 || row >= count)
    return;
  for (int l = 1; l < kLanes; ++l)
    sum += shared->part[row][l], total += shared->scores[row][l];
  float lse = rows.lse[first + row];
  bool large = !s.partial && fabsf(lse) > kPreciseLse && lse != -INFINITY;
  rows.delta[first + row] = sum;
  rows.total[first + row] = large ? total : 1.f;
}

enum class Gradient { Query, Key, Value };

/// Whether a tile of scores has no probabilities: hidden, and no row is empty
/// that has the same for all keys.
__device__ bool isNothing(const AttentionShape &s, const SegmentTiles &segments,
                          const RowFacts &rows, int64_t b, int64_t h, int i,
                          int j) {
  return isHidden(s, segments, b, i, j) &&
         (s.emptyRow == EmptyRow::Zero ||
          !rows.empty[(b * s.h + h) * tilesOf(s.t) + i / kTile]);
}

/// Turns probabilities of a tile into gradients of its products of queries and
/// keys. `byRow`: a row of the tile is a query, else a column is.
template <typename T>
__device__ void toScoreGradients(const Rows<T> &a, int firstA, const Rows<T> &b,
                                 int firstB, bool byRow, float scale,
                                 Shared &shared) {
  float dp[kEach][kEach] = {};
  multiplyRows(dp, a, firstA, b, firstB, shared);
#pragma unroll
  for (int i = 0; i < kEach; ++i)
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      float mean = shared.delta[byRow ? rowOf(i) : columnOf(j)];
      shared.scores[rowOf(i)][columnOf(j)] *= (dp[i][j] - mean) * scale;
    }
}

/// dq, dk or dv. The rows that a block owns are queries or keys; it walks over
/// tiles of the others, for keys those of all heads that share them. Of keys,
/// what a set of queries gives is added to what is there.
template <Gradient kind, typename T>
__global__ void __launch_bounds__(kThreads, 2)
    gradientKernel(const T *q, const T *k, const T *v, AttentionMask mask,
                   SegmentTiles segments, const T *doutput, RowFacts rows,
                   T *result, HeadStrides strides, AttentionShape s,
                   Queries wanted) {
  DT_DYNAMIC_SHARED(Shared, shared);
  constexpr bool ofQueries = kind == Gradient::Query,
                 ofValues = kind == Gradient::Value;
  int own = int(ofQueries ? s.t : s.s), others = int(ofQueries ? s.s : s.t),
      width = int(ofValues ? s.dv : s.d);
  int64_t group = ofQueries ? 1 : s.h / s.hk;
  Place p(own, width, s.h / group);
  float sums[kEach][kWide] = {};
  bool any = false;
  for (int64_t h = p.h * group; h < (p.h + 1) * group; ++h) {
    Head<T> head(q, k, v, doutput, s, p.b, h);
    int64_t row = (p.b * s.h + h) * s.t;
    for (int other = 0; other < others; other += kTile) {
      int i0 = ofQueries ? p.row : other, j0 = ofQueries ? other : p.row;
      uint64_t word = getWord(wanted, p.b, h, i0 / kTile);
      if (!word || isNothing(s, segments, rows, p.b, h, i0, j0))
        continue;
      any = true;
      if (int i = threadIdx.x; i < kTile) {
        bool inside = i0 + i < s.t;
        shared->lse[i] = inside ? rows.lse[row + i0 + i] : 0.f;
        shared->total[i] = inside ? rows.total[row + i0 + i] : 1.f;
        shared->delta[i] = inside ? rows.delta[row + i0 + i] : 0.f;
      }
      __syncthreads();
      storeProducts(ofQueries ? head.q : head.k, p.row,
                    ofQueries ? head.k : head.q, other, *shared);
      forOwn(*shared, [&](float &x, int a, int b) {
        int i = ofQueries ? a : b, j = j0 + (ofQueries ? b : a);
        bool isOne = i0 + i < s.t && j < s.s && (word >> i & 1);
        float slope = ofValues ? 1.f : slopeOf(s.scale * x, s);
        x = isOne ? probability(scoreOf(x, mask, s, p.b, h, i0 + i, j), *shared,
                                i, ofValues, s) *
                        slope
                  : 0.f;
      });
      if (!ofValues)
        toScoreGradients(ofQueries ? head.d : head.v, p.row,
                         ofQueries ? head.v : head.d, other, ofQueries, s.scale,
                         *shared);
      addWeighted(sums,
                  ofQueries  ? head.k
                  : ofValues ? head.d
                             : head.q,
                  other, p.column, *shared);
    }
  }
  bool adds = !ofQueries && wanted.words;
  if (adds && !any)
    return;
#pragma unroll
  for (int i = 0; i < kEach; ++i)
#pragma unroll
    for (int j = 0; j < kWide; ++j) {
      int r = p.row + rowOf(i), c = p.column + columnOf(j);
      if (r >= own || c >= width ||
          (ofQueries && !contains(wanted, p.b, p.h, r)))
        continue;
      T &to = result[p.b * strides.batch + r * strides.row +
                     p.h * strides.head + c];
      to = adds ? float(to) + sums[i][j] : sums[i][j];
    }
}

template <typename T>
void forward(const T *q, const T *k, const T *v, AttentionMask mask, T *o,
             float *lse, const AttentionShape &s, const Queries &wanted,
             void *stream) {
  size_t bounds = SegmentTiles::getBytes(s);
  SegmentTiles segments =
      findBounds(mask, s, bounds ? cuda::scratch(1, bounds) : nullptr, stream);
  // A head of size 0 has a log-sum-exp.
  if (unsigned blocks = blocksFor(s.b, s.h, s.t, s.dv > 0 ? s.dv : 1))
    cuda::launch("attention forward", forwardKernel<T>, blocks, kThreads,
                 sizeof(Shared), stream, q, k, v, mask, segments, o, lse, s,
                 wanted);
}

template <typename T>
void backward(const T *q, const T *k, const T *v, AttentionMask mask,
              const T *o, const float *lse, const T *doutput, T *dq, T *dk,
              T *dv, const AttentionShape &s, const Queries &wanted,
              void *stream) {
  int64_t n = s.b * s.h * s.t;
  // Bounds of segments, then facts of rows, then of tiles.
  size_t bounds = SegmentTiles::getBytes(s);
  auto *memory = static_cast<char *>(
      cuda::scratch(1, bounds + 2 * n * sizeof(float) +
                           s.b * s.h * tilesOf(s.t) * sizeof(bool) + 1));
  auto *facts = reinterpret_cast<float *>(memory + bounds);
  RowFacts rows{lse, facts, facts + n, reinterpret_cast<bool *>(facts + 2 * n)};
  SegmentTiles segments = findBounds(mask, s, memory, stream);
  if (n > 0)
    cuda::launch("rows of an attention gradient", rowKernel<T>,
                 blocksFor(s.b, s.h, s.t, 1), kThreads, sizeof(Shared), stream,
                 q, k, mask, segments, o, doutput, rows, s, wanted);
  auto run = [&](auto kernel, const char *name, unsigned blocks, T *result,
                 const HeadStrides &strides) {
    if (blocks)
      cuda::launch(name, kernel, blocks, kThreads, sizeof(Shared), stream, q, k,
                   v, mask, segments, doutput, rows, result, strides, s,
                   wanted);
  };
  run(gradientKernel<Gradient::Query, T>, "attention gradient of queries",
      blocksFor(s.b, s.h, s.t, s.d), dq, s.getDq());
  run(gradientKernel<Gradient::Key, T>, "attention gradient of keys",
      blocksFor(s.b, s.hk, s.s, s.d), dk, s.getDk());
  run(gradientKernel<Gradient::Value, T>, "attention gradient of values",
      blocksFor(s.b, s.hk, s.s, s.dv), dv, s.getDv());
}

/// Queues a call in the way that does least: cuDNN computes all scores where
/// something hides keys that is no rule of its own.
template <typename Rows, typename Cudnn, typename Own>
void attendBest(const AttentionShape &s, Rows byRows, Cudnn byCudnn, Own own) {
  bool taken =
      cudnn::hasBias(s) ? byRows() || byCudnn() : byCudnn() || byRows();
  if (!taken || cuda::rehearsing)
    own();
  // A smaller shape may need another way, and nothing is loaded in a step.
  if (cuda::rehearsing)
    byRows();
}

} // namespace

void attentionForward(const float *q, const float *k, const float *v,
                      AttentionMask mask, float *o, float *lse,
                      const AttentionShape &s, void *stream) {
  forward(q, k, v, mask, o, lse, s, {}, stream);
}

void attentionBackward(const float *q, const float *k, const float *v,
                       AttentionMask mask, const float *o, const float *lse,
                       const float *doutput, float *dq, float *dk, float *dv,
                       const AttentionShape &s, void *stream) {
  backward(q, k, v, mask, o, lse, doutput, dq, dk, dv, s, {}, stream);
}

void attentionForward(const bf16 *q, const bf16 *k, const bf16 *v,
                      AttentionMask mask, bf16 *o, float *lse,
                      const AttentionShape &s, void *stream) {
  auto byRows = [&] {
    return tensor::attend(s, q, k, v, mask, o, lse, stream);
  };
  auto byCudnn = [&] {
    return cudnn::attend(s, q, k, v, mask, o, lse, stream);
  };
  attendBest(s, byRows, byCudnn,
             [&] { forward(q, k, v, mask, o, lse, s, {}, stream); });
}

void attentionBackward(const bf16 *q, const bf16 *k, const bf16 *v,
                       AttentionMask mask, const bf16 *o, const float *lse,
                       const bf16 *doutput, bf16 *dq, bf16 *dk, bf16 *dv,
                       const AttentionShape &s, void *stream) {
  auto byRows = [&] {
    return tensor::attendBackward(s, q, k, v, mask, o, lse, doutput, dq, dk, dv,
                                  stream);
  };
  auto byCudnn = [&] {
    return cudnn::attendBackward(s, q, k, v, mask, o, lse, doutput, dq, dk, dv,
                                 stream);
  };
  attendBest(s, byRows, byCudnn, [&] {
    backward(q, k, v, mask, o, lse, doutput, dq, dk, dv, s, {}, stream);
  });
}

void mendForward(const bf16 *q, const bf16 *k, const bf16 *v,
                 AttentionMask mask, bf16 *o, float *lse,
                 const AttentionShape &s, const Queries &queries,
                 void *stream) {
  forward(q, k, v, mask, o, lse, s, queries, stream);
}

void mendBackward(const bf16 *q, const bf16 *k, const bf16 *v,
                  AttentionMask mask, const bf16 *o, const float *lse,
                  const bf16 *doutput, bf16 *dq, bf16 *dk, bf16 *dv,
                  const AttentionShape &s, const Queries &queries,
                  void *stream) {
  backward(q, k, v, mask, o, lse, doutput, dq, dk, dv, s, queries, stream);
}

} // namespace dt::rt
