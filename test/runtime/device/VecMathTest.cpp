//===- VecMathTest.cpp - accuracy and special values ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu/vecmath.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace dt::rt;

namespace {

/// The worst error in units of the last place of the true value, over every
/// 4099th float in [low, high].
template <typename F, typename G>
double worstUlp(F f, G g, float low, float high) {
  double worst = 0;
  for (uint64_t bits = 0; bits <= 0xFFFFFFFFull; bits += 4099) {
    float x = __builtin_bit_cast(float, uint32_t(bits));
    if (!(x >= low && x <= high))
      continue;
    double expected = g(double(x)), got = f(x);
    float rounded = std::fabs(float(expected));
    if (std::isinf(rounded) || std::isinf(got)) {
      if (got != double(float(expected)) && std::fabs(expected) < 3.4e38)
        return kInf;
      continue;
    }
    double ulp = double(std::nextafter(rounded, kInf)) - rounded;
    double error = std::fabs(got - expected) / ulp;
    if (!(error <= worst))
      worst = error;
  }
  return worst;
}

#define EXPECT_ULP(bound, name, low, high)                                     \
  EXPECT_LE(worstUlp([](float x) { return dt::rt::name(x); },                  \
                     [](double x) { return std::name(x); }, low, high),        \
            bound)

TEST(VecMath, Accuracy) {
  EXPECT_ULP(2, exp, -200, 200); // also denormal results
  EXPECT_ULP(2, expm1, -100, 100);
  EXPECT_ULP(2, log, 1e-45f, 3e38f);
  EXPECT_ULP(2, log1p, -0.999f, 1e30f);
  EXPECT_ULP(2, tanh, -100, 100);
  EXPECT_ULP(2, erf, -1e30f, 1e30f);
  EXPECT_ULP(1, sin, -1e9f, 1e9f);
  EXPECT_ULP(1, cos, -1e9f, 1e9f);
  auto sigmoidOf = [](double x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_LE(worstUlp([](float x) { return sigmoid(x); }, sigmoidOf, -87, 100),
            2.5);
  auto softplusOf = [](double x) {
    return std::log1p(std::exp(-std::fabs(x))) + (x > 0 ? x : 0);
  };
  EXPECT_LE(worstUlp([](float x) { return softplus(x); }, softplusOf, -87, 100),
            2.5);
  for (float y : {1.7f, -0.5f, 3.f, -10.f, 2.f})
    EXPECT_LE(worstUlp([y](float x) { return dt::rt::pow(x, y); },
                       [y](double x) { return std::pow(x, double(y)); },
                       y == std::floor(y) ? -1e30f : 0.f, 1e30f),
              1)
        << y;
}

TEST(VecMath, SpecialValues) {
  const float inf = kInf, nan = kNaN;
  EXPECT_EQ(dt::rt::exp(-inf), 0.f);
  EXPECT_EQ(dt::rt::exp(inf), inf);
  EXPECT_EQ(dt::rt::exp(-3.4e38f), 0.f);
  EXPECT_EQ(dt::rt::log(0.f), -inf);
  EXPECT_EQ(dt::rt::log(inf), inf);
  EXPECT_TRUE(std::isnan(dt::rt::log(-1.f)));
  EXPECT_EQ(dt::rt::tanh(-inf), -1.f);
  EXPECT_EQ(dt::rt::erf(inf), 1.f);
  EXPECT_EQ(sigmoid(-inf), 0.f);
  EXPECT_EQ(softplus(inf), inf);
  EXPECT_EQ(dt::rt::round(2.5f), 2.f);
  EXPECT_EQ(dt::rt::round(-3.5f), -4.f);
  for (float r :
       {dt::rt::exp(nan), dt::rt::log(nan), dt::rt::tanh(nan), dt::rt::erf(nan),
        sigmoid(nan), softplus(nan), dt::rt::sin(nan), maximum(nan, 1.f),
        maximum(1.f, nan), minimum(nan, 1.f), dt::rt::pow(nan, 2.f), expm1(nan),
        log1p(nan), sign(nan)})
    EXPECT_TRUE(std::isnan(r));
}

TEST(VecMath, PowAsInC) {
  const float inf = kInf, nan = kNaN;
  for (float x : {0.f, -0.f, 1.f, -1.f, inf, -inf, nan, -2.5f, 0.5f})
    for (float y : {0.f, 1.f, 2.f, 3.f, -1.f, -2.f, 0.5f, inf, -inf, nan}) {
      float got = dt::rt::pow(x, y), expected = std::pow(x, y);
      EXPECT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected)))
          << x << " ^ " << y << " = " << got << ", expected " << expected;
    }
}

} // namespace
