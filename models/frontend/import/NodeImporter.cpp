//===- NodeImporter.cpp - What an import rule works with --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/import/NodeImporter.h"

#include "mlir/IR/Verifier.h"

#include <cmath>

using namespace mlir;
using namespace dt;
using namespace dt::models;

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

const SymbolicTensor *NodeImporter::symbolic(size_t i) const {
  return has(i) && inputs[i]->symbolic ? &*inputs[i]->symbolic : nullptr;
}

Value NodeImporter::value(size_t i) {
  if (!has(i)) {
    (void)fail("input " + Twine(i) + " is missing");
    return {};
  }
  GraphValue &v = *inputs[i];
  if (v.nonZero || v.prefix) {
    std::string what =
        v.nonZero ? "the positions that " + v.nonZero->of
                  : "as many elements as a NonZero of data finds places";
    (void)fail("uses " + what +
               ": how many is not known at compile time; only the form of "
               "masked_scatter (x[mask] = y) is handled");
    return {};
  }
  if (!v.full)
    v.full = materialize(b, loc, *v.symbolic, /*compact=*/false);
  return v.full;
}

Value NodeImporter::compactValue(size_t i) {
  if (!symbolic(i))
    return value(i);
  GraphValue &v = *inputs[i];
  if (!v.compact)
    v.compact = materialize(b, loc, *v.symbolic, /*compact=*/true);
  return v.compact;
}

Shape NodeImporter::shape(size_t i) {
  if (!has(i)) {
    (void)fail("input " + Twine(i) + " is missing");
    return {};
  }
  const GraphValue &v = *inputs[i];
  if (v.symbolic)
    return v.symbolic->shape;
  if (v.nonZero) {
    Shape s{DimExpr(static_cast<int64_t>(nn::getShape(v.nonZero->mask).size())),
            DimExpr::symbol(v.nonZero->count)};
    if (v.nonZero->transposed)
      std::swap(s[0], s[1]);
    return s;
  }
  if (v.prefix)
    return {DimExpr::symbol(v.prefix->count)};
  return nn::getShape(v.full);
}

Type NodeImporter::element(size_t i) {
  if (!has(i)) {
    (void)fail("input " + Twine(i) + " is missing");
    return b.getF32Type();
  }
  if (const SymbolicTensor *t = symbolic(i))
    return toMlir(b.getContext(), t->element);
  if (inputs[i]->nonZero)
    return b.getI64Type();
  if (inputs[i]->prefix)
    return getElementTypeOrSelf(inputs[i]->prefix->of);
  return getElementTypeOrSelf(inputs[i]->full);
}

static std::string notConstant(StringRef what) {
  return (what + " must be known at compile time").str();
}

FailureOr<Shape> NodeImporter::dims(size_t i, StringRef what) {
  const SymbolicTensor *t = symbolic(i);
  std::optional<Shape> d = t ? symbolic::asDims(*t) : std::nullopt;
  if (!d)
    return fail(notConstant(what) + " (as numbers and sizes)");
  return *d;
}

template <typename T>
FailureOr<SmallVector<T>> NodeImporter::known(
    size_t i, StringRef what,
    std::optional<SmallVector<T>> (*read)(const SymbolicTensor &)) {
  const SymbolicTensor *t = symbolic(i);
  std::optional<SmallVector<T>> d = t ? read(*t) : std::nullopt;
  if (!d)
    return fail(notConstant(what));
  return *d;
}

template <typename T>
FailureOr<T> NodeImporter::only(FailureOr<SmallVector<T>> list,
                                StringRef what) {
  if (failed(list))
    return failure();
  if (list->size() != 1)
    return fail(what + " must be one number");
  return list->front();
}

