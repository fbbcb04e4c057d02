//===- Steps.cpp - cuDNN's graphs of single operations, on the host -------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What an operation leaves inside of a graph is kept as dense floats, rounded
// to the tensor's type.
//
//===----------------------------------------------------------------------===//

#include "Double.h"

#include <cudnn.h>

#include <cmath>

namespace cuda_double {

namespace {

/// Which of t's elements element i of a larger tensor meets: where t has fewer
/// in a dim, neighbours share one.
size_t meets(const Tensor &t, const Sizes &sizes, int64_t i) {
  int64_t at = 0, scale = 1;
  for (size_t d = sizes.size(); d-- > 0; i /= sizes[d]) {
    at += i % sizes[d] * t.sizes[d] / sizes[d] * scale;
    scale *= t.sizes[d];
  }
  return size_t(at);
}

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

void compute(const Step &s, const std::vector<const Floats *> &operands,
             Floats &to) {
  const Sizes &sizes = s.result.sizes, &from = s.operands[0].sizes;
  const Floats &x = *operands[0], &y = *operands.back();
  auto n = int64_t(to.size());
  switch (s.kind) {
  case Step::Pointwise:
    for (int64_t i = 0; i < n; ++i) {
      float values[3];
      for (size_t o = 0; o < operands.size(); ++o)
        values[o] = (*operands[o])[meets(s.operands[o], sizes, i)];
      int64_t rest = i;
      for (size_t d = sizes.size(); d-- > size_t(s.axis) + 1;)
        rest /= sizes[d];
      auto apply = kModes.at(s.mode).apply;
      to[size_t(i)] =
          apply ? apply(values) : float(rest % sizes[size_t(s.axis)]);
    }
    return;
  case Step::Reduction: {
    bool adds = s.mode == CUDNN_REDUCE_TENSOR_ADD;
    std::ranges::fill(to, adds ? 0.f : -HUGE_VALF);
    for (int64_t i = 0; i < int64_t(x.size()); ++i) {
      float &sum = to[meets(s.result, from, i)];
      sum = adds ? sum + x[size_t(i)] : std::fmax(sum, x[size_t(i)]);
    }
    return;
  }
  case Step::Matmul: {
    int64_t columns = sizes[3], inner = from[3];
    Tensor batch = s.operands[1]; // its first row and column
    batch.sizes[2] = batch.sizes[3] = 1;
    Sizes matrices{sizes[0], sizes[1], 1, 1};
    for (int64_t row = 0; row < n / columns; ++row)
      for (int64_t k = 0; k < inner; ++k) {
        size_t b = meets(batch, matrices, row / sizes[2]);
        const float *line =
            &y[(b * size_t(inner) + size_t(k)) * size_t(columns)];
        for (int64_t j = 0; j < columns; ++j)
          to[size_t(row * columns + j)] += x[size_t(row * inner + k)] * line[j];
      }
    return;
  }
  case Step::Reshape: {
    Tensor memory = s.operands[0]; // as if the operand lay there
    Floats image(memory.span() / (memory.narrow ? 2 : 4));
    memory.data = image.data(), memory.narrow = false;
    write(memory, x);
    memory.sizes = sizes, memory.strides = s.result.strides;
    to = read(memory);
  }
  }
}

} // namespace

void check(const Step &s) {
  const Sizes &y = s.result.sizes, &x = s.operands.at(0).sizes;
  if (s.kind == Step::Pointwise && !kModes.count(s.mode))
    reject("no pointwise mode ", s.mode);
  size_t operands = s.kind == Step::Pointwise ? kModes.at(s.mode).operands
                    : s.kind == Step::Matmul  ? 2
                                              : 1;
  if (s.operands.size() != operands)
    reject("an operation of mode ", s.mode, " has ", s.operands.size(),
           " operands");
  auto require = [&](const Sizes &sizes, const Sizes &larger) {
    for (size_t d = 0; d < sizes.size(); ++d)
      if (larger[d] % sizes[d])
        reject("a size of ", sizes[d], " in dim ", d, " meets one of ",
               larger[d]);
  };
  if (s.kind == Step::Matmul) {
    const Sizes &b = s.operands[1].sizes;
    if (x[3] != b[2] || x[2] != y[2] || b[3] != y[3])
      reject("a product [", x[2], ", ", x[3], "] by [", b[2], ", ", b[3],
             "] into [", y[2], ", ", y[3], "]");
    require({x[0], x[1]}, y);
    require({b[0], b[1]}, y);
  } else if (s.kind == Step::Reduction) {
    require(y, x);
  } else if (s.kind == Step::Pointwise) {
    for (const Tensor &operand : s.operands)
      require(operand.sizes, y);
  } else if (s.operands[0].count() != s.result.count()) {
    reject("a reshape of ", s.operands[0].count(), " elements to ",
           s.result.count());
  }
}

void run(const std::vector<Step> &steps, std::map<int64_t, Floats> values) {
  for (const Step &s : steps) {
    std::vector<const Floats *> operands;
    for (const Tensor &t : s.operands) {
      if (!values.count(t.id))
        values[t.id] = read(t);
      operands.push_back(&values[t.id]);
    }
    Floats result(size_t(s.result.count()));
    compute(s, operands, result);
    if (s.result.narrow)
      for (float &value : result)
        value = widen(narrow(value));
    if (s.result.data)
      write(s.result, result);
    values[s.result.id] = std::move(result);
  }
}

} // namespace cuda_double
