//===- Parameters.cpp - Which initializers train ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/import/Parameters.h"

#include "models/frontend/import/Pattern.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/GlobPattern.h"
#include <cstring>

using namespace dt;
using namespace dt::models;
using symbolic::Element;

std::optional<Element> models::toSymbolic(onnx::ElementType type) {
  switch (type) {
  case onnx::ElementType::Bool:
    return Element::Bool;
  case onnx::ElementType::UInt8:
    return Element::UInt8;
  case onnx::ElementType::Int8:
    return Element::Int8;
  case onnx::ElementType::Int32:
    return Element::Int32;
  case onnx::ElementType::Int64:
    return Element::Int64;
  case onnx::ElementType::Float16:
  case onnx::ElementType::BFloat16:
  case onnx::ElementType::Float:
    return Element::F32;
  case onnx::ElementType::Double:
    return Element::F64;
  default:
    return std::nullopt;
  }
}

namespace {
template <typename T> T at(const std::string &bytes, size_t i) {
  T v;
  std::memcpy(&v, bytes.data() + i * sizeof(T), sizeof(T));
  return v;
}

void append(symbolic::TableData &d, Element e, const std::string &bytes,
            size_t i) {
  switch (e) {
  case Element::Bool:
    d.ints.push_back(at<uint8_t>(bytes, i) != 0);
    return;
  case Element::UInt8:
    d.ints.push_back(at<uint8_t>(bytes, i));
    return;
  case Element::Int8:
    d.ints.push_back(at<int8_t>(bytes, i));
    return;
  case Element::Int32:
    d.ints.push_back(at<int32_t>(bytes, i));
    return;
  case Element::Int64:
    d.ints.push_back(at<int64_t>(bytes, i));
    return;
  case Element::F32:
    d.floats.push_back(at<float>(bytes, i));
    return;
  case Element::F64:
    d.floats.push_back(at<double>(bytes, i));
  }
}

/// "val_12", "onnx::MatMul_845", "/model/Constant_output_0": names that an
/// exporter gave to what it computed.
bool isMadeUp(llvm::StringRef name) {
  if (name.consume_front("val_"))
    return !name.empty() && llvm::all_of(name, llvm::isDigit);
  return name.starts_with("onnx::") || name.starts_with("/");
}

bool isFloat(onnx::ElementType type) {
  return type == onnx::ElementType::Float ||
         type == onnx::ElementType::Double || onnx::isNarrowFloat(type);
}
} // namespace

/// Nothing if there are more elements, or of another type.
static llvm::Expected<std::optional<symbolic::TableData>>
readTable(const onnx::Tensor &tensor, int64_t most) {
  std::optional<Element> element = toSymbolic(tensor.type);
  if (!element || tensor.where == onnx::Tensor::Where::Absent ||
      tensor.numElements() > most)
    return std::nullopt;
  llvm::Expected<std::string> bytes = tensor.read();
  if (!bytes)
    return bytes.takeError();
  symbolic::TableData data{symbolic::typeOf(*element), {}, {}};
  for (int64_t i = 0, n = tensor.numElements(); i < n; ++i)
    append(data, *element, *bytes, i);
  return data;
}

llvm::Expected<symbolic::Result>
models::readLiteral(const onnx::Tensor &tensor) {
  // Above this not even a pattern is looked for.
  constexpr int64_t maxScanned = int64_t(1) << 24;
  auto data = readTable(tensor, maxScanned);
  if (!data)
    return data.takeError();
  if (!*data)
    return symbolic::Result();
  return symbolic::literal(tensor.dims, *toSymbolic(tensor.type),
                           std::move(**data));
}

bool models::matchesPattern(llvm::StringRef pattern, llvm::StringRef name) {
  auto glob = llvm::GlobPattern::create(pattern, kMostSubPatterns);
  if (!glob) {
    llvm::consumeError(glob.takeError());
    return false;
  }
  return glob->match(name);
}

