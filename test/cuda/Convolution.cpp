//===- Convolution.cpp - convolutions on the host -------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Operands are copied to dense floats; patches of one sample and group are
// written out, which makes a convolution a product.
//
//===----------------------------------------------------------------------===//

#include "Convolution.h"
#include "Double.h"
#include "Product.h"

#include <cstring>

namespace cuda_double {

namespace {

using Sizes = std::vector<int64_t>;
using Floats = std::vector<float>;

int64_t product(const Sizes &sizes, size_t from = 0) {
  int64_t n = 1;
  for (size_t i = from; i < sizes.size(); ++i)
    n *= sizes[i];
  return n;
}

/// Number i of a dense tensor of these sizes, in one with strides.
int64_t placeOf(const Tensor &t, int64_t i) {
  int64_t at = 0;
  for (size_t d = t.sizes.size(); d-- > 0; i /= t.sizes[d])
    at += i % t.sizes[d] * t.strides[d];
  return at;
}

Floats read(const Tensor &t, bool rounded) {
  Floats values(size_t(t.count()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = load(t.data, t.narrow, placeOf(t, int64_t(i)));
    uint32_t bits;
    std::memcpy(&bits, &values[i], sizeof bits);
    bits = rounded ? (bits + 0x1000) & 0xffffe000 : bits;
    std::memcpy(&values[i], &bits, sizeof bits);
  }
  return values;
}

void write(const Tensor &t, const Floats &values, float alpha, float beta) {
  for (size_t i = 0; i < values.size(); ++i) {
    int64_t at = placeOf(t, int64_t(i));
    // What does not count is not read: it may be anything.
    float before = beta != 0 ? beta * load(t.data, t.narrow, at) : 0;
    store(t.data, t.narrow, at, alpha * values[i] + before);
  }
}

/// Where each element of a patch matrix [channels * taps, places] stands in the
/// input's channels; -1: in the padding.
std::vector<int64_t> patchPlaces(const Convolution &c) {
  const Sizes &in = c.x.sizes, &kernel = c.w.sizes, &out = c.y.sizes;
  int64_t taps = product(kernel, 2), places = product(out, 2),
          inputs = product(in, 2);
  std::vector<int64_t> all(size_t(kernel[1] * taps * places));
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

Operand matrix(Floats &values, int64_t from, int64_t down, int64_t along) {
  return {values.data() + from, false, down, along, 0};
}

} // namespace

int64_t Tensor::count() const { return product(sizes); }

size_t Tensor::span() const {
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i)
    last += (sizes[i] - 1) * strides[i];
  return size_t(last + 1) * (narrow ? 2 : 4);
}

void convolve(Convolution c, Manner manner) {
  using Wanted = Convolution::Wanted;
  auto operand = [&](const Tensor &t, Wanted which) {
    return c.wanted == which ? Floats(size_t(t.count()))
                             : read(t, manner.rounded);
  };
  Floats x = operand(c.x, Wanted::X), w = operand(c.w, Wanted::W),
         y = operand(c.y, Wanted::Y);
  auto places = patchPlaces(c);
  Floats patches(places.size());
  int64_t groups = c.groups(), rows = product(c.w.sizes, 1),
          outputs = product(c.y.sizes, 2), inputs = product(c.x.sizes, 2),
          og = c.y.sizes[1] / groups, cg = c.w.sizes[1], n = c.x.sizes[0];
  Order order(manner.drawn ? uint64_t(n) : 1);
  for (int64_t i = 0; i < n; ++i) {
    int64_t sample = manner.drawn ? int64_t(order.next()) : i;
    for (int64_t g = 0; g < groups; ++g) {
      float *from = x.data() + (sample * groups + g) * cg * inputs;
      for (size_t p = 0; p < places.size() && c.wanted != Wanted::X; ++p)
        patches[p] = places[p] < 0 ? 0 : from[places[p]];
      int64_t atW = g * og * rows, atY = (sample * groups + g) * og * outputs;
      Operand mp = matrix(patches, 0, outputs, 1), mw = matrix(w, atW, rows, 1),
              my = matrix(y, atY, outputs, 1);
      Product m;
      if (c.wanted == Wanted::Y) {
        m.a = mw, m.b = mp, m.d = my;
        m.m = og, m.n = outputs, m.k = rows;
      } else if (c.wanted == Wanted::X) {
        m.a = matrix(w, atW, 1, rows), m.b = my, m.d = mp;
        m.m = rows, m.n = outputs, m.k = og;
      } else {
        m.a = my, m.b = matrix(patches, 0, 1, outputs), m.c = m.d = mw;
        m.m = og, m.n = rows, m.k = outputs, m.beta = 1;
      }
      multiply(m);
      for (size_t p = 0; p < places.size() && c.wanted == Wanted::X; ++p)
        if (places[p] >= 0)
          from[places[p]] += patches[p];
    }
  }
  write(c.result(),
        c.wanted == Wanted::Y   ? y
        : c.wanted == Wanted::X ? x
                                : w,
        c.alpha, c.beta);
}

} // namespace cuda_double
