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
  counts["products"]++;
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

void convolve(const Convolution &c) {
  using enum Convolution::Wanted;
  // x stands with its paddings around it. Which of its elements meets a tap of
  // the window is the sum of what the tap and the window's place say.
  Sizes steps = c.sizes(X), perTap = steps, perPlace = steps;
  int64_t step = 1, first = 0;
  for (size_t d = steps.size(); d-- > 0;) {
    bool inWindow = d >= 2;
    steps[d] = step;
    perTap[d] = step * (inWindow ? c.dilation[d - 2] : 1);
    perPlace[d] = step * (inWindow ? c.stride[d - 2] : 1);
    first += inWindow ? step * c.before[d - 2] : 0;
    step *= c.sizes(X)[d] + (inWindow ? c.before[d - 2] + c.after[d - 2] : 0);
  }
  auto numbers = [](const Sizes &sizes, const Sizes &strides, int from) {
    Tensor t{{sizes.begin() + from, sizes.end()},
             {strides.begin() + from, strides.end()}};
    Sizes all(size_t(t.count()));
    for (size_t i = 0; i < all.size(); ++i)
      all[i] = numberOf(t, int64_t(i));
    return all;
  };
  Sizes taps = numbers(c.sizes(W), perTap, 1),
        places = numbers(c.sizes(Y), perPlace, 2);
  auto start = [&](Convolution::Wanted which) {
    const Tensor &t = c.tensors[which];
    return which == c.wanted ? Floats(size_t(t.count())) : read(t);
  };
  Floats w = start(W), y = start(Y), room(size_t(step), 0.f);
  Tensor x{c.sizes(X), steps, false, &room[size_t(first)]};
  write(x, start(X));
  int64_t channels = c.sizes(Y)[1], each = channels / c.groups();
  for (int64_t row = 0; row < c.sizes(Y)[0] * channels; ++row) {
    int64_t image = row / channels,
            channel = row % channels / each * c.sizes(W)[1];
    float *from = &room[size_t(image * steps[0] + channel * steps[1])],
          *weights = &w[size_t(row % channels) * taps.size()],
          *to = &y[size_t(row) * places.size()];
    for (size_t tap = 0; tap < taps.size(); ++tap)
      for (size_t place = 0; place < places.size(); ++place) {
        float &met = from[taps[tap] + places[place]];
        if (c.wanted == Y)
          to[place] += weights[tap] * met;
        else if (c.wanted == X)
          met += weights[tap] * to[place];
        else
          weights[tap] += to[place] * met;
      }
  }
  Floats result = c.wanted == X ? read(x) : c.wanted == W ? w : y;
  for (float &value : result)
    value *= c.alpha;
  write(c.tensors[c.wanted], result, c.beta, c.tensors[c.wanted]);
}

} // namespace cuda_double
