//===- Matmul.cpp - matrix products for generated code ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Of floats oneDNN's sgemm, not its matmul primitive: on plain layouts both
// reach the same speed (measured at 264 x 192 x 192 up to 1024 x 50257 x 768),
// and sgemm needs no primitive for each new number of rows, which with ragged
// data changes every step. Of narrow operands the primitive, cached by shape,
// where the processor multiplies them; elsewhere sgemm of widened ones.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu/Matmul.h"
#include "runtime/device/cpu/Dnnl.h"
#include "runtime/device/cpu/Wide.h"

#include <omp.h>

#include <unordered_map>

namespace dt::rt {

namespace {

/// Below this many elements waking the threads costs more than the loop.
constexpr int64_t kParallelElements = 32768;

/// c = bias (or 0) + beta * c, for the terms that sgemm has no place for.
void presetRows(const float *bias, float *c, int64_t m, int64_t n, int64_t ldc,
                float beta) {
#pragma omp parallel for schedule(static) if (m * n >= kParallelElements)
  for (int64_t i = 0; i < m; ++i) {
    float *row = c + i * ldc;
    if (beta == 0) {
#pragma omp simd
      for (int64_t j = 0; j < n; ++j)
        row[j] = bias ? bias[j] : 0.f;
    } else if (bias) {
#pragma omp simd
      for (int64_t j = 0; j < n; ++j)
        row[j] += bias[j];
    }
  }
}

/// The shape with all leading dims said.
MatmulShape withLeadingDims(MatmulShape s) {
  s.lda = s.lda ? s.lda : s.transA ? s.m : s.k;
  s.ldb = s.ldb ? s.ldb : s.transB ? s.k : s.n;
  s.ldc = s.ldc ? s.ldc : s.n;
  return s;
}

} // namespace

void matmul(const float *a, const float *b, const float *bias, float *c,
            const MatmulShape &shape, float beta) {
  MatmulShape s = withLeadingDims(shape);
  if (s.batch == 0 || s.m == 0 || s.n == 0)
    return;
  auto one = [&](int64_t i) {
    const float *ai = a + i * s.strideA, *bi = b + i * s.strideB;
    float *ci = c + i * s.strideC;
    if (bias || s.k == 0)
      presetRows(bias, ci, s.m, s.n, s.ldc, beta);
    if (s.k == 0)
      return;
    sgemm(s.transA, s.transB, s.m, s.n, s.k, 1.f, ai, s.lda, bi, s.ldb,
          bias ? 1.f : beta, ci, s.ldc);
  };
  // Many small products: one a thread. Few: all threads in each.
  if (s.batch >= omp_get_max_threads() && s.batch > 1) {
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < s.batch; ++i)
      one(i);
    return;
  }
  for (int64_t i = 0; i < s.batch; ++i)
    one(i);
}

//===----------------------------------------------------------------------===//
// Narrow operands
//===----------------------------------------------------------------------===//

namespace {

using dnnl::memory;

/// A product as oneDNN has it. To make its operands' objects takes as long as a
/// small product: they stay, and get their addresses call by call.
struct Product {
  std::unordered_map<int, memory> arguments;
  dnnl::matmul primitive;

