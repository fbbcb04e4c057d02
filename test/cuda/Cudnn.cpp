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

#include "Double.h"

#include <cudnn.h>

#include <set>

using namespace cuda_double;

namespace {

/// What heuristics offer. What a program must not take computes nothing: its
/// results are not numbers.
struct Engine {
  cudnnBackendNumericalNote_t note;
  bool possible;
  size_t workspace;
};
const Engine kEngines[] = {{CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP, true, 4096},
                           {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, true, 0},
                           {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, true, 0},
                           {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP, false, 0}};
enum { kExact, kTensorCores, kAnyOrder, kImpossible };

enum Place { kMemory, kInside, kValue };

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool finished = false;
  std::map<int, std::string> attributes = {}; ///< bytes
  // What follows from them, and from other descriptors, when it is finished:
  Tensor tensor = {};
  Place place = kMemory;        ///< of the tensor
  Convolution convolution = {}; ///< where there are no steps
  std::vector<Step> steps = {};
  std::map<int64_t, Place> places = {}; ///< of tensors of the steps
  std::vector<int> engines = {}; ///< one: of an engine, a configuration, a plan
  std::map<int64_t, void *> addresses = {};

  template <typename T> std::vector<T> values(int name) const {
    const std::string &bytes = attributes.at(name);
    std::vector<T> all(bytes.size() / sizeof(T));
    std::memcpy(all.data(), bytes.data(), bytes.size());
    return all;
  }
  template <typename T> T value(int name) const { return values<T>(name)[0]; }
  const Descriptor &other(int name, size_t i = 0) const {
    return *static_cast<Descriptor *>(values<void *>(name)[i]);
  }
};

/// The operations: their first attribute, behind which the others follow in one
/// order, and what they compute.
struct Operation {
  int type, first;
  Convolution::Wanted wanted;
};
constexpr Operation kOperations[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, Convolution::Y},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, Convolution::X},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, Convolution::W}};
constexpr int kBeta = 1, kWindow = 2, kW = 3, kX = 4, kY = 5;

size_t bytesOf(cudnnBackendAttributeType_t t) {
  bool wide = t == CUDNN_TYPE_HANDLE || t == CUDNN_TYPE_INT64 ||
              t == CUDNN_TYPE_VOID_PTR || t == CUDNN_TYPE_BACKEND_DESCRIPTOR;
  return wide ? 8 : t == CUDNN_TYPE_BOOLEAN ? 1 : 4;
}

Descriptor &descriptor(void *d, bool finished) {
  auto *found = static_cast<Descriptor *>(d);
  if (!found)
    reject("no descriptor");
  if (found->finished != finished)
    reject("a descriptor of type ", found->type, " is ",
           finished ? "not finalized" : "finalized already");
  return *found;
}

//===--- Finishing

void finishTensor(Descriptor &d) {
  Tensor &t = d.tensor;
  t.sizes = d.values<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  t.strides = d.values<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  t.id = d.value<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  t.alignment = d.value<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  t.narrow = d.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE) ==
             CUDNN_DATA_BFLOAT16;
  d.place = d.attributes.count(CUDNN_ATTR_TENSOR_IS_VIRTUAL)    ? kInside
            : d.attributes.count(CUDNN_ATTR_TENSOR_IS_BY_VALUE) ? kValue
                                                                : kMemory;
  if (t.sizes.size() < 4 || t.sizes.size() != t.strides.size())
    reject("tensor ", t.id, " has ", t.sizes.size(), " sizes and ",
           t.strides.size(), " strides");
  if (t.alignment < (t.narrow ? 2 : 4) || (t.alignment & (t.alignment - 1)))
    reject("tensor ", t.id, " is aligned to ", t.alignment, " bytes");
  std::multimap<int64_t, int64_t> dims; // sizes by stride
  for (size_t i = 0; i < t.sizes.size(); ++i) {
    if (t.sizes[i] <= 0)
      reject("tensor ", t.id, " has a size of ", t.sizes[i]);
    if (t.sizes[i] > 1)
      dims.emplace(t.strides[i], t.sizes[i]);
  }
  int64_t reach = 1;
  for (auto [stride, size] : dims) {
    if (stride < reach)
      reject("elements of tensor ", t.id, " overlap: a stride of ", stride,
             ", below ", reach);
    reach += stride * (size - 1);
  }
}

void finishWindow(Descriptor &d) {
  Convolution &c = d.convolution;
  c.before = d.values<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  c.after = d.values<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  c.stride = d.values<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  c.dilation = d.values<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  auto dims = size_t(d.value<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
  for (const Sizes *sizes : {&c.before, &c.after, &c.stride, &c.dilation})
    if (sizes->size() != dims)
      reject("a window in ", dims, " dims has ", sizes->size(),
             " strides, dilations or paddings");
  if (d.value<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) !=
      CUDNN_DATA_FLOAT)
    reject("sums of a convolution are not in float");
}

