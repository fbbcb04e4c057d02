//===- vecmath.h - elementary functions of generated GPU kernels -*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The names of runtime/cpu/vecmath.h for device code, so that a kernel's body is the
// same text for both targets.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_CUDA_VECMATH_H
#define DT_RUNTIME_CUDA_VECMATH_H

#include <cstdint>

namespace dt::rt {

#define DT_UNARY(NAME, F32, F64)                                                                                       \
  __device__ inline float NAME(float x) { return F32; }                                                                \
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
DT_UNARY(sigmoid, 1.0f / (1.0f + ::expf(-x)), 1.0 / (1.0 + ::exp(-x)))
DT_UNARY(softplus, ::log1pf(::expf(-::fabsf(x))) + (x > 0 ? x : 0.0f), ::log1p(::exp(-::fabs(x))) + (x > 0 ? x : 0.0))
DT_UNARY(sign, (x > 0 ? 1.0f : x < 0 ? -1.0f : x), (x > 0 ? 1.0 : x < 0 ? -1.0 : x))
#undef DT_UNARY

#define DT_BINARY(NAME, F32, F64)                                                                                      \
  __device__ inline float NAME(float a, float b) { return F32; }                                                       \
  __device__ inline double NAME(double a, double b) { return F64; }
DT_BINARY(pow, ::powf(a, b), ::pow(a, b))
DT_BINARY(maximum, (a > b || a != a ? a : b), (a > b || a != a ? a : b))
DT_BINARY(minimum, (a < b || a != a ? a : b), (a < b || a != a ? a : b))
#undef DT_BINARY

} // namespace dt::rt

#endif // DT_RUNTIME_CUDA_VECMATH_H
