//===- Conv.cpp - convolutions for generated code ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Each (direction, shape, element types, thread count) is one cached plan: the
// primitive that oneDNN prefers with layouts of its choice, and the reorders
// between those layouts and the plain ones of the interface. Intermediate
// tensors lie in scratch memory. Narrow operands are multiplied as they are
// where the processor does that, and widened elsewhere.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu/Conv.h"
#include "runtime/device/cpu/Dnnl.h"
#include "runtime/device/cpu/Wide.h"

#include <omp.h>

#include <algorithm>
#include <type_traits>
#include <unordered_map>

namespace dt::rt {

namespace {

using dnnl::memory;
using Dims = memory::dims;
using Element = memory::data_type;

enum class Direction : int64_t {
  Forward,
  ForwardBias,
  BackwardData,
  BackwardWeights,
  BackwardWeightsBias
};

/// Element types of the tensors, and of the operands of the forward function.
struct Elements {
  Element x, w, y, bias, operand;

  template <typename T> static Elements all() {
    constexpr Element e = kDnnlType<T>;
    return {e, e, e, e, e};
  }
};

struct Tensor {
  Dims dims;
  Element element;

  /// In the layout that the primitive likes best.
  memory::desc any() const { return {dims, element, memory::format_tag::any}; }
  memory::desc plain() const {
    Dims strides(dims.size(), 1);
    for (size_t i = dims.size(); i-- > 1;)
      strides[i - 1] = strides[i] * dims[i];
    return {dims, element, strides};
  }
};

/// The descriptors that all three directions share.
struct Descriptors {
  Tensor x, w, y, bias;
  Dims stride, dilation, padBegin, padEnd;

