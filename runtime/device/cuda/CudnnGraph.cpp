//===- CudnnGraph.cpp - operations that cuDNN makes plans for -------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Seen of cuDNN 9.19: its heuristics offer tensor cores for float32 first (that
// is TF32).
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/CudnnGraph.h"
#include "runtime/device/LibraryMemory.h"
#include "runtime/device/cuda/Cuda.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

namespace dt::rt::cudnn {

namespace {

/// Scratch of plans.
constexpr int kPurpose = 3;

/// Bytes. A plan that wants more is not taken: in a step nothing is allocated.
int64_t mostWorkspace() {
  int64_t allowed = allowedWorkspace();
  return cuda::rehearsed
             ? std::min(allowed, int64_t(cuda::scratchBytes(kPurpose)))
             : allowed;
}

/// Numbers of the tensors inside of a graph; the others count from 1.
constexpr int64_t kInside = 1000;

/// Fills `values`, at most `n`; returns how many there are.
int64_t get(const Descriptor &d, cudnnBackendAttributeName_t name,
            cudnnBackendAttributeType_t type, int64_t n, void *values) {
  int64_t count = 0;
  check(cudnnBackendGetAttribute(d.get(), name, type, n, &count, values),
        "cudnnBackendGetAttribute");
  return count;
}

void setHandle(const Descriptor &d, cudnnBackendAttributeName_t name,
               void *handle) {
  set(d, name, CUDNN_TYPE_HANDLE, 1, &handle);
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
bool take(Descriptor &configuration, bool narrow, const Gpu &gpu, Plan &found) {
  Descriptor engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  void *raw = engine.get();
  get(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
      1, &raw);
  if (!isWanted(engine, narrow))
    return false;
  Descriptor plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration.get());
  if (gpu.handle)
    setHandle(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, gpu.handle);
  else
    set(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, gpu.properties);
  // The heuristic may err: another configuration then does it.
  if (cudnnBackendFinalize(plan.get()) != CUDNN_STATUS_SUCCESS)
    return false;
  int64_t workspace = 0;
  get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
      &workspace);
  if (workspace > mostWorkspace())
    return false;
  get(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
      &found.engine);
  found.plan = std::move(plan);
  found.configuration = std::move(configuration);
  found.workspace = size_t(workspace);
  return true;
}

/// What a heuristic proposes, best first; nothing where it knows nothing.
/// `offered`: how many it speaks of; without a driver it cannot make those
/// whose engines are compiled.
std::vector<Descriptor> configurations(void *graph, cudnnBackendHeurMode_t mode,
                                       const Gpu &gpu, int &offered) {
  Descriptor heuristic = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (!gpu.handle)
    set(heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, gpu.properties);
  try {
    finish(heuristic);
  } catch (const Unknown &) {
    return {};
  }
  auto results = [&](int64_t n, void *values) {
    return get(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
               CUDNN_TYPE_BACKEND_DESCRIPTOR, n, values);
  };
  std::vector<Descriptor> found(size_t(results(0, nullptr)));
  offered = int(found.size());
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

} // namespace

void Destroy::operator()(void *descriptor) const {
  cudnnBackendDestroyDescriptor(descriptor);
}

void check(cudnnStatus_t status, const char *call) {
  if (status != CUDNN_STATUS_SUCCESS)
    cuda::fail(call, cudnnGetErrorString(status));
}

Descriptor make(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t descriptor;
  check(cudnnBackendCreateDescriptor(type, &descriptor),
        "cudnnBackendCreateDescriptor");
  return Descriptor(descriptor);
}

void set(const Descriptor &d, cudnnBackendAttributeName_t name,
         cudnnBackendAttributeType_t type, int64_t count, const void *values) {
  check(cudnnBackendSetAttribute(d.get(), name, type, count, values),
        "cudnnBackendSetAttribute");
}

void finish(const Descriptor &d) {
  cudnnStatus_t status = cudnnBackendFinalize(d.get());
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED)
    throw Unknown();
  check(status, "cudnnBackendFinalize");
}

