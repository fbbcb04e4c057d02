//===- RulesElementwise.cpp - Arithmetic, comparisons, casts ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/import/NodeImporter.h"
#include "models/frontend/import/Parameters.h"

#include <cmath>

using namespace mlir;
using namespace dt;
using namespace dt::models;

namespace {
/// Operands of a broadcasting op. A symbolic one is made with size 1 where its
/// element does not vary, if the other operands still give the common shape.
SmallVector<Value> broadcastOperands(NodeImporter &n, ArrayRef<size_t> which) {
  SmallVector<Shape> full, compact;
  for (size_t i : which) {
    full.push_back(n.shape(i));
    compact.push_back(full.back());
    if (const SymbolicTensor *t = n.symbolic(i))
      for (int64_t a = 0; a < t->rank(); ++a)
        if (!symbolic::dependsOn(t->value, a))
          compact.back()[a] = DimExpr(1);
  }
  std::optional<Shape> wanted = nn::broadcastShapes(full);
  std::optional<Shape> got = nn::broadcastShapes(compact);
  bool useCompact = wanted && got && *wanted == *got;
  SmallVector<Value> out;
  for (size_t i : which)
    out.push_back(useCompact ? n.compactValue(i) : n.value(i));
  return out;
}

//===----------------------------------------------------------------------===//
// Unary
//===----------------------------------------------------------------------===//

template <typename OpT, double (*F)(double)>
LogicalResult unary(NodeImporter &n) {
  if (const SymbolicTensor *t = n.symbolic(0))
    if (symbolic::typeOf(t->element) == symbolic::Type::Float)
      if (symbolic::Result r = symbolic::mapFloat(*t, F))
        return n.set(0, *r);
  return n.set(0, n.make<OpT>(n.value(0)));
}

double reciprocal(double x) { return 1 / x; }
double roundEven(double x) { return std::nearbyint(x); }
double sign(double x) { return (x > 0) - (x < 0); }

LogicalResult negate(NodeImporter &n) {
  if (const SymbolicTensor *t = n.symbolic(0))
    if (symbolic::Result r = symbolic::negate(*t))
      return n.set(0, *r);
  Value x = n.value(0);
  if (n.isFloat(0))
    return n.set(0, n.make<nn::NegOp>(x));
  return n.set(0, n.make<nn::SubOp>({n.number(0, n.element(0)), x}));
}

LogicalResult absolute(NodeImporter &n) {
  if (n.isFloat(0))
    return unary<nn::AbsOp, std::fabs>(n);
  Value x = n.value(0);
  Value negative = n.make<nn::SubOp>({n.number(0, n.element(0)), x});
  return n.set(0, n.make<nn::MaxOp>({x, negative}));
}
LogicalResult signOf(NodeImporter &n) {
  if (n.isFloat(0))
    return unary<nn::SignOp, sign>(n);
  Value above = n.make<nn::MaxOp>({n.value(0), n.number(-1, n.element(0))});
  return n.set(0, n.make<nn::MinOp>({above, n.number(1, n.element(0))}));
}

LogicalResult logicalNot(NodeImporter &n) {
  if (const SymbolicTensor *t = n.symbolic(0))
    if (symbolic::Result r = symbolic::logicalNot(*t))
      return n.set(0, *r);
  return n.set(0, n.make<nn::NotOp>(n.value(0)));
}

LogicalResult isInf(NodeImporter &n) {
  bool negative = n.intAttr("detect_negative", 1);
  bool positive = n.intAttr("detect_positive", 1);
  Value x = n.value(0);
  if (negative && positive)
    return n.set(0, n.make<nn::IsInfOp>(x));
  if (!negative && !positive)
    return n.fail("detects neither infinity");
  Value limit = n.number(positive ? INFINITY : -INFINITY, n.element(0));
  return n.set(0, n.compare(nn::Compare::eq, x, limit));
}

LogicalResult isNan(NodeImporter &n) {
  return n.set(0, n.make<nn::IsNanOp>(n.value(0)));
}

//===----------------------------------------------------------------------===//
// Binary
//===----------------------------------------------------------------------===//

template <typename OpT, symbolic::Binary kind>
LogicalResult binary(NodeImporter &n) {
  const SymbolicTensor *a = n.symbolic(0), *b = n.symbolic(1);
  if (a && b)
    if (symbolic::Result r = symbolic::binary(kind, *a, *b))
      return n.set(0, *r);
  return n.set(0, n.make<OpT>(broadcastOperands(n, {0, 1})));
}

/// And with true, Or with false: the other operand.
template <typename OpT, symbolic::Binary kind, bool neutral>
LogicalResult logical(NodeImporter &n) {
  for (size_t i : {0u, 1u}) {
    const SymbolicTensor *t = n.symbolic(i);
    if (!t || n.symbolic(1 - i) || symbolic::asBool(t->value) != neutral)
      continue;
    std::optional<Shape> shape = nn::broadcastShapes({n.shape(0), n.shape(1)});
    if (shape)
      return n.set(0, n.broadcast(n.value(1 - i), *shape));
  }
  return binary<OpT, kind>(n);
}

/// `swap` turns greater(-or-equal) into less(-or-equal) for folding.
template <nn::Compare predicate, symbolic::Binary kind, bool swap>
LogicalResult comparison(NodeImporter &n) {
  const SymbolicTensor *a = n.symbolic(0), *b = n.symbolic(1);
  if (a && b)
    if (symbolic::Result r =
            symbolic::binary(kind, swap ? *b : *a, swap ? *a : *b))
      return n.set(0, *r);
  SmallVector<Value> operands = broadcastOperands(n, {0, 1});
  return n.set(0, n.compare(predicate, operands[0], operands[1]));
}

LogicalResult modulo(NodeImporter &n) {
  bool fmod = n.intAttr("fmod", 0);
  if (!fmod && n.isFloat(0))
    return n.fail("of floats is only handled with fmod 1");
  const SymbolicTensor *a = n.symbolic(0), *b = n.symbolic(1);
  if (a && b)
    if (symbolic::Result r = symbolic::binary(
            fmod ? symbolic::Binary::FMod : symbolic::Binary::Mod, *a, *b))
      return n.set(0, *r);
  SmallVector<NamedAttribute> attributes;
  if (fmod)
    attributes.push_back(n.unit("fmod"));
  return n.set(0, n.make<nn::ModOp>(broadcastOperands(n, {0, 1}), attributes));
}

/// Whether a symbolic exponent is one whole number, not below 0.
bool isWhole(const SymbolicTensor &t) {
  if (symbolic::typeOf(t.element) != symbolic::Type::Float)
    return symbolic::typeOf(t.element) == symbolic::Type::Int;
  std::optional<double> v = symbolic::asFloat(t.value);
  return v && *v >= 0 && *v == std::floor(*v);
}

/// The type that a power is computed in: a base of whole numbers to one that is
/// not (or not known to be) whole takes floats, and a narrow base must not
/// round a wider exponent.
Type powerType(NodeImporter &n) {
  Type base = n.element(0), exponent = n.element(1);
  const SymbolicTensor *e = n.symbolic(1);
  if (base == exponent || (e && isWhole(*e)))
    return base;
  auto f = dyn_cast<FloatType>(base), g = dyn_cast<FloatType>(exponent);
  if (!f && g)
    return n.b.getF64Type();
  if (!f)
    return n.b.getI64Type();
  if (!g || g.getWidth() < f.getWidth())
    return base;
  return g.getWidth() > f.getWidth() ? exponent : n.b.getF32Type();
}

/// A constant power of a constant, in double precision; nothing for others.
symbolic::Result foldPower(const SymbolicTensor &base,
                           const SymbolicTensor &exponent) {
  std::optional<symbolic::TableData> e = symbolic::evaluateAll(exponent);
  symbolic::Result wide = symbolic::cast(base, symbolic::Element::F64);
  if (!e || e->size() != 1 || exponent.rank() > base.rank() || !wide)
    return std::nullopt;
  double y = e->type == symbolic::Type::Float ? e->floats[0]
                                              : static_cast<double>(e->ints[0]);
  symbolic::Result r =
      symbolic::mapFloat(*wide, [&](double x) { return std::pow(x, y); });
  return r ? symbolic::cast(*r, base.element) : std::nullopt;
}

/// The exponent may have another type than the base, whose type the result has.
LogicalResult power(NodeImporter &n) {
  if (!n.has(0) || !n.has(1))
    return n.fail("needs two inputs");
  const SymbolicTensor *a = n.symbolic(0), *b = n.symbolic(1);
  Type result = n.element(0), type = powerType(n);
  symbolic::Result exponent;
  if (std::optional<symbolic::Element> e = toSymbolic(type); b && e)
    exponent = symbolic::cast(*b, *e);
  if (a && exponent && type == result)
    if (symbolic::Result r =
            symbolic::binary(symbolic::Binary::Pow, *a, *exponent))
      return n.set(0, *r);
  if (a && b)
    if (symbolic::Result r = foldPower(*a, *b))
      return n.set(0, *r);
  Value base = n.castTo(n.value(0), type);
  Value e = exponent ? materialize(n.b, n.loc, *exponent, /*compact=*/false)
                     : n.castTo(n.value(1), type);
  return n.set(0, n.castTo(n.make<nn::PowOp>({base, e}), result));
}

/// Max, Min, Sum over any number of operands.
template <typename OpT, symbolic::Binary kind>
LogicalResult variadic(NodeImporter &n) {
  if (n.numInputs() == 0)
    return n.fail("has no input");
  if (n.numInputs() == 2)
    return binary<OpT, kind>(n);
  symbolic::Result folded;
  if (const SymbolicTensor *first = n.symbolic(0))
    folded = *first;
  for (size_t i = 1; i < n.numInputs() && folded; ++i) {
    const SymbolicTensor *next = n.symbolic(i);
    folded = next ? symbolic::binary(kind, *folded, *next) : std::nullopt;
  }
  if (folded)
    return n.set(0, *folded);
  Value v = n.value(0);
  for (size_t i = 1; i < n.numInputs(); ++i)
    v = n.make<OpT>({v, n.value(i)});
  return n.set(0, v);
}

/// Whether an operand is one number that the graph knows. Exporters write a
/// clamp to numbers so, which has no gradient at them; to tensors it has a
/// share.
bool isNumber(NodeImporter &n, size_t i) {
  const SymbolicTensor *t = n.symbolic(i);
  return t && symbolic::asFloat(t->value) &&
         llvm::all_of(t->shape, [](const DimExpr &d) { return d == 1; });
}

/// op(v, operand i), a clamp where that is a number and the node has no mark.
template <typename OpT> Value extremum(NodeImporter &n, Value v, size_t i) {
  if (n.node.ties == "share" || !n.isFloat(i) || !isNumber(n, i))
    return n.make<OpT>({v, n.value(i)});
  return n.make<OpT>({v, n.value(i)}, n.unit("bound"));
}

template <typename OpT, symbolic::Binary kind>
LogicalResult extremumOf(NodeImporter &n) {
  if (n.numInputs() != 2 || isNumber(n, 0) == isNumber(n, 1))
    return variadic<OpT, kind>(n);
  size_t bound = isNumber(n, 0) ? 0 : 1;
  if (n.symbolic(1 - bound))
    return variadic<OpT, kind>(n);
  return n.set(0, extremum<OpT>(n, n.value(1 - bound), bound));
}

LogicalResult mean(NodeImporter &n) {
  if (n.numInputs() == 0)
    return n.fail("has no input");
  Value v = n.value(0);
  for (size_t i = 1; i < n.numInputs(); ++i)
    v = n.make<nn::AddOp>({v, n.value(i)});
  return n.set(
      0, n.make<nn::MulOp>({v, n.number(1.0 / n.numInputs(), n.element(0))}));
}

//===----------------------------------------------------------------------===//
// Choice and conversion
//===----------------------------------------------------------------------===//

LogicalResult where(NodeImporter &n) {
  const SymbolicTensor *c = n.symbolic(0), *yes = n.symbolic(1),
                       *no = n.symbolic(2);
  if (c && yes && no)
    if (symbolic::Result r = symbolic::where(*c, *yes, *no))
      return n.set(0, *r);
  return n.set(0, n.make<nn::WhereOp>(broadcastOperands(n, {0, 1, 2})));
}

LogicalResult clip(NodeImporter &n) {
  const SymbolicTensor *x = n.symbolic(0), *lo = n.symbolic(1),
                       *hi = n.symbolic(2);
  symbolic::Result folded = x ? symbolic::Result(*x) : std::nullopt;
  if (folded && n.has(1))
    folded = lo ? symbolic::binary(symbolic::Binary::Max, *folded, *lo)
                : std::nullopt;
  if (folded && n.has(2))
    folded = hi ? symbolic::binary(symbolic::Binary::Min, *folded, *hi)
                : std::nullopt;
  if (folded)
    return n.set(0, *folded);
  Value v = n.value(0);
  if (n.has(1))
    v = extremum<nn::MaxOp>(n, v, 1);
  if (n.has(2))
    v = extremum<nn::MinOp>(n, v, 2);
  return n.set(0, v);
}

LogicalResult castTo(NodeImporter &n, Type element) {
  std::optional<symbolic::Element> e = toSymbolic(element);
  if (const SymbolicTensor *t = n.symbolic(0); t && e)
    if (symbolic::Result r = symbolic::cast(*t, *e))
      return n.set(0, *r);
  return n.set(0, n.castTo(n.value(0), element));
}

LogicalResult castNode(NodeImporter &n) {
  auto to = static_cast<onnx::ElementType>(n.intAttr("to", 0));
  if (std::optional<symbolic::Element> element = toSymbolic(to))
    return castTo(n, toMlir(n.b.getContext(), *element));
  return n.fail("cannot cast to " + onnx::elementName(to));
}

LogicalResult castLike(NodeImporter &n) { return castTo(n, n.element(1)); }

LogicalResult identity(NodeImporter &n) {
  if (!n.has(0))
    return n.fail("input 0 is missing");
  if (n.node.stopsGradient && !n.symbolic(0) && n.isFloat(0))
    return n.set(0, n.make<nn::StopGradientOp>(n.value(0)));
  n.output(0) = *n.input(0);
  return success();
}

/// Only in the form that does nothing.
LogicalResult dropout(NodeImporter &n) {
  bool training = false;
  if (n.has(2)) {
    FailureOr<int64_t> mode = n.integer(2, "training_mode");
    if (failed(mode))
      return failure();
    training = *mode;
  }
  double ratio = n.floatAttr("ratio", 0.5);
  if (n.has(1)) {
    FailureOr<double> given = n.real(1, "ratio");
    if (failed(given))
      return failure();
    ratio = *given;
  }
  if (training && ratio != 0)
    return n.fail("dropout in training form is not handled: export with "
                  "dropout 0");
  if (n.wants(1)) {
    SymbolicTensor all{n.shape(0), symbolic::Element::Bool,
                       symbolic::boolean(true)};
    if (failed(n.set(1, all)))
      return failure();
  }
  return identity(n);
}
} // namespace

