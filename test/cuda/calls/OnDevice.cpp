//===- OnDevice.cpp - the CPU's calls, made on the device -----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Takes operands in host memory, as runtime/device/cpu does, and has them
// computed by runtime/device/cuda: so the CPU's tests are tests of both.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/Calls.h"
#include "runtime/device/cuda/Cuda.h"

#include <type_traits>

using namespace dt::rt;

namespace {

/// n elements on the device while a call runs; what is not const comes back.
template <typename T> class Copy {
public:
  Copy(T *host, int64_t n) : host(host), bytes(size_t(n) * sizeof(T)) {
    if (!host)
      return;
    cuda::check(cudaMalloc(&device, bytes ? bytes : 1), "cudaMalloc");
    copy(device, host, cudaMemcpyHostToDevice);
  }
  ~Copy() {
    if constexpr (!std::is_const_v<T>)
      copy(host, device, cudaMemcpyDeviceToHost);
    cuda::check(cudaFree(device), "cudaFree");
  }
  Copy(const Copy &) = delete;
  operator T *() const { return static_cast<T *>(device); }

private:
  void copy(void *to, const void *from, cudaMemcpyKind kind) {
    if (host && bytes)
      cuda::check(cudaMemcpyAsync(to, from, bytes, kind), "cudaMemcpy");
  }

  T *host;
  void *device = nullptr;
  size_t bytes;
};

/// Of a tensor [b, rows, heads, width] with strides.
int64_t extent(int64_t b, int64_t sb, int64_t rows, int64_t sr, int64_t heads,
               int64_t sh, int64_t width) {
  return b && rows && heads
             ? (b - 1) * sb + (rows - 1) * sr + (heads - 1) * sh + width
             : 0;
}

struct Extents {
  int64_t q, k, v, o, mask, ofQueries, ofKeys; ///< masks: bytes

  explicit Extents(const AttentionShape &s)
      : q(extent(s.b, s.qb, s.t, s.qt, s.h, s.qh, s.d)),
        k(extent(s.b, s.kb, s.s, s.ks, s.hk, s.kh, s.d)),
        v(extent(s.b, s.vb, s.s, s.vs, s.hk, s.vh, s.dv)),
        o(extent(s.b, s.ob, s.t, s.ot, s.h, s.oh, s.dv)),
        mask(extent(s.b, s.maskB, s.t, s.maskT, s.h, s.maskH,
                    s.s ? (s.s - 1) * s.maskS + 1 : 0)) {
    mask *= s.mask == MaskKind::Additive         ? 4
            : s.mask == MaskKind::AdditiveNarrow ? 2
                                                 : 1;
    int64_t number = s.segments == SegmentKind::None    ? 0
                     : s.segments == SegmentKind::Int32 ? 4
                                                        : 8;
    ofQueries =
        number * extent(s.b, s.querySegmentB, s.t, s.querySegmentT, 1, 0, 1);
    ofKeys = number * extent(s.b, s.keySegmentB, s.s, 1, 1, 0, 1);
  }
};

/// What hides keys, on the device.
struct MaskCopy {
  Copy<const char> mask, ofQueries, ofKeys;

  MaskCopy(const AttentionMask &host, const Extents &n)
      : mask(static_cast<const char *>(host.mask), n.mask),
        ofQueries(static_cast<const char *>(host.ofQueries), n.ofQueries),
        ofKeys(static_cast<const char *>(host.ofKeys), n.ofKeys) {}
  operator AttentionMask() const {
    return {static_cast<const char *>(mask),
            static_cast<const char *>(ofQueries),
            static_cast<const char *>(ofKeys)};
  }
};

template <typename T>
void forward(const T *q, const T *k, const T *v, AttentionMask mask, T *o,
             float *lse, const AttentionShape &s) {
  Extents n(s);
  Copy cq(q, n.q), ck(k, n.k), cv(v, n.v);
  MaskCopy cm(mask, n);
  Copy co(o, n.o);
  Copy cl(lse, s.b * s.h * s.t);
  attentionForward(cq, ck, cv, cm, static_cast<T *>(co), cl, s, nullptr);
}

template <typename T>
void backward(const T *q, const T *k, const T *v, AttentionMask mask,
              const T *o, const float *lse, const T *dout, T *dq, T *dk, T *dv,
              const AttentionShape &s) {
  Extents n(s);
  Copy cq(q, n.q), ck(k, n.k), cv(v, n.v), co(o, n.o), cd(dout, n.o);
  MaskCopy cm(mask, n);
  Copy cl(lse, s.b * s.h * s.t);
  auto run = [&](T *dq, T *dk, T *dv) {
    attentionBackward(cq, ck, cv, cm, co, cl, cd, dq, dk, dv, s, nullptr);
  };
  if (s.dqStrides.row == 0) {
    Copy cdq(dq, n.q), cdk(dk, n.k), cdv(dv, n.v);
    return run(cdq, cdk, cdv);
  }
  // Columns of the same rows, those of values last.
  HeadStrides by = s.getDv();
  Copy rows(dq,
            dv - dq + extent(s.b, by.batch, s.s, by.row, s.hk, by.head, s.dv));
  T *begin = rows;
  run(begin, begin + (dk - dq), begin + (dv - dq));
}

struct Elements {
  int64_t x, w, y;

