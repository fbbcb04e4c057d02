//===- CudnnConv.cpp - convolutions by cuDNN ------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// One operation a graph. Tensors stand as they do in ONNX; a convolution in one
// dim is one in two.
//
// Seen of cuDNN 9.19: it has no convolution of bf16 with a result in float32.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Log.h"
#include "runtime/device/cuda/Cuda.h"
#include "runtime/device/cuda/CudnnGraph.h"

namespace dt::rt::cudnn {

namespace {

/// Sizes of a window in each dim; one dim more where there is only one.
struct Spatial {
  Sizes in, out, kernel, stride, dilation, before, after;

  explicit Spatial(const ConvShape &s) {
    auto put = [](Sizes &to, const int64_t *from, int n, int64_t other) {
      if (n == 1)
        to.push_back(other);
      to.insert(to.end(), from, from + n);
    };
    int64_t outputs[3];
    for (int i = 0; i < s.dims; ++i)
      outputs[i] = s.out(i);
    put(in, s.in, s.dims, 1);
    put(out, outputs, s.dims, 1);
    put(kernel, s.kernel, s.dims, 1);
    put(stride, s.stride, s.dims, 1);
    put(dilation, s.dilation, s.dims, 1);
    put(before, s.padBegin, s.dims, 0);
    put(after, s.padEnd, s.dims, 0);
  }
};

Descriptor window(const Spatial &s) {
  Descriptor d = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  set(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  set(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  set(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t(s.in.size()));
  set(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, s.before);
  set(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, s.after);
  set(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, s.stride);
  set(d, CUDNN_ATTR_CONVOLUTION_DILATIONS, s.dilation);
  return d;
}

/// What cuDNN calls the three operations.
struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t alpha, beta, window, tensors[3];
};
constexpr Names kNames[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y}},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY}},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY}}};

/// x, w, y.
void describe(Graph &graph, const ConvProblem &p) {
  const ConvShape &c = p.shape;
  Spatial s(c);
  const Names &names = kNames[size_t(p.wanted)];
  Descriptor operation = make(names.operation);
  auto tensor = [&](int i, int64_t rows, int64_t channels, const Sizes &rest) {
    Sizes all{rows, channels};
    all.insert(all.end(), rest.begin(), rest.end());
    cudnnDataType_t type = p.narrow ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    Tensor t = graph.tensor(Place::Memory, type, all, dense(all), p.alignment);
    set(operation, names.tensors[i], t.descriptor);
  };
  tensor(0, c.n, c.c, s.in);
  tensor(1, c.o, c.c / c.groups, s.kernel);
  tensor(2, c.n, c.o, s.out);
  set(operation, names.window, graph.part(window(s)));
  set(operation, names.alpha, 1.f);
  set(operation, names.beta, p.beta);
  graph.operation(std::move(operation));
}

Sizes keyOf(const ConvProblem &p) {
  const ConvShape &s = p.shape;
  Sizes key{s.n,         s.c,         s.o,      s.groups,
            p.alignment, p.beta != 0, p.narrow, int64_t(p.wanted),
            s.tf32};
  for (int i = 0; i < s.dims; ++i)
    for (auto *sizes :
         {s.in, s.kernel, s.stride, s.dilation, s.padBegin, s.padEnd})
      key.push_back(sizes[i]);
  return key;
}

/// Once a problem.
void noteMissing(const ConvProblem &p) {
  const ConvShape &s = p.shape;
  constexpr const char *kWhat[] = {"results", "gradients of the input",
                                   "gradients of the weights"};
  printError("warning: %s of a convolution, %lld by %lld channels in %lld "
             "groups, batch %lld: cuDNN has no plan for it, so patches are "
             "written out and multiplied\n",
             kWhat[size_t(p.wanted)], (long long)s.c, (long long)s.o,
             (long long)s.groups, (long long)s.n);
}

} // namespace

Plan findPlan(const ConvProblem &problem, const Gpu &gpu) {
  return findPlan([&](Graph &graph) { describe(graph, problem); },
                  problem.narrow || problem.shape.tf32, gpu);
}

bool convolve(const ConvProblem &problem, const void *x, const void *w,
              const void *y, void *stream) {
  if (!isOn())
    return false;
  const Plan &plan = planFor(keyOf(problem), [&](const Gpu &gpu) {
    Plan found = findPlan(problem, gpu);
    if (!found.plan)
      noteMissing(problem);
    return found;
  });
  if (!plan.plan)
    return false;
  void *workspace = workspaceFor(plan);
  if (queues(plan))
    execute(
        plan,
        {const_cast<void *>(x), const_cast<void *>(w), const_cast<void *>(y)},
        workspace, stream);
  return true;
}

} // namespace dt::rt::cudnn