void finishOperation(Descriptor &d) {
  auto [type, first, wanted] =
      *std::ranges::find(kOperations, d.type, &Operation::type);
  Convolution &c = d.convolution;
  c = d.other(first + kWindow).convolution;
  c.wanted = wanted;
  c.alpha = d.value<float>(first), c.beta = d.value<float>(first + kBeta);
  using enum Convolution::Wanted;
  for (auto [which, attribute] : {std::pair(X, kX), {W, kW}, {Y, kY}})
    c.tensors[which] = d.other(first + attribute).tensor;
  const Sizes &x = c.sizes(X), &w = c.sizes(W), &y = c.sizes(Y);
  size_t dims = c.stride.size() + 2;
  if (x.size() != dims || w.size() != dims || y.size() != dims)
    reject("tensors of ", x.size(), ", ", w.size(), " and ", y.size(),
           " dims, a window in ", dims - 2);
  if (x[0] != y[0] || y[1] != w[0] || x[1] % w[1] || w[0] % (x[1] / w[1]))
    reject("x [", x[0], ", ", x[1], ", ...], w [", w[0], ", ", w[1],
           ", ...] and y [", y[0], ", ", y[1], ", ...] are no convolution");
  for (size_t i = 2; i < dims; ++i) {
    int64_t reach = c.dilation[i - 2] * (w[i] - 1) + 1,
            room = x[i] + c.before[i - 2] + c.after[i - 2] - reach,
            size = room / c.stride[i - 2] + 1;
    if (y[i] != size)
      reject("y has size ", y[i], " in dim ", i, ", the window gives ", size);
  }
}

/// An operation with a descriptor that says how (0: none), and a result; what
/// else it refers to, by rising attributes, are operands. How begins with a
/// mode.
template <Step::Kind kind, int how, int result> void finishStep(Descriptor &d) {
  Step s{kind};
  if (how) {
    s.mode = d.other(how).value<int>(d.other(how).attributes.begin()->first);
    if (d.other(how).attributes.count(CUDNN_ATTR_POINTWISE_AXIS))
      s.axis = d.other(how).value<int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
  }
  for (const auto &[name, bytes] : d.attributes) {
    const Tensor &t = d.other(name).tensor;
    if (name == how)
      continue;
    if (t.sizes.size() != 4)
      reject("tensor ", t.id, " has ", t.sizes.size(), " dims, not 4");
    d.places[t.id] = d.other(name).place;
    name == result ? s.result = t : s.operands.emplace_back(t);
  }
  check(s);
  d.steps = {s};
}

/// Operations in the order that they run.
void finishGraph(Descriptor &d) {
  size_t count = d.values<void *>(CUDNN_ATTR_OPERATIONGRAPH_OPS).size();
  std::set<int64_t> written;
  for (size_t i = 0; i < count; ++i) {
    const Descriptor &operation = d.other(CUDNN_ATTR_OPERATIONGRAPH_OPS, i);
    d.convolution = operation.convolution;
    d.places.insert(operation.places.begin(), operation.places.end());
    for (const Step &s : operation.steps) {
      d.steps.push_back(s);
      for (const Tensor &t : s.operands)
        if (d.places[t.id] == kInside && !written.count(t.id))
          reject("operation ", i, " reads tensor ", t.id,
                 ", which none before it writes");
      written.insert(s.result.id);
    }
  }
  if (d.steps.size() != count && count != 1)
    reject("a convolution beside other operations");
}

/// As attention's engines have it: in memory, bf16 in rows of whole packs.
bool isForTensorCores(const Descriptor &graph) {
  auto isPacked = [&](const Tensor &t) {
    if (!t.narrow || graph.places.at(t.id) == kInside)
      return true;
    for (size_t d = 0; d < t.sizes.size(); ++d)
      if ((t.strides[d] == 1 ? t.sizes[d] : t.strides[d]) % 8)
        return false;
    return t.alignment >= 16;
  };
  return std::ranges::all_of(graph.steps, [&](const Step &s) {
    return isPacked(s.result) && std::ranges::all_of(s.operands, isPacked);
  });
}

void copyProblem(Descriptor &to, const Descriptor &from) {
  to.convolution = from.convolution;
  to.steps = from.steps, to.places = from.places;
  to.engines = from.engines;
}

