//===- Product.cpp - matrix products on the host ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Both operands are copied to floats in the order in which they are read:
// strips of 16 rows and of 4 columns, whose products stay in registers.
//
//===----------------------------------------------------------------------===//

#include "Product.h"

#include <cstring>
#include <vector>

namespace cuda_double {

namespace {

constexpr int64_t kRows = 16, kColumns = 4;
typedef float Rows __attribute__((vector_size(kRows * sizeof(float))));

float widen(uint16_t bits) {
  uint32_t word = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

/// To the nearest, ties to even.
uint16_t narrow(float value) {
  uint32_t word;
  std::memcpy(&word, &value, sizeof word);
  if (value != value)
    return uint16_t(word >> 16 | 0x40);
  return uint16_t((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

/// Strips of `width` lines [strip][k][width]; zeros where there is no line.
/// Line i, place k is data[i * line + k * place].
void pack(std::vector<float> &to, const Operand &o, int64_t b, int64_t lines,
          int64_t k, int64_t line, int64_t place, int64_t width) {
  to.assign(size_t((lines + width - 1) / width * width * k), 0);
  for (int64_t i = 0; i < lines; ++i)
    for (int64_t p = 0; p < k; ++p)
      to[size_t((i / width * k + p) * width + i % width)] =
          load(o.data, o.narrow, i * line + p * place + b * o.stride);
}

void finish(const Product &p, int64_t b, int64_t i, int64_t j, float sum) {
  sum *= p.alpha;
  // C is not read where it does not count: it may hold anything.
  if (p.beta != 0)
    sum += p.beta * load(p.c.data, p.c.narrow,
                         i * p.c.down + j * p.c.along + b * p.c.stride);
  if (p.bias)
    sum += load(p.bias, p.d.narrow, i);
  int64_t at = i * p.d.down + j * p.d.along + b * p.d.stride;
  store(p.d.data, p.d.narrow, at, sum);
}

void multiplyStrip(const Product &p, int64_t b, int64_t i, int64_t j,
                   const float *a, const float *columns) {
  Rows sums[kColumns] = {};
  for (int64_t k = 0; k < p.k; ++k) {
    Rows rows;
    std::memcpy(&rows, a + k * kRows, sizeof rows);
    for (int64_t c = 0; c < kColumns; ++c)
      sums[c] += rows * columns[k * kColumns + c];
  }
  for (int64_t c = 0; c < kColumns && j + c < p.n; ++c)
    for (int64_t r = 0; r < kRows && i + r < p.m; ++r)
      finish(p, b, i + r, j + c, sums[c][r]);
}

} // namespace

float load(const void *data, bool isNarrow, int64_t at) {
  return isNarrow ? widen(static_cast<const uint16_t *>(data)[at])
                  : static_cast<const float *>(data)[at];
}

void store(void *data, bool isNarrow, int64_t at, float value) {
  if (isNarrow)
    static_cast<uint16_t *>(data)[at] = narrow(value);
  else
    static_cast<float *>(data)[at] = value;
}

void multiply(const Product &p) {
  std::vector<float> a, columns;
  for (int64_t b = 0; b < p.batch; ++b) {
    pack(a, p.a, b, p.m, p.k, p.a.down, p.a.along, kRows);
    pack(columns, p.b, b, p.n, p.k, p.b.along, p.b.down, kColumns);
    for (int64_t j = 0; j < p.n; j += kColumns)
      for (int64_t i = 0; i < p.m; i += kRows)
        multiplyStrip(p, b, i, j, a.data() + i * p.k, columns.data() + j * p.k);
  }
}

} // namespace cuda_double
