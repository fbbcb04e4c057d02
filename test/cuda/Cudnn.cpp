//===- Cudnn.cpp - cuDNN's backend that looks at its arguments ------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Descriptors know which attributes they have, of which types, and that those
// they refer to are finished. The heuristics offer what a program must not take
// (TF32 unless it asks for that, sums in another order each time, plans that
// cannot be made) ahead of what it wants, which is found in mode A, in B, in
// fallback, or nowhere.
//
//===----------------------------------------------------------------------===//

#include "Double.h"

#include <cudnn.h>

#include <set>

using namespace cuda_double;

namespace {

/// What heuristics offer. Sums in any order are nothing that can be compared:
/// such results are not numbers.
struct Engine {
  cudnnBackendNumericalNote_t note;
  size_t workspace;
};
const Engine kEngines[] = {{CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP, 4096},
                           {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, 0},
                           {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, 0},
                           {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP, 0}};
enum { kExact, kTensorCores, kAnyOrder, kImpossible };

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool finished = false;
  mutable bool loaded = false;                ///< of a plan: has run
  std::map<int, std::string> attributes = {}; ///< bytes
  // What follows from them, and from other descriptors, when it is finished:
  Tensor tensor = {};
  Step step = {}; ///< an operation, or how one is done
  std::vector<Step> steps = {};
  std::vector<int> engines = {}; ///< one: of an engine, a configuration, a plan
  std::map<int64_t, void *> addresses = {};

  template <typename T> std::vector<T> values(int name) const {
    const std::string &bytes = attributes.at(name);
    std::vector<T> all(bytes.size() / sizeof(T));
    std::memcpy(all.data(), bytes.data(), bytes.size());
    return all;
  }
  template <typename T> T value(int name) const { return values<T>(name)[0]; }
  const Descriptor &other(int name) const {
    return *value<const Descriptor *>(name);
  }
};

/// Gradients of attention that add in a fixed order have memory for all scores,
/// in bf16, in squares of 64 (cudnn-frontend, pull request 398). Where it is so
/// wanted, few elements take more than many.
size_t workspaceOf(const std::vector<Step> &steps, int engine) {
  static const uint64_t grows = setting("DT_CUDA_DOUBLE_GROWS", 0);
  size_t more = 0;
  if (grows && (engine == kExact || !steps[0].convolves()))
    more = grows / size_t(std::max<int64_t>(1, steps[0].result.sizes[0]));
  auto multiplies = [](const Step &s) { return s.kind == Step::Matmul; };
  if (engine != kTensorCores || std::ranges::count_if(steps, multiplies) <= 2)
    return kEngines[engine].workspace + more;
  const Sizes &s = std::ranges::find_if(steps, multiplies)->result.sizes;
  return size_t(s[0] * s[1] * ((s[2] + 63) / 64 * 64) * ((s[3] + 63) / 64) *
                64 * 2) +
         more;
}

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

/// What an attribute is given.
enum class Role { Plain, Alpha, Beta, How, Operand, Result };
struct Rule {
  cudnnBackendAttributeType_t type;
  int64_t most = 1; ///< values
  Role role = Role::Plain;
  bool must = true; ///< be there when its descriptor is finished
};
constexpr auto kOther = CUDNN_TYPE_BACKEND_DESCRIPTOR;
/// By the words of cudnn.h.
constexpr Rule kNumber{CUDNN_TYPE_INT64}, kWindow{CUDNN_TYPE_INT64, 3},
    kDims{CUDNN_TYPE_INT64, 8}, kIds{CUDNN_TYPE_INT64, 16},
    kAxis{CUDNN_TYPE_INT64, 1, Role::Plain, false},
    kFlag{CUDNN_TYPE_BOOLEAN, 1, Role::Plain, false},
    kDataType{CUDNN_TYPE_DATA_TYPE}, kPointwiseMode{CUDNN_TYPE_POINTWISE_MODE},
    kReductionMode{CUDNN_TYPE_REDUCTION_OPERATOR_TYPE},
    kConvolutionMode{CUDNN_TYPE_CONVOLUTION_MODE},
    kHeurMode{CUDNN_TYPE_HEUR_MODE}, kAlpha{CUDNN_TYPE_FLOAT, 1, Role::Alpha},
    kBeta{CUDNN_TYPE_FLOAT, 1, Role::Beta}, kHandle{CUDNN_TYPE_HANDLE},
    kAddress{CUDNN_TYPE_VOID_PTR}, kAddresses{CUDNN_TYPE_VOID_PTR, 16},
    kMade{kOther}, kOperations{kOther, 64}, kHow{kOther, 1, Role::How},
    kOperand{kOther, 1, Role::Operand},
    kMayOperand{kOther, 1, Role::Operand, false},
    kResult{kOther, 1, Role::Result},
    kAsked{CUDNN_TYPE_INT64, 0, Role::Plain, false};
