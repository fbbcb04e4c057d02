//===- Tensor.h - products and convolutions on the host ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What a library's descriptors say, and what it computes of them.
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_CUDA_TENSOR_H
#define DT_TEST_CUDA_TENSOR_H

#include "Double.h"

namespace cuda_double {

using Sizes = std::vector<int64_t>;

/// Element (i, j, ...) is number i * strides[0] + j * strides[1] + ...
struct Tensor {
  Sizes sizes = {}, strides = {};
  bool narrow = false; ///< bf16, else float
  void *data = nullptr;
  int64_t alignment = 1; ///< of data, promised
  int64_t id = 0;

  int64_t count() const;
  /// Bytes from its first to its last element.
  size_t span() const;
  float load(int64_t number) const;
  void store(int64_t number, float value) const;
};

float widen(uint16_t bf16);
/// To the nearest, ties to even.
uint16_t narrow(float value);

/// Ends the program where a tensor is not on the device as was promised.
void requireTensor(const Tensor &tensor, const std::string &what);
bool overlap(const Tensor &a, const Tensor &b);
/// Queues what a library computes. The program ends where its workspace is no
/// device memory; what stands there is gone.
void queueCall(const char *call, cudaStream_t stream, void *workspace,
               size_t bytes, std::function<void()> work);

/// d = alpha * a b + beta * c + bias of matrices [batch, rows, columns], with
/// sums in float. The bias [1, rows, 1] may have no data.
struct Product {
  Tensor a, b, c, d, bias;
  float alpha = 1, beta = 0;
};
void multiply(const Product &product);

/// One of three tensors is computed from the other two: x [n, c, in...],
/// w [o, c / groups, kernel...], y [n, o, out...].
struct Convolution {
  enum Wanted { X, W, Y } wanted = Y;
  Tensor tensors[3]; ///< x, w, y
  Sizes before, after, stride, dilation;
  float alpha = 1, beta = 0;

  const Sizes &sizes(Wanted which) const { return tensors[which].sizes; }
  int64_t groups() const { return sizes(X)[1] / sizes(W)[1]; }
};

/// How exactly it is computed.
struct Manner {
  bool rounded = false; ///< operands to TF32's 10 bits
  bool drawn = false;   ///< samples are added up in an order that is drawn
};

void convolve(const Convolution &convolution, Manner manner);

} // namespace cuda_double

#endif // DT_TEST_CUDA_TENSOR_H
