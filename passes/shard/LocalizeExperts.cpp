//===- LocalizeExperts.cpp - Experts and rows of one rank -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/shard/Localize.h"
#include "passes/shard/Maker.h"
#include "passes/shard/SendRows.h"

using namespace mlir;
using namespace dt;
using namespace dt::shard;
using nn::DimExpr;

namespace {

nn::DimAttr localRoom(Operation *op, const Axis &axis) {
  auto room = getLocalRoom(op, axis);
  return room ? nn::DimAttr::get(op->getContext(), *room) : nn::DimAttr();
}

//===----------------------------------------------------------------------===//
// Rows that travel
//===----------------------------------------------------------------------===//

/// Two lists in one vector (SendRows.h), for each 1 of their symbol.
struct Lists {
  DimExpr unit, first, second; ///< numbers of a unit

  Lists(const DimExpr &a, const DimExpr &b)
      : unit(*a.exactDiv(DimExpr(a.terms()[0].coefficient))),
        first(a.terms()[0].coefficient), second(b.terms()[0].coefficient) {}

  Value join(Maker &m, Value a, Value b) const {
    Value columns[] = {shaped(m, a, {unit, first}),
                       shaped(m, b, {unit, second})};
    Value both = nn::ConcatOp::create(m.builder, m.loc, ValueRange(columns), 1);
    return shaped(m, both, {unit * (first + second)});
  }
  std::pair<Value, Value> split(Maker &m, Value both) const {
    // What was joined in this function is at hand.
    if (auto joined = nn::throughReshapes(both).getDefiningOp<nn::ConcatOp>())
      return {nn::throughReshapes(joined.getInputs()[0]),
              nn::throughReshapes(joined.getInputs()[1])};
    Value rows = shaped(m, both, {unit, first + second});
    return {take(m, rows, 0, first), take(m, rows, first.constant(), second)};
  }

private:
  static Value shaped(Maker &m, Value v, const nn::Shape &shape) {
    return m.like(v, nn::makeTensorType(shape, getElementTypeOrSelf(v)));
  }
  Value take(Maker &m, Value rows, int64_t from, const DimExpr &size) const {
    Type type = nn::makeTensorType({unit, size}, getElementTypeOrSelf(rows));
    Value part = nn::SliceOp::create(m.builder, m.loc, type, rows, {0, from},
                                     {1, 1}, ArrayRef<bool>());
    return shaped(m, part, {unit * size});
  }
};

/// Slots for each rank go there; those from each one come in its place.
Value exchange(Maker &m, Value slots, const Sending &s, const Axis &axis) {
  nn::Shape shape = nn::getShape(slots), to{DimExpr(1), DimExpr(s.ranks)};
  to.push_back(s.each());
  llvm::append_range(to, ArrayRef(shape).drop_front());
  nn::Shape from = to;
  std::swap(from[0], from[1]);
  Type element = getElementTypeOrSelf(slots);
  Value sent = m.like(slots, nn::makeTensorType(to, element));
  Value came = dist::AllToAllOp::create(m.builder, m.loc,
                                        nn::makeTensorType(from, element), sent,
                                        0, 1, 1, 1, axis.over, axis.stride);
  return m.like(came, slots.getType());
}

/// Rows in slots for each rank; where those that come stand. A slot without a
/// row has the number that is of no expert, the last one of a capacity.
SmallVector<Value> sendRoute(nn::RouteOp route, Maker &m, ValueRange operands,
                             Value firstOwn, const FactorCut &cut,
                             const Sending &s) {
  OpBuilder &b = m.builder;
  auto send = nn::RouteOp::create(
      b, m.loc, operands[0], operands[1], route.getCountAttr(),
      b.getI64IntegerAttr(route.getPlaced()), nn::DimAttr(),
      b.getI64IntegerAttr(s.ranks), nn::DimAttr::get(b.getContext(), s.each()));
  Value order = send.getOrder();
  Type i32 = getElementTypeOrSelf(order),
       element = getElementTypeOrSelf(operands[0]);
  Value chosen = nn::GatherOp::create(b, m.loc, operands[0], order, 0,
                                      /*zero_out_of_range=*/true);
  Value empty = m.compare(nn::Compare::lt, order, m.integer(0, i32));
  Value none = m.integer(int64_t(route.getCount()) - 1, element);
  Value came = exchange(m, m.select(empty, none, chosen), s, cut.axis);
  auto own = nn::RouteOp::create(b, m.loc, came, firstOwn, route.getCountAttr(),
                                 b.getI64IntegerAttr(cut.chunk),
                                 localRoom(route, cut.axis), IntegerAttr(),
                                 nn::DimAttr());
  return {Lists(s.slots, s.room).join(m, order, own.getOrder()),
          Lists(s.rows, s.slots).join(m, send.getPlace(), own.getPlace()),
          own.getOffsets()};
}

/// What says where rows stand, of nn.dispatch and nn.combine.
struct Places {
  Value slotRows, rowSlots; ///< order: rows of slots, slots of own rows
  Value slotOf, rowOf;      ///< place: their inverses

