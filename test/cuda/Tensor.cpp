//===- Tensor.cpp - what libraries compute, on the host ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Operands are copied to dense floats. What an operation leaves inside of a
// graph is kept so, rounded to the tensor's type.
//
//===----------------------------------------------------------------------===//

#include "Double.h"

#include <cudnn.h>

#include <bit>
#include <cmath>

namespace cuda_double {

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

//===--- Elements

/// Where the elements of a dense tensor are elsewhere: at the sum of what `of`
/// says for each dim and the index in it.
static Sizes numbers(const Sizes &sizes,
                     const std::function<int64_t(size_t, int64_t)> &of) {
  Sizes all{0};
  for (size_t d = 0; d < sizes.size(); ++d) {
    Sizes outer = std::exchange(all, {}), steps;
    for (int64_t i = 0; i < sizes[d]; ++i)
      steps.push_back(of(d, i));
    all.reserve(outer.size() * steps.size());
    for (int64_t at : outer)
      for (int64_t step : steps)
        all.push_back(at + step);
  }
  return all;
}

/// ... in memory.
static Sizes numbers(const Tensor &t) {
  return numbers(t.sizes,
                 [&](size_t d, int64_t i) { return i * t.strides[d]; });
}

/// ... in a dense tensor that may have fewer: neighbours share one.
static Sizes numbers(const Sizes &sizes, const Sizes &fewer) {
  return numbers(sizes, [&](size_t d, int64_t i) {
    return std::accumulate(fewer.begin() + int64_t(d) + 1, fewer.end(),
                           i * fewer[d] / sizes[d], std::multiplies<>());
  });
}

Floats read(const Tensor &t) {
  Floats values;
  values.reserve(size_t(t.count()));
  for (int64_t at : numbers(t))
    values.push_back(t.narrow ? static_cast<bf16 *>(t.data)[at]
                              : static_cast<float *>(t.data)[at]);
  return values;
}

void write(const Tensor &to, const Floats &values, float beta,
           const Tensor &c) {
  Floats more = beta != 0 ? read(c) : Floats(values.size());
  Sizes places = numbers(to);
  for (size_t i = 0; i < values.size(); ++i) {
    float value = values[i] + beta * more[i];
    if (to.narrow)
      static_cast<bf16 *>(to.data)[places[i]] = value;
    else
      static_cast<float *>(to.data)[places[i]] = value;
  }
}

//===--- Steps

namespace {

struct Mode {
  size_t operands;
  float (*apply)(const float *x); ///< null: an index
};
const std::map<int, Mode> kModes{
    {CUDNN_POINTWISE_ADD, {2, [](const float *x) { return x[0] + x[1]; }}},
    {CUDNN_POINTWISE_SUB, {2, [](const float *x) { return x[0] - x[1]; }}},
    {CUDNN_POINTWISE_MUL, {2, [](const float *x) { return x[0] * x[1]; }}},
    {CUDNN_POINTWISE_DIV, {2, [](const float *x) { return x[0] / x[1]; }}},
    {CUDNN_POINTWISE_EXP, {1, [](const float *x) { return std::exp(x[0]); }}},
    {CUDNN_POINTWISE_LOG, {1, [](const float *x) { return std::log(x[0]); }}},
    {CUDNN_POINTWISE_CMP_GE,
     {2, [](const float *x) { return float(x[0] >= x[1]); }}},
    {CUDNN_POINTWISE_BINARY_SELECT,
     {3, [](const float *x) { return x[2] != 0 ? x[0] : x[1]; }}},
    {CUDNN_POINTWISE_GEN_INDEX, {1, nullptr}}};

/// A row of y meets one of x for each tap; x lies in a room with its paddings
/// around it, where numbers of rows and taps are added.
void convolve(const Step &s, Operands operands, Floats &to) {
  const Sizes &w = s.of(Step::ConvW).sizes, &x = s.of(Step::ConvX).sizes,
              &y = s.of(Step::ConvY).sizes;
  const auto &[before, after, stride, dilation] = s.window;
  operands.insert(operands.begin() + (s.kind - Step::ConvW), &to);
  Floats &weights = *operands[0], &image = *operands[1], &sums = *operands[2];
  Sizes side(x.size()); // strides of the room
  int64_t size = 1, first = 0, group = w[0] / s.groups();
  for (size_t d = x.size(); d-- > 0;) {
    side[d] = std::exchange(size, size * (before[d] + x[d] + after[d]));
    first += before[d] * side[d];
  }
  Floats room(size);
  Tensor inside{x, side, false, &room[first]};
  write(inside, image);
  Sizes ofTap = numbers(w, [&](size_t d, int64_t i) {
    return d ? i * dilation[d] * side[d] : 0;
  });
  Sizes ofY = numbers(y, [&](size_t d, int64_t i) {
    return (d == 1 ? i / group * w[1] : i * stride[d]) * side[d];
  });
  int64_t taps = ofTap.size() / w[0], row = y.back(), step = stride.back(),
          area = ofY.size() / (y[0] * y[1]);
  for (int64_t at = 0; at < int64_t(ofY.size()); at += row)
    for (int64_t n = 0; n < taps; ++n) {
      int64_t tap = at / area % w[0] * taps + n;
      float &weight = weights[tap], *sum = &sums[at],
            *met = &room[ofY[at] + ofTap[tap]];
      if (s.kind == Step::ConvY)
        for (int64_t i = 0; i < row; ++i)
          sum[i] += weight * met[i * step];
      else if (s.kind == Step::ConvX)
        for (int64_t i = 0; i < row; ++i)
          met[i * step] += weight * sum[i];
      else
        for (int64_t i = 0; i < row; ++i)
          weight += met[i * step] * sum[i];
    }
  image = read(inside);
}

void checkConvolution(const Step &s) {
  const Sizes &x = s.of(Step::ConvX).sizes, &w = s.of(Step::ConvW).sizes,
              &y = s.of(Step::ConvY).sizes;
  const auto &[before, after, stride, dilation] = s.window;
  if (x[0] != y[0] || y[1] != w[0] || x[1] % w[1] || w[0] % s.groups())
    reject("x [", x[0], ", ", x[1], ", ...], w [", w[0], ", ", w[1],
           ", ...] and y [", y[0], ", ", y[1], ", ...] are no convolution");
  for (size_t d = 2; d < y.size(); ++d) {
    int64_t reach = dilation[d] * (w[d] - 1) + 1,
            room = x[d] + before[d] + after[d] - reach,
            size = room < 0 ? 0 : room / stride[d] + 1;
    if (y[d] != size)
      reject("y has size ", y[d], " in dim ", d, ", the window gives ", size);
  }
}

} // namespace

/// To the nearest number with 10 bits behind the point, ties away from 0.
static float toTF32(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x);
  return std::isfinite(x) ? std::bit_cast<float>((bits + 0x1000) & ~0x1fffu)
                          : x;
}

