//===- Attention.cpp - softmax attention for generated code -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Scores of a tile of queries against all keys that any of them may see
// (AttentionKeys.h) lie in a thread's scratch; products are sgemm calls of one
// thread. Forward is parallel
// over (batch, head, tile); backward over (batch, key/value head), so that
// every sum into dk and dv is made by one thread in a fixed order. Narrow
// operands are widened first.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu/Attention.h"
#include "runtime/device/cpu/AttentionKeys.h"
#include "runtime/device/cpu/Wide.h"
#include "runtime/device/cpu/vecmath.h"

#include <algorithm>
#include <cmath>

namespace dt::rt {

namespace {

constexpr int64_t kTile = kAttentionTile;
constexpr float kPreciseLse =
    1e3f; ///< above, the rounding of the log-sum-exp itself would show
constexpr float kMinusInf = -kInf;

void gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha,
          const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
          float *c, int64_t ldc) {
  if (m == 0 || n == 0)
    return;
  if (k == 0) { // a leading dim of 0 is refused: heads of size 0
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        c[i * ldc + j] = beta == 0 ? 0.f : beta * c[i * ldc + j];
    return;
  }
  // A leading dim is checked even where one row makes it meaningless.
  lda = std::max(lda, ta ? m : k), ldb = std::max(ldb, tb ? k : n),
  ldc = std::max(ldc, n);
  sgemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

/// A tile of queries of one head.
struct Tile {
  const AttentionShape &s;
  const AttentionKeys &keys;
  const void *mask;
  int64_t batch, head, first, count;

  /// Hides keys of a row of scores, and adds the mask's numbers to the others.
  void maskRow(int64_t i, const KeyRuns &runs, float *x) const {
    for (const KeyRun &run : runs) {
      addMask(i, run, x + run.column);
      keys.hide(batch, first + i, run, x + run.column);
    }
  }

private:
  void addMask(int64_t i, const KeyRun &run, float *x) const {
    if (s.mask == MaskKind::None)
      return;
    int64_t n = run.end - run.begin, step = s.maskS,
            offset = batch * s.maskB + head * s.maskH + (first + i) * s.maskT +
                     run.begin * step;
    if (s.mask == MaskKind::Additive) {
      const float *m = static_cast<const float *>(mask) + offset;
#pragma omp simd
      for (int64_t j = 0; j < n; ++j)
        x[j] += m[j * step];
    } else {
      const uint8_t *m = static_cast<const uint8_t *>(mask) + offset;
#pragma omp simd
      for (int64_t j = 0; j < n; ++j)
        x[j] = m[j * step] ? x[j] : kMinusInf;
    }
  }
};

/// Caps scaled scores in place; `slopes`, unless null, is what their gradients
/// are times.
void capScores(const AttentionShape &s, float *x, float *slopes, int64_t n) {
  float cap = s.softCap, inverse = 1 / cap;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    float t = dt::rt::tanh(x[i] * inverse);
    x[i] = cap * t;
    if (slopes)
      slopes[i] = 1 - t * t;
  }
}

/// Whether a row in which all keys are hidden takes the mean of their values.
bool takesMean(const AttentionShape &s) {
  return s.emptyRow == EmptyRow::Mean || s.emptyRow == EmptyRow::Filled;
}

/// What a row in which all keys are hidden has for probabilities, before those
/// of a mean are added.
float hiddenShare(const AttentionShape &s) {
  return s.emptyRow == EmptyRow::NaN && s.s > 0 ? kNaN : 0.f;
}

/// In lanes of its own making: clang takes a reduction(max) of floats only with
/// -ffast-math.
float maxOf(const float *x, int64_t n) {
  constexpr int64_t kLanes = 16;
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, kMinusInf);
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes)
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l)
      lanes[l] = x[j + l] > lanes[l] ? x[j + l] : lanes[l];
  for (; j < n; ++j)
    lanes[0] = x[j] > lanes[0] ? x[j] : lanes[0];
  return *std::max_element(lanes, lanes + kLanes);
}

/// x = exp(x - m); returns the sum.
float expRow(float *x, int64_t n, float m) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < n; ++j) {
    float e = dt::rt::exp(x[j] - m);
    x[j] = e;
    sum += e;
  }
  return sum;
}

float dot(const float *a, const float *b, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < n; ++j)
    sum += a[j] * b[j];
  return sum;
}

void axpy(float alpha, const float *x, float *y, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j)
    y[j] += alpha * x[j];
}

struct Head {
  const float *q, *k, *v;
};

/// Empty tensors may have no address, and moving a null pointer is undefined.
template <typename T> T *at(T *base, int64_t offset) {
  return base ? base + offset : nullptr;
}

