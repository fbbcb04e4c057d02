//===- Scalar.cpp - arith and math ops as EmitC ---------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// One op at a time. Elementary functions are the runtime's vecmath, which
// vectorises; what it does not have is the C++ library's. Signless integers are
// signed in C++, so unsigned forms cast.
//
//===----------------------------------------------------------------------===//

#include "codegen/common/KernelBody.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace dt::codegen {

Type scalarType(Type type) {
  MLIRContext *context = type.getContext();
  if (type.isIndex())
    return IntegerType::get(context, 64);
  if (type.isF32() || type.isF64() || type.isInteger(1) || type.isInteger(8) ||
      type.isInteger(16) || type.isInteger(32) || type.isInteger(64))
    return type;
  return {};
}

Type elementType(Type type) {
  return type.isBF16()
             ? emitc::OpaqueType::get(type.getContext(), cTypeName(type))
             : type;
}

StringRef cTypeName(Type type) {
  if (type.isF32())
    return "float";
  if (type.isBF16())
    return "dt::rt::bf16";
  if (type.isF64())
    return "double";
  if (type.isIndex())
    return "int64_t";
  auto integer = dyn_cast<IntegerType>(type);
  if (!integer)
    return "";
  switch (integer.getWidth()) {
  case 1:
    return "bool";
  case 8:
    return integer.isUnsigned() ? "uint8_t" : "int8_t";
  case 16:
    return integer.isUnsigned() ? "uint16_t" : "int16_t";
  case 32:
    return integer.isUnsigned() ? "uint32_t" : "int32_t";
  case 64:
    return integer.isUnsigned() ? "uint64_t" : "int64_t";
  default:
    return "";
  }
}

std::optional<rt::DType> dtypeOf(Type element) {
  if (element.isInteger(1))
    return rt::DType::Bool;
  std::string sort = element.isUnsignedInteger() ? "U" : "I";
  if (isa<FloatType>(element))
    sort = element.isBF16() ? "BF" : "F";
  return rt::fromText<rt::DType>(
      sort + std::to_string(element.getIntOrFloatBitWidth()));
}

