//===- Cudnn.cpp - cuDNN's backend that looks at its arguments ------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Descriptors know which attributes they have, of which types, and that those
// they refer to are finished. The heuristics offer what a program must not take
// (TF32, sums in another order each time, plans that cannot be made) ahead of
// what it wants, which is found in mode A, in B, in fallback, or nowhere.
//
//===----------------------------------------------------------------------===//

#include "Tensor.h"

#include <cudnn.h>

#include <algorithm>
#include <cstring>
#include <map>

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

using namespace cuda_double;

namespace {

struct Engine {
  cudnnBackendNumericalNote_t note;
  Manner manner;
  bool possible;
  size_t workspace;
};
const Engine kEngines[] = {
    {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP, {}, true, 4096},
    {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, {.rounded = true}, true, 0},
    {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, {.drawn = true}, true, 0},
    {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP, {}, false, 0}};
enum { kExact, kTensorCores, kAnyOrder, kImpossible };

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool finished = false;
  std::map<int, std::string> attributes; ///< bytes
  // What follows from them, and from other descriptors, when it is finished:
  Tensor tensor;
  Convolution convolution;
  std::vector<int> engines; ///< one: of an engine, a configuration, a plan
  std::map<int64_t, void *> addresses;

  template <typename T> std::vector<T> values(int name) const {
    const std::string &bytes = attributes.at(name);
    std::vector<T> all(bytes.size() / sizeof(T));
    std::memcpy(all.data(), bytes.data(), bytes.size());
    return all;
  }
  template <typename T> T value(int name) const { return values<T>(name)[0]; }
  int64_t integer(int name) const { return value<int64_t>(name); }
  Sizes integers(int name) const { return values<int64_t>(name); }
  const Descriptor &other(int name) const {
    return *static_cast<Descriptor *>(value<void *>(name));
  }
};

/// What a descriptor may be given, and must be before it is finished.
struct Rule {
  int name;
  cudnnBackendAttributeType_t type;
  int64_t most = 1;  ///< values
  int refersTo = -1; ///< to a descriptor of this type
};

/// An operation's first attribute; the others follow in one order.
int firstOf(int operation) {
  return operation == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR
             ? CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA
         : operation ==
                 CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
             ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA
             : CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA;
}
constexpr int kBeta = 1, kWindow = 2, kW = 3, kX = 4, kY = 5;

std::vector<Rule> rulesOf(int type) {
  constexpr auto kInteger = CUDNN_TYPE_INT64;
  constexpr auto kOther = CUDNN_TYPE_BACKEND_DESCRIPTOR;
  int first = firstOf(type);
  switch (type) {
  case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
    return {{CUDNN_ATTR_TENSOR_UNIQUE_ID, kInteger},
            {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE},
            {CUDNN_ATTR_TENSOR_DIMENSIONS, kInteger, 8},
            {CUDNN_ATTR_TENSOR_STRIDES, kInteger, 8},
            {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kInteger}};
  case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
    return {{CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE},
            {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE},
            {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, kInteger},
            {CUDNN_ATTR_CONVOLUTION_DILATIONS, kInteger, 3},
            {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, kInteger, 3},
            {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, kInteger, 3},
            {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, kInteger, 3}};
  case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
  case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
  case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
    return {{first, CUDNN_TYPE_FLOAT},
            {first + kBeta, CUDNN_TYPE_FLOAT},
            {first + kWindow, kOther, 1, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR},
            {first + kW, kOther, 1, CUDNN_BACKEND_TENSOR_DESCRIPTOR},
            {first + kX, kOther, 1, CUDNN_BACKEND_TENSOR_DESCRIPTOR},
            {first + kY, kOther, 1, CUDNN_BACKEND_TENSOR_DESCRIPTOR}};
  case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: // any operation
    return {{CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE},
            {CUDNN_ATTR_OPERATIONGRAPH_OPS, kOther}};
  case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
    return {{CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE},
            {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, kOther, 1,
             CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR}};
  case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
    return {{CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, kOther, 1,
             CUDNN_BACKEND_ENGINECFG_DESCRIPTOR},
            {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE}};
  case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
    return {{CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, kInteger, 8},
            {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 8},
            {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR}};
  }
  return {}; // engines and configurations come from the heuristics
}