//===----------------------------------------------------------------------===//
// What looks like a weight
//===----------------------------------------------------------------------===//

static int64_t countAxes(const onnx::Tensor &t) {
  return llvm::count_if(t.dims, [](int64_t size) { return size > 1; });
}

/// Masks, identities, filters: a quarter of the values or fewer differ.
static bool repeatsValues(llvm::ArrayRef<double> values) {
  constexpr size_t maxSampled = 4096;
  size_t stride = (values.size() + maxSampled - 1) / maxSampled;
  std::vector<double> sample;
  for (size_t i = 0; i < values.size(); i += stride)
    sample.push_back(values[i]);
  llvm::sort(sample);
  size_t all = sample.size();
  sample.erase(llvm::unique(sample), sample.end());
  return 4 * sample.size() <= all;
}

/// Angles, sines, ramps, powers along an axis: each x[i - 1] + x[i + 1] is the
/// same multiple of x[i]. `lines` of `count` elements, `step` apart.
static bool isWave(llvm::ArrayRef<double> values, int64_t lines,
                   int64_t lineStep, int64_t count, int64_t step) {
  constexpr int64_t fewest = 8;
  constexpr double tolerance = 1e-3;
  if (count < fewest)
    return false;
  for (int64_t line = 0; line < lines; ++line) {
    const double *x = values.data() + line * lineStep;
    double square = 0, product = 0, sums = 0;
    for (int64_t i = 1; i + 1 < count; ++i) {
      double middle = x[i * step], sum = x[(i - 1) * step] + x[(i + 1) * step];
      square += middle * middle;
      product += middle * sum;
      sums += sum * sum;
    }
    double explained = square > 0 ? product * product / square : 0;
    if (sums - explained > tolerance * sums)
      return false;
  }
  return true;
}

/// A table that follows from a formula or repeats itself: positions, masks,
/// windows, transforms. What cannot be read, or is larger than such tables are,
/// is none.
static bool isTable(const onnx::Tensor &t) {
  constexpr int64_t largest = int64_t(1) << 20;
  auto data = readTable(t, largest);
  if (!data) {
    llvm::consumeError(data.takeError()); // said where it is needed
    return false;
  }
  if (!*data || (*data)->floats.empty())
    return false;
  llvm::ArrayRef<double> values = (*data)->floats;
  if (llvm::all_of(values, [](double v) { return v == 0; }))
    return false; // a weight may start so
  if (repeatsValues(values))
    return true;
  int64_t n = int64_t(values.size());
  auto outer = llvm::find_if(t.dims, [](int64_t size) { return size > 1; });
  auto inner = std::find_if(t.dims.rbegin(), t.dims.rend(),
                            [](int64_t size) { return size > 1; });
  return isWave(values, n / *outer, 1, *outer, n / *outer) ||
         isWave(values, n / *inner, *inner, *inner, 1);
}

namespace {
/// Where an operator takes weights: operands that it multiplies by, rows that
/// it looks up, and the biases beside those.
enum class Place { None, Kernel, Factor, Rows, Bias };
} // namespace

static Place placeOf(llvm::StringRef op, size_t operand) {
  if (op == "MatMul" || op == "Einsum")
    return Place::Factor;
  if (op == "Gemm")
    return operand < 2 ? Place::Factor : Place::Bias;
  if (op == "Conv" || op == "ConvTranspose")
    return operand == 0   ? Place::None
           : operand == 1 ? Place::Kernel
                          : Place::Bias;
  if (op == "Gather")
    return operand == 0 ? Place::Rows : Place::None;
  return Place::None;
}

/// Has the values of its first operand, arranged otherwise.
static bool rearranges(llvm::StringRef op) {
  return op == "Identity" || op == "Cast" || op == "Transpose" ||
         op == "Reshape" || op == "Flatten" || op == "Squeeze" ||
         op == "Unsqueeze";
}

