//===- Product.h - matrix products on the host ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_CUDA_PRODUCT_H
#define DT_TEST_CUDA_PRODUCT_H

#include <cstdint>

namespace cuda_double {

/// A batch of matrices: element (i, j) of number b is data[i * down + j *
/// along + b * stride].
struct Operand {
  void *data = nullptr;
  bool narrow = false; ///< bf16, else float
  int64_t down = 0, along = 0, stride = 0;
};

/// d = alpha * a b + beta * c + bias, with sums in float; a is m x k, b k x n.
/// The bias has an element a row, of d's type; null: none.
struct Product {
  Operand a, b, c, d;
  int64_t m = 0, n = 0, k = 0, batch = 1;
  float alpha = 1, beta = 0;
  const void *bias = nullptr;
};

void multiply(const Product &product);

/// Element `at` of bf16 or of float.
float load(const void *data, bool narrow, int64_t at);
void store(void *data, bool narrow, int64_t at, float value);

} // namespace cuda_double

#endif // DT_TEST_CUDA_PRODUCT_H