namespace {

Value call(OpBuilder &b, Operation *op, StringRef name, ValueRange operands) {
  return emitc::CallOpaqueOp::create(
             b, op->getLoc(), TypeRange(scalarType(op->getResult(0).getType())),
             name, operands)
      .getResult(0);
}

Value castTo(OpBuilder &b, Location loc, Type type, Value value) {
  return value.getType() == type
             ? value
             : emitc::CastOp::create(b, loc, type, value).getResult();
}

Type unsignedOf(Type type) {
  return IntegerType::get(type.getContext(), type.getIntOrFloatBitWidth(),
                          IntegerType::Unsigned);
}

/// The op on operands seen as unsigned, with the result seen as signed again.
template <typename Op>
Value onUnsigned(OpBuilder &b, Operation *op, ValueRange x) {
  Type type = scalarType(op->getResult(0).getType()), u = unsignedOf(type);
  Location loc = op->getLoc();
  return castTo(
      b, loc, type,
      Op::create(b, loc, u, castTo(b, loc, u, x[0]), castTo(b, loc, u, x[1])));
}

template <typename Op> Value binary(OpBuilder &b, Operation *op, ValueRange x) {
  return Op::create(b, op->getLoc(), scalarType(op->getResult(0).getType()),
                    x[0], x[1]);
}

Value compare(OpBuilder &b, Location loc, emitc::CmpPredicate predicate,
              Value x, Value y) {
  return emitc::CmpOp::create(b, loc, b.getI1Type(), predicate, x, y);
}

Value negate(OpBuilder &b, Location loc, Value x) {
  return emitc::LogicalNotOp::create(b, loc, b.getI1Type(), x);
}

Value convertCmpF(OpBuilder &b, arith::CmpFOp op, ValueRange x) {
  using P = arith::CmpFPredicate;
  using C = emitc::CmpPredicate;
  Location loc = op.getLoc();
  auto is = [&](C predicate) { return compare(b, loc, predicate, x[0], x[1]); };
  switch (op.getPredicate()) {
  case P::OEQ:
    return is(C::eq);
  case P::OGT:
    return is(C::gt);
  case P::OGE:
    return is(C::ge);
  case P::OLT:
    return is(C::lt);
  case P::OLE:
    return is(C::le);
  case P::UNE:
    return is(C::ne);
  // Unordered: true for NaN, so the opposite of the ordered opposite.
  case P::UGT:
    return negate(b, loc, is(C::le));
  case P::UGE:
    return negate(b, loc, is(C::lt));
  case P::ULT:
    return negate(b, loc, is(C::ge));
  case P::ULE:
    return negate(b, loc, is(C::gt));
  case P::ONE:
    return emitc::LogicalOrOp::create(b, loc, b.getI1Type(), is(C::lt),
                                      compare(b, loc, C::gt, x[2], x[3]));
  case P::UEQ:
    return negate(
        b, loc,
        emitc::LogicalOrOp::create(b, loc, b.getI1Type(), is(C::lt),
                                   compare(b, loc, C::gt, x[2], x[3])));
  case P::ORD:
  case P::UNO: {
    Value either = emitc::LogicalOrOp::create(
        b, loc, b.getI1Type(), compare(b, loc, C::ne, x[0], x[2]),
        compare(b, loc, C::ne, x[1], x[3]));
    return op.getPredicate() == P::UNO ? either : negate(b, loc, either);
  }
  case P::AlwaysFalse:
  case P::AlwaysTrue:
    return {};
  }
  return {};
}

Value convertCmpI(OpBuilder &b, arith::CmpIOp op, ValueRange x) {
  using C = emitc::CmpPredicate;
  // In the order of arith's: signed ones, then those of unsigned numbers.
  static constexpr C predicates[] = {C::eq, C::ne, C::lt, C::le, C::gt,
                                     C::ge, C::lt, C::le, C::gt, C::ge};
  Location loc = op.getLoc();
  Value l = x[0], r = x[1];
  if (op.getPredicate() >= arith::CmpIPredicate::ult) {
    Type u = unsignedOf(l.getType());
    l = castTo(b, loc, u, l);
    r = castTo(b, loc, u, r);
  }
  return compare(b, loc, predicates[size_t(op.getPredicate())], l, r);
}

/// One of two integers, by a comparison.
Value pick(OpBuilder &b, Operation *op, ValueRange x,
           emitc::CmpPredicate predicate, bool isUnsigned) {
  Location loc = op->getLoc();
  Value l = x[0], r = x[1];
  if (isUnsigned)
    l = castTo(b, loc, unsignedOf(l.getType()), l),
    r = castTo(b, loc, unsignedOf(r.getType()), r);
  return emitc::ConditionalOp::create(
      b, loc, x[0].getType(), compare(b, loc, predicate, l, r), x[2], x[3]);
}

/// Functions of one name for both float types. Generated files include no
/// header of the standard library for them: that would be most of their compile
/// time.
StringRef functionOf(Operation *op) {
  static const llvm::StringMap<StringRef> names = {
      {"math.exp", "dt::rt::exp"},
      {"math.expm1", "dt::rt::expm1"},
      {"math.log", "dt::rt::log"},
      {"math.log1p", "dt::rt::log1p"},
      {"math.tanh", "dt::rt::tanh"},
      {"math.erf", "dt::rt::erf"},
      {"math.sin", "dt::rt::sin"},
      {"math.cos", "dt::rt::cos"},
      {"math.sqrt", "dt::rt::sqrt"},
      {"math.rsqrt", "dt::rt::rsqrt"},
      {"math.absf", "dt::rt::abs"},
      {"math.floor", "dt::rt::floor"},
      {"math.ceil", "dt::rt::ceil"},
      {"math.roundeven", "dt::rt::round"},
      {"math.powf", "dt::rt::pow"},
      {"arith.maximumf", "dt::rt::maximum"},
      {"arith.minimumf", "dt::rt::minimum"},
      {"arith.maxnumf", "dt::rt::maxnum"},
      {"arith.minnumf", "dt::rt::minnum"},
      {"arith.remf", "dt::rt::fmod"},
      {"math.round", "dt::rt::roundAway"},
      {"math.trunc", "dt::rt::trunc"},
      {"math.exp2", "dt::rt::exp2"},
      {"math.log2", "dt::rt::log2"},
      {"math.log10", "dt::rt::log10"},
      {"math.tan", "dt::rt::tan"},
      {"math.asin", "dt::rt::asin"},
      {"math.acos", "dt::rt::acos"},
      {"math.atan", "dt::rt::atan"},
      {"math.atan2", "dt::rt::atan2"},
      {"math.sinh", "dt::rt::sinh"},
      {"math.cosh", "dt::rt::cosh"},
      {"math.asinh", "dt::rt::asinh"},
      {"math.acosh", "dt::rt::acosh"},
      {"math.atanh", "dt::rt::atanh"},
      {"math.erfc", "dt::rt::erfc"},
      {"math.cbrt", "dt::rt::cbrt"},
      {"math.copysign", "dt::rt::copysign"},
      {"math.fma", "dt::rt::fma"},
      {"math.isnan", "dt::rt::isNaN"},
      {"math.isinf", "dt::rt::isInf"},
      {"math.isfinite", "dt::rt::isFinite"},
      {"arith.floordivsi", "dt::rt::floorDiv"},
      {"arith.ceildivsi", "dt::rt::ceilDiv"},
      {"math.absi", "dt::rt::absInt"}};
  auto it = names.find(op->getName().getStringRef());
  return it == names.end() ? "" : it->second;
}

/// Casts: the C++ cast does what the op says once the sign is right.
Value convertCast(OpBuilder &b, Operation *op, Value x) {
  Type to = scalarType(op->getResult(0).getType());
  Location loc = op->getLoc();
  bool fromUnsigned =
      isa<arith::ExtUIOp, arith::UIToFPOp, arith::IndexCastUIOp>(op);
  if (fromUnsigned && !x.getType().isInteger(1))
    return castTo(b, loc, to, castTo(b, loc, unsignedOf(x.getType()), x));
  if (isa<arith::FPToUIOp>(op))
    return castTo(b, loc, to, castTo(b, loc, unsignedOf(to), x));
  // true is -1 as a signed number of one bit.
  if (isa<arith::ExtSIOp, arith::SIToFPOp>(op) && x.getType().isInteger(1))
    return emitc::UnaryMinusOp::create(b, loc, to, castTo(b, loc, to, x));
  if (isa<arith::TruncIOp>(op) && to.isInteger(1)) {
    Value one = emitc::ConstantOp::create(b, loc, x.getType(),
                                          b.getIntegerAttr(x.getType(), 1));
    return castTo(b, loc, to,
                  emitc::BitwiseAndOp::create(b, loc, x.getType(), x, one));
  }
  return castTo(b, loc, to, x);
}

} // namespace

