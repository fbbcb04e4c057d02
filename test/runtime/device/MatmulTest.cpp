//===- MatmulTest.cpp - products against plain loops ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu/Matmul.h"
#include "test/runtime/TestSupport.h"

#include <gtest/gtest.h>

using namespace dt::rt;

namespace {

void reference(const float *a, const float *b, const float *bias, float *c,
               const MatmulShape &s, float beta) {
  int64_t lda = s.lda      ? s.lda
                : s.transA ? s.m
                           : s.k,
          ldb = s.ldb      ? s.ldb
                : s.transB ? s.k
                           : s.n,
          ldc = s.ldc ? s.ldc : s.n;
  for (int64_t i = 0; i < s.batch; ++i)
    for (int64_t r = 0; r < s.m; ++r)
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = bias ? bias[j] : 0;
        for (int64_t k = 0; k < s.k; ++k)
          sum +=
              double(
                  a[i * s.strideA + (s.transA ? k * lda + r : r * lda + k)]) *
              b[i * s.strideB + (s.transB ? j * ldb + k : k * ldb + j)];
        float &to = c[i * s.strideC + r * ldc + j];
        to = float(sum + (beta ? to : 0));
      }
}

void check(const MatmulShape &s, bool bias, float beta) {
  std::vector<float> a = randoms(20000, 1), b = randoms(20000, 2),
                     v = randoms(200, 3), c = randoms(20000, 4), expected = c;
  matmul(a.data(), b.data(), bias ? v.data() : nullptr, c.data(), s, beta);
  reference(a.data(), b.data(), bias ? v.data() : nullptr, expected.data(), s,
            beta);
  EXPECT_LT(relativeError(c, expected), sumLimit(double(s.k) + 1));
}

TEST(Matmul, TransposesBiasAndBeta) {
  for (bool ta : {false, true})
    for (bool tb : {false, true})
      for (bool bias : {false, true})
        for (float beta : {0.f, 1.f})
          check({1, 37, 53, 29, ta, tb, 0, 0, 0, 0, 0, 0}, bias, beta);
}

TEST(Matmul, BatchesAndStrides) {
  check({5, 7, 9, 11, false, true, 77, 99, 63, 0, 0, 0}, true, 0);
  check({5, 7, 9, 11, false, false, 77, 0, 63, 0, 0, 0}, false,
        1); // one B for all
  check({3, 16, 8, 12, false, true, 16, 16, 200, 64, 48, 24}, true,
        1); // heads inside rows
}

TEST(Matmul, EmptyExtents) {
  check({1, 0, 5, 6, false, false, 0, 0, 0, 0, 0, 0}, true, 0);
  check({1, 5, 0, 6, false, false, 0, 0, 0, 0, 0, 0}, false, 0);
  check({0, 5, 5, 6, false, false, 0, 0, 0, 0, 0, 0}, false, 0);
  check({1, 5, 6, 0, false, true, 0, 0, 0, 0, 0, 0}, true, 0);
  check({1, 5, 6, 0, true, false, 0, 0, 0, 0, 0, 0}, false,
        1); // a weight gradient of no rows
  check({1, 5, 6, 0, true, false, 0, 0, 0, 0, 0, 0}, false, 0);
}

TEST(Matmul, SameBitsEveryTime) {
  std::vector<float> a = randoms(64 * 300, 1), b = randoms(48 * 300, 2),
                     c(64 * 48), d(64 * 48);
  MatmulShape s{1, 64, 48, 300, false, true, 0, 0, 0, 0, 0, 0};
  matmul(a.data(), b.data(), nullptr, c.data(), s);
  for (int i = 0; i < 5; ++i) {
    matmul(a.data(), b.data(), nullptr, d.data(), s);
    EXPECT_EQ(c, d);
  }
}

} // namespace