Head headOf(const float *q, const float *k, const float *v,
            const AttentionShape &s, int64_t b, int64_t h) {
  int64_t kv = h / (s.h / s.hk);
  return {at(q, b * s.qb + h * s.qh), at(k, b * s.kb + kv * s.kh),
          at(v, b * s.vb + kv * s.vh)};
}

void forwardTile(const Tile &tile, const Head &head, float *o, float *lse,
                 Scratch &scratch) {
  const AttentionShape &s = tile.s;
  scratch.reset();
  KeyRuns runs = tile.keys.find(tile.batch, tile.first, tile.count, scratch);
  int64_t width = runs.width;
  float *x = scratch.floats(tile.count * std::max<int64_t>(width, 1));
  float *inverse = scratch.floats(tile.count);
  for (const KeyRun &run : runs)
    gemm(false, true, tile.count, run.end - run.begin, s.d, s.scale,
         head.q + tile.first * s.qt, s.qt, head.k + run.begin * s.ks, s.ks, 0,
         x + run.column, width);
  if (s.softCap != 0)
    capScores(s, x, nullptr, tile.count * width);
  for (int64_t i = 0; i < tile.count; ++i) {
    float *row = x + i * width;
    tile.maskRow(i, runs, row);
    float m = maxOf(row, width);
    float sum = expRow(row, width, m == kMinusInf ? 0.f : m);
    bool empty = sum == 0; // not where a score is no number
    lse[tile.first + i] = empty ? kMinusInf : m + std::log(sum);
    inverse[i] = empty ? 0.f : 1 / sum;
  }
  float *out = o + tile.first * s.ot;
  for (const KeyRun &run : runs)
    gemm(false, false, tile.count, s.dv, run.end - run.begin, 1, x + run.column,
         width, head.v + run.begin * s.vs, s.vs, run.column > 0 ? 1 : 0, out,
         s.ot);
  for (int64_t i = 0; i < tile.count; ++i) {
    float *row = out + i * s.ot;
    if (lse[tile.first + i] != kMinusInf) {
      for (int64_t j = 0; j < s.dv; ++j)
        row[j] *= inverse[i];
      continue;
    }
    std::fill_n(row, s.dv, hiddenShare(s));
    if (takesMean(s))
      for (int64_t j = 0; j < s.s; ++j)
        axpy(1.f / float(s.s), head.v + j * s.vs, row, s.dv);
  }
}

/// Gradient pointers of one (batch, head): dk, dv are those of its key/value
/// head.
struct Gradients {
  const float *o, *doutput, *lse;
  float *dq, *dk, *dv;
  int64_t dqRow, dkRow, dvRow; ///< from one row to the next
};

/// A query that sees no key and takes the mean: p = 1 / s for all keys, visible
/// or not. Scores that a number was put for have no gradient.
void backwardEmptyRow(const AttentionShape &s, const Head &head,
                      const Gradients &g, int64_t i, float *p) {
  const float *doi = g.doutput + i * s.ot, *qi = head.q + i * s.qt;
  float delta = dot(doi, g.o + i * s.ot, s.dv), share = 1.f / float(s.s);
  for (int64_t j = 0; j < s.s; ++j)
    axpy(share, doi, g.dv + j * g.dvRow, s.dv);
  if (s.emptyRow == EmptyRow::Filled)
    return;
  for (int64_t j = 0; j < s.s; ++j) {
    p[j] = (dot(doi, head.v + j * s.vs, s.dv) - delta) * share * s.scale;
    if (s.softCap != 0) {
      float score = s.scale * dot(qi, head.k + j * s.ks, s.d), slope;
      capScores(s, &score, &slope, 1);
      p[j] *= slope;
    }
  }
  for (int64_t j = 0; j < s.s; ++j) {
    axpy(p[j], head.k + j * s.ks, g.dq + i * g.dqRow, s.d);
    axpy(p[j], qi, g.dk + j * g.dkRow, s.d);
  }
}

/// Probabilities of a tile from its masked scores, in place.
void recomputeRows(const Tile &tile, const KeyRuns &runs, const float *lse,
                   float *x) {
  int64_t width = runs.width;
  for (int64_t i = 0; i < tile.count; ++i) {
    float *row = x + i * width, l = lse[tile.first + i];
    tile.maskRow(i, runs, row);
    if (std::fabs(l) <= kPreciseLse || (tile.s.partial && l != kMinusInf)) {
      expRow(row, width, l);
      continue;
    }
    if (l == kMinusInf) {
      std::fill_n(row, width, hiddenShare(tile.s));
      continue;
    }
    float sum = expRow(row, width, maxOf(row, width));
    for (int64_t j = 0; j < width; ++j)
      row[j] /= sum;
  }
}

/// A query that sees no key, and is no number, makes that of all keys.
bool spreadsNaN(const Tile &tile, const float *lse) {
  const float *first = lse + tile.first, *end = first + tile.count;
  return tile.s.emptyRow == EmptyRow::NaN &&
         std::find(first, end, kMinusInf) != end;
}

