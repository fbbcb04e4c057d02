//===- Cudnn.cpp - convolutions by cuDNN ----------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// One operation a graph, by cuDNN's backend API. Tensors stand as they do in
// ONNX; a convolution in one dim is one in two. Plans are kept by problem.
//
// Seen of cuDNN 9.19: its heuristics offer tensor cores for float32 first (that
// is TF32) and have no convolution of bf16 with a result in float32.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/Cudnn.h"
#include "runtime/device/cuda/Cuda.h"

#include <cudnn.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <vector>

namespace dt::rt::cudnn {

namespace {

/// A plan that wants more is not taken.
constexpr int64_t kMostWorkspace = int64_t(1) << 30;

/// Numbers of the tensors in a graph.
constexpr int64_t kIds[] = {1, 2, 3}; ///< x, w, y

void check(cudnnStatus_t status, const char *call) {
  if (status != CUDNN_STATUS_SUCCESS)
    cuda::fail(call, cudnnGetErrorString(status));
}

constexpr auto typeOf(int64_t) { return CUDNN_TYPE_INT64; }
constexpr auto typeOf(float) { return CUDNN_TYPE_FLOAT; }
constexpr auto typeOf(void *) { return CUDNN_TYPE_VOID_PTR; }
constexpr auto typeOf(cudnnDataType_t) { return CUDNN_TYPE_DATA_TYPE; }
constexpr auto typeOf(cudnnConvolutionMode_t) {
  return CUDNN_TYPE_CONVOLUTION_MODE;
}
constexpr auto typeOf(cudnnBackendHeurMode_t) { return CUDNN_TYPE_HEUR_MODE; }

Descriptor make(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t descriptor;
  check(cudnnBackendCreateDescriptor(type, &descriptor),
        "cudnnBackendCreateDescriptor");
  return Descriptor(descriptor);
}

template <typename T>
void set(const Descriptor &d, cudnnBackendAttributeName_t name, const T *values,
         size_t n) {
  check(
      cudnnBackendSetAttribute(d.get(), name, typeOf(T()), int64_t(n), values),
      "cudnnBackendSetAttribute");
}
template <typename T>
void set(const Descriptor &d, cudnnBackendAttributeName_t name, T value) {
  set(d, name, &value, 1);
}
void set(const Descriptor &d, cudnnBackendAttributeName_t name,
         cudnnBackendAttributeType_t type, void *value) {
  check(cudnnBackendSetAttribute(d.get(), name, type, 1, &value),
        "cudnnBackendSetAttribute");
}
void set(const Descriptor &d, cudnnBackendAttributeName_t name,
         const Descriptor &value) {
  set(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.get());
}

/// Fills `values`, at most `n`; returns how many there are.
int64_t get(const Descriptor &d, cudnnBackendAttributeName_t name,
            cudnnBackendAttributeType_t type, int64_t n, void *values) {
  int64_t count = 0;
  check(cudnnBackendGetAttribute(d.get(), name, type, n, &count, values),
        "cudnnBackendGetAttribute");
  return count;
}

/// False: cuDNN has nothing for this.
bool finalize(const Descriptor &d) {
  cudnnStatus_t status = cudnnBackendFinalize(d.get());
  if (CUDNN_STATUS_CATEGORY(status) != CUDNN_STATUS_NOT_SUPPORTED)
    check(status, "cudnnBackendFinalize");
  return status == CUDNN_STATUS_SUCCESS;
}

using Sizes = std::vector<int64_t>;

Descriptor tensor(int64_t id, const Problem &p, const Sizes &sizes) {
  Sizes strides(sizes.size(), 1);
  for (size_t i = sizes.size() - 1; i-- > 0;)
    strides[i] = strides[i + 1] * sizes[i + 1];
  Descriptor d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  set(d, CUDNN_ATTR_TENSOR_DATA_TYPE,
      p.narrow ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT);
  set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, sizes.data(), sizes.size());
  set(d, CUDNN_ATTR_TENSOR_STRIDES, strides.data(), strides.size());
  set(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, p.alignment);
  return finalize(d) ? std::move(d) : nullptr;
}

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
  for (auto [name, sizes] :
       {std::pair(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, &s.before),
        {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, &s.after},
        {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &s.stride},
        {CUDNN_ATTR_CONVOLUTION_DILATIONS, &s.dilation}})
    set(d, name, sizes->data(), sizes->size());
  return finalize(d) ? std::move(d) : nullptr;
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

/// The operation's graph with what it was made from, the graph last; empty:
/// cuDNN knows none such.
std::vector<Descriptor> graphOf(const Problem &p, const Gpu &gpu) {
  const ConvShape &c = p.shape;
  Spatial s(c);
  auto sizes = [](int64_t rows, int64_t channels, const Sizes &rest) {
    Sizes all{rows, channels};
    all.insert(all.end(), rest.begin(), rest.end());
    return all;
  };
  std::vector<Descriptor> parts;
  parts.push_back(tensor(kIds[0], p, sizes(c.n, c.c, s.in)));
  parts.push_back(tensor(kIds[1], p, sizes(c.o, c.c / c.groups, s.kernel)));
  parts.push_back(tensor(kIds[2], p, sizes(c.n, c.o, s.out)));
  parts.push_back(window(s));
  if (std::count(parts.begin(), parts.end(), nullptr))
    return {};
  const Names &names = kNames[size_t(p.wanted)];
  Descriptor operation = make(names.operation);
  set(operation, names.alpha, 1.f);
  set(operation, names.beta, p.beta);
  for (int i = 0; i < 3; ++i)
    set(operation, names.tensors[i], parts[size_t(i)]);
  set(operation, names.window, parts.back());
  if (!finalize(operation))
    return {};
  Descriptor graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  if (gpu.handle)
    set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, gpu.handle);
  if (!finalize(graph))
    return {};
  parts.push_back(std::move(operation));
  parts.push_back(std::move(graph));
  return parts;
}

