//===- Materialize.cpp - Symbolic tensors as IR -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Integers are computed as `index` inside the region, so that a mask reads as a
// comparison of the region's arguments.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/import/Materialize.h"

#include "dialects/nn/NNOps.h"
#include "models/frontend/symbolic/Simplify.h"

using namespace mlir;
using namespace dt;
using namespace dt::models;
using namespace dt::symbolic;

mlir::Type models::toMlir(MLIRContext *context, Element element) {
  switch (element) {
  case Element::Bool:
    return IntegerType::get(context, 1);
  case Element::UInt8:
    return IntegerType::get(context, 8, IntegerType::Unsigned);
  case Element::Int8:
    return IntegerType::get(context, 8);
  case Element::Int32:
    return IntegerType::get(context, 32);
  case Element::Int64:
    return IntegerType::get(context, 64);
  case Element::F32:
    return Float32Type::get(context);
  case Element::F64:
    return Float64Type::get(context);
  }
  llvm_unreachable("all elements handled");
}

std::optional<Element> models::toSymbolic(mlir::Type element) {
  for (Element e : {Element::Bool, Element::UInt8, Element::Int8,
                    Element::Int32, Element::Int64, Element::F32, Element::F64})
    if (toMlir(element.getContext(), e) == element)
      return e;
  return std::nullopt;
}

namespace {
/// Emits an expression's arith ops inside a region.
class ExprEmitter {
public:
  ExprEmitter(OpBuilder &builder, Location loc, ValueRange indices,
              const Ranges &ranges, mlir::Type floatType)
      : b(builder), loc(loc), indices(indices), ranges(ranges),
        floatType(floatType) {}

  Value emit(const Expr &e) {
    auto it = done.find(e.get());
    if (it != done.end())
      return it->second;
    Value v = emitNode(e);
    done[e.get()] = v;
    return v;
  }

private:
  Value emitNode(const Expr &e);
  Value emitFloat(const Expr &e);
  Value emitSum(const Expr &e);
  Value emitComparison(const Expr &e);
  Value emitDivisor(const Expr &e);
  Value emitTable(const Expr &e);
  Value constant(int64_t v) {
    return arith::ConstantIndexOp::create(b, loc, v);
  }
  Value real(double v) {
    return arith::ConstantOp::create(b, loc, b.getFloatAttr(floatType, v));
  }
  Value size(const DimExpr &d) {
    if (std::optional<int64_t> n = d.asConstant())
      return constant(*n);
    return nn::SizeOp::create(b, loc, b.getIndexType(),
                              nn::DimAttr::get(b.getContext(), d));
  }
  template <typename OpT> Value binary(const Expr &e) {
    Value l = emit(e->args[0]), r = emit(e->args[1]);
    return OpT::create(b, loc, l, r);
  }
  Value compare(arith::CmpIPredicate p, Value l, Value r) {
    return arith::CmpIOp::create(b, loc, p, l, r);
  }
  Value compareFloat(arith::CmpFPredicate p, const Expr &e) {
    Value l = emit(e->args[0]), r = emit(e->args[1]);
    return arith::CmpFOp::create(b, loc, p, l, r);
  }