void backwardTile(const Tile &tile, const Head &head, const Gradients &g,
                  Scratch &scratch) {
  const AttentionShape &s = tile.s;
  scratch.reset();
  KeyRuns runs =
      spreadsNaN(tile, g.lse)
          ? tile.keys.all(scratch)
          : tile.keys.find(tile.batch, tile.first, tile.count, scratch);
  int64_t width = runs.width, n = tile.count;
  const float *q = head.q + tile.first * s.qt,
              *doutput = g.doutput + tile.first * s.ot;
  float *dq = g.dq + tile.first * g.dqRow;
  if (width > 0) {
    float *p = scratch.floats(n * width), *ds = scratch.floats(n * width),
          *slopes = s.softCap != 0 ? scratch.floats(n * width) : nullptr;
    for (const KeyRun &run : runs) {
      int64_t some = run.end - run.begin;
      gemm(false, true, n, some, s.d, s.scale, q, s.qt,
           head.k + run.begin * s.ks, s.ks, 0, p + run.column, width);
      gemm(false, true, n, some, s.dv, 1, doutput, s.ot,
           head.v + run.begin * s.vs, s.vs, 0, ds + run.column, width);
    }
    if (slopes)
      capScores(s, p, slopes, n * width);
    recomputeRows(tile, runs, g.lse, p);
    for (const KeyRun &run : runs)
      gemm(true, false, run.end - run.begin, s.dv, n, 1, p + run.column, width,
           doutput, s.ot, 1, g.dv + run.begin * g.dvRow, g.dvRow);
    for (int64_t i = 0; i < n; ++i) {
      float *pi = p + i * width, *dsi = ds + i * width;
      // The same as sum(doutput * o), of what is not rounded: an o in bf16 is
      // off by more than keys that are alike differ by. It is a sum over all
      // keys.
      float delta = s.partial ? dot(doutput + i * s.ot,
                                    g.o + (tile.first + i) * s.ot, s.dv)
                              : dot(pi, dsi, width);
#pragma omp simd
      for (int64_t j = 0; j < width; ++j)
        dsi[j] = pi[j] * (dsi[j] - delta) * s.scale;
      if (slopes)
#pragma omp simd
        for (int64_t j = 0; j < width; ++j)
          dsi[j] *= slopes[i * width + j];
    }
    for (const KeyRun &run : runs) {
      int64_t some = run.end - run.begin;
      gemm(false, false, n, s.d, some, 1, ds + run.column, width,
           head.k + run.begin * s.ks, s.ks, run.column > 0 ? 1 : 0, dq,
           g.dqRow);
      gemm(true, false, some, s.d, n, 1, ds + run.column, width, q, s.qt, 1,
           g.dk + run.begin * g.dkRow, g.dkRow);
    }
  } else {
    for (int64_t i = 0; i < n; ++i)
      std::fill_n(dq + i * g.dqRow, s.d, 0.f);
  }
  if (!takesMean(s))
    return;
  for (int64_t i = tile.first; i < tile.first + n; ++i)
    if (g.lse[i] == kMinusInf)
      backwardEmptyRow(s, head, g, i, scratch.floats(s.s));
}

} // namespace

void attentionForward(const float *q, const float *k, const float *v,
                      AttentionMask mask, float *o, float *lse,
                      const AttentionShape &s) {
  AttentionKeys keys(s, mask);
  int64_t tiles = (s.t + kTile - 1) / kTile, work = s.b * s.h * tiles;
  // Tiles differ in cost when causal: deal them out one by one, in a fixed way.
#pragma omp parallel for schedule(static, 1)
  for (int64_t i = 0; i < work; ++i) {
    int64_t b = i / (s.h * tiles), h = i / tiles % s.h,
            first = i % tiles * kTile;
    Tile tile{s, keys, mask.mask, b, h, first, std::min(kTile, s.t - first)};
    forwardTile(tile, headOf(q, k, v, s, b, h), o + b * s.ob + h * s.oh,
                lse + (b * s.h + h) * s.t, threadScratch());
  }
}