  explicit Elements(const ConvShape &s)
      : x(s.n * s.c), w(s.o * (s.c / s.groups)), y(s.n * s.o) {
    for (int i = 0; i < s.dims; ++i)
      x *= s.in[i], w *= s.kernel[i], y *= s.out(i);
  }
};

template <typename T, typename B>
void convolve(const T *x, const T *w, const B *bias, T *y, const ConvShape &s) {
  Elements n(s);
  Copy cx(x, n.x), cw(w, n.w);
  Copy cb(bias, s.o);
  Copy cy(y, n.y);
  convForward(cx, cw, static_cast<const B *>(cb), cy, s, nullptr);
}

template <typename T, typename B>
void convolveBack(const T *dy, const T *w, const B *bias, T *dx,
                  const ConvShape &s) {
  Elements n(s);
  Copy cdy(dy, n.y), cw(w, n.w);
  Copy cb(bias, s.c);
  Copy cdx(dx, n.x);
  convBackwardData(cdy, cw, static_cast<const B *>(cb), cdx, s, nullptr);
}

template <typename T, typename R>
void weights(const T *x, const T *dy, R *dw, R *db, const ConvShape &s,
             float beta) {
  Elements n(s);
  Copy cx(x, n.x), cdy(dy, n.y);
  Copy cdw(dw, n.w), cdb(db, s.o);
  convBackwardWeights(cx, cdy, static_cast<R *>(cdw), static_cast<R *>(cdb), s,
                      beta, nullptr);
}

template <typename T>
void limit(const T *experts, const int64_t *segments, bool *kept,
           int64_t samples, int64_t choices, int64_t each, int64_t count,
           int64_t most, double capacity) {
  Copy ce(experts, samples * choices), cs(segments, samples * choices / each);
  Copy ck(kept, samples * choices);
  limitChoices(ce, cs, static_cast<bool *>(ck), samples, choices, each, count,
               most, capacity, nullptr);
}

template <typename T>
void sortRows(const T *experts, const int64_t *first, int32_t *order,
              int32_t *place, int32_t *offsets, const RouteShape &s,
              const IndexCheck &check, Fault *fault) {
  Copy ce(experts, s.rows);
  Copy c1(first, 1);
  Copy co(order, s.room), cp(place, s.rows), cf(offsets, s.placed + 1);
  Copy found(fault, 1);
  route(ce, c1, static_cast<int32_t *>(co), cp, cf, s, check, found, nullptr);
}

template <typename T, typename B, typename C>
void group(const T *a, const T *b, const int32_t *offsets, const B *bias, C *c,
           const GroupedShape &s) {
  Copy ca(a, s.m * s.k), cb(b, s.count * s.k * s.n);
  Copy cf(offsets, s.count + 1);
  Copy added(bias, s.count * s.n);
  Copy cc(c, s.m * s.n);
  groupedMatmul(ca, cb, cf, static_cast<const B *>(added), static_cast<C *>(cc),
                s, nullptr);
}

template <typename T, typename C>
void groupBack(const T *a, const T *b, const int32_t *offsets, C *c,
               const GroupedShape &s, float beta) {
  Copy ca(a, s.m * s.k), cb(b, s.m * s.n);
  Copy cf(offsets, s.count + 1);
  Copy cc(c, s.count * s.k * s.n);
  groupedMatmulDw(ca, cb, cf, static_cast<C *>(cc), s, beta, nullptr);
}

} // namespace