  OpBuilder &b;
  Location loc;
  ValueRange indices;
  const Ranges &ranges;
  mlir::Type floatType;
  llvm::DenseMap<const Node *, Value> done;
};

/// One product of a sum; sizes in it become one nn.size.
struct Product {
  DimExpr size;
  std::vector<Expr> factors;
};

/// What is subtracted comes last: a - b, not -1 * b + a.
std::vector<Product> productsOf(const Expr &e) {
  std::vector<Product> out, subtracted;
  DimExpr rest;
  for (const Term &t : termsOf(e)) {
    Product p{DimExpr(t.coefficient), {}};
    for (const Expr &f : t.factors) {
      if (f->kind == Kind::Symbol)
        p.size = p.size * DimExpr::symbol(f->name);
      else
        p.factors.push_back(f);
    }
    if (p.factors.empty())
      rest = rest + p.size;
    else
      (p.size == DimExpr(-1) ? subtracted : out).push_back(std::move(p));
  }
  if (rest != DimExpr(0) || (out.empty() && subtracted.empty()))
    out.push_back({rest, {}});
  llvm::append_range(out, subtracted);
  return out;
}

Value ExprEmitter::emitSum(const Expr &e) {
  Value total;
  for (const Product &p : productsOf(e)) {
    Value v;
    for (const Expr &f : p.factors) {
      Value x = emit(f);
      v = v ? Value(arith::MulIOp::create(b, loc, v, x)) : x;
    }
    bool negate = v && p.size == DimExpr(-1) && total;
    if (!v)
      v = size(p.size);
    else if (!negate && p.size != DimExpr(1))
      v = arith::MulIOp::create(b, loc, v, size(p.size));
    if (negate)
      total = arith::SubIOp::create(b, loc, total, v);
    else
      total = total ? Value(arith::AddIOp::create(b, loc, total, v)) : v;
  }
  return total;
}

/// Negative terms go to the other side: d2 - d3 >= 0 reads d3 <= d2.
Value ExprEmitter::emitComparison(const Expr &e) {
  std::vector<Term> left, right;
  for (Term t : termsOf(e->args[0])) {
    if (t.coefficient < 0) {
      t.coefficient = -t.coefficient;
      left.push_back(std::move(t));
    } else {
      right.push_back(std::move(t));
    }
  }
  Value l = emitSum(sumOf(std::move(left)));
  Value r = emitSum(sumOf(std::move(right)));
  return compare(e->kind == Kind::IsZero ? arith::CmpIPredicate::eq
                                         : arith::CmpIPredicate::sle,
                 l, r);
}

/// A chain of choices: only for arrays of a few elements.
Value ExprEmitter::emitTable(const Expr &e) {
  Value position = emit(e->args[0]), v;
  for (size_t i = e->table->size(); i-- > 0;) {
    Value element = emit(symbolic::table(e->table, integer(i)));
    if (!v) {
      v = element;
      continue;
    }
    Value here = compare(arith::CmpIPredicate::eq, position, constant(i));
    v = arith::SelectOp::create(b, loc, here, element, v);
  }
  return v;
}

/// A size that counts items may be 0 in a part of the batch. Divided by 1
/// instead, as nn.div does, the program reaches the check of what is read.
Value ExprEmitter::emitDivisor(const Expr &e) {
  Value y = emit(e);
  if (ranges.provenLessEqual(integer(1), e) ||
      ranges.provenLessEqual(e, integer(-1)))
    return y;
  Value isZero = compare(arith::CmpIPredicate::eq, y, constant(0));
  return arith::SelectOp::create(b, loc, isZero, constant(1), y);
}

Value ExprEmitter::emitFloat(const Expr &e) {
  switch (e->kind) {
  case Kind::FAdd:
    return binary<arith::AddFOp>(e);
  case Kind::FSub:
    return binary<arith::SubFOp>(e);
  case Kind::FMul:
    return binary<arith::MulFOp>(e);
  case Kind::FDiv:
    return binary<arith::DivFOp>(e);
  case Kind::FMin:
    return binary<arith::MinimumFOp>(e);
  default:
    return binary<arith::MaximumFOp>(e);
  }
}

Value ExprEmitter::emitNode(const Expr &e) {
  switch (e->kind) {
  case Kind::Int:
    if (e->type == symbolic::Type::Bool)
      return arith::ConstantIntOp::create(b, loc, e->i, 1);
    return constant(e->i);
  case Kind::Float:
    return real(e->f);
  case Kind::Index:
    return indices[e->i];
  case Kind::Symbol:
  case Kind::Sum:
    return emitSum(e);
  case Kind::FloorDiv: {
    Value x = emit(e->args[0]), y = emitDivisor(e->args[1]);
    if (ranges.provenNonNegative(e->args[0]))
      return arith::DivSIOp::create(b, loc, x, y);
    return arith::FloorDivSIOp::create(b, loc, x, y);
  }
  case Kind::Mod: {
    Value x = emit(e->args[0]), m = emitDivisor(e->args[1]);
    Value r = arith::RemSIOp::create(b, loc, x, m);
    if (ranges.provenNonNegative(e->args[0]))
      return r;
    r = arith::AddIOp::create(b, loc, r, m);
    return arith::RemSIOp::create(b, loc, r, m);
  }
  case Kind::Min:
    return binary<arith::MinSIOp>(e);
  case Kind::Max:
    return binary<arith::MaxSIOp>(e);
  case Kind::FAdd:
  case Kind::FSub:
  case Kind::FMul:
  case Kind::FDiv:
  case Kind::FMin:
  case Kind::FMax:
    return emitFloat(e);
  case Kind::ToFloat: {
    Value i =
        arith::IndexCastOp::create(b, loc, b.getI64Type(), emit(e->args[0]));
    return arith::SIToFPOp::create(b, loc, floatType, i);
  }
  case Kind::NonNegative:
  case Kind::IsZero:
    return emitComparison(e);
  case Kind::FLess:
    return compareFloat(arith::CmpFPredicate::OLT, e);
  case Kind::FLessEqual:
    return compareFloat(arith::CmpFPredicate::OLE, e);
  case Kind::FEqual:
    return compareFloat(arith::CmpFPredicate::OEQ, e);
  case Kind::And:
    return binary<arith::AndIOp>(e);
  case Kind::Or:
    return binary<arith::OrIOp>(e);
  case Kind::Not: {
    Value one = arith::ConstantIntOp::create(b, loc, 1, 1);
    return arith::XOrIOp::create(b, loc, emit(e->args[0]), one);
  }
  case Kind::Select: {
    Value c = emit(e->args[0]), yes = emit(e->args[1]), no = emit(e->args[2]);
    return arith::SelectOp::create(b, loc, c, yes, no);
  }
  case Kind::Table:
    return emitTable(e);
  }
  llvm_unreachable("all kinds handled");
}

Value castTo(OpBuilder &b, Location loc, Value v, mlir::Type element) {
  auto type = cast<RankedTensorType>(v.getType());
  if (type.getElementType() == element)
    return v;
  return nn::CastOp::create(b, loc, nn::withElementType(type, element), v);
}

Attribute elementAttr(OpBuilder &b, mlir::Type element, const Scalar &v) {
  if (isa<FloatType>(element))
    return b.getFloatAttr(element, v.f);
  if (element.isInteger(1))
    return b.getBoolAttr(v.i != 0);
  return IntegerAttr::get(element, APInt(element.getIntOrFloatBitWidth(), v.i,
                                         /*isSigned=*/true,
                                         /*implicitTrunc=*/true));
}

Value emitConstant(OpBuilder &b, Location loc, ArrayRef<DimExpr> shape,
                   mlir::Type element, const TableData &d) {
  RankedTensorType type = nn::makeTensorType(shape, element);
  SmallVector<Attribute> values;
  for (size_t i = 0; i < d.size(); ++i) {
    Scalar s;
    if (d.type == symbolic::Type::Float)
      s.f = d.floats[i];
    else
      s.i = d.ints[i];
    values.push_back(elementAttr(b, element, s));
  }
  return nn::ConstantOp::create(b, loc, type,
                                DenseElementsAttr::get(type, values));
}

Value emitGenerate(OpBuilder &b, Location loc, const SymbolicTensor &t,
                   mlir::Type element) {
  // Inside the region only plain types; others by a cast of the whole.
  mlir::Type inner = element;
  if (isa<FloatType>(element) && !element.isF64())
    inner = b.getF32Type();
  else if (element.isInteger(8))
    inner = b.getI32Type();
  RankedTensorType type = nn::makeTensorType(t.shape, inner);
  auto generate = nn::GenerateOp::create(b, loc, type);
  {
    OpBuilder::InsertionGuard guard(b);
    SmallVector<mlir::Type> types(t.shape.size(), b.getIndexType());
    SmallVector<Location> locs(t.shape.size(), loc);
    Block *block = b.createBlock(&generate.getBody(), {}, types, locs);
    Ranges ranges(t.shape);
    mlir::Type floatType = isa<FloatType>(inner) ? inner : b.getF32Type();
    Value v = ExprEmitter(b, loc, block->getArguments(), ranges, floatType)
                  .emit(t.value);
    if (v.getType().isIndex())
      v = arith::IndexCastOp::create(b, loc, inner, v);
    nn::YieldOp::create(b, loc, v);
  }
  return castTo(b, loc, generate.getResult(), element);
}

/// A table at a computed position, too large for a chain of choices.
Value emitLookup(OpBuilder &b, Location loc, const SymbolicTensor &t,
                 mlir::Type element) {
  SymbolicTensor position{t.shape, Element::Int64, t.value->args[0]};
  Value at = emitGenerate(b, loc, position, b.getI64Type());
  const TableData &d = *t.value->table;
  Value array = emitConstant(b, loc, {DimExpr(static_cast<int64_t>(d.size()))},
                             element, d);
  return nn::GatherOp::create(b, loc, array, at, /*axis=*/0);
}
} // namespace

Value models::materialize(OpBuilder &b, Location loc, const SymbolicTensor &t,
                          bool compact) {
  mlir::Type element = toMlir(b.getContext(), t.element);
  SymbolicTensor small = t;
  for (int64_t i = 0; i < t.rank(); ++i)
    if (!dependsOn(t.value, i))
      small.shape[i] = DimExpr(1);
  Value v;
  if (isConstant(t.value)) {
    if (!compact && t.numElements())
      small.shape = t.shape;
    RankedTensorType type = nn::makeTensorType(small.shape, element);
    Scalar s{t.value->i, t.value->f};
    v = nn::ConstantOp::create(
        b, loc, type, DenseElementsAttr::get(type, elementAttr(b, element, s)));
  } else if (t.value->hasTable) {
    if (std::optional<TableData> d = evaluateAll(small))
      v = emitConstant(b, loc, small.shape, element, *d);
    else if (t.value->kind == Kind::Table && !t.value->args[0]->hasTable)
      v = emitLookup(b, loc, small, element);
  }
  if (!v)
    v = emitGenerate(b, loc, small, element);
  if (compact || small.shape == t.shape)
    return v;
  return nn::BroadcastOp::create(b, loc, nn::makeTensorType(t.shape, element),
                                 v);
}
