//===- Convolution.h - convolutions on the host -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_CUDA_CONVOLUTION_H
#define DT_TEST_CUDA_CONVOLUTION_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cuda_double {

/// Element (i, j, ...) is data[i * strides[0] + j * strides[1] + ...].
struct Tensor {
  std::vector<int64_t> sizes, strides;
  bool narrow = false; ///< bf16, else float
  int64_t id = 0, alignment = 1;
  void *data = nullptr;

  int64_t count() const;
  /// From its first to its last byte.
  size_t span() const;
};

/// One of three tensors is computed from the other two: x [n, c, in...],
/// w [o, c / groups, kernel...], y [n, o, out...].
struct Convolution {
  enum Wanted { Y, X, W } wanted = Y;
  Tensor x, w, y;
  std::vector<int64_t> before, after, stride, dilation;
  float alpha = 1, beta = 0;

  int64_t groups() const { return x.sizes[1] / w.sizes[1]; }
  Tensor &result() { return wanted == Y ? y : wanted == X ? x : w; }
};

/// How exactly it is computed.
struct Manner {
  bool rounded = false; ///< operands to TF32's 10 bits
  bool drawn = false;   ///< samples are added up in an order that is drawn
};

void convolve(Convolution c, Manner manner);

} // namespace cuda_double

#endif // DT_TEST_CUDA_CONVOLUTION_H
