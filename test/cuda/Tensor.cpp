//===- Tensor.cpp - products and convolutions on the host -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Operands are copied to dense floats; sums are taken in the order of memory.
//
//===----------------------------------------------------------------------===//

#include "Double.h"

#include <bit>
#include <numeric>

namespace cuda_double {

float widen(uint16_t bf16) {
  return std::bit_cast<float>(uint32_t(bf16) << 16);
}

uint16_t narrow(float value) {
  auto word = std::bit_cast<uint32_t>(value);
  if (value != value)
    return uint16_t(word >> 16 | 0x40);
  return uint16_t((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

int64_t Tensor::count() const {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1),
                         std::multiplies<>());
}

size_t Tensor::span() const {
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i)
    last += (sizes[i] - 1) * strides[i];
  return size_t(last + 1) * (narrow ? 2 : 4);
}

float Tensor::load(int64_t number) const {
  return narrow ? widen(static_cast<const uint16_t *>(data)[number])
                : static_cast<const float *>(data)[number];
}

void Tensor::store(int64_t number, float value) const {
  if (narrow)
    static_cast<uint16_t *>(data)[number] = cuda_double::narrow(value);
  else
    static_cast<float *>(data)[number] = value;
}

bool overlap(const Tensor &a, const Tensor &b) {
  auto *from = static_cast<const char *>(a.data),
       *other = static_cast<const char *>(b.data);
  return from < other + b.span() && other < from + a.span();
}

void queueCall(cudaStream_t stream, void *workspace, size_t bytes,
               std::function<void()> work) {
  if (bytes)
    requireDevice(workspace, bytes, "the workspace", 256);
  counts.products++;
  queue(stream, [=] {
    std::memset(workspace, kPoison, std::min(bytes, size_t(4096)));
    work();
  });
}

/// Element i of a tensor, counted as in a dense one.
static int64_t numberOf(const Tensor &t, int64_t i) {
  int64_t at = 0;
  for (size_t d = t.sizes.size(); d-- > 0; i /= t.sizes[d])
    at += i % t.sizes[d] * t.strides[d];
  return at;
}

Floats read(const Tensor &t) {
  Floats values(size_t(t.count()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = t.load(numberOf(t, int64_t(i)));
  return values;
}

void write(const Tensor &to, const Floats &values, float beta,
           const Tensor &c) {
  for (size_t i = 0; i < values.size(); ++i) {
    float more = beta != 0 ? beta * c.load(numberOf(c, int64_t(i))) : 0;
    to.store(numberOf(to, int64_t(i)), values[i] + more);
  }
}

namespace {

/// What one element in the first two dims has.
int64_t inner(const Sizes &sizes) {
  return Tensor{.sizes = {sizes.begin() + 2, sizes.end()}}.count();
}

/// Where each element of a patch matrix [channels * taps, places] stands in the
/// input's channels; -1: in the padding.
Sizes patchPlaces(const Convolution &c) {
  using enum Convolution::Wanted;
  const Sizes &in = c.sizes(X), &kernel = c.sizes(W), &out = c.sizes(Y);
  int64_t taps = inner(kernel), places = inner(out), inputs = inner(in);
  Sizes all(size_t(kernel[1] * taps * places));
  for (int64_t i = 0; i < int64_t(all.size()); ++i) {
    int64_t tap = i / places % taps, place = i % places, at = 0, scale = 1;
    for (size_t d = in.size(); d-- > 2;) {
      int64_t reach = place % out[d] * c.stride[d - 2] +
                      tap % kernel[d] * c.dilation[d - 2] - c.before[d - 2];
      bool inside = reach >= 0 && reach < in[d] && at >= 0;
      at = inside ? at + reach * scale : -1;
      scale *= in[d], tap /= kernel[d], place /= out[d];
    }
    all[size_t(i)] = at < 0 ? -1 : at + i / places / taps * inputs;
  }
  return all;
}

} // namespace

void multiply(const Product &p) {
  Floats a = read(p.a), b = read(p.b), d(size_t(p.d.count()));
  size_t m = size_t(p.d.sizes[1]), n = size_t(p.d.sizes[2]),
         k = size_t(p.a.sizes[2]);
  for (size_t row = 0; row < d.size() / n; ++row)
    for (size_t i = 0; i < k; ++i) {
      float *to = &d[row * n], *from = &b[(row / m * k + i) * n];
      for (size_t j = 0; j < n; ++j)
        to[j] += a[row * k + i] * from[j];
    }
  for (size_t i = 0; i < d.size(); ++i)
    d[i] = p.alpha * d[i] + (p.bias.data ? p.bias.load(int64_t(i / n % m)) : 0);
  write(p.d, d, p.beta, p.c);
}

void convolve(const Convolution &c) {
  using enum Convolution::Wanted;
  Floats values[3];
  for (auto which : {X, W, Y})
    values[which] = read(c.tensors[which]);
  std::ranges::fill(values[c.wanted], 0.f);
  Sizes places = patchPlaces(c);
  int64_t channels = c.sizes(Y)[1], each = channels / c.groups(),
          outputs = inner(c.sizes(Y)), taps = c.sizes(W)[1] * inner(c.sizes(W)),
          inputs = c.sizes(W)[1] * inner(c.sizes(X));
  for (int64_t row = 0; row < c.sizes(Y)[0] * channels; ++row) {
    float *x = &values[X][row / each * inputs],
          *w = &values[W][row % channels * taps],
          *y = &values[Y][row * outputs];
    const int64_t *at = places.data();
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t place = 0; place < outputs; ++place, ++at) {
        if (*at < 0)
          continue;
        if (c.wanted == Y)
          y[place] += w[tap] * x[*at];
        else if (c.wanted == X)
          x[*at] += w[tap] * y[place];
        else
          w[tap] += y[place] * x[*at];
      }
  }
  for (float &value : values[c.wanted])
    value *= c.alpha;
  write(c.tensors[c.wanted], values[c.wanted], c.beta, c.tensors[c.wanted]);
}

} // namespace cuda_double