  Places(Maker &m, ValueRange operands, const Sending &s) {
    std::tie(slotRows, rowSlots) = Lists(s.slots, s.room).split(m, operands[1]);
    std::tie(slotOf, rowOf) = Lists(s.rows, s.slots).split(m, operands[2]);
  }
};

Value sendRows(nn::DispatchOp op, Maker &m, ValueRange operands,
               const Axis &axis, const Sending &s) {
  Places p(m, operands, s);
  IntegerAttr one = m.builder.getI64IntegerAttr(1);
  Value slots =
      nn::DispatchOp::create(m.builder, m.loc, operands[0], p.slotRows,
                             p.slotOf, op.getEachAttr(), one, nn::DimAttr());
  Value came = exchange(m, slots, s, axis);
  return nn::DispatchOp::create(m.builder, m.loc, came, p.rowSlots, p.rowOf,
                                one, one, nn::DimAttr());
}

Value sendRows(nn::CombineOp op, Maker &m, ValueRange operands,
               const Axis &axis, const Sending &s) {
  Places p(m, operands, s);
  IntegerAttr one = m.builder.getI64IntegerAttr(1);
  Value slots = nn::CombineOp::create(m.builder, m.loc, operands[0], p.rowSlots,
                                      p.rowOf, one, one, nn::DimAttr());
  Value home = exchange(m, slots, s, axis);
  return nn::CombineOp::create(m.builder, m.loc, home, p.slotRows, p.slotOf,
                               op.getEachAttr(), one, nn::DimAttr());
}

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

/// The experts of a rank: from those of an axis that has cut them already.
struct RouteModel
    : LocalizeOpInterface::ExternalModel<RouteModel, nn::RouteOp> {
  SmallVector<Value> localize(Operation *op, OpBuilder &builder,
                              ValueRange operands, TypeRange types,
                              const FactorCut &cut) const {
    auto route = cast<nn::RouteOp>(op);
    Maker m(builder, op->getLoc());
    Value first = buildOffset(builder, op->getLoc(), cut);
    if (route.getFirst())
      first = m.make<nn::AddOp>(operands[1], first);
    if (cut.sends)
      return sendRoute(route, m, operands, first, cut,
                       *findSending(op, *cut.rule, cut.axis));
    auto local = nn::RouteOp::create(
        builder, op->getLoc(), operands[0], first, route.getCountAttr(),
        builder.getI64IntegerAttr(cut.chunk), localRoom(op, cut.axis),
        IntegerAttr(), nn::DimAttr());
    return {local->getResults().begin(), local->getResults().end()};
  }
};

/// What works on rows in the order of experts, of which a rank has a part.
template <typename OpT>
struct PartsModel : LocalizeOpInterface::ExternalModel<PartsModel<OpT>, OpT> {
  SmallVector<Value> localize(Operation *op, OpBuilder &builder,
                              ValueRange operands, TypeRange types,
                              const FactorCut &cut) const {
    if constexpr (std::is_same_v<OpT, nn::DispatchOp> ||
                  std::is_same_v<OpT, nn::CombineOp>)
      if (cut.sends) {
        Maker m(builder, op->getLoc());
        return {sendRows(cast<OpT>(op), m, operands, cut.axis,
                         *findSending(op, *cut.rule, cut.axis))};
      }
    auto local = cast<OpT>(cloneLocal(builder, op, operands, types));
    if (cut.rule->factors[cut.factor].kind != nn::FactorKind::routed)
      return {local.getResult()};
    // Of rows in less room a rank has about all.
    int64_t ranks = takesLess(op, *cut.rule, cut.axis) ? 1 : cut.axis.over;
    local.setParts(local.getParts().value_or(1) * ranks);
    local.setRoomAttr(localRoom(op, cut.axis));
    return {local.getResult()};
  }
};

} // namespace

void dt::shard::registerLocalizeExpertModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, nn::NNDialect *) {
    nn::RouteOp::attachInterface<RouteModel>(*context);
    nn::DispatchOp::attachInterface<PartsModel<nn::DispatchOp>>(*context);
    nn::CombineOp::attachInterface<PartsModel<nn::CombineOp>>(*context);
    nn::GroupedLinearOp::attachInterface<PartsModel<nn::GroupedLinearOp>>(
        *context);
    nn::GroupedLinearDwOp::attachInterface<PartsModel<nn::GroupedLinearDwOp>>(
        *context);
    nn::GroupedSumOp::attachInterface<PartsModel<nn::GroupedSumOp>>(*context);
  });
}
