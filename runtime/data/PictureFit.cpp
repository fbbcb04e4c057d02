//===- PictureFit.cpp - pictures in the size and form that a module takes -===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Picture.h"

#include "runtime/base/Error.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace dt::rt;
using namespace dt::rt::data;

namespace {
/// For each target place the source places and weights that make it up.
struct Taps {
  std::vector<int64_t> first, count;
  std::vector<float> weights; // `width` a place
  int64_t width;
};

Taps makeTaps(int64_t from, int64_t to) {
  Taps taps;
  double scale = double(from) / double(to);
  taps.width = scale > 1 ? int64_t(std::ceil(scale)) + 1 : 2;
  taps.weights.assign(size_t(taps.width * to), 0);
  for (int64_t i = 0; i < to; ++i) {
    float *w = &taps.weights[size_t(i * taps.width)];
    if (scale >
        1) { // area: overlap of [i, i + 1) * scale with each source pixel
      double lo = double(i) * scale, hi = double(i + 1) * scale;
      int64_t first = std::min(int64_t(lo), from - 1),
              last = std::min(int64_t(std::ceil(hi)), from);
      for (int64_t j = first; j < last; ++j)
        w[j - first] = float(std::max(0.0, std::min(hi, double(j + 1)) -
                                               std::max(lo, double(j))) /
                             scale);
      taps.first.push_back(first);
      taps.count.push_back(last - first);
    } else {
      double centre =
          std::clamp((double(i) + 0.5) * scale - 0.5, 0.0, double(from - 1));
      int64_t first = int64_t(centre);
      float part = float(centre - double(first));
      w[0] = 1 - part, w[1] = part;
      taps.first.push_back(first);
      taps.count.push_back(first + 1 < from ? 2 : 1);
    }
  }
  return taps;
}

/// The middle axis of [outer, from, inner] becomes `to` long.
template <typename T>
std::vector<float> scaleAxis(const std::vector<T> &in, int64_t outer,
                             int64_t from, int64_t inner, const Taps &taps,
                             int64_t to) {
  std::vector<float> out(size_t(outer * to * inner), 0);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < to; ++i) {
      float *target = &out[size_t((o * to + i) * inner)];
      for (int64_t k = 0; k < taps.count[size_t(i)]; ++k) {
        const T *source =
            &in[size_t((o * from + taps.first[size_t(i)] + k) * inner)];
        float weight = taps.weights[size_t(i * taps.width + k)];
        for (int64_t j = 0; j < inner; ++j)
          target[j] += weight * float(source[j]);
      }
    }
  return out;
}

/// Copies the window at (x, y), which may reach out of the picture: white
/// there.
Picture window(const Picture &in, int64_t x, int64_t y, int64_t width,
               int64_t height) {
  Picture out{width, height,
              std::vector<uint8_t>(size_t(width * height * 3), 255)};
  for (int64_t r = 0; r < height; ++r) {
    int64_t row = r + y, from = std::max<int64_t>(0, x),
            to = std::min(in.width, x + width);
    if (row >= 0 && row < in.height && from < to)
      std::memcpy(&out.rgb[size_t((r * width + from - x) * 3)],
                  &in.rgb[size_t((row * in.width + from) * 3)],
                  size_t(to - from) * 3);
  }
  return out;
}
} // namespace

Picture data::resize(const Picture &in, int64_t width, int64_t height) {
  if (in.width == width && in.height == height)
    return in;
  std::vector<float> values;
  Taps across = makeTaps(in.width, width), down = makeTaps(in.height, height);
  // The axis first that leaves fewer values: a hostile 1 x 16M picture must not
  // become 1024 x 16M.
  if (in.height * width <= in.width * height) {
    values = scaleAxis(in.rgb, in.height, in.width, 3, across, width);
    values = scaleAxis(values, 1, in.height, width * 3, down, height);
  } else {
    values = scaleAxis(in.rgb, 1, in.height, in.width * 3, down, height);
    values = scaleAxis(values, height, in.width, 3, across, width);
  }
  Picture out{width, height, std::vector<uint8_t>(values.size())};
  for (size_t i = 0; i < values.size(); ++i)
    out.rgb[i] = uint8_t(std::clamp(values[i] + 0.5f, 0.0f, 255.0f));
  return out;
}