Sizes dense(const Sizes &sizes) {
  Sizes strides(sizes.size(), 1);
  for (size_t i = sizes.size() - 1; i-- > 0;)
    strides[i] = strides[i + 1] * sizes[i + 1];
  return strides;
}

Tensor Graph::tensor(Place place, cudnnDataType_t type, const Sizes &sizes,
                     const Sizes &strides, int64_t alignment) {
  Descriptor d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID,
      place == Place::Inside ? kInside + inside++ : ++outside);
  set(d, CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, sizes);
  set(d, CUDNN_ATTR_TENSOR_STRIDES, strides);
  set(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment);
  if (place == Place::Inside)
    set(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
  if (place == Place::Value)
    set(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
  return {part(std::move(d)), sizes, strides};
}

void *Graph::part(Descriptor d) {
  finish(d);
  parts.push_back(std::move(d));
  return parts.back().get();
}

Plan Graph::findPlan(bool narrow, const Gpu &gpu) {
  Descriptor d = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  set(d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
      int64_t(operations.size()), operations.data());
  if (gpu.handle)
    setHandle(d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, gpu.handle);
  void *graph = part(std::move(d));
  Plan found;
  found.parts = std::move(parts);
  for (auto [mode, name] : {std::pair(CUDNN_HEUR_MODE_A, "A"),
                            {CUDNN_HEUR_MODE_B, "B"},
                            {CUDNN_HEUR_MODE_FALLBACK, "fallback"}}) {
    int offered = 0;
    for (Descriptor &c : configurations(graph, mode, gpu, offered))
      if (take(c, narrow, gpu, found)) {
        found.mode = name;
        return found;
      }
    if (mode == CUDNN_HEUR_MODE_A)
      found.offered = offered;
  }
  return found;
}

Plan findPlan(const std::function<void(Graph &)> &describe, bool narrow,
              const Gpu &gpu) {
  try {
    Graph graph;
    describe(graph);
    return graph.findPlan(narrow, gpu);
  } catch (const Unknown &) {
    return {};
  }
}

int64_t allowedWorkspace() {
  static const int64_t most = [] {
    const char *name = "DT_CUDNN_WORKSPACE", *said = std::getenv(name);
    if (!said)
      return kMostPlanWorkspace;
    char *end = nullptr;
    long long bytes = std::strtoll(said, &end, 10);
    if (end == said || *end || bytes < 0)
      cuda::fail(name, "expected a number of bytes");
    return int64_t(bytes);
  }();
  return most;
}

bool isOn() {
  static bool on = cuda::isWanted("DT_CUDNN");
  return on;
}

const Plan &planFor(const Sizes &key,
                    const std::function<Plan(const Gpu &)> &find) {
  static auto &plans = *new std::map<Sizes, Plan>; // outlives CUDA's own end
  auto it = plans.find(key);
  if (it == plans.end())
    it = plans.emplace(key, find({handle()})).first;
  return it->second;
}

bool queues(const Plan &plan) {
  return !std::exchange(plan.loaded, true) || !cuda::rehearsing;
}

void *workspaceFor(const Plan &plan) {
  return plan.workspace ? cuda::scratch(kPurpose, plan.workspace) : nullptr;
}

void execute(const Plan &plan, const std::vector<void *> &addresses,
             void *workspace, void *stream) {
  Sizes ids(addresses.size());
  std::iota(ids.begin(), ids.end(), 1);
  Descriptor pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
      int64_t(addresses.size()), addresses.data());
  set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
      &workspace);
  check(cudnnBackendFinalize(pack.get()), "cudnnBackendFinalize");
  check(cudnnSetStream(handle(), static_cast<cudaStream_t>(stream)),
        "cudnnSetStream");
  check(cudnnBackendExecute(handle(), plan.plan.get(), pack.get()),
        "cudnnBackendExecute");
}

} // namespace dt::rt::cudnn