void models::addElementwiseRules(RuleTable &rules) {
  using B = symbolic::Binary;
  using C = nn::Compare;
  rules["Neg"] = negate;
  rules["Abs"] = absolute;
  rules["Not"] = logicalNot;
  rules["Exp"] = unary<nn::ExpOp, std::exp>;
  rules["Log"] = unary<nn::LogOp, std::log>;
  rules["Sqrt"] = unary<nn::SqrtOp, std::sqrt>;
  rules["Reciprocal"] = unary<nn::ReciprocalOp, reciprocal>;
  rules["Sin"] = unary<nn::SinOp, std::sin>;
  rules["Cos"] = unary<nn::CosOp, std::cos>;
  rules["Tan"] = unary<nn::TanOp, std::tan>;
  rules["Asin"] = unary<nn::AsinOp, std::asin>;
  rules["Acos"] = unary<nn::AcosOp, std::acos>;
  rules["Atan"] = unary<nn::AtanOp, std::atan>;
  rules["Sinh"] = unary<nn::SinhOp, std::sinh>;
  rules["Cosh"] = unary<nn::CoshOp, std::cosh>;
  rules["Tanh"] = unary<nn::TanhOp, std::tanh>;
  rules["Asinh"] = unary<nn::AsinhOp, std::asinh>;
  rules["Acosh"] = unary<nn::AcoshOp, std::acosh>;
  rules["Atanh"] = unary<nn::AtanhOp, std::atanh>;
  rules["Erf"] = unary<nn::ErfOp, std::erf>;
  rules["Floor"] = unary<nn::FloorOp, std::floor>;
  rules["Ceil"] = unary<nn::CeilOp, std::ceil>;
  rules["Round"] = unary<nn::RoundOp, roundEven>;
  rules["Sign"] = signOf;
  rules["IsNaN"] = isNan;
  rules["IsInf"] = isInf;
  rules["Add"] = binary<nn::AddOp, B::Add>;
  rules["Sub"] = binary<nn::SubOp, B::Sub>;
  rules["Mul"] = binary<nn::MulOp, B::Mul>;
  rules["Div"] = binary<nn::DivOp, B::Div>;
  rules["And"] = logical<nn::AndOp, B::And, true>;
  rules["Or"] = logical<nn::OrOp, B::Or, false>;
  rules["Xor"] = binary<nn::XorOp, B::Xor>;
  rules["Mod"] = modulo;
  rules["Pow"] = power;
  rules["Max"] = extremumOf<nn::MaxOp, B::Max>;
  rules["Min"] = extremumOf<nn::MinOp, B::Min>;
  rules["Sum"] = variadic<nn::AddOp, B::Add>;
  rules["Mean"] = mean;
  rules["Equal"] = comparison<C::eq, B::Equal, false>;
  rules["Less"] = comparison<C::lt, B::Less, false>;
  rules["LessOrEqual"] = comparison<C::le, B::LessEqual, false>;
  rules["Greater"] = comparison<C::gt, B::Less, true>;
  rules["GreaterOrEqual"] = comparison<C::ge, B::LessEqual, true>;
  rules["Where"] = where;
  rules["Clip"] = clip;
  rules["Cast"] = castNode;
  rules["CastLike"] = castLike;
  rules["Identity"] = identity;
  rules["Dropout"] = dropout;
}
