//===- Conv.cpp - convolutions for generated code ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Each (direction, shape, thread count) is one cached plan: the primitive that
// oneDNN prefers with layouts of its choice, and the reorders between those
// layouts and the plain ones of the interface. Intermediate tensors lie in
// scratch memory.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu/Conv.h"
#include "runtime/device/cpu/Dnnl.h"

#include <omp.h>

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>

namespace dt::rt {

namespace {

using dnnl::memory;
using Dims = memory::dims;

enum class Direction : int64_t {
  Forward,
  ForwardBias,
  BackwardData,
  BackwardWeights,
  BackwardWeightsBias
};

/// The descriptors that all three directions share.
struct Descriptors {
  Dims x, w, y, bias, stride, dilation, padBegin, padEnd;

  explicit Descriptors(const ConvShape &s) {
    x = {s.n, s.c}, y = {s.n, s.o}, bias = {s.o};
    w = s.groups > 1 ? Dims{s.groups, s.o / s.groups, s.c / s.groups}
                     : Dims{s.o, s.c};
    for (int i = 0; i < s.dims; ++i) {
      x.push_back(s.in[i]), y.push_back(s.out(i)), w.push_back(s.kernel[i]);
      stride.push_back(s.stride[i]),
          dilation.push_back(s.dilation[i] - 1); // oneDNN counts the gaps
      padBegin.push_back(s.padBegin[i]), padEnd.push_back(s.padEnd[i]);
    }
  }

  static memory::desc any(const Dims &dims) {
    return {dims, memory::data_type::f32, memory::format_tag::any};
  }
  static memory::desc plain(const Dims &dims) {
    Dims strides(dims.size(), 1);
    for (size_t i = dims.size(); i-- > 1;)
      strides[i - 1] = strides[i] * dims[i];
    return {dims, memory::data_type::f32, strides};
  }
};

/// One tensor of a primitive: its layout there, and the way to or from the
/// plain one.
struct Port {
  int argument;
  memory::desc plain, chosen;
  bool output;
  dnnl::reorder reorder;
  bool same = true;

  Port(int argument, const Dims &dims, const memory::desc &chosen, bool output)
      : argument(argument), plain(Descriptors::plain(dims)), chosen(chosen),
        output(output) {
    same = plain == chosen;
    if (same)
      return;
    const memory::desc &from = output ? chosen : plain,
                       &to = output ? plain : chosen;
    reorder = dnnl::reorder(
        dnnl::reorder::primitive_desc(dnnlEngine(), from, dnnlEngine(), to));
  }
};

struct Plan {
  dnnl::primitive primitive;
  memory::desc scratchpad;
  std::vector<Port> ports;