size_t bytesOf(cudnnBackendAttributeType_t type) {
  return type == CUDNN_TYPE_HANDLE || type == CUDNN_TYPE_INT64 ||
                 type == CUDNN_TYPE_VOID_PTR ||
                 type == CUDNN_TYPE_BACKEND_DESCRIPTOR
             ? 8
             : 4;
}

Descriptor &descriptor(const char *call, void *d, bool finished) {
  auto *found = static_cast<Descriptor *>(d);
  if (!found)
    die(call, ": no descriptor");
  if (found->finished != finished)
    die(call, ": a descriptor of type ", found->type, " is ",
        finished ? "not finalized" : "finalized already");
  return *found;
}

//===----------------------------------------------------------------------===//
// Finishing.
//===----------------------------------------------------------------------===//

template <typename... Parts> [[noreturn]] void refuse(const Parts &...parts) {
  die("cudnnBackendFinalize: ", parts...);
}

void finishTensor(Descriptor &d) {
  Tensor &t = d.tensor;
  t.sizes = d.integers(CUDNN_ATTR_TENSOR_DIMENSIONS);
  t.strides = d.integers(CUDNN_ATTR_TENSOR_STRIDES);
  t.id = d.integer(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  t.alignment = d.integer(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  t.narrow = d.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE) ==
             CUDNN_DATA_BFLOAT16;
  if (t.sizes.size() < 4 || t.sizes.size() != t.strides.size())
    refuse("tensor ", t.id, " has ", t.sizes.size(), " sizes and ",
           t.strides.size(), " strides");
  if (t.alignment < (t.narrow ? 2 : 4) || (t.alignment & (t.alignment - 1)))
    refuse("tensor ", t.id, " is aligned to ", t.alignment, " bytes");
  std::map<int64_t, int64_t> dims; // sizes by stride
  for (size_t i = 0; i < t.sizes.size(); ++i) {
    if (t.sizes[i] <= 0)
      refuse("tensor ", t.id, " has a size of ", t.sizes[i]);
    if (t.sizes[i] > 1 && !dims.emplace(t.strides[i], t.sizes[i]).second)
      refuse("tensor ", t.id, " has a stride of ", t.strides[i], " twice");
  }
  int64_t reach = 1;
  for (auto [stride, size] : dims) {
    if (stride < reach)
      refuse("elements of tensor ", t.id, " overlap: a stride of ", stride,
             ", below ", reach);
    reach += stride * (size - 1);
  }
}

void finishWindow(Descriptor &d) {
  Convolution &c = d.convolution;
  c.before = d.integers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  c.after = d.integers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  c.stride = d.integers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  c.dilation = d.integers(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  auto dims = size_t(d.integer(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
  for (const Sizes *sizes : {&c.before, &c.after, &c.stride, &c.dilation})
    if (sizes->size() != dims)
      refuse("a window in ", dims, " dims has ", sizes->size(),
             " strides, dilations or paddings");
  if (d.value<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) !=
      CUDNN_DATA_FLOAT)
    refuse("sums of a convolution are not in float");
}

void finishOperation(Descriptor &d) {
  int first = firstOf(d.type);
  Convolution &c = d.convolution;
  c = d.other(first + kWindow).convolution;
  c.alpha = d.value<float>(first), c.beta = d.value<float>(first + kBeta);
  c.wanted = first == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA
                 ? Convolution::Y
             : first == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA
                 ? Convolution::X
                 : Convolution::W;
  for (auto [which, attribute] : {std::pair(Convolution::X, kX),
                                  {Convolution::W, kW},
                                  {Convolution::Y, kY}})
    c.tensors[which] = d.other(first + attribute).tensor;
  const Sizes &x = c.sizes(Convolution::X), &w = c.sizes(Convolution::W),
              &y = c.sizes(Convolution::Y);
  size_t dims = c.stride.size() + 2;
  if (x.size() != dims || w.size() != dims || y.size() != dims)
    refuse("tensors of ", x.size(), ", ", w.size(), " and ", y.size(),
           " dims, a window in ", dims - 2);
  if (x[0] != y[0] || y[1] != w[0] || x[1] % w[1] || w[0] % (x[1] / w[1]))
    refuse("x [", x[0], ", ", x[1], ", ...], w [", w[0], ", ", w[1],
           ", ...] and y [", y[0], ", ", y[1], ", ...] are no convolution");
  for (size_t i = 2; i < dims; ++i) {
    int64_t reach = c.dilation[i - 2] * (w[i] - 1) + 1,
            room = x[i] + c.before[i - 2] + c.after[i - 2] - reach,
            size = room / c.stride[i - 2] + 1;
    if (y[i] != size)
      refuse("y has size ", y[i], " in dim ", i, ", the window gives ", size);
  }
}

void finishHeuristic(Descriptor &d) {
  auto mode = d.value<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE);
  const Convolution &c = d.convolution =
      d.other(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).convolution;
  auto allOnes = [](const Sizes &sizes) {
    return std::ranges::all_of(sizes, [](int64_t size) { return size == 1; });
  };
  bool plain = c.groups() == 1 && allOnes(c.dilation);
  if (mode == CUDNN_HEUR_MODE_A)
    d.engines = {kImpossible, kTensorCores, kAnyOrder};
  const auto &[x, w, y] = c.tensors;
  if (x.narrow != w.narrow || x.narrow != y.narrow)
    d.engines = {kImpossible};
  else if ((mode == CUDNN_HEUR_MODE_A && plain && allOnes(c.stride)) ||
           (mode == CUDNN_HEUR_MODE_B && plain) ||
           (mode == CUDNN_HEUR_MODE_FALLBACK && c.groups() <= 3))
    d.engines.push_back(kExact);
}

void finishPlan(Descriptor &d) {
  const Descriptor &from = d.other(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  d.engines = from.engines;
  d.convolution = from.convolution;
}

void finishPack(Descriptor &d) {
  Sizes ids = d.integers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  auto data = d.values<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  for (size_t i = 0; i < std::min(ids.size(), data.size()); ++i)
    d.addresses[ids[i]] = data[i];
  if (ids.size() != data.size() || d.addresses.size() != ids.size())
    refuse(data.size(), " addresses for ", ids.size(), " tensors");
}

} // namespace

const char *cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS"
                                        : "CUDNN_STATUS_NOT_SUPPORTED";
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  Entry entry("cudnnCreate");
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  Entry entry("cudnnSetStream");
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *made) {
  Entry entry("cudnnBackendCreateDescriptor");
  *made = new Descriptor{type};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d) {
  delete static_cast<Descriptor *>(d);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type,
                                       int64_t count, const void *values) {
  const char *call = "cudnnBackendSetAttribute";
  Entry entry(call);
  Descriptor &to = descriptor(call, d, false);
  std::vector<Rule> rules = rulesOf(to.type);
  auto rule = std::ranges::find(rules, name, &Rule::name);
  if (rule == rules.end())
    die(call, ": a descriptor of type ", to.type, " has no attribute ", name);
  if (type != rule->type || count < 1 || count > rule->most)
    die(call, ": attribute ", name, " has values of type ", rule->type,
        ", at most ", rule->most, "; not ", count, " of type ", type);
  to.attributes[name].assign(static_cast<const char *>(values),
                             size_t(count) * bytesOf(type));
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    Descriptor &other = descriptor(call, to.value<void *>(name), true);
    if (rule->refersTo >= 0 && other.type != rule->refersTo)
      die(call, ": attribute ", name, " is a descriptor of type ", other.type,
          ", not ", rule->refersTo);
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t raw) {
  const char *call = "cudnnBackendFinalize";
  Entry entry(call);
  Descriptor &d = descriptor(call, raw, false);
  for (const Rule &rule : rulesOf(d.type))
    if (!d.attributes.count(rule.name))
      refuse("a descriptor of type ", d.type, " lacks attribute ", rule.name);
  switch (d.type) {
  case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
    finishTensor(d);
    break;
  case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
    finishWindow(d);
    break;
  case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
    d.convolution = d.other(CUDNN_ATTR_OPERATIONGRAPH_OPS).convolution;
    break;
  case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
    finishHeuristic(d);
    break;
  case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
    finishPlan(d);
    if (!kEngines[d.engines[0]].possible)
      return CUDNN_STATUS_NOT_SUPPORTED_SHAPE;
    break;
  case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
    finishPack(d);
    break;
  default:
    finishOperation(d);
  }
  d.finished = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t raw,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t,
                                       int64_t wanted, int64_t *count,
                                       void *values) {
  const char *call = "cudnnBackendGetAttribute";
  Entry entry(call);
  auto &from = *static_cast<Descriptor *>(raw);
  *count = 1;
  // Descriptors that the caller made are filled, and finished.
  auto fill = [&](int64_t i, int engine) {
    Descriptor &to = descriptor(call, static_cast<void **>(values)[i], false);
    to.engines = {engine};
    to.convolution = from.convolution;
    to.finished = true;
  };
  switch (name) {
  case CUDNN_ATTR_ENGINEHEUR_RESULTS:
    descriptor(call, raw, true);
    *count = int64_t(from.engines.size());
    for (int64_t i = 0; i < std::min(wanted, *count); ++i)
      fill(i, from.engines[size_t(i)]);
    return CUDNN_STATUS_SUCCESS;
  case CUDNN_ATTR_ENGINECFG_ENGINE:
    fill(0, from.engines.at(0));
    return CUDNN_STATUS_SUCCESS;
  case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
    std::memcpy(values, &kEngines[from.engines.at(0)].note, 4);
    return CUDNN_STATUS_SUCCESS;
  case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
    *static_cast<int64_t *>(values) = from.engines.at(0);
    return CUDNN_STATUS_SUCCESS;
  case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
    descriptor(call, raw, true);
    *static_cast<int64_t *>(values) =
        int64_t(kEngines[from.engines.at(0)].workspace);
    return CUDNN_STATUS_SUCCESS;
  default:
    die(call, ": no attribute ", name);
  }
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle,
                                  cudnnBackendDescriptor_t rawPlan,
                                  cudnnBackendDescriptor_t rawPack) {
  const char *call = "cudnnBackendExecute";
  Entry entry(call);
  const Descriptor &plan = descriptor(call, rawPlan, true),
                   &pack = descriptor(call, rawPack, true);
  if (plan.type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
      pack.type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
    die(call, ": descriptors of types ", plan.type, " and ", pack.type);
  Convolution c = plan.convolution;
  const Tensor &result = c.tensors[c.wanted];
  for (int i = 0; i < 3; ++i) {
    Tensor &t = c.tensors[i];
    std::string what = text(call, ": ", "xwy"[i]);
    auto found = pack.addresses.find(t.id);
    if (found == pack.addresses.end())
      die(what, ", tensor ", t.id, ", has no address");
    t.data = found->second;
    requireTensor(t, what);
  }
  for (const Tensor &t : c.tensors)
    if (&t != &result && overlap(t, result))
      die(call, ": the result overlaps tensor ", t.id);
  const Engine &engine = kEngines[plan.engines[0]];
  queueCall(call, handle->stream,
            pack.value<void *>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE),
            engine.workspace, [c, &engine] { convolve(c, engine.manner); });
  return CUDNN_STATUS_SUCCESS;
}