Picture data::fitPicture(const Picture &in, int64_t width, int64_t height,
                         Fit fit) {
  if (fit == Fit::Stretch || in.width * height == in.height * width)
    return resize(in, width, height);
  if (fit == Fit::Pad) {
    double scale = std::min(double(width) / double(in.width),
                            double(height) / double(in.height));
    Picture small =
        resize(in, std::max<int64_t>(1, std::llround(double(in.width) * scale)),
               std::max<int64_t>(1, std::llround(double(in.height) * scale)));
    return window(small, -((width - small.width) / 2),
                  -((height - small.height) / 2), width, height);
  }
  int64_t w = in.width, h = in.height;
  if (double(w) * double(height) > double(h) * double(width))
    w = std::max<int64_t>(
        1, std::llround(double(h) * double(width) / double(height)));
  else
    h = std::max<int64_t>(
        1, std::llround(double(w) * double(height) / double(width)));
  return resize(window(in, (in.width - w) / 2, (in.height - h) / 2, w, h),
                width, height);
}

void data::normalise(const Picture &picture, int channels,
                     const std::vector<float> &mean,
                     const std::vector<float> &std, float *out) {
  size_t plane = size_t(picture.width * picture.height);
  for (int c = 0; c < channels; ++c) {
    float m = mean[mean.size() == 1 ? 0 : size_t(c)],
          s = 1 / std[std.size() == 1 ? 0 : size_t(c)];
    for (size_t i = 0; i < plane; ++i) {
      const uint8_t *p = &picture.rgb[3 * i];
      float v = channels == 3 ? float(p[c])
                              : 0.299f * float(p[0]) + 0.587f * float(p[1]) +
                                    0.114f * float(p[2]);
      out[size_t(c) * plane + i] = (v / 255 - m) * s;
    }
  }
}

Squares data::squaresOf(int64_t width, int64_t height, const PatchGrid &grid) {
  double side = double(grid.side()), w = double(width), h = double(height);
  if (std::max(w, h) > 200 * std::min(w, h))
    throw Error("a picture of " + std::to_string(width) + " x " +
                std::to_string(height) +
                ", more than 200 times as long as wide");
  // Halves to the even number, as Python's round.
  double down = std::nearbyint(h / side), across = std::nearbyint(w / side);
  if (down * across * side * side > double(grid.maxPixels)) {
    double factor = std::sqrt(h * w / double(grid.maxPixels));
    down = std::max(1.0, std::floor(h / factor / side));
    across = std::max(1.0, std::floor(w / factor / side));
  } else if (down * across * side * side < double(grid.minPixels)) {
    double factor = std::sqrt(double(grid.minPixels) / (h * w));
    down = std::ceil(h * factor / side);
    across = std::ceil(w * factor / side);
  }
  if (down * across * side * side > double(grid.maxPixels))
    throw Error("a picture of " + std::to_string(width) + " x " +
                std::to_string(height) +
                " has no size within min_pixels and "
                "max_pixels");
  return {int32_t(down), int32_t(across)};
}

void data::cutPatches(const float *plane, int channels, const Squares &squares,
                      const PatchGrid &grid, float *out) {
  int64_t width = squares.across * grid.side(),
          area = width * squares.down * grid.side();
  auto copyPatch = [&](int64_t top, int64_t left) {
    for (int c = 0; c < channels; ++c)
      for (int64_t f = 0; f < grid.frames; ++f)
        for (int64_t y = top; y < top + grid.size; ++y) {
          const float *from = plane + c * area + y * width + left;
          out = std::copy(from, from + grid.size, out);
        }
  };
  for (int64_t r = 0; r < squares.down; ++r)
    for (int64_t q = 0; q < squares.across; ++q)
      for (int64_t p = 0; p < grid.patches(); ++p)
        copyPatch(r * grid.side() + p / grid.merge * grid.size,
                  q * grid.side() + p % grid.merge * grid.size);
}