//===----------------------------------------------------------------------===//
// ParameterUses
//===----------------------------------------------------------------------===//

/// Operators that take settings as operands, all but the first.
static bool takesSettings(llvm::StringRef op) {
  return op == "Resize" || op == "Upsample" || op == "Clip" || op == "Pad" ||
         op == "Dropout";
}

ParameterUses::ParameterUses(const onnx::Graph &graph,
                             std::optional<std::vector<std::string>> trainable)
    : patterns(std::move(trainable)) {
  collect(graph);
  llvm::StringSet<> data;
  for (const onnx::ValueInfo &v : graph.inputs)
    data.insert(v.name);
  visit(graph, {}, data);
}

void ParameterUses::collect(const onnx::Graph &graph) {
  for (const onnx::Tensor &t : graph.initializers) {
    marked |= !t.mark.empty();
    initializers.push_back(&t);
  }
  for (const onnx::Node &node : graph.nodes) {
    if (takesSettings(node.op))
      for (size_t i = 1; i < node.inputs.size(); ++i)
        settings.insert(node.inputs[i]);
    for (const auto &[name, a] : node.attributes)
      if (a.graph)
        collect(*a.graph);
  }
}

/// `known`: constants that the graph sees; `data`: values that depend on what
/// inputs hold.
void ParameterUses::visit(const onnx::Graph &graph, Sources known,
                          llvm::StringSet<> data) {
  for (const onnx::Tensor &t : graph.initializers)
    known[t.name] = {&t, t.name, false};
  for (const onnx::Node &node : graph.nodes) {
    for (const auto &[name, a] : node.attributes)
      if (a.graph)
        visit(*a.graph, known, data);
    visit(node, known, data);
    if (node.outputs.empty())
      continue;
    const std::string &output = node.outputs[0];
    auto value = node.attributes.find("value");
    if (node.op == "Constant" && value != node.attributes.end() &&
        value->second.tensor)
      known[output] = {value->second.tensor.get(), output, true};
    if (auto it = known.find(node.inputs.empty() ? "" : node.inputs[0]);
        it != known.end() && rearranges(node.op))
      known[output] = Source(it->second);
    if (node.op != "Shape" && node.op != "Size" &&
        llvm::any_of(node.inputs,
                     [&](auto &name) { return data.contains(name); }))
      data.insert_range(node.outputs);
  }
}

void ParameterUses::visit(const onnx::Node &node, const Sources &known,
                          const llvm::StringSet<> &data) {
  for (auto [i, name] : llvm::enumerate(node.inputs)) {
    auto it = known.find(name);
    if (it == known.end())
      continue;
    const Source &source = it->second;
    const onnx::Tensor &t = *source.tensor;
    Place place = node.domain.empty() ? placeOf(node.op, i) : Place::None;
    if (place != Place::None && !source.node && isFloat(t.type) &&
        !trainsByDefault(t) && t.mark.empty() &&
        (place == Place::Bias || !isTable(t)))
      weights.insert(t.name);
    // Rows that are known now are a table's.
    bool looks = place == Place::Kernel ||
                 (place == Place::Factor && countAxes(t) > 1) ||
                 (place == Place::Rows && countAxes(t) > 1 &&
                  node.inputs.size() > 1 && data.contains(node.inputs[1]));
    if (looks || (!source.node && isRewritten(t)))
      addFolded(source, node);
  }
}

/// A parameter's name ("layers.0.weight"; what the exporter itself names has no
/// dot) without the mark that others have: its value was replaced.
bool ParameterUses::isRewritten(const onnx::Tensor &t) const {
  return marked && t.mark.empty() && llvm::StringRef(t.name).contains('.') &&
         !isMadeUp(t.name) && !settings.contains(t.name) && isFloat(t.type) &&
         t.numElements() > 1;
}

