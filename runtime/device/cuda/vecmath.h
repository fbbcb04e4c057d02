//===- vecmath.h - elementary functions of generated GPU kernels ----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The names of runtime/device/cpu/vecmath.h for device code, so that a kernel's
// body is the same text for both targets.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CUDA_VECMATH_H
#define DT_RUNTIME_DEVICE_CUDA_VECMATH_H

#include <cmath>

namespace dt::rt {

#define DT_UNARY(NAME, F32, F64)                                               \
  __device__ inline float NAME(float x) { return F32; }                        \
  __device__ inline double NAME(double x) { return F64; }
DT_UNARY(exp, ::expf(x), ::exp(x))
DT_UNARY(expm1, ::expm1f(x), ::expm1(x))
DT_UNARY(log, ::logf(x), ::log(x))
DT_UNARY(log1p, ::log1pf(x), ::log1p(x))
DT_UNARY(tanh, ::tanhf(x), ::tanh(x))
DT_UNARY(erf, ::erff(x), ::erf(x))
DT_UNARY(sin, ::sinf(x), ::sin(x))
DT_UNARY(cos, ::cosf(x), ::cos(x))
DT_UNARY(sqrt, ::sqrtf(x), ::sqrt(x))
DT_UNARY(rsqrt, 1.0f / ::sqrtf(x), 1.0 / ::sqrt(x))
DT_UNARY(abs, ::fabsf(x), ::fabs(x))
DT_UNARY(floor, ::floorf(x), ::floor(x))
DT_UNARY(ceil, ::ceilf(x), ::ceil(x))
DT_UNARY(round, ::rintf(x), ::rint(x))
DT_UNARY(roundAway, ::roundf(x), ::round(x))
DT_UNARY(trunc, ::truncf(x), ::trunc(x))
DT_UNARY(exp2, ::exp2f(x), ::exp2(x))
DT_UNARY(log2, ::log2f(x), ::log2(x))
DT_UNARY(log10, ::log10f(x), ::log10(x))
DT_UNARY(cbrt, ::cbrtf(x), ::cbrt(x))
DT_UNARY(erfc, ::erfcf(x), ::erfc(x))
DT_UNARY(tan, ::tanf(x), ::tan(x))
DT_UNARY(asin, ::asinf(x), ::asin(x))
DT_UNARY(acos, ::acosf(x), ::acos(x))
DT_UNARY(atan, ::atanf(x), ::atan(x))
DT_UNARY(sinh, ::sinhf(x), ::sinh(x))
DT_UNARY(cosh, ::coshf(x), ::cosh(x))
DT_UNARY(asinh, ::asinhf(x), ::asinh(x))
DT_UNARY(acosh, ::acoshf(x), ::acosh(x))
DT_UNARY(atanh, ::atanhf(x), ::atanh(x))
DT_UNARY(sigmoid, 1.0f / (1.0f + ::expf(-x)), 1.0 / (1.0 + ::exp(-x)))
DT_UNARY(softplus, ::log1pf(::expf(-::fabsf(x))) + (x > 0 ? x : 0.0f),
         ::log1p(::exp(-::fabs(x))) + (x > 0 ? x : 0.0))
DT_UNARY(sign,
         (x > 0   ? 1.0f
          : x < 0 ? -1.0f
                  : x),
         (x > 0   ? 1.0
          : x < 0 ? -1.0
                  : x))
#undef DT_UNARY

#define DT_BINARY(NAME, F32, F64)                                              \
  __device__ inline float NAME(float a, float b) { return F32; }               \
  __device__ inline double NAME(double a, double b) { return F64; }
DT_BINARY(pow, ::powf(a, b), ::pow(a, b))
DT_BINARY(maximum, (a > b || a != a ? a : b), (a > b || a != a ? a : b))
DT_BINARY(minimum, (a < b || a != a ? a : b), (a < b || a != a ? a : b))
DT_BINARY(fmod, ::fmodf(a, b), ::fmod(a, b))
DT_BINARY(atan2, ::atan2f(a, b), ::atan2(a, b))
DT_BINARY(copysign, ::copysignf(a, b), ::copysign(a, b))
#undef DT_BINARY

__device__ inline float fma(float a, float b, float c) {
  return ::fmaf(a, b, c);
}
__device__ inline double fma(double a, double b, double c) {
  return ::fma(a, b, c);
}

} // namespace dt::rt

#endif // DT_RUNTIME_DEVICE_CUDA_VECMATH_H
