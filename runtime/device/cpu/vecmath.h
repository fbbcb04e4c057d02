//===- vecmath.h - elementary functions that vectorise ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The scalar functions that generated kernels call, as `dt::rt::exp(x)` and so
// on. The float versions are free of branches and calls, so that g++ and clang
// vectorise them inside `#pragma omp simd` loops without -ffast-math, which
// would break masks of -inf. Accuracy: about 2 ulp of the true value (sin and
// cos: |x| up to 2^30); infinities and NaN behave as in libm. The double
// versions are libm's, by builtins: <cmath> takes longer to parse than most
// generated files take to compile. Polynomials: S. Moshier's Cephes (exp, log,
// tanh) and N. Juffa's erf.
//
// Compile with -fno-trapping-math (lets selects become blends) and
// -fno-math-errno.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CPU_VECMATH_H
#define DT_RUNTIME_DEVICE_CPU_VECMATH_H

#include "runtime/device/Scalar.h"

namespace dt::rt {

namespace vecmath {

inline int32_t bitsOf(float x) { return __builtin_bit_cast(int32_t, x); }
inline float floatOf(int32_t x) { return __builtin_bit_cast(float, x); }
inline int64_t bitsOf(double x) { return __builtin_bit_cast(int64_t, x); }
inline double doubleOf(int64_t x) { return __builtin_bit_cast(double, x); }

// Both keep NaN: a comparison with NaN is false and x is taken.
inline float atMost(float x, float bound) { return x > bound ? bound : x; }
inline float atLeast(float x, float bound) { return x < bound ? bound : x; }

/// 2^n for n in [-126, 127]; anything for other n (of a NaN), hence unsigned.
inline float power2(int32_t n) {
  return floatOf(int32_t(uint32_t(n + 127) << 23));
}

/// x = n ln 2 + r: returns e^r - 1 and n; |x| at most 104.
inline float reducedExpm1(float x, int32_t &n) {
  const float magic = 12582912.f; // 1.5 * 2^23: adding it rounds to an integer
  float shifted = x * 1.44269504f + magic;
  n = bitsOf(shifted) - bitsOf(magic);
  float whole = shifted - magic;
  float r = x - whole * 0.693359375f;
  r = r - whole * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return p * (r * r) + r;
}

/// log2(x) of a positive normal double; relative error about 1e-13.
inline double log2Positive(double x) {
  int64_t bits = bitsOf(x);
  // Exponent and mantissa such that the mantissa lies in [sqrt(1/2), sqrt(2)).
  int64_t e = (bits - 0x3FE6A09E667F3BCDll) >> 52;
  double m = doubleOf(bits - int64_t(uint64_t(e) << 52));
  // atanh series: ln m = 2 (s + s^3/3 + ...), s = (m - 1) / (m + 1), |s| <
  // 0.172.
  double s = (m - 1) / (m + 1), z = s * s;
  double p = 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  p = p * z + 1.0;
  return double(int32_t(e)) + 2.8853900817779268 * s * p;
}

/// 2^x for x in [-1000, 1000]; relative error about 1e-11.
inline double exp2Bounded(double x) {
  const double magic = 6755399441055744.0; // 1.5 * 2^52
  double shifted = x + magic;
  int64_t n = bitsOf(shifted) - bitsOf(magic);
  double r = (x - (shifted - magic)) * 0.6931471805599453;
  double p = 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  return p * doubleOf(int64_t(uint64_t(n + 1023) << 52));
}

/// x = q pi/2 + r, |r| <= pi/4, in double: exact enough for |x| < 2^30. Of the
/// three parts of pi/2 the first two have 22 bits, so that their products are
/// exact where the processor has no fused multiply-add.
inline double reduceHalfPi(float x, int64_t &q) {
  const double magic = 6755399441055744.0;
  double shifted = double(x) * 0.6366197723675814 + magic;
  q = bitsOf(shifted) - bitsOf(magic);
  double n = shifted - magic;
  return ((double(x) - n * 1.570796012878418) - n * 3.139164164167596e-07) -
         n * 6.223372171896613e-14;
}

inline double sinPolynomial(double r) {
  double z = r * r;
  double p = -2.5052108385441720e-8;
  p = p * z + 2.7557319223985888e-6;
  p = p * z - 1.9841269841269841e-4;
  p = p * z + 8.3333333333333333e-3;
  p = p * z - 1.6666666666666666e-1;
  return r + r * z * p;
}

inline double cosPolynomial(double r) {
  double z = r * r;
  double p = 2.0876756987868099e-9;
  p = p * z - 2.7557319223985893e-7;
  p = p * z + 2.4801587301587302e-5;
  p = p * z - 1.3888888888888889e-3;
  p = p * z + 4.1666666666666666e-2;
  p = p * z - 0.5;
  return 1 + z * p;
}

} // namespace vecmath

inline float exp(float x) {
  using namespace vecmath;
  x = atLeast(atMost(x, 89.f), -104.f);
  int32_t n;
  float r = reducedExpm1(x, n) + 1;
  // Two factors: 2^n itself leaves the normal range at both ends.
  int32_t half = n >> 1;
  return r * power2(half) * power2(n - half);
}

inline float expm1(float x) {
  using namespace vecmath;
  float bounded = atLeast(atMost(x, 88.f), -30.f);
  int32_t n;
  float q = reducedExpm1(bounded, n);
  float s = power2(n > 127 ? 127 : n);
  float r = s * q + (s - 1);
  return x > 88.f ? exp(x) : r;
}

inline float log(float x) {
  using namespace vecmath;
  bool tiny = x < 1.17549435e-38f;
  float scaled = tiny ? x * 8388608.f : x;
  int32_t bits = bitsOf(scaled);
  int32_t e = (bits - 0x3F3504F3) >> 23; // mantissa in [sqrt(1/2), sqrt(2))
  float m = floatOf(bits - int32_t(uint32_t(e) << 23)) - 1;
  float ef = float(e) - (tiny ? 23.f : 0.f);
  float z = m * m;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  float y = p * m * z;
  y = y + ef * -2.12194440e-4f;
  y = y - 0.5f * z;
  float r = (m + y) + ef * 0.693359375f;
  r = x < kInf ? r : x; // also NaN
  r = x == 0 ? -kInf : r;
  return x < 0 ? kNaN : r;
}

inline float log1p(float x) {
  using namespace vecmath;
  // The rounding of 1 + x is put back to first order.
  float u = 1 + x;
  float correction = (x - (u - 1)) / u;
  float r = log(u);
  return r + (u > 0 && u < kInf ? correction : 0.f);
}

inline float tanh(float x) {
  using namespace vecmath;
  float a = __builtin_fabsf(x), z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  float small = p * z * x + x;
  float large = 1 - 2 / (exp(2 * atMost(a, 20.f)) + 1);
  large = x < 0 ? -large : large;
  return a < 0.625f ? small : large;
}

inline float erf(float x) {
  using namespace vecmath;
  float a = atMost(__builtin_fabsf(x), 4.f), s = a * a;
  float r = -1.72853470e-5f * a + 3.83197126e-4f;
  float u = -3.88396438e-3f * a + 2.42546219e-2f;
  r = r * s + u;
  r = r * a - 1.06777877e-1f;
  r = r * a - 6.34846687e-1f;
  r = r * a - 1.28717512e-1f;
  r = r * a - a;
  float large = 1 - exp(r);
  large = x < 0 ? -large : large;
  float p = -5.96761703e-4f;
  p = p * s + 4.99119423e-3f;
  p = p * s - 2.67681349e-2f;
  p = p * s + 1.12819925e-1f;
  p = p * s - 3.76125336e-1f;
  p = p * s + 1.28379166e-1f;
  float small = p * x + x;
  return a > 0.927734375f ? large : (x == x ? small : x);
}

inline float sigmoid(float x) { return 1 / (1 + exp(-x)); }

/// log(1 + e^x) without overflow.
inline float softplus(float x) {
  float e = exp(-__builtin_fabsf(x)), u = 1 + e;
  return (log(u) + (e - (u - 1)) / u) + vecmath::atLeast(x, 0.f);
}

inline float sin(float x) {
  using namespace vecmath;
  int64_t q;
  double r = reduceHalfPi(x, q);
  double v = q & 1 ? cosPolynomial(r) : sinPolynomial(r);
  return float(q & 2 ? -v : v);
}

inline float cos(float x) {
  using namespace vecmath;
  int64_t q;
  double r = reduceHalfPi(x, q);
  double v = q & 1 ? sinPolynomial(r) : cosPolynomial(r);
  return float((q + 1) & 2 ? -v : v);
}

/// C's pow for float: also signs, zeros, infinities and NaN.
inline float pow(float x, float y) {
  using namespace vecmath;
  float a = __builtin_fabsf(x);
  double base = a;
  base = a < 1e-44f
             ? 1e-300
             : base; // 0: a number so small that any |y| >= 2^-3 saturates
  base = a < kInf ? base : 1e300; // inf (NaN is put back below)
  double t = double(y) * log2Positive(base);
  t = t > 300 ? 300.0 : t;
  t = t < -300 ? -300.0 : t;
  t = t == t ? t : 0.0;
  float r = float(exp2Bounded(t));
  r = a == 0 ? (y > 0 ? 0.f : kInf) : r;
  r = a == kInf ? (y > 0 ? kInf : 0.f) : r;
  bool whole = __builtin_floorf(y) == y;
  bool odd = whole && __builtin_floorf(y * 0.5f) != y * 0.5f;
  r = odd ? __builtin_copysignf(r, x) : r;
  r = x < 0 && a < kInf && !whole ? kNaN : r;
  r = a == 1 && (x > 0 || __builtin_fabsf(y) == kInf) ? 1.f : r;
  r = x == x && y == y ? r : x + y;
  return y == 0 || x == 1 ? 1.f : r;
}

inline float sqrt(float x) { return __builtin_sqrtf(x); }
inline float rsqrt(float x) { return 1 / __builtin_sqrtf(x); }
inline float abs(float x) { return __builtin_fabsf(x); }
inline float floor(float x) { return __builtin_floorf(x); }
inline float ceil(float x) { return __builtin_ceilf(x); }

/// To the nearest integer, halves to even, as ONNX Round.
inline float round(float x) {
  float a = __builtin_fabsf(x);
  float r = (a + 8388608.f) - 8388608.f;
  r = __builtin_copysignf(r, x);
  return a < 8388608.f ? r : x;
}

inline float sign(float x) { return x > 0 ? 1.f : x < 0 ? -1.f : x; }

/// NaN if either is NaN, as torch.maximum and ONNX Max.
inline float maximum(float a, float b) { return a > b || a != a ? a : b; }
inline float minimum(float a, float b) { return a < b || a != a ? a : b; }

inline double exp(double x) { return __builtin_exp(x); }
inline double expm1(double x) { return __builtin_expm1(x); }
inline double log(double x) { return __builtin_log(x); }
inline double log1p(double x) { return __builtin_log1p(x); }
inline double tanh(double x) { return __builtin_tanh(x); }
inline double erf(double x) { return __builtin_erf(x); }
inline double sigmoid(double x) { return 1 / (1 + __builtin_exp(-x)); }
inline double softplus(double x) {
  return __builtin_log1p(__builtin_exp(-__builtin_fabs(x))) + (x > 0 ? x : 0);
}
inline double sin(double x) { return __builtin_sin(x); }
inline double cos(double x) { return __builtin_cos(x); }
inline double pow(double x, double y) { return __builtin_pow(x, y); }
inline double sqrt(double x) { return __builtin_sqrt(x); }
inline double rsqrt(double x) { return 1 / __builtin_sqrt(x); }
inline double abs(double x) { return __builtin_fabs(x); }
inline double floor(double x) { return __builtin_floor(x); }
inline double ceil(double x) { return __builtin_ceil(x); }
inline double round(double x) { return __builtin_nearbyint(x); }
inline double sign(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }
inline double maximum(double a, double b) { return a > b || a != a ? a : b; }
inline double minimum(double a, double b) { return a < b || a != a ? a : b; }

// Of the C library: these do not vectorise.
#define DT_UNARY(NAME)                                                         \
  inline float NAME(float x) { return __builtin_##NAME##f(x); }                \
  inline double NAME(double x) { return __builtin_##NAME(x); }
inline float roundAway(float x) { return __builtin_roundf(x); }
inline double roundAway(double x) { return __builtin_round(x); }
DT_UNARY(trunc)
DT_UNARY(exp2)
DT_UNARY(log2)
DT_UNARY(log10)
DT_UNARY(cbrt)
DT_UNARY(erfc)
DT_UNARY(tan)
DT_UNARY(asin)
DT_UNARY(acos)
DT_UNARY(atan)
DT_UNARY(sinh)
DT_UNARY(cosh)
DT_UNARY(asinh)
DT_UNARY(acosh)
DT_UNARY(atanh)
#undef DT_UNARY

#define DT_BINARY(NAME)                                                        \
  inline float NAME(float x, float y) { return __builtin_##NAME##f(x, y); }    \
  inline double NAME(double x, double y) { return __builtin_##NAME(x, y); }
DT_BINARY(fmod)
DT_BINARY(atan2)
DT_BINARY(copysign)
#undef DT_BINARY

inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline double fma(double x, double y, double z) {
  return __builtin_fma(x, y, z);
}

// Reductions of loops. OpenMP's own max begins with the smallest finite number
// where a row may be all -infinity (masks), and drops NaN.
#pragma omp declare reduction(largest : float,                                 \
                                  double : omp_out = maximum(omp_out, omp_in)) \
    initializer(omp_priv = -__builtin_inff())
#pragma omp declare reduction(smallest : float,                                \
                                  double : omp_out = minimum(omp_out, omp_in)) \
    initializer(omp_priv = __builtin_inff())

} // namespace dt::rt

#endif // DT_RUNTIME_DEVICE_CPU_VECMATH_H