void ParameterUses::addFolded(const Source &source, const onnx::Node &user) {
  // Small ones are matrices that someone wrote down (colours, rotations),
  // unless their name says that a parameter was in them.
  constexpr int64_t largestWritten = 16;
  const onnx::Tensor &t = *source.tensor;
  bool named = !source.node && (isMadeUp(t.name) || isRewritten(t));
  if (patterns || !isFloat(t.type) || !t.mark.empty() ||
      (!source.node && trainsByDefault(t)) ||
      t.numElements() <= (named ? 1 : largestWritten) ||
      llvm::any_of(constants, [&](auto &f) { return f.tensor == &t; }))
    return;
  if (isRewritten(t) || !isTable(t))
    constants.push_back({&t, &user, source.name});
}

bool ParameterUses::trainsByDefault(const onnx::Tensor &t) const {
  if (!isFloat(t.type) || t.frozen)
    return false;
  return marked ? t.mark == "PARAMETER"
                : !isMadeUp(t.name) && !settings.contains(t.name);
}

bool ParameterUses::isParameter(const onnx::Tensor &t) const {
  if (!patterns)
    return trainsByDefault(t);
  return isFloat(t.type) &&
         (t.mark == "PARAMETER" ||
          (t.mark.empty() &&
           (trainsByDefault(t) || isRewritten(t) || weights.contains(t.name))));
}

bool ParameterUses::isTrainable(const onnx::Tensor &t) const {
  return isParameter(t) &&
         (!patterns || llvm::any_of(*patterns, [&](auto &pattern) {
           return matchesPattern(pattern, t.name);
         }));
}

std::vector<const onnx::Tensor *> ParameterUses::absent() const {
  std::vector<const onnx::Tensor *> out;
  for (const onnx::Tensor *t : initializers)
    if (t->where == onnx::Tensor::Where::Absent)
      out.push_back(t);
  return out;
}

std::vector<std::string> ParameterUses::candidates() const {
  std::vector<std::string> names;
  for (const onnx::Tensor *t : initializers)
    if (isParameter(*t))
      names.push_back(t->name);
  return names;
}

std::vector<std::string> ParameterUses::unmatched() const {
  std::vector<std::string> names = candidates(), left;
  if (!patterns)
    return {};
  for (const std::string &pattern : *patterns)
    if (llvm::none_of(names, [&](const std::string &name) {
          return matchesPattern(pattern, name);
        }))
      left.push_back(pattern);
  return left;
}

/// Older exporters have the scope in the name: "/layers.0/norm/Add_1".
static llvm::StringRef getScope(const onnx::Node &node) {
  llvm::StringRef name = node.name;
  if (!node.scope.empty() || !name.consume_front("/"))
    return node.scope;
  return name.rsplit('/').second.empty() ? "" : name.rsplit('/').first;
}

void ParameterUses::record(const onnx::Tensor &t, const onnx::Node &node) {
  auto [it, isNew] = position.try_emplace(t.name, uses.size());
  if (isNew)
    uses.push_back({&t, {}});
  std::vector<const onnx::Node *> &nodes = uses[it->second].nodes;
  // Several operators of one module (a norm that is written out) are one use.
  for (const onnx::Node *n : nodes)
    if (getScope(*n) == getScope(node))
      return;
  nodes.push_back(&node);
}

std::vector<ParameterUses::Shared> ParameterUses::shared() const {
  std::vector<Shared> out;
  for (const Uses &u : uses) {
    // A node without a scope was made by rewriting: it says nothing.
    std::vector<const onnx::Node *> scoped;
    for (const onnx::Node *n : u.nodes)
      if (!getScope(*n).empty())
        scoped.push_back(n);
    if (scoped.size() > 1 && isTrainable(*u.tensor))
      out.push_back({u.tensor, scoped[0], scoped[1], getScope(*scoped[0]).str(),
                     getScope(*scoped[1]).str()});
  }
  return out;
}