  Descriptors(const ConvShape &s, const Elements &e)
      : x{{s.n, s.c}, e.x},
        w{s.groups > 1 ? Dims{s.groups, s.o / s.groups, s.c / s.groups}
                       : Dims{s.o, s.c},
          e.w},
        y{{s.n, s.o}, e.y}, bias{{s.o}, e.bias} {
    for (int i = 0; i < s.dims; ++i) {
      x.dims.push_back(s.in[i]), y.dims.push_back(s.out(i));
      w.dims.push_back(s.kernel[i]);
      stride.push_back(s.stride[i]),
          dilation.push_back(s.dilation[i] - 1); // oneDNN counts the gaps
      padBegin.push_back(s.padBegin[i]), padEnd.push_back(s.padEnd[i]);
    }
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

  Port(int argument, const Tensor &tensor, const memory::desc &chosen,
       bool output)
      : argument(argument), plain(tensor.plain()), chosen(chosen),
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
  void run(std::initializer_list<const void *> data) {
    dnnl::engine &engine = dnnlEngine();
    dnnl::stream &stream = dnnlStream();
    Scratch &scratch = threadScratch();
    std::unordered_map<int, memory> arguments;
    const void *const *pointer = data.begin();
    for (Port &port : ports) {
      memory outside(port.plain, engine, const_cast<void *>(*pointer++));
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
      void *outside = const_cast<void *>(*pointer++);
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
  C::desc desc =
      bias ? C::desc(kind, algorithm, d.x.any(), d.w.any(), d.bias.any(),
                     d.y.any(), d.stride, d.dilation, d.padBegin, d.padEnd)
           : C::desc(kind, algorithm, d.x.any(), d.w.any(), d.y.any(), d.stride,
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

/// `forward`: as the forward function has them.
Plan makeBackwardData(const Descriptors &d, const Descriptors &forward,
                      const dnnl::primitive_attr &attr) {
  using C = dnnl::convolution_backward_data;
  C::desc desc(dnnl::algorithm::convolution_direct, d.x.any(), d.w.any(),
               d.y.any(), d.stride, d.dilation, d.padBegin, d.padEnd);
  C::primitive_desc pd(desc, attr, dnnlEngine(),
                       forwardDesc(forward, false, attr));
  Plan plan{C(pd), pd.scratchpad_desc(), {}};
  plan.ports = {{DNNL_ARG_DIFF_DST, d.y, pd.diff_dst_desc(), false},
                {DNNL_ARG_WEIGHTS, d.w, pd.weights_desc(), false},
                {DNNL_ARG_DIFF_SRC, d.x, pd.diff_src_desc(), true}};
  return plan;
}

Plan makeBackwardWeights(const Descriptors &d, const Descriptors &forward,
                         bool bias, const dnnl::primitive_attr &attr) {
  using C = dnnl::convolution_backward_weights;
  auto algorithm = dnnl::algorithm::convolution_direct;
  C::desc desc =
      bias ? C::desc(algorithm, d.x.any(), d.w.any(), d.bias.any(), d.y.any(),
                     d.stride, d.dilation, d.padBegin, d.padEnd)
           : C::desc(algorithm, d.x.any(), d.w.any(), d.y.any(), d.stride,
                     d.dilation, d.padBegin, d.padEnd);
  C::primitive_desc pd(desc, attr, dnnlEngine(),
                       forwardDesc(forward, bias, attr));
  Plan plan{C(pd), pd.scratchpad_desc(), {}};
  plan.ports = {{DNNL_ARG_SRC, d.x, pd.src_desc(), false},
                {DNNL_ARG_DIFF_DST, d.y, pd.diff_dst_desc(), false},
                {DNNL_ARG_DIFF_WEIGHTS, d.w, pd.diff_weights_desc(), true}};
  if (bias)
    plan.ports.emplace_back(DNNL_ARG_DIFF_BIAS, d.bias, pd.diff_bias_desc(),
                            true);
  return plan;
}

Plan makePlan(Direction direction, const ConvShape &shape,
              const Elements &elements) {
  Element e = elements.operand;
  Descriptors d(shape, elements), forward(shape, {e, e, e, e, e});
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  switch (direction) {
  case Direction::BackwardData:
    return makeBackwardData(d, forward, attr);
  case Direction::BackwardWeights:
  case Direction::BackwardWeightsBias:
    return makeBackwardWeights(
        d, forward, direction == Direction::BackwardWeightsBias, attr);
  default:
    return makeForward(d, direction == Direction::ForwardBias, attr);
  }
}

/// The cached plan. Ragged batches bring a bounded number of shapes; the limit
/// only guards against data that never repeat.
Plan &findPlan(Direction direction, const ConvShape &s, const Elements &e) {
  static PrimitiveCache<Plan> cache;
  std::vector<int64_t> key = {int64_t(direction),
                              omp_get_max_threads(),
                              s.n,
                              s.c,
                              s.o,
                              s.groups,
                              s.dims,
                              int64_t(e.operand),
                              int64_t(e.x),
                              int64_t(e.w),
                              int64_t(e.bias)};
  for (int i = 0; i < s.dims; ++i)
    key.insert(key.end(), {s.in[i], s.kernel[i], s.stride[i], s.dilation[i],
                           s.padBegin[i], s.padEnd[i]});
  return cache.find(std::move(key), "oneDNN convolution",
                    [&] { return makePlan(direction, s, e); });
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

template <typename T> void addTo(T *to, const float *from, int64_t count) {
#pragma omp parallel for simd schedule(static) if (parallel : count >= 65536)
  for (int64_t i = 0; i < count; ++i)
    to[i] = to[i] + from[i];
}

/// to[plane] = from[plane] + bias[channel of the plane].
template <typename T>
void addToPlanes(T *to, const float *from, Floats bias, int64_t planes,
                 int64_t channels, int64_t pixels) {
#pragma omp parallel for schedule(static) if (planes * pixels >= 65536)
  for (int64_t plane = 0; plane < planes; ++plane) {
    float value = bias[plane % channels];
    int64_t begin = plane * pixels;
#pragma omp simd
    for (int64_t i = begin; i < begin + pixels; ++i)
      to[i] = from[i] + value;
  }
}

/// db = beta * db + the sum of dy over samples and pixels: an input without an
/// element may have a padding.
template <typename T, typename R>
void sumPlanes(const T *dy, R *db, const ConvShape &s, float beta) {
  int64_t pixels = outputPixels(s);
  for (int64_t o = 0; o < s.o; ++o) {
    float sum = beta == 0 ? 0.f : float(db[o]);
    for (int64_t n = 0; n < s.n; ++n)
      for (int64_t i = 0; i < pixels; ++i)
        sum += dy[(n * s.o + o) * pixels + i];
    db[o] = sum;
  }
}

// T are floats, or narrow where the processor multiplies them.

template <typename T>
void forward(const T *x, const T *w, Floats bias, T *y, const ConvShape &s) {
  if (empty(s)) {
    int64_t pixels = outputPixels(s);
    for (int64_t plane = 0; plane < s.n * s.o; ++plane)
      std::fill_n(y + plane * pixels, pixels,
                  T(bias ? bias[plane % s.o] : 0.f));
    return;
  }
  threadScratch().reset();
  Elements elements = Elements::all<T>();
  if (!bias)
    return findPlan(Direction::Forward, s, elements).run({x, w, y});
  elements.bias = bias.wide ? Element::f32 : Element::bf16;
  findPlan(Direction::ForwardBias, s, elements).run({x, w, y, bias.address()});
}

template <typename T>
void backwardData(const T *dy, const T *w, Floats bias, T *dx,
                  const ConvShape &s) {
  int64_t pixels = inputPixels(s), planes = s.n * s.c;
  Scratch &scratch = threadScratch();
  scratch.reset();
  Elements elements = Elements::all<T>();
  // What a bias is added to is rounded behind it.
  void *sum = dx;
  if constexpr (!std::is_same_v<T, float>)
    if (bias) {
      elements.x = Element::f32;
      sum = scratch.floats(size_t(planes * pixels));
    }
  if (!empty(s))
    findPlan(Direction::BackwardData, s, elements).run({dy, w, sum});
  else if (elements.x == Element::f32)
    std::fill_n(static_cast<float *>(sum), planes * pixels, 0.f);
  else
    std::fill_n(dx, planes * pixels, T(0.f));
  if (bias)
    addToPlanes(dx, static_cast<const float *>(sum), bias, planes, s.c, pixels);
}

template <typename T, typename R>
void backwardWeights(const T *x, const T *dy, R *dw, R *db, const ConvShape &s,
                     float beta) {
  int64_t count = weightCount(s);
  if (empty(s)) {
    if (beta == 0)
      std::fill_n(dw, count, R(0.f));
    if (db)
      sumPlanes(dy, db, s, beta);
    return;
  }
  Scratch &scratch = threadScratch();
  scratch.reset();
  Elements elements = Elements::all<T>();
  auto direction =
      db ? Direction::BackwardWeightsBias : Direction::BackwardWeights;
  auto run = [&](void *w, void *b, Element element) {
    elements.w = elements.bias = element;
    Plan &plan = findPlan(direction, s, elements);
    if (db)
      plan.run({x, dy, w, b});
    else
      plan.run({x, dy, w});
  };
  if (beta == 0)
    return run(dw, db, kDnnlType<R>);
  float *w = scratch.floats(size_t(count)), *b = scratch.floats(size_t(s.o));
  run(w, b, Element::f32);
  addTo(dw, w, count);
  if (db)
    addTo(db, b, s.o);
}

int64_t inputCount(const ConvShape &s) { return s.n * s.c * inputPixels(s); }
int64_t outputCount(const ConvShape &s) { return s.n * s.o * outputPixels(s); }

template <typename R>
void backwardWeightsNarrow(const bf16 *x, const bf16 *dy, R *dw, R *db,
                           const ConvShape &s, float beta) {
  if (multipliesNarrow())
    return backwardWeights(x, dy, dw, db, s, beta);
  Wide wide;
  bool keep = beta != 0;
  backwardWeights(wide.in(x, inputCount(s)), wide.in(dy, outputCount(s)),
                  wide.out(dw, weightCount(s), keep), wide.out(db, s.o, keep),
                  s, beta);
}

} // namespace

void convForward(const float *x, const float *w, const float *bias, float *y,
                 const ConvShape &shape) {
  forward<float>(x, w, bias, y, shape);
}

void convForward(const bf16 *x, const bf16 *w, Floats bias, bf16 *y,
                 const ConvShape &s) {
  if (multipliesNarrow())
    return forward(x, w, bias, y, s);
  Wide wide;
  forward<float>(wide.in(x, inputCount(s)), wide.in(w, weightCount(s)),
                 wide.in(bias, s.o), wide.out(y, outputCount(s)), s);
}

void convBackwardData(const float *dy, const float *w, const float *bias,
                      float *dx, const ConvShape &shape) {
  backwardData<float>(dy, w, bias, dx, shape);
}

void convBackwardData(const bf16 *dy, const bf16 *w, Floats bias, bf16 *dx,
                      const ConvShape &s) {
  if (multipliesNarrow())
    return backwardData(dy, w, bias, dx, s);
  Wide wide;
  backwardData<float>(wide.in(dy, outputCount(s)), wide.in(w, weightCount(s)),
                      wide.in(bias, s.c), wide.out(dx, inputCount(s)), s);
}

void convBackwardWeights(const float *x, const float *dy, float *dw, float *db,
                         const ConvShape &shape, float beta) {
  backwardWeights(x, dy, dw, db, shape, beta);
}

void convBackwardWeights(const bf16 *x, const bf16 *dy, float *dw, float *db,
                         const ConvShape &shape, float beta) {
  backwardWeightsNarrow(x, dy, dw, db, shape, beta);
}

void convBackwardWeights(const bf16 *x, const bf16 *dy, bf16 *dw, bf16 *db,
                         const ConvShape &shape, float beta) {
  backwardWeightsNarrow(x, dy, dw, db, shape, beta);
}

} // namespace dt::rt