void attentionBackward(const float *q, const float *k, const float *v,
                       AttentionMask mask, const float *o, const float *lse,
                       const float *doutput, float *dq, float *dk, float *dv,
                       const AttentionShape &s) {
  AttentionKeys keys(s, mask);
  int64_t group = s.h / s.hk;
  HeadStrides sq = s.getDq(), sk = s.getDk(), sv = s.getDv();
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < s.b * s.hk; ++i) {
    int64_t b = i / s.hk, kv = i % s.hk;
    float *dki = at(dk, b * sk.batch + kv * sk.head),
          *dvi = at(dv, b * sv.batch + kv * sv.head);
    for (int64_t j = 0; j < s.s; ++j) {
      std::fill_n(dki + j * sk.row, s.d, 0.f);
      std::fill_n(dvi + j * sv.row, s.dv, 0.f);
    }
    for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      int64_t row = b * s.ob + h * s.oh;
      Gradients g{at(o, row),
                  at(doutput, row),
                  at(lse, (b * s.h + h) * s.t),
                  at(dq, b * sq.batch + h * sq.head),
                  dki,
                  dvi,
                  sq.row,
                  sk.row,
                  sv.row};
      for (int64_t first = 0; first < s.t; first += kTile) {
        Tile tile{
            s, keys, mask.mask, b, h, first, std::min(kTile, s.t - first)};
        backwardTile(tile, headOf(q, k, v, s, b, h), g, threadScratch());
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// Narrow operands
//===----------------------------------------------------------------------===//

namespace {

/// A tensor [batch, rows, heads, size]: from its first element to its last.
struct Extents {
  int64_t batch, batchStride, rows, rowStride, heads, headStride, size;

  int64_t count() const { return batch * rows * heads * size; }
  int64_t span() const {
    return count() == 0 ? 0
                        : (batch - 1) * batchStride + (rows - 1) * rowStride +
                              (heads - 1) * headStride + size;
  }
};

Extents queries(const AttentionShape &s) {
  return {s.b, s.qb, s.t, s.qt, s.h, s.qh, s.d};
}
Extents keys(const AttentionShape &s) {
  return {s.b, s.kb, s.s, s.ks, s.hk, s.kh, s.d};
}
Extents values(const AttentionShape &s) {
  return {s.b, s.vb, s.s, s.vs, s.hk, s.vh, s.dv};
}
Extents outputs(const AttentionShape &s) {
  return {s.b, s.ob, s.t, s.ot, s.h, s.oh, s.dv};
}

/// Operands as floats, and the shape with a mask of floats.
struct WideAttention {
  WideAttention(const AttentionShape &shape, AttentionMask mask)
      : shape(shape), mask(mask) {
    if (shape.mask != MaskKind::AdditiveNarrow)
      return;
    this->shape.mask = MaskKind::Additive;
    int64_t span =
        shape.b * shape.h * shape.t * shape.s == 0
            ? 0
            : (shape.b - 1) * shape.maskB + (shape.h - 1) * shape.maskH +
                  (shape.t - 1) * shape.maskT + (shape.s - 1) * shape.maskS + 1;
    this->mask.mask = wide.in(static_cast<const bf16 *>(mask.mask), span);
  }
  const float *in(const bf16 *from, const Extents &e) {
    return wide.in(from, e.span());
  }
  /// What lies between rows stays as it is.
  float *out(bf16 *to, const Extents &e) {
    return wide.out(to, e.span(), /*keep=*/e.span() != e.count());
  }
  /// Between the rows of a gradient there may be those of another one, so they
  /// are floats without anything between them.
  float *out(bf16 *to, const Extents &e, const HeadStrides &strides,
             HeadStrides &wideStrides) {
    wideStrides = {e.rows * e.heads * e.size, e.heads * e.size, e.size};
    int64_t pieces = strides.head == e.size ? 1 : e.heads,
            width = e.heads * e.size / std::max<int64_t>(pieces, 1);
    return wide.out(to, e.batch * e.rows * pieces, width, [=](int64_t i) {
      return i / pieces / e.rows * strides.batch +
             i / pieces % e.rows * strides.row + i % pieces * strides.head;
    });
  }

  Wide wide;
  AttentionShape shape;
  AttentionMask mask;
};

} // namespace

void attentionForward(const bf16 *q, const bf16 *k, const bf16 *v,
                      AttentionMask mask, bf16 *o, float *lse,
                      const AttentionShape &s) {
  WideAttention x(s, mask);
  attentionForward(x.in(q, queries(s)), x.in(k, keys(s)), x.in(v, values(s)),
                   x.mask, x.out(o, outputs(s)), lse, x.shape);
}

void attentionBackward(const bf16 *q, const bf16 *k, const bf16 *v,
                       AttentionMask mask, const bf16 *o, const float *lse,
                       const bf16 *doutput, bf16 *dq, bf16 *dk, bf16 *dv,
                       const AttentionShape &s) {
  WideAttention x(s, mask);
  float *wideDq = x.out(dq, queries(s), s.getDq(), x.shape.dqStrides),
        *wideDk = x.out(dk, keys(s), s.getDk(), x.shape.dkStrides),
        *wideDv = x.out(dv, values(s), s.getDv(), x.shape.dvStrides);
  attentionBackward(x.in(q, queries(s)), x.in(k, keys(s)), x.in(v, values(s)),
                    x.mask, x.in(o, outputs(s)), lse, x.in(doutput, outputs(s)),
                    wideDq, wideDk, wideDv, x.shape);
}

} // namespace dt::rt