/// A step with operands rounded to TF32.
static Floats computeRounded(Step s, const Operands &operands) {
  std::vector<Floats> rounded;
  for (const Floats *operand : operands)
    rounded.push_back(*operand);
  Operands these;
  for (Floats &values : rounded) {
    std::ranges::transform(values, values.begin(), toTF32);
    these.push_back(&values);
  }
  s.tf32 = false;
  return compute(s, these);
}

Floats compute(const Step &s, const Operands &operands) {
  if (s.tf32)
    return computeRounded(s, operands);
  Floats to(size_t(s.result.count()));
  const Sizes &sizes = s.result.sizes, &from = s.operands[0].sizes;
  const Floats &x = *operands[0], &y = *operands.back();
  switch (s.kind) {
  case Step::Pointwise: {
    Sizes places[3], index = numbers(sizes, [&](size_t d, int64_t i) {
                       return d == size_t(s.axis) ? i : 0;
                     });
    for (size_t o = 0; o < operands.size(); ++o)
      places[o] = numbers(sizes, s.operands[o].sizes);
    auto apply = kModes.at(s.mode).apply;
    for (size_t i = 0; i < to.size(); ++i) {
      float values[3];
      for (size_t o = 0; o < operands.size(); ++o)
        values[o] = (*operands[o])[places[o][i]];
      to[i] = apply ? apply(values) : float(index[i]);
    }
    break;
  }
  case Step::Reduction: {
    bool adds = s.mode == CUDNN_REDUCE_TENSOR_ADD;
    Sizes places = numbers(from, sizes);
    std::ranges::fill(to, adds ? 0.f : -HUGE_VALF);
    for (size_t i = 0; i < x.size(); ++i) {
      float &sum = to[places[i]];
      sum = adds ? sum + x[i] : std::fmax(sum, x[i]);
    }
    break;
  }
  case Step::Matmul: {
    const Sizes &factor = s.operands[1].sizes;
    int64_t rows = sizes[2], columns = sizes[3], inner = from[3];
    Sizes matrices{sizes[0], sizes[1]},
        a = numbers(matrices, {from[0], from[1]}),
        b = numbers(matrices, {factor[0], factor[1]});
    for (int64_t row = 0; row < s.result.count() / columns; ++row)
      for (int64_t k = 0, m = row / rows; k < inner; ++k) {
        float left = x[(a[m] * rows + row % rows) * inner + k];
        const float *line = &y[(b[m] * inner + k) * columns];
        for (int64_t j = 0; j < columns; ++j)
          to[row * columns + j] += left * line[j];
      }
    break;
  }
  case Step::Reshape: {
    Tensor memory = s.operands[0]; // as if the operand lay there
    Floats image(memory.span() / (memory.narrow ? 2 : 4));
    memory.data = image.data(), memory.narrow = false;
    write(memory, x);
    memory.sizes = sizes, memory.strides = s.result.strides;
    to = read(memory);
    break;
  }
  default:
    convolve(s, operands, to);
  }
  for (float &value : to)
    value *= s.alpha;
  return to;
}