struct Kind {
  cudnnBackendDescriptorType_t type;
  void (*finish)(Descriptor &);
  std::map<int, Rule> rules = {};
};
const Kind &kindOf(const Descriptor &d);

//===--- Finishing

void finishTensor(Descriptor &d) {
  Tensor &t = d.tensor;
  t.sizes = d.values<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  t.strides = d.values<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  t.id = d.value<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  t.alignment = d.value<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  t.narrow = d.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE) ==
             CUDNN_DATA_BFLOAT16;
  if (d.attributes.count(CUDNN_ATTR_TENSOR_IS_VIRTUAL))
    t.place = Tensor::Inside;
  else if (d.attributes.count(CUDNN_ATTR_TENSOR_IS_BY_VALUE))
    t.place = Tensor::Host;
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
  auto dims = size_t(d.value<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
  auto get = [&](int name, int64_t outer) { // `outer`: of images and channels
    Sizes sizes = d.values<int64_t>(name);
    if (sizes.size() != dims)
      reject("a window in ", dims, " dims has ", sizes.size(),
             " strides, dilations or paddings");
    sizes.insert(sizes.begin(), 2, outer);
    return sizes;
  };
  d.step.window = {get(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0),
                   get(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 0),
                   get(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1),
                   get(CUDNN_ATTR_CONVOLUTION_DILATIONS, 1)};
  if (d.value<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) !=
      CUDNN_DATA_FLOAT)
    reject("sums of a convolution are not in float");
}

void finishMode(Descriptor &d) {
  d.step.mode = d.value<int>(d.attributes.begin()->first);
  if (d.attributes.count(CUDNN_ATTR_POINTWISE_AXIS))
    d.step.axis = d.value<int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
}

template <Step::Kind kind> void finishStep(Descriptor &d) {
  Step &s = d.step;
  s.kind = kind;
  for (const auto &[name, bytes] : d.attributes) {
    Role role = kindOf(d).rules.at(name).role;
    if (role == Role::Alpha)
      s.alpha = d.value<float>(name);
    else if (role == Role::Beta)
      s.beta = d.value<float>(name);
    else if (role == Role::How)
      s.mode = d.other(name).step.mode, s.axis = d.other(name).step.axis,
      s.window = d.other(name).step.window;
    else if (role == Role::Result)
      s.result = d.other(name).tensor;
    else
      s.operands.push_back(d.other(name).tensor);
  }
  check(s);
}

/// Operations in the order that they run.
void finishGraph(Descriptor &d) {
  std::set<int64_t> written;
  for (const auto *operation :
       d.values<const Descriptor *>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    const Step &s = operation->step;
    for (const Tensor &t : s.operands)
      if (t.place == Tensor::Inside && !written.count(t.id))
        reject("operation ", d.steps.size(), " reads tensor ", t.id,
               ", which none before it writes");
    written.insert(s.result.id);
    d.steps.push_back(s);
  }
  if (d.steps.size() > 1 && std::ranges::any_of(d.steps, &Step::convolves))
    reject("a convolution beside other operations");
}

/// As attention's engines have it: in memory, bf16 in rows that whole packs
/// lie apart; products have rows of whole packs.
bool isForTensorCores(const Step &s) {
  auto isPacked = [&](const Tensor &t) {
    if (!t.narrow || t.place == Tensor::Inside)
      return true;
    for (size_t d = 0; d < t.sizes.size(); ++d) {
      bool inner = t.strides[d] == 1;
      int64_t each = !inner                   ? t.strides[d]
                     : s.kind == Step::Matmul ? t.sizes[d]
                                              : 0;
      if (each % 8)
        return false;
    }
    return t.alignment >= 16;
  };
  return isPacked(s.result) && std::ranges::all_of(s.operands, isPacked);
}

