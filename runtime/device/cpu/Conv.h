//===- Conv.h - convolutions for generated code -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// oneDNN convolutions in 1, 2 and 3 dims. Tensors are plain row-major as in
// ONNX (x [n, c, in...], w [o, c / groups, kernel...], y [n, o, out...]); the
// wrapper reorders to the layouts that oneDNN prefers. Primitives are cached by
// shape. Narrow operands are summed in float.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CPU_CONV_H
#define DT_RUNTIME_DEVICE_CPU_CONV_H

#include "runtime/device/Floats.h"

#include <cstdint>

namespace dt::rt {

/// `dims` of 1, 2 or 3 spatial dims; only the first `dims` entries of each
/// array count. Strides and dilations are at least 1 (1 = dense), pads may
/// differ at both ends. tf32: as of MatmulShape.
struct ConvShape {
  int64_t n, c, o, groups;
  int32_t dims;
  int64_t in[3], kernel[3], stride[3], dilation[3], padBegin[3], padEnd[3];
  bool tf32 = false;

  /// Spatial extent of the output.
  int64_t out(int i) const {
    return (in[i] + padBegin[i] + padEnd[i] - dilation[i] * (kernel[i] - 1) -
            1) /
               stride[i] +
           1;
  }
};

/// y = conv(x, w) + bias; bias [o] or null.
void convForward(const float *x, const float *w, const float *bias, float *y,
                 const ConvShape &shape);
void convForward(const bf16 *x, const bf16 *w, Floats bias, bf16 *y,
                 const ConvShape &shape);

/// dx = gradient of the input. This is also the transposed convolution: with
/// `bias` [c] (else null) added; then `dy` is its input [n, o, out...], `w` [o,
/// c / groups, kernel...] its weight as ONNX stores it, `dx` its output.
void convBackwardData(const float *dy, const float *w, const float *bias,
                      float *dx, const ConvShape &shape);
void convBackwardData(const bf16 *dy, const bf16 *w, Floats bias, bf16 *dx,
                      const ConvShape &shape);

/// dw = beta * dw + gradient of the weights; db likewise if not null. beta is 0
/// or 1.
void convBackwardWeights(const float *x, const float *dy, float *dw, float *db,
                         const ConvShape &shape, float beta);
void convBackwardWeights(const bf16 *x, const bf16 *dy, float *dw, float *db,
                         const ConvShape &shape, float beta);
void convBackwardWeights(const bf16 *x, const bf16 *dy, bf16 *dw, bf16 *db,
                         const ConvShape &shape, float beta);

} // namespace dt::rt

#endif // DT_RUNTIME_DEVICE_CPU_CONV_H
