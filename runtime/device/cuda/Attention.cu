//===- Attention.cu - softmax attention on the GPU ------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Simple kernels that keep no score matrix: one block a query row, keys in
// tiles with a running maximum (Dao et al., FlashAttention, algorithm 1,
// without its blocking of queries). The backward recomputes probabilities from
// the saved log-sum-exp; dk and dv come from a block a key row that walks over
// the queries, so nothing is added atomically and runs repeat bit by bit. Made
// to be right, not fast.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/Calls.h"
#include "runtime/device/cuda/Cuda.h"

namespace dt::rt {

namespace {

constexpr int kThreads = 128; ///< a block, and keys (queries) a tile
constexpr float kPreciseLse =
    1e3f; ///< above, the rounding of the log-sum-exp itself would show

__device__ float blockReduce(float value, bool maximum) {
  __shared__ float part[kThreads];
  part[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (int(threadIdx.x) < half) {
      float other = part[threadIdx.x + half];
      part[threadIdx.x] =
          maximum ? fmaxf(part[threadIdx.x], other) : part[threadIdx.x] + other;
    }
    __syncthreads();
  }
  float result = part[0];
  __syncthreads();
  return result;
}

template <typename T> __device__ float dot(const T *a, const T *b, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += float(a[i]) * float(b[i]);
  return sum;
}

/// The scaled and masked score of query i and key j, -inf where j is not
/// visible.
template <typename T>
__device__ float score(const T *q, const T *k, const void *mask,
                       const AttentionShape &s, int64_t b, int64_t h, int64_t i,
                       int64_t j) {
  if (s.causal && j > i + (s.s - s.t))
    return -INFINITY;
  float bias = 0;
  int64_t at = b * s.maskB + h * s.maskH + i * s.maskT + j * s.maskS;
  if (s.mask == MaskKind::Boolean && !static_cast<const uint8_t *>(mask)[at])
    return -INFINITY;
  if (s.mask == MaskKind::Additive)
    bias = static_cast<const float *>(mask)[at];
  if (s.mask == MaskKind::AdditiveNarrow)
    bias = static_cast<const bf16 *>(mask)[at];
  return s.scale * dot(q, k, s.d) + bias;
}

/// Probability of a key in a row with log-sum-exp `lse`, whose probabilities
/// would add up to `total`; an empty row gives the same to all keys.
__device__ float probability(float x, float lse, float total,
                             const AttentionShape &s) {
  if (lse == -INFINITY)
    return s.emptyRow == EmptyRow::Mean  ? 1.f / float(s.s)
           : s.emptyRow == EmptyRow::NaN ? NAN
                                         : 0.f;
  return expf(x - lse) / total;
}

struct Row {
  int64_t b, h, i;
};

__device__ Row rowOf(int64_t index, int64_t heads, int64_t length) {
  return {index / (heads * length), index / length % heads, index % length};
}

/// Shared memory: dv floats of the output.
template <typename T>
__global__ void forwardKernel(const T *q, const T *k, const T *v,
                              const void *mask, T *o, float *lse,
                              AttentionShape s) {
  DT_DYNAMIC_SHARED(float, acc);
  __shared__ float p[kThreads];
  Row r = rowOf(blockIdx.x, s.h, s.t);
  int64_t kv = r.h / (s.h / s.hk);
  const T *qi = q + r.b * s.qb + r.i * s.qt + r.h * s.qh;
  const T *kk = k + r.b * s.kb + kv * s.kh, *vv = v + r.b * s.vb + kv * s.vh;
  for (int64_t c = threadIdx.x; c < s.dv; c += kThreads)
    acc[c] = 0;
  float highest = -INFINITY, sum = 0;
  for (int64_t first = 0; first < s.s; first += kThreads) {
    int64_t j = first + threadIdx.x,
            count = min(int64_t(kThreads), s.s - first);
    float x = j < s.s ? score(qi, kk + j * s.ks, mask, s, r.b, r.h, r.i, j)
                      : -INFINITY;
    float top = fmaxf(highest, blockReduce(x, true));
    if (top == -INFINITY)
      continue;
    float shrink = expf(highest - top);
    p[threadIdx.x] = expf(x - top);
    sum = sum * shrink + blockReduce(p[threadIdx.x], false);
    for (int64_t c = threadIdx.x; c < s.dv; c += kThreads) {
      float value = acc[c] * shrink;
      for (int64_t t = 0; t < count; ++t)
        value += p[t] * float(vv[(first + t) * s.vs + c]);
      acc[c] = value;
    }
    highest = top;
    __syncthreads();
  }
  bool empty = highest == -INFINITY;
  T *oi = o + r.b * s.ob + r.i * s.ot + r.h * s.oh;
  for (int64_t c = threadIdx.x; c < s.dv; c += kThreads) {
    float value = !empty                                   ? acc[c] / sum
                  : s.emptyRow == EmptyRow::NaN && s.s > 0 ? NAN
                                                           : 0.f;
    if (empty && s.emptyRow == EmptyRow::Mean)
      for (int64_t j = 0; j < s.s; ++j)
        value += float(vv[j * s.vs + c]) / float(s.s);
    oi[c] = value;
  }
  if (threadIdx.x == 0)
    lse[blockIdx.x] = empty ? -INFINITY : highest + logf(sum);
}

/// What exp(score - lse) of a row adds up to: 1 but for the rounding of a large
/// lse. For all threads of a block.
template <typename T>
__device__ float totalOf(const T *qi, const T *k, const void *mask, float lse,
                         const Row &r, const AttentionShape &s) {
  if (!(fabsf(lse) > kPreciseLse) || lse == -INFINITY)
    return 1;
  float sum = 0;
  for (int64_t j = threadIdx.x; j < s.s; j += kThreads)
    sum += expf(score(qi, k + j * s.ks, mask, s, r.b, r.h, r.i, j) - lse);
  return blockReduce(sum, false);
}

/// dq, a block a query row. Also leaves sum(do * o) of the row in `delta`, and
/// behind all of these what its probabilities add up to.
template <typename T>
__global__ void queryKernel(const T *q, const T *k, const T *v,
                            const void *mask, const T *o, const float *lse,
                            const T *doutput, T *dq, float *delta,
                            AttentionShape s) {
  __shared__ float ds[kThreads];
  DT_DYNAMIC_SHARED(float, acc);
  Row r = rowOf(blockIdx.x, s.h, s.t);
  int64_t kv = r.h / (s.h / s.hk), at = r.b * s.ob + r.i * s.ot + r.h * s.oh;
  const T *qi = q + r.b * s.qb + r.i * s.qt + r.h * s.qh,
          *kk = k + r.b * s.kb + kv * s.kh;
  const T *vv = v + r.b * s.vb + kv * s.vh;
  float part = 0;
  for (int64_t c = threadIdx.x; c < s.dv; c += kThreads)
    part += float(doutput[at + c]) * float(o[at + c]);
  float rowDelta = blockReduce(part, false),
        total = totalOf(qi, kk, mask, lse[blockIdx.x], r, s);
  for (int64_t c = threadIdx.x; c < s.d; c += kThreads)
    acc[c] = 0;
  for (int64_t first = 0; first < s.s; first += kThreads) {
    int64_t j = first + threadIdx.x,
            count = min(int64_t(kThreads), s.s - first);
    ds[threadIdx.x] = 0;
    if (j < s.s) {
      float x = score(qi, kk + j * s.ks, mask, s, r.b, r.h, r.i, j);
      float dp = dot(doutput + at, vv + j * s.vs, s.dv);
      ds[threadIdx.x] =
          probability(x, lse[blockIdx.x], total, s) * (dp - rowDelta) * s.scale;
    }
    __syncthreads();
    for (int64_t c = threadIdx.x; c < s.d; c += kThreads) {
      float value = acc[c];
      for (int64_t t = 0; t < count; ++t)
        value += ds[t] * float(kk[(first + t) * s.ks + c]);
      acc[c] = value;
    }
    __syncthreads();
  }
  T *dqi = dq + r.b * s.qb + r.i * s.qt + r.h * s.qh;
  for (int64_t c = threadIdx.x; c < s.d; c += kThreads)
    dqi[c] = acc[c];
  if (threadIdx.x == 0) {
    delta[blockIdx.x] = rowDelta;
    delta[gridDim.x + blockIdx.x] = total;
  }
}

/// dk and dv, a block a key row: all queries of all heads of the group, in
/// order.
template <typename T>
__global__ void keyKernel(const T *q, const T *k, const T *v, const void *mask,
                          const float *lse, const float *delta,
                          const T *doutput, T *dk, T *dv, AttentionShape s) {
  __shared__ float ds[kThreads], p[kThreads];
  DT_DYNAMIC_SHARED(float, acc); // d of dk, then dv of dv
  Row r = rowOf(blockIdx.x, s.hk, s.s);
  int64_t group = s.h / s.hk, j = r.i;
  const T *kj = k + r.b * s.kb + j * s.ks + r.h * s.kh,
          *vj = v + r.b * s.vb + j * s.vs + r.h * s.vh;
  for (int64_t c = threadIdx.x; c < s.d + s.dv; c += kThreads)
    acc[c] = 0;
  for (int64_t h = r.h * group; h < (r.h + 1) * group; ++h) {
    const T *qq = q + r.b * s.qb + h * s.qh,
            *dd = doutput + r.b * s.ob + h * s.oh;
    for (int64_t first = 0; first < s.t; first += kThreads) {
      int64_t i = first + threadIdx.x,
              count = min(int64_t(kThreads), s.t - first);
      ds[threadIdx.x] = p[threadIdx.x] = 0;
      if (i < s.t) {
        int64_t row = (r.b * s.h + h) * s.t + i;
        float x = score(qq + i * s.qt, kj, mask, s, r.b, h, i, j);
        float prob = probability(x, lse[row], delta[s.b * s.h * s.t + row], s);
        p[threadIdx.x] = prob;
        ds[threadIdx.x] =
            prob * (dot(dd + i * s.ot, vj, s.dv) - delta[row]) * s.scale;
      }
      __syncthreads();
      for (int64_t c = threadIdx.x; c < s.d + s.dv; c += kThreads) {
        float value = acc[c];
        for (int64_t t = 0; t < count; ++t)
          value += c < s.d ? ds[t] * float(qq[(first + t) * s.qt + c])
                           : p[t] * float(dd[(first + t) * s.ot + c - s.d]);
        acc[c] = value;
      }
      __syncthreads();
    }
  }
  T *dkj = dk + r.b * s.kb + j * s.ks + r.h * s.kh,
    *dvj = dv + r.b * s.vb + j * s.vs + r.h * s.vh;
  for (int64_t c = threadIdx.x; c < s.d + s.dv; c += kThreads)
    (c < s.d ? dkj[c] : dvj[c - s.d]) = acc[c];
}

template <typename T>
void forward(const T *q, const T *k, const T *v, const void *mask, T *o,
             float *lse, const AttentionShape &s, void *stream) {
  int64_t rows = s.b * s.h * s.t;
  if (rows == 0)
    return;
  cuda::launch("attention forward", forwardKernel<T>, unsigned(rows), kThreads,
               s.dv * sizeof(float), stream, q, k, v, mask, o, lse, s);
}

template <typename T>
void backward(const T *q, const T *k, const T *v, const void *mask, const T *o,
              const float *lse, const T *doutput, T *dq, T *dk, T *dv,
              const AttentionShape &s, void *stream) {
  int64_t rows = s.b * s.h * s.t, keys = s.b * s.hk * s.s;
  auto *delta = static_cast<float *>(
      cuda::scratch(1, (rows ? 2 * rows : 1) * sizeof(float)));
  if (rows)
    cuda::launch("attention gradient of queries", queryKernel<T>,
                 unsigned(rows), kThreads, s.d * sizeof(float), stream, q, k, v,
                 mask, o, lse, doutput, dq, delta, s);
  if (keys)
    cuda::launch("attention gradient of keys", keyKernel<T>, unsigned(keys),
                 kThreads, (s.d + s.dv) * sizeof(float), stream, q, k, v, mask,
                 lse, delta, doutput, dk, dv, s);
}

} // namespace

void attentionForward(const float *q, const float *k, const float *v,
                      const void *mask, float *o, float *lse,
                      const AttentionShape &s, void *stream) {
  forward(q, k, v, mask, o, lse, s, stream);
}

void attentionBackward(const float *q, const float *k, const float *v,
                       const void *mask, const float *o, const float *lse,
                       const float *doutput, float *dq, float *dk, float *dv,
                       const AttentionShape &s, void *stream) {
  backward(q, k, v, mask, o, lse, doutput, dq, dk, dv, s, stream);
}

void attentionForward(const bf16 *q, const bf16 *k, const bf16 *v,
                      const void *mask, bf16 *o, float *lse,
                      const AttentionShape &s, void *stream) {
  forward(q, k, v, mask, o, lse, s, stream);
}

void attentionBackward(const bf16 *q, const bf16 *k, const bf16 *v,
                       const void *mask, const bf16 *o, const float *lse,
                       const bf16 *doutput, bf16 *dq, bf16 *dk, bf16 *dv,
                       const AttentionShape &s, void *stream) {
  backward(q, k, v, mask, o, lse, doutput, dq, dk, dv, s, stream);
}

} // namespace dt::rt
