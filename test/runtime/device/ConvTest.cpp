//===- ConvTest.cpp - convolutions against plain loops ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu/Conv.h"
#include "test/runtime/TestSupport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

using namespace dt::rt;

namespace {

/// One group, dense, without pads, unless it says otherwise.
struct Shape : ConvShape {
  using Dims = std::vector<int64_t>;

  Shape(int64_t n, int64_t c, int64_t o, const Dims &inSizes, const Dims &taps)
      : ConvShape{n, c, o, 1, int32_t(inSizes.size()), {}, {}, {}, {}, {}, {}} {
    set(in, inSizes), set(kernel, taps);
    stride({1, 1, 1}), dilation({1, 1, 1});
  }
  Shape &groups(int64_t count) { return ConvShape::groups = count, *this; }
  Shape &stride(const Dims &d) { return set(ConvShape::stride, d); }
  Shape &dilation(const Dims &d) { return set(ConvShape::dilation, d); }
  Shape &pads(const Dims &begin, const Dims &end) {
    set(padBegin, begin);
    return set(padEnd, end);
  }

private:
  Shape &set(int64_t (&to)[3], const Dims &from) {
    std::copy(from.begin(), from.end(), to);
    return *this;
  }
};

/// Calls f(x index, w index, y index) for every product of the convolution;
/// missing dims count as extent 1.
template <typename F> void forEachProduct(const ConvShape &s, F f) {
  int64_t in[3] = {1, 1, 1}, k[3] = {1, 1, 1}, st[3] = {1, 1, 1},
          di[3] = {1, 1, 1}, pad[3] = {0, 0, 0}, out[3] = {1, 1, 1};
  for (int i = 0; i < s.dims; ++i)
    in[i] = s.in[i], k[i] = s.kernel[i], st[i] = s.stride[i],
    di[i] = s.dilation[i], pad[i] = s.padBegin[i], out[i] = s.out(i);
  int64_t og = s.o / s.groups, cg = s.c / s.groups;
  auto at = [](int64_t plane, const int64_t *e, int64_t a, int64_t b,
               int64_t c) {
    return ((plane * e[0] + a) * e[1] + b) * e[2] + c;
  };
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t o = 0; o < s.o; ++o)
      for (int64_t c = 0; c < cg; ++c)
        for (int64_t y = 0; y < out[0] * out[1] * out[2]; ++y)
          for (int64_t w = 0; w < k[0] * k[1] * k[2]; ++w) {
            int64_t p[3] = {y / (out[1] * out[2]), y / out[2] % out[1],
                            y % out[2]},
                    q[3] = {w / (k[1] * k[2]), w / k[2] % k[1], w % k[2]}, x[3];
            bool inside = true;
            for (int i = 0; i < 3; ++i) {
              x[i] = p[i] * st[i] + q[i] * di[i] - pad[i];
              inside &= x[i] >= 0 && x[i] < in[i];
            }
            if (inside)
              f(at(n * s.c + o / og * cg + c, in, x[0], x[1], x[2]),
                at(o * cg + c, k, q[0], q[1], q[2]),
                at(n * s.o + o, out, p[0], p[1], p[2]));
          }
}

/// Operands of elements T, and what plain sums of their products are.
template <typename T> struct ExpectedConv {
  std::vector<T> x, w, dy, b;
  std::vector<float> bc, y, dx, dw, db;
  /// Of each sum's products, counted from the largest; what is expected is
  /// float too.
  double taps, places, products;

  explicit ExpectedConv(const ConvShape &s) {
    int64_t nx = s.n * s.c, nw = s.o * (s.c / s.groups), ny = s.n * s.o,
            pixels = 1, outs = 1;
    for (int i = 0; i < s.dims; ++i)
      nx *= s.in[i], nw *= s.kernel[i], ny *= s.out(i), pixels *= s.in[i],
          outs *= s.out(i);
    x = values(nx, 1), w = values(nw, 2), b = values(s.o, 3);
    dy = values(ny, 4), bc = randoms(s.c, 5);
    y.resize(ny), dx.resize(nx), dw.resize(nw), db.resize(s.o);
    for (int64_t i = 0; i < ny; ++i)
      y[i] = b[i / outs % s.o], db[i / outs % s.o] += dy[i];
    for (int64_t i = 0; i < nx; ++i)
      dx[i] = bc[i / pixels % s.c];
    forEachProduct(s, [&](int64_t xi, int64_t wi, int64_t yi) {
      y[yi] += float(x[xi]) * float(w[wi]);
      dx[xi] += float(dy[yi]) * float(w[wi]);
      dw[wi] += float(dy[yi]) * float(x[xi]);
    });
    taps = sumLimit(2 * double(nw) / double(s.o));
    places = sumLimit(2 * double(s.n * outs));
    products = sumLimit(2 * double(nw) / double(s.c / s.groups));
  }

private:
  static std::vector<T> values(int64_t count, uint64_t seed) {
    std::vector<float> wide = randoms(count, seed);
    return {wide.begin(), wide.end()};
  }
};