  /// `data[i]` belongs to ports[i].
  void run(std::initializer_list<const float *> data) {
    dnnl::engine &engine = dnnlEngine();
    dnnl::stream &stream = dnnlStream();
    Scratch &scratch = threadScratch();
    std::unordered_map<int, memory> arguments;
    const float *const *pointer = data.begin();
    for (Port &port : ports) {
      memory outside(port.plain, engine, const_cast<float *>(*pointer++));
      memory inside = port.same ? outside
                                : memory(port.chosen, engine,
                                         scratch.bytes(port.chosen.get_size()));
      if (!port.same && !port.output)
        port.reorder.execute(stream, outside, inside);
      arguments.emplace(port.argument, inside);
    }
    arguments.emplace(
        DNNL_ARG_SCRATCHPAD,
        memory(scratchpad, engine, scratch.bytes(scratchpad.get_size())));
    primitive.execute(stream, arguments);
    pointer = data.begin();
    for (Port &port : ports) {
      float *outside = const_cast<float *>(*pointer++);
      if (!port.same && port.output) {
        memory to(port.plain, engine, outside);
        port.reorder.execute(stream, arguments.at(port.argument), to);
      }
    }
    stream.wait();
  }
};

dnnl::convolution_forward::primitive_desc
forwardDesc(const Descriptors &d, bool bias, const dnnl::primitive_attr &attr) {
  using C = dnnl::convolution_forward;
  auto kind = dnnl::prop_kind::forward_training;
  auto algorithm = dnnl::algorithm::convolution_direct;
  auto any = Descriptors::any;
  C::desc desc =
      bias ? C::desc(kind, algorithm, any(d.x), any(d.w), any(d.bias), any(d.y),
                     d.stride, d.dilation, d.padBegin, d.padEnd)
           : C::desc(kind, algorithm, any(d.x), any(d.w), any(d.y), d.stride,
                     d.dilation, d.padBegin, d.padEnd);
  return {desc, attr, dnnlEngine()};
}

Plan makeForward(const Descriptors &d, bool bias,
                 const dnnl::primitive_attr &attr) {
  auto pd = forwardDesc(d, bias, attr);
  Plan plan{dnnl::convolution_forward(pd), pd.scratchpad_desc(), {}};
  plan.ports = {{DNNL_ARG_SRC, d.x, pd.src_desc(), false},
                {DNNL_ARG_WEIGHTS, d.w, pd.weights_desc(), false},
                {DNNL_ARG_DST, d.y, pd.dst_desc(), true}};
  if (bias)
    plan.ports.emplace_back(DNNL_ARG_BIAS, d.bias, pd.bias_desc(), false);
  return plan;
}

Plan makeBackwardData(const Descriptors &d, const dnnl::primitive_attr &attr) {
  using C = dnnl::convolution_backward_data;
  auto any = Descriptors::any;
  C::desc desc(dnnl::algorithm::convolution_direct, any(d.x), any(d.w),
               any(d.y), d.stride, d.dilation, d.padBegin, d.padEnd);
  C::primitive_desc pd(desc, attr, dnnlEngine(), forwardDesc(d, false, attr));
  Plan plan{C(pd), pd.scratchpad_desc(), {}};
  plan.ports = {{DNNL_ARG_DIFF_DST, d.y, pd.diff_dst_desc(), false},
                {DNNL_ARG_WEIGHTS, d.w, pd.weights_desc(), false},
                {DNNL_ARG_DIFF_SRC, d.x, pd.diff_src_desc(), true}};
  return plan;
}

Plan makeBackwardWeights(const Descriptors &d, bool bias,
                         const dnnl::primitive_attr &attr) {
  using C = dnnl::convolution_backward_weights;
  auto any = Descriptors::any;
  auto algorithm = dnnl::algorithm::convolution_direct;
  C::desc desc =
      bias ? C::desc(algorithm, any(d.x), any(d.w), any(d.bias), any(d.y),
                     d.stride, d.dilation, d.padBegin, d.padEnd)
           : C::desc(algorithm, any(d.x), any(d.w), any(d.y), d.stride,
                     d.dilation, d.padBegin, d.padEnd);
  C::primitive_desc pd(desc, attr, dnnlEngine(), forwardDesc(d, bias, attr));
  Plan plan{C(pd), pd.scratchpad_desc(), {}};
  plan.ports = {{DNNL_ARG_SRC, d.x, pd.src_desc(), false},
                {DNNL_ARG_DIFF_DST, d.y, pd.diff_dst_desc(), false},
                {DNNL_ARG_DIFF_WEIGHTS, d.w, pd.diff_weights_desc(), true}};
  if (bias)
    plan.ports.emplace_back(DNNL_ARG_DIFF_BIAS, d.bias, pd.diff_bias_desc(),
                            true);
  return plan;
}

Plan makePlan(Direction direction, const ConvShape &shape) {
  Descriptors d(shape);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  switch (direction) {
  case Direction::BackwardData:
    return makeBackwardData(d, attr);
  case Direction::BackwardWeights:
  case Direction::BackwardWeightsBias:
    return makeBackwardWeights(d, direction == Direction::BackwardWeightsBias,
                               attr);
  default:
    return makeForward(d, direction == Direction::ForwardBias, attr);
  }
}

/// The cached plan. Ragged batches bring a bounded number of shapes; the limit
/// only guards against data that never repeat.
Plan &findPlan(Direction direction, const ConvShape &s) {
  static std::map<std::vector<int64_t>, std::unique_ptr<Plan>> cache;
  constexpr size_t kLimit = 4096;
  std::vector<int64_t> key = {int64_t(direction),
                              omp_get_max_threads(),
                              s.n,
                              s.c,
                              s.o,
                              s.groups,
                              s.dims};
  for (int i = 0; i < s.dims; ++i)
    key.insert(key.end(), {s.in[i], s.kernel[i], s.stride[i], s.dilation[i],
                           s.padBegin[i], s.padEnd[i]});
  auto found = cache.find(key);
  if (found != cache.end())
    return *found->second;
  if (cache.size() >= kLimit)
    cache.clear();
  try {
    return *cache.emplace(key, std::make_unique<Plan>(makePlan(direction, s)))
                .first->second;
  } catch (const dnnl::error &e) {
    libraryFailure("oneDNN convolution", e.what());
  }
}

int64_t inputPixels(const ConvShape &s) {
  int64_t pixels = 1;
  for (int i = 0; i < s.dims; ++i)
    pixels *= s.in[i];
  return pixels;
}

int64_t outputPixels(const ConvShape &s) {
  int64_t pixels = 1;
  for (int i = 0; i < s.dims; ++i)
    pixels *= std::max<int64_t>(s.out(i), 0);
  return pixels;
}

/// Nothing is summed, which oneDNN does not do: results are zeros and biases.
bool empty(const ConvShape &s) {
  return s.n == 0 || s.o == 0 || s.c == 0 || inputPixels(s) == 0 ||
         outputPixels(s) == 0;
}

int64_t weightCount(const ConvShape &s) {
  int64_t count = s.o * (s.c / s.groups);
  for (int i = 0; i < s.dims; ++i)
    count *= s.kernel[i];
  return count;
}

void addTo(float *to, const float *from, int64_t count) {
#pragma omp parallel for simd schedule(static) if (count >= 65536)
  for (int64_t i = 0; i < count; ++i)
    to[i] += from[i];
}

/// db = beta * db + the sum of dy over samples and pixels: an input without an
/// element may have a padding.
void sumPlanes(const float *dy, float *db, const ConvShape &s, float beta) {
  int64_t pixels = outputPixels(s);
  if (beta == 0)
    std::fill_n(db, s.o, 0.f);
  for (int64_t plane = 0; plane < s.n * s.o; ++plane)
    for (int64_t i = 0; i < pixels; ++i)
      db[plane % s.o] += dy[plane * pixels + i];
}

} // namespace

void convForward(const float *x, const float *w, const float *bias, float *y,
                 const ConvShape &shape) {
  if (empty(shape)) {
    int64_t pixels = outputPixels(shape);
    for (int64_t plane = 0; plane < shape.n * shape.o; ++plane)
      std::fill_n(y + plane * pixels, pixels,
                  bias ? bias[plane % shape.o] : 0.f);
    return;
  }
  threadScratch().reset();
  if (bias)
    findPlan(Direction::ForwardBias, shape).run({x, w, y, bias});
  else
    findPlan(Direction::Forward, shape).run({x, w, y});
}

void convBackwardData(const float *dy, const float *w, const float *bias,
                      float *dx, const ConvShape &shape) {
  int64_t pixels = inputPixels(shape), planes = shape.n * shape.c;
  if (empty(shape)) {
    std::fill_n(dx, planes * pixels, 0.f);
  } else {
    threadScratch().reset();
    findPlan(Direction::BackwardData, shape).run({dy, w, dx});
  }
  if (!bias)
    return;
#pragma omp parallel for schedule(static) if (planes * pixels >= 65536)
  for (int64_t plane = 0; plane < planes; ++plane) {
    float value = bias[plane % shape.c], *to = dx + plane * pixels;
#pragma omp simd
    for (int64_t i = 0; i < pixels; ++i)
      to[i] += value;
  }
}

void convBackwardWeights(const float *x, const float *dy, float *dw, float *db,
                         const ConvShape &shape, float beta) {
  int64_t count = weightCount(shape);
  if (empty(shape)) {
    if (beta == 0)
      std::fill_n(dw, count, 0.f);
    if (db)
      sumPlanes(dy, db, shape, beta);
    return;
  }
  Scratch &scratch = threadScratch();
  scratch.reset();
  float *w = beta == 0 ? dw : scratch.floats(count);
  float *b = beta == 0 || !db ? db : scratch.floats(shape.o);
  if (db)
    findPlan(Direction::BackwardWeightsBias, shape).run({x, dy, w, b});
  else
    findPlan(Direction::BackwardWeights, shape).run({x, dy, w});
  if (w != dw)
    addTo(dw, w, count);
  if (b != db)
    addTo(db, b, shape.o);
}

} // namespace dt::rt