void check(const Step &s) {
  size_t dims = s.convolves() ? s.window.stride.size() : 4;
  std::vector<Tensor> all = s.operands;
  all.push_back(s.result);
  for (const Tensor &t : all)
    if (t.sizes.size() != dims)
      reject("tensor ", t.id, " has ", t.sizes.size(), " dims, not ", dims);
  const Sizes &y = s.result.sizes, &x = s.operands.at(0).sizes,
              &b = s.operands.back().sizes;
  auto require = [&](const Sizes &sizes, const Sizes &larger) {
    for (size_t d = 0; d < sizes.size(); ++d)
      if (larger[d] % sizes[d])
        reject("a size of ", sizes[d], " in dim ", d, " meets one of ",
               larger[d]);
  };
  switch (s.kind) {
  case Step::Pointwise:
    if (!kModes.count(s.mode))
      reject("no pointwise mode ", s.mode);
    if (s.operands.size() != kModes.at(s.mode).operands)
      reject("an operation of mode ", s.mode, " has ", s.operands.size(),
             " operands");
    for (const Tensor &operand : s.operands)
      require(operand.sizes, y);
    return;
  case Step::Reduction:
    return require(y, x);
  case Step::Matmul:
    if (x[3] != b[2] || x[2] != y[2] || b[3] != y[3])
      reject("a product [", x[2], ", ", x[3], "] by [", b[2], ", ", b[3],
             "] into [", y[2], ", ", y[3], "]");
    require({x[0], x[1]}, y);
    return require({b[0], b[1]}, y);
  case Step::Reshape:
    if (s.operands[0].count() != s.result.count())
      reject("a reshape of ", s.operands[0].count(), " elements to ",
             s.result.count());
    return;
  default:
    checkConvolution(s);
  }
}

void run(const std::vector<Step> &steps, std::map<int64_t, Floats> values) {
  for (const Step &s : steps) {
    Operands operands;
    for (const Tensor &t : s.operands) {
      if (!values.count(t.id))
        values[t.id] = read(t);
      operands.push_back(&values[t.id]);
    }
    Floats result = compute(s, operands);
    if (s.result.data)
      write(s.result, result, s.beta, s.result);
    if (s.result.narrow)
      for (float &value : result)
        value = bf16(value);
    values[s.result.id] = std::move(result);
  }
}

} // namespace cuda_double