void finishHeuristic(Descriptor &d) {
  auto mode = d.value<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE);
  d.steps = d.other(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).steps;
  const Step &s = d.steps[0];
  if (!s.convolves()) {
    if (mode == CUDNN_HEUR_MODE_A &&
        std::ranges::all_of(d.steps, isForTensorCores))
      d.engines = {kImpossible, kAnyOrder, kTensorCores};
    return;
  }
  Sizes ones(s.window.stride.size(), 1);
  bool plain = s.groups() == 1 && s.window.dilation == ones;
  if (mode == CUDNN_HEUR_MODE_A)
    d.engines = {kImpossible, kTensorCores, kAnyOrder};
  if (s.operands[0].narrow != s.result.narrow ||
      s.operands[1].narrow != s.result.narrow)
    d.engines = {kImpossible};
  else if ((mode == CUDNN_HEUR_MODE_A && plain && s.window.stride == ones) ||
           (mode == CUDNN_HEUR_MODE_B && plain) ||
           (mode == CUDNN_HEUR_MODE_FALLBACK && s.groups() <= 3))
    d.engines.push_back(kExact);
}

void finishPlan(Descriptor &d) {
  const Descriptor &from = d.other(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  d.steps = from.steps, d.engines = from.engines;
}

void finishPack(Descriptor &d) {
  Sizes ids = d.values<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  auto data = d.values<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  for (size_t i = 0; i < std::min(ids.size(), data.size()); ++i)
    d.addresses[ids[i]] = data[i];
  if (ids.size() != data.size() || d.addresses.size() != ids.size())
    reject(data.size(), " addresses for ", ids.size(), " tensors");
}

void finishOffered(Descriptor &d) {
  reject("a descriptor of type ", d.type, " comes from a heuristic");
}

const Kind &kindOf(const Descriptor &d) {
  static const auto &kinds = *new std::vector<Kind>([] {
    std::vector<Kind> all;
#define DT_CUDNN_KIND(type, number, what) all.push_back({type, finish##what});
#define DT_CUDNN_STEP(type, number, kind)                                      \
  all.push_back({type, finishStep<Step::kind>});
#define DT_CUDNN_RULE(name, number, what) all.back().rules[name] = k##what;
    DT_CUDNN_ATTRIBUTES(DT_CUDNN_KIND, DT_CUDNN_STEP, DT_CUDNN_RULE)
    return all;
  }());
  return *std::ranges::find(kinds, d.type, &Kind::type);
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
  const auto &rules = kindOf(to).rules;
  if (!rules.count(name) || rules.at(name).most == 0)
    reject("a descriptor of type ", to.type, " has no attribute ", name);
  const Rule &rule = rules.at(name);
  if (type != rule.type || count < 1 || count > rule.most)
    reject("attribute ", name, " has values of type ", rule.type, ", at most ",
           rule.most, "; not ", count, " of type ", type);
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
  for (const auto &[name, rule] : kindOf(d).rules)
    if (rule.must && !d.attributes.count(name))
      reject("a descriptor of type ", d.type, " lacks attribute ", name);
  kindOf(d).finish(d);
  bool isPlan = d.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
  counts["plans"] += isPlan;
  if (isPlan && d.engines[0] == kImpossible)
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
      to.steps = from.steps, to.engines = {from.engines[size_t(i)]};
      to.finished = true;
    }
  } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
    std::memcpy(values, &kEngines[from.engines.at(0)].note, 4);
  } else if (name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX) {
    *static_cast<int64_t *>(values) = from.engines.at(0);
  } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    size_t bytes = workspaceOf(from.steps, from.engines.at(0));
    std::memcpy(values, &bytes, 8);
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
  std::vector<Step> steps = plan.steps;
  std::map<int64_t, Floats> values; // of the host
  auto place = [&](Tensor &t) {
    if (t.place == Tensor::Inside)
      return;
    std::string name = text("tensor ", t.id);
    if (!pack.addresses.count(t.id))
      reject(name, " has no address");
    t.data = pack.addresses.at(t.id);
    if (t.place == Tensor::Host)
      values[t.id] = read(t);
    else
      t.require(name);
  };
  for (Step &s : steps) {
    for (Tensor &t : s.operands)
      place(t);
    place(s.result);
  }
  for (const Step &s : steps)
    for (const Step &other : steps)
      for (const Tensor &t : other.operands)
        if (t.id != s.result.id && t.overlaps(s.result))
          reject("the result overlaps tensor ", t.id);
  counts["loads"] += !std::exchange(plan.loaded, true);
  int engine = plan.engines[0];
  bool exact = engine == kExact || engine == kTensorCores;
  for (Step &s : steps) // floats on tensor cores
    s.tf32 = engine == kTensorCores && s.convolves() && !s.result.narrow;
  queueCall(handle->stream,
            pack.value<void *>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE),
            workspaceOf(steps, engine), [=] {
              if (exact)
                return run(steps, values);
              for (const Step &s : steps)
                if (s.result.data)
                  std::memset(s.result.data, kPoison, s.result.span());
            });
  return CUDNN_STATUS_SUCCESS;
}
