//===- Scalar.h - small functions that generated kernels call ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What C++ has no operator for and both targets need. Free of branches, so that
// loops around them vectorise.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_SCALAR_H
#define DT_RUNTIME_DEVICE_SCALAR_H

#include "runtime/device/BFloat16.h"

#include <cstdint>

#ifdef __CUDACC__
#define DT_SCALAR __host__ __device__ inline
#else
#define DT_SCALAR inline
#endif

// EmitC writes these names into tables of constants; <cmath> is too long for
// them.
#ifndef INFINITY
#define INFINITY (__builtin_inff())
#endif
#ifndef NAN
#define NAN (__builtin_nanf(""))
#endif

namespace dt::rt {

constexpr float kInf = __builtin_inff();
constexpr float kNaN = __builtin_nanf("");

/// Rounded down and up; `/` rounds toward zero.
template <typename T> DT_SCALAR T floorDiv(T a, T b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
template <typename T> DT_SCALAR T ceilDiv(T a, T b) {
  return a / b + (a % b != 0 && (a < 0) == (b < 0));
}

/// IEEE 754 maximumNumber, minimumNumber: NaN counts as missing.
template <typename T> DT_SCALAR T maxnum(T a, T b) {
  return a < b || a != a ? b : a;
}
template <typename T> DT_SCALAR T minnum(T a, T b) {
  return a > b || a != a ? b : a;
}

template <typename T> DT_SCALAR bool isNaN(T x) { return x != x; }
template <typename T> DT_SCALAR bool isInf(T x) {
  return x == kInf || x == -kInf;
}
template <typename T> DT_SCALAR bool isFinite(T x) { return x - x == 0; }
template <typename T> DT_SCALAR T absInt(T x) { return x < 0 ? -x : x; }

} // namespace dt::rt

#undef DT_SCALAR

#endif // DT_RUNTIME_DEVICE_SCALAR_H
