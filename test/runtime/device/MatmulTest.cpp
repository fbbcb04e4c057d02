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

//===----------------------------------------------------------------------===//
// Narrow operands
//===----------------------------------------------------------------------===//

/// Operands are rounded first: what is left is the rounding of a narrow result.
struct NarrowOperands {
  std::vector<bf16> a = narrow(randoms(20000, 1)),
                    b = narrow(randoms(20000, 2)),
                    bias = narrow(randoms(200, 3));
  std::vector<float> wideBias = randoms(200, 3);

  std::vector<float> expected(std::vector<float> c, const MatmulShape &s,
                              Floats bias, float beta) const {
    std::vector<float> added;
    for (int64_t i = 0; bias && i < s.n; ++i)
      added.push_back(bias[i]);
    reference(widen(a).data(), widen(b).data(), bias ? added.data() : nullptr,
              c.data(), s, beta);
    return c;
  }
};

void checkNarrowProduct(const MatmulShape &s) {
  NarrowOperands x;
  double sums = sumLimit(double(s.k) + 1);
  std::vector<float> start = randoms(20000, 4);
  for (Floats bias :
       {Floats(nullptr), Floats(x.wideBias.data()), Floats(x.bias.data())})
    for (float beta : {0.f, 1.f}) {
      std::vector<float> c = start;
      matmul(x.a.data(), x.b.data(), bias, c.data(), s, beta);
      EXPECT_LT(relativeError(c, x.expected(start, s, bias, beta)), sums);
      std::vector<bf16> rounded = narrow(start);
      matmul(x.a.data(), x.b.data(), bias, rounded.data(), s, beta);
      std::vector<float> wanted =
          x.expected(widen(narrow(start)), s, bias, beta);
      EXPECT_LT(relativeError(widen(rounded), wanted), sums + kNarrowEps);
    }
}

TEST(Matmul, NarrowOperands) {
  for (bool ta : {false, true})
    for (bool tb : {false, true})
      checkNarrowProduct({1, 37, 53, 29, ta, tb, 0, 0, 0, 0, 0, 0});
  checkNarrowProduct({5, 7, 9, 11, false, true, 77, 99, 63, 0, 0, 0});
  checkNarrowProduct({5, 7, 9, 11, false, false, 77, 0, 63, 0, 0, 0});
  checkNarrowProduct({3, 16, 8, 12, false, true, 16, 16, 200, 64, 48, 24});
  checkNarrowProduct({1, 5, 6, 0, false, true, 0, 0, 0, 0, 0, 0});
  checkNarrowProduct({0, 5, 5, 6, false, false, 0, 0, 0, 0, 0, 0});
}

TEST(Matmul, NarrowResultIsRoundedOnce) {
  // 1 + 2^-8 lies between two numbers, the sum of 256 of them does not.
  std::vector<bf16> ones(256, bf16(1)), c(1);
  std::vector<bf16> b(256, bf16(1));
  b[0] = 1 / 256.f;
  matmul(ones.data(), b.data(), nullptr, c.data(),
         {1, 1, 1, 256, false, false, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(float(c[0]), 255.f);
}

TEST(Matmul, BetweenRowsOfNarrowResultsNothingChanges) {
  std::vector<bf16> a = narrow(randoms(60, 1)), b = narrow(randoms(60, 2)),
                    c(200, bf16(3));
  matmul(a.data(), b.data(), nullptr, c.data(),
         {1, 6, 5, 7, false, false, 0, 0, 0, 0, 0, 20});
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(float(c[size_t(i)]) == 3.f, i / 20 >= 6 || i % 20 >= 5) << i;
}

/// What processors with products of narrow operands run, on floats.
TEST(Matmul, Primitive) {
  for (MatmulShape s :
       {MatmulShape{1, 37, 53, 29, false, false, 0, 0, 0, 0, 0, 0},
        MatmulShape{1, 37, 53, 29, true, true, 0, 0, 0, 0, 0, 0},
        MatmulShape{5, 7, 9, 11, false, true, 77, 99, 63, 0, 0, 0},
        MatmulShape{5, 7, 9, 11, false, false, 77, 0, 63, 0, 0, 0},
        MatmulShape{5, 7, 9, 11, true, false, 0, 99, 63, 0, 0, 0},
        MatmulShape{3, 16, 8, 12, false, true, 16, 16, 200, 64, 48, 24}})
    for (bool bias : {false, true})
      for (float beta : {0.f, 1.f}) {
        std::vector<float> a = randoms(20000, 1), b = randoms(20000, 2),
                           v = randoms(200, 3), c = randoms(20000, 4),
                           expected = c;
        const float *added = bias ? v.data() : nullptr;
        matmulPrimitive(a.data(), b.data(), added, c.data(), s, beta);
        reference(a.data(), b.data(), added, expected.data(), s, beta);
        EXPECT_LT(relativeError(c, expected), sumLimit(double(s.k) + 1));
      }
}

} // namespace