FailureOr<SmallVector<int64_t>> NodeImporter::ints(size_t i, StringRef what) {
  return known<int64_t>(i, what, symbolic::asInts);
}
FailureOr<int64_t> NodeImporter::integer(size_t i, StringRef what) {
  return only(ints(i, what), what);
}
FailureOr<SmallVector<double>> NodeImporter::reals(size_t i, StringRef what) {
  return known<double>(i, what, symbolic::asFloats);
}
FailureOr<double> NodeImporter::real(size_t i, StringRef what) {
  return only(reals(i, what), what);
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

const onnx::Attribute *NodeImporter::attribute(StringRef name) const {
  read.insert(name);
  auto it = node.attributes.find(name.str());
  return it == node.attributes.end() ? nullptr : &it->second;
}

int64_t NodeImporter::intAttr(StringRef name, int64_t absent) const {
  const onnx::Attribute *a = attribute(name);
  return a && a->kind == onnx::Attribute::Kind::Int ? a->i : absent;
}

double NodeImporter::floatAttr(StringRef name, double absent) const {
  const onnx::Attribute *a = attribute(name);
  return a && a->kind == onnx::Attribute::Kind::Float ? a->f : absent;
}

std::string NodeImporter::stringAttr(StringRef name, StringRef absent) const {
  const onnx::Attribute *a = attribute(name);
  return a && a->kind == onnx::Attribute::Kind::String ? a->s : absent.str();
}

SmallVector<int64_t> NodeImporter::intsAttr(StringRef name) const {
  const onnx::Attribute *a = attribute(name);
  if (!a || a->kind != onnx::Attribute::Kind::Ints)
    return {};
  return SmallVector<int64_t>(a->ints.begin(), a->ints.end());
}

FailureOr<int64_t> NodeImporter::axis(int64_t value, int64_t rank) {
  int64_t a = value < 0 ? value + rank : value;
  if (a < 0 || a >= rank)
    return fail("axis " + Twine(value) + " is out of range for rank " +
                Twine(rank));
  return a;
}

FailureOr<std::optional<SmallVector<int64_t>>>
NodeImporter::axes(size_t i, int64_t rank) {
  SmallVector<int64_t> list;
  if (attribute("axes")) {
    list = intsAttr("axes");
  } else if (has(i)) {
    FailureOr<SmallVector<int64_t>> given = ints(i, "axes");
    if (failed(given))
      return failure();
    list = *given;
  } else {
    return std::optional<SmallVector<int64_t>>();
  }
  for (int64_t &a : list) {
    FailureOr<int64_t> n = axis(a, rank);
    if (failed(n))
      return failure();
    a = *n;
  }
  SmallVector<int64_t> sorted = list;
  llvm::sort(sorted);
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return fail("an axis is named twice");
  return std::optional(list);
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

LogicalResult NodeImporter::fail(const Twine &reason) {
  if (why.empty())
    why = reason.str();
  return failure();
}

bool NodeImporter::assumeAtMost(const DimExpr &size, int64_t limit) {
  std::optional<DimExpr::Affine> a = size.asAffine();
  if (!a || a->symbol.empty() || a->scale < 1 || a->offset > limit)
    return false;
  int64_t most = (limit - a->offset) / a->scale;
  if (most < 1)
    return false;
  assumed.push_back({a->symbol, most, size, limit});
  return true;
}

LogicalResult NodeImporter::set(size_t i, Value value) {
  if (!value)
    return fail("cannot be imported");
  if (i < outputs.size())
    outputs[i].full = value;
  return success();
}

LogicalResult NodeImporter::set(size_t i, const SymbolicTensor &t) {
  if (i < outputs.size())
    outputs[i].symbolic = t;
  return success();
}

LogicalResult NodeImporter::set(size_t i, const symbolic::Result &t) {
  if (!t)
    return fail("cannot be folded");
  return set(i, *t);
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

/// Fills in the result types; attributes reach the op through its properties.
static LogicalResult inferTypes(OperationState &state) {
  std::optional<RegisteredOperationName> info = state.name.getRegisteredInfo();
  auto *infer = info->getInterface<InferTypeOpInterface>();
  if (!infer)
    return failure();
  DictionaryAttr dictionary =
      state.attributes.getDictionary(state.getContext());
  auto fail = [&] { return emitError(state.location); };
  SmallVector<char> storage(info->getOpPropertyByteSize() + 16);
  OpaqueProperties properties(nullptr);
  if (info->getOpPropertyByteSize()) {
    void *aligned = reinterpret_cast<void *>(
        llvm::alignAddr(storage.data(), llvm::Align(16)));
    properties = OpaqueProperties(aligned);
    info->initOpProperties(properties, OpaqueProperties(nullptr));
    if (failed(info->setOpPropertiesFromAttribute(state.name, properties,
                                                  dictionary, fail)))
      return failure();
  }
  LogicalResult r = infer->inferReturnTypes(
      state.getContext(), state.location, state.operands, dictionary,
      properties, state.regions, state.types);
  if (info->getOpPropertyByteSize())
    info->destroyOpProperties(properties);
  return r;
}

Operation *NodeImporter::makeOp(StringRef name, ValueRange operands,
                                ArrayRef<NamedAttribute> attributes,
                                Type result) {
  if (llvm::is_contained(operands, Value())) {
    (void)fail("an operand cannot be imported");
    return nullptr;
  }
  // Inference and verifiers report through diagnostics; the node's error is
  // made of the first one.
  std::string text;
  ScopedDiagnosticHandler handler(b.getContext(), [&](Diagnostic &d) {
    if (d.getSeverity() == DiagnosticSeverity::Error && text.empty())
      text = d.str();
    return success(d.getSeverity() == DiagnosticSeverity::Error);
  });
  OperationState state(loc, name, operands, {}, attributes);
  Operation *op = nullptr;
  if (result)
    state.addTypes(result);
  if (result || succeeded(inferTypes(state))) {
    op = b.create(state);
    if (succeeded(verify(op)))
      return op;
    op->erase();
  }
  StringRef why = text;
  why.consume_front("'" + name.str() + "' op ");
  (void)fail(why.empty() ? "operands do not fit " + name : Twine(why));
  return nullptr;
}

/// Null for tensors and graphs.
static Attribute toAttribute(Builder &b, const onnx::Attribute &a) {
  switch (a.kind) {
  case onnx::Attribute::Kind::Int:
    return b.getI64IntegerAttr(a.i);
  case onnx::Attribute::Kind::Float:
    return b.getF64FloatAttr(a.f);
  case onnx::Attribute::Kind::String:
    return b.getStringAttr(a.s);
  case onnx::Attribute::Kind::Ints:
    return b.getDenseI64ArrayAttr(a.ints);
  case onnx::Attribute::Kind::Floats:
    return b.getDenseF64ArrayAttr(a.floats);
  default:
    return {};
  }
}

LogicalResult NodeImporter::importAs(OperationName op) {
  SmallVector<Value> operands;
  for (size_t i = 0; i < numInputs(); ++i)
    operands.push_back(value(i));
  SmallVector<NamedAttribute> attributes;
  for (const auto &[name, given] : node.attributes) {
    Attribute value = toAttribute(b, *attribute(name));
    if (!value || !llvm::is_contained(op.getAttributeNames(), name))
      return fail("attribute '" + name + "' is not handled");
    attributes.push_back(named(name, value));
  }
  Operation *made = makeOp(op.getStringRef(), operands, attributes);
  if (!made)
    return failure();
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (wants(i) &&
        (i >= made->getNumResults() || failed(set(i, made->getResult(i)))))
      return fail("has " + Twine(made->getNumResults()) + " outputs, not " +
                  Twine(node.outputs.size()));
  return success();
}

Value NodeImporter::reshape(Value v, const Shape &shape) {
  if (!v || nn::getShape(v) == shape)
    return v;
  Type element = getElementTypeOrSelf(v);
  return make<nn::ReshapeOp>(v, {}, nn::makeTensorType(shape, element));
}

Value NodeImporter::broadcast(Value v, const Shape &shape) {
  if (!v || nn::getShape(v) == shape)
    return v;
  Type element = getElementTypeOrSelf(v);
  return make<nn::BroadcastOp>(v, {}, nn::makeTensorType(shape, element));
}

Value NodeImporter::transpose(Value v, ArrayRef<int64_t> permutation) {
  if (!v || llvm::equal(permutation, llvm::seq<int64_t>(permutation.size())))
    return v;
  return make<nn::TransposeOp>(v, array("permutation", permutation));
}

Value NodeImporter::castTo(Value v, Type element) {
  if (!v || getElementTypeOrSelf(v) == element)
    return v;
  return make<nn::CastOp>(v, {}, nn::withElementType(v.getType(), element));
}

Value NodeImporter::squeeze(Value v, int64_t axis) {
  if (!v)
    return v;
  Shape s = nn::getShape(v);
  s.erase(s.begin() + axis);
  return reshape(v, s);
}

Value NodeImporter::unsqueeze(Value v, int64_t axis) {
  if (!v)
    return v;
  Shape s = nn::getShape(v);
  s.insert(s.begin() + axis, DimExpr(1));
  return reshape(v, s);
}

Value NodeImporter::sliceAxis(Value v, int64_t axis, int64_t start,
                              const DimExpr &size) {
  if (!v)
    return v;
  Shape s = nn::getShape(v);
  if (start == 0 && s[axis] == size)
    return v;
  SmallVector<int64_t> starts(s.size(), 0), steps(s.size(), 1);
  starts[axis] = start;
  s[axis] = size;
  Type element = getElementTypeOrSelf(v);
  return make<nn::SliceOp>(v, {array("starts", starts), array("steps", steps)},
                           nn::makeTensorType(s, element));
}

Value NodeImporter::reduce(nn::ReduceKind kind, Value v, ArrayRef<int64_t> axes,
                           bool keepdims, bool first) {
  SmallVector<NamedAttribute> attributes{
      named("kind", nn::ReduceKindAttr::get(b.getContext(), kind)),
      array("axes", axes)};
  if (keepdims)
    attributes.push_back(unit("keepdims"));
  if (first)
    attributes.push_back(unit("first"));
  return make<nn::ReduceOp>(v, attributes);
}

Value NodeImporter::compare(nn::Compare predicate, Value l, Value r) {
  return make<nn::CmpOp>(
      {l, r},
      named("predicate", nn::CompareAttr::get(b.getContext(), predicate)));
}

Value NodeImporter::number(double v, Type element) {
  auto type = RankedTensorType::get({}, element);
  // A rule for floats on a tensor of integers, which the standard has not.
  constexpr double kMost = 9007199254740992.0; // 2^53: each is a double
  if (!isa<FloatType>(element) &&
      !(std::abs(v) <= kMost && v == std::trunc(v))) {
    (void)fail("needs a tensor of floats: no integer is " + std::to_string(v));
    v = 0;
  }
  Attribute a = isa<FloatType>(element)
                    ? Attribute(b.getFloatAttr(element, v))
                    : b.getIntegerAttr(element, static_cast<int64_t>(v));
  return make<nn::ConstantOp>(
      ValueRange(), named("value", DenseElementsAttr::get(type, a)), type);
}