std::vector<float> sum(std::vector<float> a, const std::vector<float> &b) {
  std::transform(a.begin(), a.end(), b.begin(), a.begin(), std::plus());
  return a;
}

void check(const ConvShape &s) {
  ExpectedConv<float> e(s);
  std::vector<float> y(e.y.size()), dx(e.dx.size()),
      dw = randoms(e.dw.size(), 6), db = randoms(s.o, 7), edw = sum(e.dw, dw),
      edb = sum(e.db, db);
  convForward(e.x.data(), e.w.data(), e.b.data(), y.data(), s);
  convBackwardData(e.dy.data(), e.w.data(), e.bc.data(), dx.data(), s);
  convBackwardWeights(e.x.data(), e.dy.data(), dw.data(), db.data(), s, 1);
  EXPECT_LT(relativeError(y, e.y), e.taps);
  EXPECT_LT(relativeError(dx, e.dx), e.products);
  EXPECT_LT(relativeError(dw, edw), e.places);
  EXPECT_LT(relativeError(db, edb), e.places);
  // Without bias, and written instead of added.
  std::vector<float> fresh(dw.size());
  convBackwardWeights(e.x.data(), e.dy.data(), fresh.data(), nullptr, s, 0);
  EXPECT_LT(relativeError(fresh, e.dw), e.places);
}

TEST(Conv, TwoDims) {
  check(Shape(2, 3, 8, {9, 11}, {3, 3}).pads({1, 1}, {1, 1}));
  check(Shape(3, 16, 32, {8, 8}, {3, 3}).stride({2, 2}).pads({1, 1}, {1, 1}));
  check(Shape(2, 3, 48, {32, 32}, {8, 8}).stride({8, 8})); // patches
}

TEST(Conv, AsymmetricPadsDilationGroups) {
  check(Shape(2, 4, 6, {7, 8}, {3, 2})
            .stride({2, 1})
            .dilation({1, 2})
            .pads({0, 1}, {1, 2}));
  check(Shape(2, 8, 12, {6, 5}, {3, 3}).groups(4).pads({1, 1}, {1, 1}));
  check(Shape(2, 8, 8, {6, 5}, {3, 3})
            .groups(8)
            .pads({1, 1}, {1, 1})); // depthwise
}

TEST(Conv, OneAndThreeDims) {
  check(Shape(2, 5, 7, {20}, {5}).stride({2}).pads({2}, {1}));
  check(Shape(1, 3, 4, {5, 6, 7}, {2, 3, 3})
            .stride({1, 2, 1})
            .pads({0, 1, 1}, {1, 1, 1}));
}

TEST(Conv, NoRows) {
  ConvShape s = Shape(0, 3, 8, {9, 11}, {3, 3}).pads({1, 1}, {1, 1});
  std::vector<float> dw(8 * 27, 1), db(8, 1);
  const float *none = nullptr;
  convForward(none, dw.data(), db.data(), nullptr, s);
  convBackwardWeights(none, none, dw.data(), db.data(), s, 1);
  EXPECT_EQ(dw, std::vector<float>(8 * 27, 1));
  convBackwardWeights(none, none, dw.data(), db.data(), s, 0);
  EXPECT_EQ(dw, std::vector<float>(8 * 27, 0));
}

/// How far TF32 moves a product: each factor by a rounding. A CPU has none.
#ifdef DT_TEST_CUDA
constexpr double kTF32 = 2 * 0x1p-11;
#else
constexpr double kTF32 = 0;
#endif

TEST(Conv, TF32) {
  ConvShape s = Shape(2, 8, 12, {6, 5}, {3, 3}).pads({1, 1}, {1, 1});
  ExpectedConv<float> e(s);
  struct Results {
    std::vector<float> y, dx, dw;
    bool operator==(const Results &) const = default;
  };
  auto run = [&](bool tf32) {
    s.tf32 = tf32;
    Results r{e.y, e.dx, e.dw};
    convForward(e.x.data(), e.w.data(), e.b.data(), r.y.data(), s);
    convBackwardData(e.dy.data(), e.w.data(), e.bc.data(), r.dx.data(), s);
    convBackwardWeights(e.x.data(), e.dy.data(), r.dw.data(), nullptr, s, 0);
    EXPECT_LT(relativeError(r.y, e.y), e.taps + kTF32 * tf32);
    EXPECT_LT(relativeError(r.dx, e.dx), e.products + kTF32 * tf32);
    EXPECT_LT(relativeError(r.dw, e.dw), e.places + kTF32 * tf32);
    return r;
  };
  EXPECT_EQ(run(true) == run(false), kTF32 == 0);
}