bool repeatsOperands(Operation *op) {
  if (auto cmp = dyn_cast<arith::CmpFOp>(op)) {
    auto p = cmp.getPredicate();
    return p == arith::CmpFPredicate::ONE || p == arith::CmpFPredicate::UEQ ||
           p == arith::CmpFPredicate::ORD || p == arith::CmpFPredicate::UNO;
  }
  return isa<arith::MaxSIOp, arith::MinSIOp, arith::MaxUIOp, arith::MinUIOp>(
      op);
}

Value convertScalar(OpBuilder &b, Operation *op, ValueRange x) {
  using C = emitc::CmpPredicate;
  if (!scalarType(op->getResult(0).getType()))
    return {};
  if (StringRef function = functionOf(op); !function.empty())
    return call(b, op, function, x);
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case<arith::AddFOp, arith::AddIOp>(
          [&](Operation *o) { return binary<emitc::AddOp>(b, o, x); })
      .Case<arith::SubFOp, arith::SubIOp>(
          [&](Operation *o) { return binary<emitc::SubOp>(b, o, x); })
      .Case<arith::MulFOp, arith::MulIOp>(
          [&](Operation *o) { return binary<emitc::MulOp>(b, o, x); })
      .Case<arith::DivFOp, arith::DivSIOp>(
          [&](Operation *o) { return binary<emitc::DivOp>(b, o, x); })
      .Case<arith::RemSIOp>(
          [&](Operation *o) { return binary<emitc::RemOp>(b, o, x); })
      .Case<arith::DivUIOp>(
          [&](Operation *o) { return onUnsigned<emitc::DivOp>(b, o, x); })
      .Case<arith::RemUIOp>(
          [&](Operation *o) { return onUnsigned<emitc::RemOp>(b, o, x); })
      .Case<arith::AndIOp>(
          [&](Operation *o) { return binary<emitc::BitwiseAndOp>(b, o, x); })
      .Case<arith::OrIOp>(
          [&](Operation *o) { return binary<emitc::BitwiseOrOp>(b, o, x); })
      .Case<arith::XOrIOp>(
          [&](Operation *o) { return binary<emitc::BitwiseXorOp>(b, o, x); })
      .Case<arith::ShLIOp>([&](Operation *o) {
        return binary<emitc::BitwiseLeftShiftOp>(b, o, x);
      })
      .Case<arith::ShRSIOp>([&](Operation *o) {
        return binary<emitc::BitwiseRightShiftOp>(b, o, x);
      })
      .Case<arith::ShRUIOp>([&](Operation *o) {
        return onUnsigned<emitc::BitwiseRightShiftOp>(b, o, x);
      })
      .Case<arith::MaxSIOp>(
          [&](Operation *o) { return pick(b, o, x, C::gt, false); })
      .Case<arith::MinSIOp>(
          [&](Operation *o) { return pick(b, o, x, C::lt, false); })
      .Case<arith::MaxUIOp>(
          [&](Operation *o) { return pick(b, o, x, C::gt, true); })
      .Case<arith::MinUIOp>(
          [&](Operation *o) { return pick(b, o, x, C::lt, true); })
      .Case<arith::CmpFOp>(
          [&](arith::CmpFOp o) { return convertCmpF(b, o, x); })
      .Case<arith::CmpIOp>(
          [&](arith::CmpIOp o) { return convertCmpI(b, o, x); })
      .Case<arith::NegFOp>([&](Operation *o) {
        return emitc::UnaryMinusOp::create(b, o->getLoc(), x[0].getType(),
                                           x[0]);
      })
      .Case<arith::SelectOp>([&](arith::SelectOp o) {
        return emitc::ConditionalOp::create(b, o.getLoc(), x[1].getType(), x[0],
                                            x[1], x[2]);
      })
      .Case<arith::SIToFPOp, arith::UIToFPOp, arith::FPToSIOp, arith::FPToUIOp,
            arith::ExtFOp, arith::TruncFOp, arith::ExtSIOp, arith::ExtUIOp,
            arith::TruncIOp, arith::IndexCastOp, arith::IndexCastUIOp>(
          [&](Operation *o) { return convertCast(b, o, x[0]); })
      .Default([](Operation *) { return Value(); });
}

} // namespace dt::codegen