void finishHeuristic(Descriptor &d) {
  auto mode = d.value<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE);
  const Descriptor &graph = d.other(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  copyProblem(d, graph);
  if (!d.steps.empty()) {
    if (mode == CUDNN_HEUR_MODE_A && isForTensorCores(graph))
      d.engines = {kImpossible, kAnyOrder, kTensorCores};
    return;
  }
  const Convolution &c = d.convolution;
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

void finishPack(Descriptor &d) {
  Sizes ids = d.values<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  auto data = d.values<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  for (size_t i = 0; i < std::min(ids.size(), data.size()); ++i)
    d.addresses[ids[i]] = data[i];
  if (ids.size() != data.size() || d.addresses.size() != ids.size())
    reject(data.size(), " addresses for ", ids.size(), " tensors");
}

void finishPlan(Descriptor &d) {
  copyProblem(d, d.other(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
}

/// What a descriptor may be given, and must be before it is finished.
struct Rule {
  int name;
  cudnnBackendAttributeType_t type;
  int64_t most = 1; ///< values
  bool must = true;
};
struct Kind {
  std::vector<Rule> rules;
  void (*finish)(Descriptor &) = [](Descriptor &) {};
};

/// Engines and configurations are no kinds: they come from the heuristics.
std::map<int, Kind> makeKinds() {
  constexpr auto kInteger = CUDNN_TYPE_INT64;
  constexpr auto kOther = CUDNN_TYPE_BACKEND_DESCRIPTOR;
  std::map<int, Kind> kinds{
      {CUDNN_BACKEND_TENSOR_DESCRIPTOR,
       {{{CUDNN_ATTR_TENSOR_UNIQUE_ID, kInteger},
         {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE},
         {CUDNN_ATTR_TENSOR_DIMENSIONS, kInteger, 8},
         {CUDNN_ATTR_TENSOR_STRIDES, kInteger, 8},
         {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kInteger},
         {CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, false},
         {CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, false}},
        finishTensor}},
      {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
       {{{CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE},
         {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE},
         {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, kInteger},
         {CUDNN_ATTR_CONVOLUTION_DILATIONS, kInteger, 3},
         {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, kInteger, 3},
         {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, kInteger, 3},
         {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, kInteger, 3}},
        finishWindow}},
      {CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
       {{{CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE},
         {CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE},
         {CUDNN_ATTR_POINTWISE_AXIS, kInteger, 1, false}}}},
      {CUDNN_BACKEND_REDUCTION_DESCRIPTOR,
       {{{CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE},
         {CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE}}}},
      {CUDNN_BACKEND_MATMUL_DESCRIPTOR,
       {{{CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE}}}},
      {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
       {{{CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kOther},
         {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, kOther},
         {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, kOther, 1, false},
         {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, kOther},
         {CUDNN_ATTR_OPERATION_POINTWISE_TDESC, kOther, 1, false}},
        finishStep<Step::Pointwise,
                   CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                   CUDNN_ATTR_OPERATION_POINTWISE_YDESC>}},
      {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
       {{{CUDNN_ATTR_OPERATION_REDUCTION_XDESC, kOther},
         {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, kOther},
         {CUDNN_ATTR_OPERATION_REDUCTION_DESC, kOther}},
        finishStep<Step::Reduction, CUDNN_ATTR_OPERATION_REDUCTION_DESC,
                   CUDNN_ATTR_OPERATION_REDUCTION_YDESC>}},
      {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
       {{{CUDNN_ATTR_OPERATION_MATMUL_ADESC, kOther},
         {CUDNN_ATTR_OPERATION_MATMUL_BDESC, kOther},
         {CUDNN_ATTR_OPERATION_MATMUL_CDESC, kOther},
         {CUDNN_ATTR_OPERATION_MATMUL_DESC, kOther}},
        finishStep<Step::Matmul, CUDNN_ATTR_OPERATION_MATMUL_DESC,
                   CUDNN_ATTR_OPERATION_MATMUL_CDESC>}},
      {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
       {{{CUDNN_ATTR_OPERATION_RESHAPE_XDESC, kOther},
         {CUDNN_ATTR_OPERATION_RESHAPE_YDESC, kOther}},
        finishStep<Step::Reshape, 0, CUDNN_ATTR_OPERATION_RESHAPE_YDESC>}},
      {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
       {{{CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE},
         {CUDNN_ATTR_OPERATIONGRAPH_OPS, kOther, 64}},
        finishGraph}},
      {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
       {{{CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE},
         {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, kOther}},
        finishHeuristic}},
      {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
       {{{CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE},
         {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, kOther}},
        finishPlan}},
      {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
       {{{CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, kInteger, 16},
         {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 16},
         {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR}},
        finishPack}}};
  for (auto [type, first, wanted] : kOperations) {
    Kind &kind = kinds[type];
    kind.finish = finishOperation;
    kind.rules = {{first, CUDNN_TYPE_FLOAT},
                  {first + kBeta, CUDNN_TYPE_FLOAT},
                  {first + kWindow, kOther}};
    for (int tensor : {kW, kX, kY})
      kind.rules.push_back({first + tensor, kOther});
  }
  return kinds;
}
const Kind &kindOf(const Descriptor &d) {
  static auto &kinds = *new std::map<int, Kind>(makeKinds());
  return kinds[d.type];
}

} // namespace

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *made) {
  Entry entry;
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
  Entry entry;
  Descriptor &to = descriptor(d, false);
  const std::vector<Rule> &rules = kindOf(to).rules;
  auto rule = std::ranges::find(rules, name, &Rule::name);
  if (rule == rules.end())
    reject("a descriptor of type ", to.type, " has no attribute ", name);
  if (type != rule->type || count < 1 || count > rule->most)
    reject("attribute ", name, " has values of type ", rule->type, ", at most ",
           rule->most, "; not ", count, " of type ", type);
  to.attributes[name].assign(static_cast<const char *>(values),
                             size_t(count) * bytesOf(type));
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
    for (void *other : to.values<void *>(name))
      descriptor(other, true);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t raw) {
  Entry entry;
  Descriptor &d = descriptor(raw, false);
  for (const Rule &rule : kindOf(d).rules)
    if (rule.must && !d.attributes.count(rule.name))
      reject("a descriptor of type ", d.type, " lacks attribute ", rule.name);
  kindOf(d).finish(d);
  if (d.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
      !kEngines[d.engines[0]].possible)
    return CUDNN_STATUS_NOT_SUPPORTED_SHAPE;
  d.finished = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t raw,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t,
                                       int64_t wanted, int64_t *count,
                                       void *values) {
  Entry entry;
  const Descriptor &from = descriptor(raw, true);
  *count = 1;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS ||
      name == CUDNN_ATTR_ENGINECFG_ENGINE) {
    // Descriptors that the caller made are filled, and finished.
    *count = int64_t(from.engines.size());
    for (int64_t i = 0; i < std::min(wanted, *count); ++i) {
      Descriptor &to = descriptor(static_cast<void **>(values)[i], false);
      copyProblem(to, from);
      to.engines = {from.engines[size_t(i)]};
      to.finished = true;
    }
  } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
    std::memcpy(values, &kEngines[from.engines.at(0)].note, 4);
  } else if (name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX) {
    *static_cast<int64_t *>(values) = from.engines.at(0);
  } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    std::memcpy(values, &kEngines[from.engines.at(0)].workspace, 8);
  } else {
    reject("no attribute ", name);
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle,
                                  cudnnBackendDescriptor_t rawPlan,
                                  cudnnBackendDescriptor_t rawPack) {
  Entry entry;
  const Descriptor &plan = descriptor(rawPlan, true),
                   &pack = descriptor(rawPack, true);
  if (plan.type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
      pack.type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
    reject("descriptors of types ", plan.type, " and ", pack.type);
  Convolution c = plan.convolution;
  std::vector<Step> steps = plan.steps;
  std::map<int64_t, Floats> values; // of the host
  std::map<int64_t, Tensor> tensors, results;
  auto place = [&](Tensor &t, const std::string &what, bool isResult) {
    auto where = plan.places.find(t.id);
    if (where != plan.places.end() && where->second == kInside)
      return;
    auto found = pack.addresses.find(t.id);
    if (found == pack.addresses.end())
      reject(what, ", tensor ", t.id, ", has no address");
    t.data = found->second;
    if (where != plan.places.end() && where->second == kValue) {
      values[t.id] = read(t);
      return;
    }
    t.require(what);
    (isResult ? results : tensors)[t.id] = t;
  };
  for (int i = 0; i < 3 && steps.empty(); ++i)
    place(c.tensors[i], text("xwy"[i]), i == c.wanted);
  for (Step &s : steps) {
    for (Tensor &t : s.operands)
      place(t, "an operand", false);
    place(s.result, "a result", true);
  }
  for (const auto &[id, result] : results)
    for (const auto &[other, t] : tensors)
      if (id != other && overlap(t, result))
        reject("the result overlaps tensor ", t.id);
  int engine = plan.engines[0];
  bool exact =
      engine == kExact || (engine == kTensorCores &&
                           (!steps.empty() || results.begin()->second.narrow));
  queueCall(handle->stream,
            pack.value<void *>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE),
            kEngines[engine].workspace, [=] {
              if (!exact)
                for (const auto &[id, result] : results)
                  std::memset(result.data, kPoison, result.span());
              else if (steps.empty())
                convolve(c);
              else
                run(steps, values);
            });
  return CUDNN_STATUS_SUCCESS;
}