  void place(int argument, const void *address) {
    arguments.at(argument).set_data_handle(const_cast<void *>(address));
  }
};

/// op(X[i]), rows x columns; one matrix for the whole batch has a batch of 1.
memory::desc describe(const MatmulShape &s, memory::data_type type,
                      int64_t rows, int64_t columns, bool transposed,
                      int64_t stride, int64_t leading) {
  int64_t batch = stride == 0 ? 1 : s.batch;
  // Of one matrix the stride means nothing, but is checked.
  int64_t apart = batch == 1 ? leading * (transposed ? columns : rows) : stride;
  return {{batch, rows, columns},
          type,
          {apart, transposed ? 1 : leading, transposed ? leading : 1}};
}

template <typename T, typename C>
Product makeProduct(const MatmulShape &s, Floats bias, float beta) {
  memory::desc a = describe(s, kDnnlType<T>, s.m, s.k, s.transA, s.strideA,
                            s.lda),
               b = describe(s, kDnnlType<T>, s.k, s.n, s.transB, s.strideB,
                            s.ldb),
               c = describe(s, kDnnlType<C>, s.m, s.n, false, s.strideC, s.ldc),
               added;
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (beta != 0) {
    dnnl::post_ops after;
    after.append_sum(1.f);
    attr.set_post_ops(after);
  }
  using Desc = dnnl::matmul::desc;
  if (bias)
    added = {{1, 1, s.n},
             bias.wide ? kDnnlType<float> : kDnnlType<bf16>,
             memory::format_tag::abc};
  Desc desc = bias ? Desc(a, b, added, c) : Desc(a, b, c);
  dnnl::matmul::primitive_desc made(desc, attr, dnnlEngine());
  auto object = [](const memory::desc &desc) {
    return memory(desc, dnnlEngine(), nullptr);
  };
  Product p{{{DNNL_ARG_SRC, object(a)},
             {DNNL_ARG_WEIGHTS, object(b)},
             {DNNL_ARG_DST, object(c)},
             {DNNL_ARG_SCRATCHPAD, object(made.scratchpad_desc())}},
            dnnl::matmul(made)};
  if (bias)
    p.arguments.emplace(DNNL_ARG_BIAS, object(added));
  return p;
}

template <typename T, typename C>
Product &findProduct(const MatmulShape &s, Floats bias, float beta) {
  static PrimitiveCache<Product> cache;
  std::vector<int64_t> key = {omp_get_max_threads(),
                              s.batch,
                              s.m,
                              s.n,
                              s.k,
                              s.transA,
                              s.transB,
                              s.strideA,
                              s.strideB,
                              s.strideC,
                              s.lda,
                              s.ldb,
                              s.ldc,
                              beta != 0,
                              bool(bias.wide),
                              bool(bias.narrow)};
  return cache.find(std::move(key), "oneDNN matmul",
                    [&] { return makeProduct<T, C>(s, bias, beta); });
}

/// Whether oneDNN has a layout for it: matrices one behind another, or side by
/// side in rows, as heads are.
bool nests(int64_t batch, int64_t stride, int64_t rows, int64_t leading) {
  return batch == 1 || stride == 0 || stride >= rows * leading ||
         stride * batch <= leading;
}

bool nests(const MatmulShape &s) {
  return nests(s.batch, s.strideA, s.transA ? s.k : s.m, s.lda) &&
         nests(s.batch, s.strideB, s.transB ? s.n : s.k, s.ldb) &&
         nests(s.batch, s.strideC, s.m, s.ldc);
}

/// Elements from the first to the last of a batch of matrices.
int64_t span(int64_t batch, int64_t stride, int64_t rows, int64_t columns,
             int64_t leading) {
  return rows == 0 || columns == 0
             ? 0
             : (batch - 1) * stride + (rows - 1) * leading + columns;
}

template <typename C>
void matmulWidened(const bf16 *a, const bf16 *b, Floats bias, C *c,
                   const MatmulShape &s, float beta) {
  int64_t rowsA = s.transA ? s.k : s.m, rowsB = s.transB ? s.n : s.k;
  bool dense = s.ldc == s.n && (s.batch == 1 || s.strideC == s.m * s.n);
  Wide wide;
  matmul(wide.in(a, span(s.batch, s.strideA, rowsA, s.m + s.k - rowsA, s.lda)),
         wide.in(b, span(s.batch, s.strideB, rowsB, s.n + s.k - rowsB, s.ldb)),
         wide.in(bias, s.n),
         wide.out(c, span(s.batch, s.strideC, s.m, s.n, s.ldc),
                  beta != 0 || !dense),
         s, beta);
}

template <typename C>
void matmulNarrow(const bf16 *a, const bf16 *b, Floats bias, C *c,
                  const MatmulShape &shape, float beta) {
  MatmulShape s = withLeadingDims(shape);
  if (s.batch == 0 || s.m == 0 || s.n == 0)
    return;
  if (s.k > 0 && multipliesNarrow())
    return matmulPrimitive(a, b, bias, c, s, beta);
  matmulWidened(a, b, bias, c, s, beta);
}

} // namespace

template <typename T, typename C>
void matmulPrimitive(const T *a, const T *b, Floats bias, C *c,
                     const MatmulShape &shape, float beta) {
  MatmulShape s = withLeadingDims(shape);
  if (!nests(s)) {
    MatmulShape one = s;
    one.batch = 1;
    for (int64_t i = 0; i < s.batch; ++i)
      matmulPrimitive(a + i * s.strideA, b + i * s.strideB, bias,
                      c + i * s.strideC, one, beta);
    return;
  }
  Product &p = findProduct<T, C>(s, bias, beta);
  Scratch &scratch = threadScratch();
  scratch.reset();
  p.place(DNNL_ARG_SRC, a);
  p.place(DNNL_ARG_WEIGHTS, b);
  p.place(DNNL_ARG_DST, c);
  if (bias)
    p.place(DNNL_ARG_BIAS, bias.address());
  size_t needed = p.arguments.at(DNNL_ARG_SCRATCHPAD).get_desc().get_size();
  p.place(DNNL_ARG_SCRATCHPAD, scratch.bytes(needed));
  p.primitive.execute(dnnlStream(), p.arguments);
  dnnlStream().wait();
}
template void matmulPrimitive(const float *, const float *, Floats, float *,
                              const MatmulShape &, float);
template void matmulPrimitive(const bf16 *, const bf16 *, Floats, float *,
                              const MatmulShape &, float);
template void matmulPrimitive(const bf16 *, const bf16 *, Floats, bf16 *,
                              const MatmulShape &, float);

void matmul(const bf16 *a, const bf16 *b, Floats bias, float *c,
            const MatmulShape &shape, float beta) {
  matmulNarrow(a, b, bias, c, shape, beta);
}

void matmul(const bf16 *a, const bf16 *b, Floats bias, bf16 *c,
            const MatmulShape &shape, float beta) {
  matmulNarrow(a, b, bias, c, shape, beta);
}

} // namespace dt::rt