void dt::rt::limitChoices(const int32_t *experts, const int64_t *segments,
                          bool *kept, int64_t samples, int64_t choices,
                          int64_t each, int64_t count, int64_t most,
                          double capacity) {
  limit(experts, segments, kept, samples, choices, each, count, most, capacity);
}
void dt::rt::limitChoices(const int64_t *experts, const int64_t *segments,
                          bool *kept, int64_t samples, int64_t choices,
                          int64_t each, int64_t count, int64_t most,
                          double capacity) {
  limit(experts, segments, kept, samples, choices, each, count, most, capacity);
}
void dt::rt::route(const int32_t *experts, const int64_t *first, int32_t *order,
                   int32_t *place, int32_t *offsets, const RouteShape &s,
                   const IndexCheck &check, Fault *fault) {
  sortRows(experts, first, order, place, offsets, s, check, fault);
}
void dt::rt::route(const int64_t *experts, const int64_t *first, int32_t *order,
                   int32_t *place, int32_t *offsets, const RouteShape &s,
                   const IndexCheck &check, Fault *fault) {
  sortRows(experts, first, order, place, offsets, s, check, fault);
}
void dt::rt::groupedMatmul(const float *a, const float *b,
                           const int32_t *offsets, const float *bias, float *c,
                           const GroupedShape &s) {
  group(a, b, offsets, bias, c, s);
}
void dt::rt::groupedMatmul(const bf16 *a, const bf16 *b, const int32_t *offsets,
                           Floats bias, float *c, const GroupedShape &s) {
  group(a, b, offsets, bias.wide, c, s);
}
void dt::rt::groupedMatmul(const bf16 *a, const bf16 *b, const int32_t *offsets,
                           Floats bias, bf16 *c, const GroupedShape &s) {
  group(a, b, offsets, bias.wide, c, s);
}
void dt::rt::groupedMatmulDw(const float *a, const float *b,
                             const int32_t *offsets, float *c,
                             const GroupedShape &s, float beta) {
  groupBack(a, b, offsets, c, s, beta);
}
void dt::rt::groupedMatmulDw(const bf16 *a, const bf16 *b,
                             const int32_t *offsets, float *c,
                             const GroupedShape &s, float beta) {
  groupBack(a, b, offsets, c, s, beta);
}
void dt::rt::groupedMatmulDw(const bf16 *a, const bf16 *b,
                             const int32_t *offsets, bf16 *c,
                             const GroupedShape &s, float beta) {
  groupBack(a, b, offsets, c, s, beta);
}

void dt::rt::attentionForward(const float *q, const float *k, const float *v,
                              AttentionMask mask, float *o, float *lse,
                              const AttentionShape &s) {
  forward(q, k, v, mask, o, lse, s);
}
void dt::rt::attentionForward(const bf16 *q, const bf16 *k, const bf16 *v,
                              AttentionMask mask, bf16 *o, float *lse,
                              const AttentionShape &s) {
  forward(q, k, v, mask, o, lse, s);
}
void dt::rt::attentionBackward(const float *q, const float *k, const float *v,
                               AttentionMask mask, const float *o,
                               const float *lse, const float *dout, float *dq,
                               float *dk, float *dv, const AttentionShape &s) {
  backward(q, k, v, mask, o, lse, dout, dq, dk, dv, s);
}
void dt::rt::attentionBackward(const bf16 *q, const bf16 *k, const bf16 *v,
                               AttentionMask mask, const bf16 *o,
                               const float *lse, const bf16 *dout, bf16 *dq,
                               bf16 *dk, bf16 *dv, const AttentionShape &s) {
  backward(q, k, v, mask, o, lse, dout, dq, dk, dv, s);
}

void dt::rt::convForward(const float *x, const float *w, const float *bias,
                         float *y, const ConvShape &s) {
  convolve(x, w, bias, y, s);
}
void dt::rt::convForward(const bf16 *x, const bf16 *w, Floats bias, bf16 *y,
                         const ConvShape &s) {
  bias.narrow ? convolve(x, w, bias.narrow, y, s)
              : convolve(x, w, bias.wide, y, s);
}
void dt::rt::convBackwardData(const float *dy, const float *w,
                              const float *bias, float *dx,
                              const ConvShape &s) {
  convolveBack(dy, w, bias, dx, s);
}
void dt::rt::convBackwardData(const bf16 *dy, const bf16 *w, Floats bias,
                              bf16 *dx, const ConvShape &s) {
  bias.narrow ? convolveBack(dy, w, bias.narrow, dx, s)
              : convolveBack(dy, w, bias.wide, dx, s);
}
void dt::rt::convBackwardWeights(const float *x, const float *dy, float *dw,
                                 float *db, const ConvShape &s, float beta) {
  weights(x, dy, dw, db, s, beta);
}
void dt::rt::convBackwardWeights(const bf16 *x, const bf16 *dy, float *dw,
                                 float *db, const ConvShape &s, float beta) {
  weights(x, dy, dw, db, s, beta);
}
void dt::rt::convBackwardWeights(const bf16 *x, const bf16 *dy, bf16 *dw,
                                 bf16 *db, const ConvShape &s, float beta) {
  weights(x, dy, dw, db, s, beta);
}