/// Whether an engine computes as the project promises. Tensor cores take
/// float32 as TF32; Winograd's and Fourier's transforms round more than sums.
bool isWanted(const Descriptor &engine, bool narrow) {
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  int64_t n = get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                  CUDNN_TYPE_NUMERICAL_NOTE, std::size(notes), notes);
  return std::none_of(notes, notes + n, [&](cudnnBackendNumericalNote_t note) {
    switch (note) {
    case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
      return false;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
      return !narrow;
    default:
      return true;
    }
  });
}

/// Makes `found` the plan of a configuration, if that can be one.
bool take(Descriptor &configuration, const Problem &problem, const Gpu &gpu,
          Plan &found) {
  Descriptor engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  void *raw = engine.get();
  get(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
      1, &raw);
  if (!isWanted(engine, problem.narrow))
    return false;
  Descriptor plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  if (gpu.handle)
    set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, gpu.handle);
  else
    set(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
        CUDNN_TYPE_BACKEND_DESCRIPTOR, gpu.properties);
  // The heuristic may err: another configuration then does it.
  if (cudnnBackendFinalize(plan.get()) != CUDNN_STATUS_SUCCESS)
    return false;
  int64_t workspace = 0;
  get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
      &workspace);
  if (workspace > kMostWorkspace)
    return false;
  get(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
      &found.engine);
  found.plan = std::move(plan);
  found.configuration = std::move(configuration);
  found.workspace = size_t(workspace);
  return true;
}

/// What a heuristic proposes, best first.
std::vector<Descriptor> configurations(const Descriptor &graph,
                                       cudnnBackendHeurMode_t mode,
                                       const Gpu &gpu) {
  Descriptor heuristic = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (!gpu.handle)
    set(heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
        CUDNN_TYPE_BACKEND_DESCRIPTOR, gpu.properties);
  if (!finalize(heuristic))
    return {};
  auto results = [&](int64_t n, void *values) {
    return get(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
               CUDNN_TYPE_BACKEND_DESCRIPTOR, n, values);
  };
  std::vector<Descriptor> found(size_t(results(0, nullptr)));
  std::vector<void *> raw;
  for (Descriptor &d : found) {
    d = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(d.get());
  }
  if (!found.empty())
    found.resize(size_t(results(int64_t(raw.size()), raw.data())));
  return found;
}

cudnnHandle_t handle() {
  static cudnnHandle_t theHandle = [] {
    cudnnHandle_t h;
    check(cudnnCreate(&h), "cudnnCreate");
    return h;
  }();
  return theHandle;
}

bool isOn() {
  static bool on = cuda::isWanted("DT_CUDNN");
  return on;
}

const Plan &planFor(const Problem &p) {
  using Key = std::array<int64_t, 8 + 3 * 6>;
  static auto &plans = *new std::map<Key, Plan>; // outlives CUDA's own end
  const ConvShape &s = p.shape;
  Key key{s.n,         s.c,         s.o,      s.groups,
          p.alignment, p.beta != 0, p.narrow, int64_t(p.wanted)};
  size_t at = 8;
  for (int i = 0; i < s.dims; ++i)
    for (auto *sizes :
         {s.in, s.kernel, s.stride, s.dilation, s.padBegin, s.padEnd})
      key[at++] = sizes[i];
  auto it = plans.find(key);
  if (it == plans.end())
    it = plans.emplace(key, findPlan(p, {handle()})).first;
  return it->second;
}

} // namespace

void Destroy::operator()(void *descriptor) const {
  cudnnBackendDestroyDescriptor(descriptor);
}

Plan findPlan(const Problem &problem, const Gpu &gpu) {
  Plan found;
  found.parts = graphOf(problem, gpu);
  if (found.parts.empty())
    return found;
  const Descriptor &graph = found.parts.back();
  for (auto [mode, name] : {std::pair(CUDNN_HEUR_MODE_A, "A"),
                            {CUDNN_HEUR_MODE_B, "B"},
                            {CUDNN_HEUR_MODE_FALLBACK, "fallback"}})
    for (Descriptor &c : configurations(graph, mode, gpu))
      if (take(c, problem, gpu, found)) {
        found.mode = name;
        return found;
      }
  return found;
}

bool convolve(const Problem &problem, const void *x, const void *w,
              const void *y, void *stream) {
  if (!isOn())
    return false;
  const Plan &plan = planFor(problem);
  if (!plan.plan)
    return false;
  void *workspace = plan.workspace ? cuda::scratch(2, plan.workspace) : nullptr;
  if (cuda::rehearsing)
    return true;
  void *tensors[] = {const_cast<void *>(x), const_cast<void *>(w),
                     const_cast<void *>(y)};
  Descriptor pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, kIds, std::size(kIds));
  set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, tensors, std::size(tensors));
  set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace);
  check(cudnnBackendFinalize(pack.get()), "cudnnBackendFinalize");
  check(cudnnSetStream(handle(), static_cast<cudaStream_t>(stream)),
        "cudnnSetStream");
  check(cudnnBackendExecute(handle(), plan.plan.get(), pack.get()),
        "cudnnBackendExecute");
  return true;
}

} // namespace dt::rt::cudnn
