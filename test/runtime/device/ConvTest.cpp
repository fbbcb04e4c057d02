//===- ConvTest.cpp - convolutions against plain loops ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu/Conv.h"
#include "test/runtime/TestSupport.h"

#include <gtest/gtest.h>

using namespace dt::rt;

namespace {

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

void check(const ConvShape &s) {
  int64_t nx = s.n * s.c, nw = s.o * (s.c / s.groups), ny = s.n * s.o,
          pixels = 1, outs = 1;
  for (int i = 0; i < s.dims; ++i)
    nx *= s.in[i], nw *= s.kernel[i], ny *= s.out(i), pixels *= s.in[i],
        outs *= s.out(i);
  std::vector<float> x = randoms(nx, 1), w = randoms(nw, 2),
                     b = randoms(s.o, 3), dy = randoms(ny, 4),
                     bc = randoms(s.c, 5);
  std::vector<float> y(ny), ey(ny), dx(nx), edx(nx),
      dw = randoms(nw, 6), db = randoms(s.o, 7), edw = dw, edb = db;
  for (int64_t i = 0; i < ny; ++i)
    ey[i] = b[i / outs % s.o], edb[i / outs % s.o] += dy[i];
  for (int64_t i = 0; i < nx; ++i)
    edx[i] = bc[i / pixels % s.c];
  forEachProduct(s, [&](int64_t xi, int64_t wi, int64_t yi) {
    ey[yi] += x[xi] * w[wi];
    edx[xi] += dy[yi] * w[wi];
    edw[wi] += dy[yi] * x[xi];
  });
  convForward(x.data(), w.data(), b.data(), y.data(), s);
  convBackwardData(dy.data(), w.data(), bc.data(), dx.data(), s);
  convBackwardWeights(x.data(), dy.data(), dw.data(), db.data(), s, 1);
  // Each sum's products, counted from the largest; what is expected is float
  // too.
  double taps = 2 * double(nw) / double(s.o), places = 2 * double(s.n * outs),
         products = 2 * double(nw) / double(s.c / s.groups);
  EXPECT_LT(relativeError(y, ey), sumLimit(taps));
  EXPECT_LT(relativeError(dx, edx), sumLimit(products));
  EXPECT_LT(relativeError(dw, edw), sumLimit(places));
  EXPECT_LT(relativeError(db, edb), sumLimit(places));
  // Without bias, and written instead of added.
  std::vector<float> fresh(nw);
  convBackwardWeights(x.data(), dy.data(), fresh.data(), nullptr, s, 0);
  std::vector<float> start = randoms(nw, 6);
  for (int64_t i = 0; i < nw; ++i)
    fresh[i] += start[i];
  EXPECT_LT(relativeError(fresh, edw), sumLimit(places));
}

TEST(Conv, TwoDims) {
  check({2,
         3,
         8,
         1,
         2,
         {9, 11, 0},
         {3, 3, 0},
         {1, 1, 0},
         {1, 1, 0},
         {1, 1, 0},
         {1, 1, 0}});
  check({3,
         16,
         32,
         1,
         2,
         {8, 8, 0},
         {3, 3, 0},
         {2, 2, 0},
         {1, 1, 0},
         {1, 1, 0},
         {1, 1, 0}});
  check({2,
         3,
         48,
         1,
         2,
         {32, 32, 0},
         {8, 8, 0},
         {8, 8, 0},
         {1, 1, 0},
         {0, 0, 0},
         {0, 0, 0}}); // patches
}

TEST(Conv, AsymmetricPadsDilationGroups) {
  check({2,
         4,
         6,
         1,
         2,
         {7, 8, 0},
         {3, 2, 0},
         {2, 1, 0},
         {1, 2, 0},
         {0, 1, 0},
         {1, 2, 0}});
  check({2,
         8,
         12,
         4,
         2,
         {6, 5, 0},
         {3, 3, 0},
         {1, 1, 0},
         {1, 1, 0},
         {1, 1, 0},
         {1, 1, 0}});
  check({2,
         8,
         8,
         8,
         2,
         {6, 5, 0},
         {3, 3, 0},
         {1, 1, 0},
         {1, 1, 0},
         {1, 1, 0},
         {1, 1, 0}}); // depthwise
}

TEST(Conv, OneAndThreeDims) {
  check({2,
         5,
         7,
         1,
         1,
         {20, 0, 0},
         {5, 0, 0},
         {2, 0, 0},
         {1, 0, 0},
         {2, 0, 0},
         {1, 0, 0}});
  check({1,
         3,
         4,
         1,
         3,
         {5, 6, 7},
         {2, 3, 3},
         {1, 2, 1},
         {1, 1, 1},
         {0, 1, 1},
         {1, 1, 1}});
}

TEST(Conv, NoRows) {
  ConvShape s{0,         3,         8,         1,         2,        {9, 11, 0},
              {3, 3, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}};
  std::vector<float> dw(8 * 27, 1), db(8, 1);
  const float *none = nullptr;
  convForward(none, dw.data(), db.data(), nullptr, s);
  convBackwardWeights(none, none, dw.data(), db.data(), s, 1);
  EXPECT_EQ(dw, std::vector<float>(8 * 27, 1));
  convBackwardWeights(none, none, dw.data(), db.data(), s, 0);
  EXPECT_EQ(dw, std::vector<float>(8 * 27, 0));
}

/// No channel in, then none out, then no pixel in a padding of 1: what is not
/// summed is written all the same.
TEST(Conv, NothingToSum) {
  ConvShape s{2,         0,         3,         1,         2,        {3, 2, 0},
              {2, 2, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}};
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
  int64_t nx = s.n * s.c, nw = s.o * (s.c / s.groups), ny = s.n * s.o,
          pixels = 1, outs = 1;
  for (int i = 0; i < s.dims; ++i)
    nx *= s.in[i], nw *= s.kernel[i], ny *= s.out(i), pixels *= s.in[i],
        outs *= s.out(i);
  std::vector<bf16> x = narrow(randoms(nx, 1)), w = narrow(randoms(nw, 2)),
                    dy = narrow(randoms(ny, 4)), b = narrow(randoms(s.o, 3));
  std::vector<float> bc = randoms(s.c, 5);
  std::vector<float> ey(ny), edx(nx), edw(nw), edb(s.o);
  for (int64_t i = 0; i < ny; ++i)
    ey[i] = b[i / outs % s.o], edb[i / outs % s.o] += dy[i];
  for (int64_t i = 0; i < nx; ++i)
    edx[i] = bc[i / pixels % s.c];
  forEachProduct(s, [&](int64_t xi, int64_t wi, int64_t yi) {
    ey[yi] += float(x[xi]) * float(w[wi]);
    edx[xi] += float(dy[yi]) * float(w[wi]);
    edw[wi] += float(dy[yi]) * float(x[xi]);
  });
  double taps = sumLimit(2 * double(nw) / double(s.o)),
         places = sumLimit(2 * double(s.n * outs)),
         products = sumLimit(2 * double(nw) / double(s.c / s.groups));
  std::vector<bf16> y(ny), dx(nx), dw(nw), db(s.o);
  convForward(x.data(), w.data(), b.data(), y.data(), s);
  EXPECT_LT(relativeError(widen(y), ey), taps + kNarrowEps);
  convForward(x.data(), w.data(), widen(b).data(), y.data(), s);
  EXPECT_LT(relativeError(widen(y), ey), taps + kNarrowEps);
  convBackwardData(dy.data(), w.data(), bc.data(), dx.data(), s);
  EXPECT_LT(relativeError(widen(dx), edx), products + kNarrowEps);
  convBackwardWeights(x.data(), dy.data(), dw.data(), db.data(), s, 0);
  EXPECT_LT(relativeError(widen(dw), edw), places + kNarrowEps);
  EXPECT_LT(relativeError(widen(db), edb), places + kNarrowEps);
  // Gradients of parameters are floats, and are added to.
  std::vector<float> fw = randoms(nw, 6), fb = randoms(s.o, 7);
  for (int64_t i = 0; i < nw; ++i)
    edw[i] += fw[i];
  for (int64_t i = 0; i < s.o; ++i)
    edb[i] += fb[i];
  convBackwardWeights(x.data(), dy.data(), fw.data(), fb.data(), s, 1);
  EXPECT_LT(relativeError(fw, edw), places + kAddedEps);
  EXPECT_LT(relativeError(fb, edb), places);
}

TEST(Conv, NarrowOperands) {
  checkNarrow({3,
               16,
               32,
               1,
               2,
               {8, 8, 0},
               {3, 3, 0},
               {2, 2, 0},
               {1, 1, 0},
               {1, 1, 0},
               {1, 1, 0}});
  checkNarrow({2,
               8,
               12,
               4,
               2,
               {6, 5, 0},
               {3, 3, 0},
               {1, 1, 0},
               {1, 1, 0},
               {1, 1, 0},
               {1, 1, 0}});
  checkNarrow({2,
               5,
               7,
               1,
               1,
               {20, 0, 0},
               {5, 0, 0},
               {2, 0, 0},
               {1, 0, 0},
               {2, 0, 0},
               {1, 0, 0}});
}

TEST(Conv, NarrowAndNothingToSum) {
  ConvShape s{2,         0,         3,         1,         2,        {3, 2, 0},
              {2, 2, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}};
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