/// No channel in, then none out, then no pixel in a padding of 1: what is not
/// summed is written all the same.
TEST(Conv, NothingToSum) {
  ConvShape s = Shape(2, 0, 3, {3, 2}, {2, 2}).pads({1, 1}, {1, 1});
  auto biasAlone = [](const ConvShape &s) {
    int64_t pixels = s.out(0) * s.out(1), n = s.n * s.o * pixels;
    std::vector<float> w = randoms(s.o * s.c * 4, 1), b = randoms(s.o, 2),
                       y(n, 9), dy(n, 1), dw(w.size(), 9), db(s.o, 9);
    convForward(nullptr, w.data(), b.data(), y.data(), s);
    for (int64_t i = 0; i < n; ++i)
      EXPECT_EQ(y[i], b[i / pixels % s.o]);
    convForward(nullptr, w.data(), nullptr, y.data(), s);
    EXPECT_EQ(y, std::vector<float>(n, 0));
    convBackwardWeights(nullptr, dy.data(), dw.data(), db.data(), s, 0);
    EXPECT_EQ(dw, std::vector<float>(w.size(), 0));
    EXPECT_EQ(db, std::vector<float>(s.o, s.n * pixels));
    convBackwardWeights(nullptr, dy.data(), dw.data(), db.data(), s, 1);
    EXPECT_EQ(db, std::vector<float>(s.o, 2 * s.n * pixels));
  };
  biasAlone(s);
  s.c = 2, s.in[0] = 0;
  biasAlone(s);
  s.in[0] = 3, s.o = 0;
  std::vector<float> dx(2 * 2 * 3 * 2, 9);
  convBackwardData(nullptr, nullptr, nullptr, dx.data(), s);
  EXPECT_EQ(dx, std::vector<float>(dx.size(), 0));
}

/// Of what is added to floats: cuDNN rounds it.
#ifdef DT_TEST_CUDA
constexpr double kAddedEps = kNarrowEps;
#else
constexpr double kAddedEps = 0;
#endif

/// Operands are rounded first; a narrow result is rounded once.
void checkNarrow(const ConvShape &s) {
  ExpectedConv<bf16> e(s);
  std::vector<bf16> y(e.y.size()), dx(e.dx.size()), dw(e.dw.size()), db(s.o);
  convForward(e.x.data(), e.w.data(), e.b.data(), y.data(), s);
  EXPECT_LT(relativeError(widen(y), e.y), e.taps + kNarrowEps);
  convForward(e.x.data(), e.w.data(), widen(e.b).data(), y.data(), s);
  EXPECT_LT(relativeError(widen(y), e.y), e.taps + kNarrowEps);
  convBackwardData(e.dy.data(), e.w.data(), e.bc.data(), dx.data(), s);
  EXPECT_LT(relativeError(widen(dx), e.dx), e.products + kNarrowEps);
  convBackwardWeights(e.x.data(), e.dy.data(), dw.data(), db.data(), s, 0);
  EXPECT_LT(relativeError(widen(dw), e.dw), e.places + kNarrowEps);
  EXPECT_LT(relativeError(widen(db), e.db), e.places + kNarrowEps);
  // Gradients of parameters are floats, and are added to.
  std::vector<float> fw = randoms(dw.size(), 6), fb = randoms(s.o, 7),
                     edw = sum(e.dw, fw), edb = sum(e.db, fb);
  convBackwardWeights(e.x.data(), e.dy.data(), fw.data(), fb.data(), s, 1);
  EXPECT_LT(relativeError(fw, edw), e.places + kAddedEps);
  EXPECT_LT(relativeError(fb, edb), e.places);
}

TEST(Conv, NarrowOperands) {
  checkNarrow(
      Shape(3, 16, 32, {8, 8}, {3, 3}).stride({2, 2}).pads({1, 1}, {1, 1}));
  checkNarrow(Shape(2, 8, 12, {6, 5}, {3, 3}).groups(4).pads({1, 1}, {1, 1}));
  checkNarrow(Shape(2, 5, 7, {20}, {5}).stride({2}).pads({2}, {1}));
}

TEST(Conv, NarrowAndNothingToSum) {
  ConvShape s = Shape(2, 0, 3, {3, 2}, {2, 2}).pads({1, 1}, {1, 1});
  int64_t pixels = s.out(0) * s.out(1), n = s.n * s.o * pixels;
  std::vector<float> b = randoms(s.o, 2);
  std::vector<bf16> y(n, bf16(9)), dy(n, bf16(1)), none;
  convForward(none.data(), none.data(), b.data(), y.data(), s);
  for (int64_t i = 0; i < n; ++i)
    EXPECT_EQ(float(y[i]), float(bf16(b[i / pixels % s.o])));
  std::vector<float> db(s.o, 9);
  convBackwardWeights(none.data(), dy.data(), nullptr, db.data(), s, 0);
  EXPECT_EQ(db, std::vector<float>(s.o, s.n * pixels));
}

} // namespace
