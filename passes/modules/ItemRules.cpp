//===- ItemRules.cpp - How each op treats the item axis ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A rule gives the state of an op's results from those of its operands. What no
// rule knows counts as mixing items: a wrong cut would train silently.
//
//===----------------------------------------------------------------------===//

#include "passes/modules/ItemRules.h"
#include "passes/modules/Denominator.h"

using namespace mlir;

namespace dt::modules {

namespace {

ItemState sameItem(ItemState state, int64_t axis) {
  state.axis = axis;
  return state;
}

} // namespace

ItemState aligned(Operation *op, States operands) {
  int64_t rank = rankOf(op->getResult(0));
  std::optional<ItemState> result;
  bool index = true;
  for (auto [operand, state] : llvm::zip(op->getOperands(), operands)) {
    if (state.is(kInvariant))
      continue;
    if (!state.is(kPerItem))
      return ItemState::coupled(op,
                                "combines a sum over items with other values");
    ItemState moved = sameItem(state, state.axis + rank - rankOf(operand));
    if (result && result->axis != moved.axis)
      return ItemState::coupled(op, "combines every item with every other",
                                true);
    if (result && result->major != moved.major)
      return ItemState::coupled(op, "combines items in different orders");
    index &= state.declaredIndex;
    result = moved;
  }
  if (!result)
    return {};
  result->declaredIndex = index;
  bool same = isa<nn::CastOp>(op) &&
              getElementTypeOrSelf(op->getResult(0)).isIntOrIndex();
  result->isOwnNumber &= same;
  result->leadsWithOwnNumber &= same;
  return *result;
}

namespace {

/// Elementwise ops: linear ones keep a sum over items a sum.
ItemState elementwise(Operation *op, States operands) {
  if (!anyIs(operands, kSum))
    return aligned(op, operands);
  bool linear = false;
  if (isa<nn::NegOp>(op))
    linear = true;
  else if (isa<nn::CastOp>(op))
    linear = isa<FloatType>(getElementTypeOrSelf(op->getResult(0)));
  else if (isa<nn::AddOp, nn::SubOp>(op))
    linear = allAre(operands, kSum);
  else if (isa<nn::MulOp>(op))
    linear = anyIs(operands, kInvariant);
  else if (isa<nn::DivOp>(op))
    linear = operands[0].is(kSum) && operands[1].is(kInvariant);
  else if (isa<nn::WhereOp>(op))
    linear = operands[0].is(kInvariant) &&
             llvm::all_of(ArrayRef<unsigned>{1, 2}, [&](unsigned i) {
               return operands[i].is(kSum) || splatOf(op->getOperand(i)) == 0.0;
             });
  return linear ? ItemState::sum()
                : ItemState::coupled(op, "is not linear in a sum over items");
}

nn::DimExpr outerSize(Value value, int64_t axis) {
  nn::Shape shape = nn::getShape(value);
  nn::DimExpr size = 1;
  for (int64_t i = 0; i < axis; ++i)
    size = size * shape[i];
  return size;
}

/// Row-major order is kept, hence what stands outside the item stays outside.
ItemState reshape(nn::ReshapeOp op, const ItemState &state,
                  const ItemAnalysis &analysis) {
  if (!state.is(kPerItem))
    return state;
  SmallVector<int64_t> axes = analysis.getItemAxes(op.getType());
  if (axes.size() != 1)
    return ItemState::coupled(op, "spreads the items over axes");
  auto outer = outerSize(op.getInput(), state.axis) * state.major;
  auto major = outer.exactDiv(outerSize(op.getResult(), axes[0]));
  if (!major)
    return ItemState::coupled(op, "changes the order of items");
  ItemState result = sameItem(state, axes[0]);
  result.major = *major;
  nn::Shape from = nn::getShape(op.getInput()),
            to = nn::getShape(op.getResult());
  result.leadsWithOwnNumber &=
      !from.empty() && !to.empty() && from.back() == to.back();
  return result;
}

ItemState broadcast(nn::BroadcastOp op, const ItemState &state,
                    const ItemAnalysis &analysis) {
  SmallVector<int64_t> axes = analysis.getItemAxes(op.getType());
  if (state.is(kSum))
    return axes.empty()
               ? state
               : ItemState::coupled(op, "gives every item a sum over items");
  if (axes.size() > 1)
    return ItemState::coupled(op, "repeats every item for every other", true);
  if (state.is(kPerItem))
    return sameItem(state, axes[0]);
  return axes.empty() ? ItemState() : ItemState::perItem(axes[0]);
}

ItemState transpose(nn::TransposeOp op, const ItemState &state) {
  if (!state.is(kPerItem))
    return state;
  ItemState result = state;
  result.axis =
      llvm::find(op.getPermutation(), state.axis) - op.getPermutation().begin();
  result.leadsWithOwnNumber = false;
  return result;
}

ItemState slice(nn::SliceOp op, const ItemState &state) {
  if (!state.is(kPerItem))
    return state;
  nn::Shape from = nn::getShape(op.getInput()),
            to = nn::getShape(op.getResult());
  if (from[state.axis] != to[state.axis] || op.getSteps()[state.axis] != 1)
    return ItemState::coupled(op, "takes some of the items");
  ItemState result = state;
  result.leadsWithOwnNumber &= from.back() == to.back();
  return result;
}

ItemState pad(nn::PadOp op, const ItemState &state) {
  if (state.is(kSum))
    return op.getValue().isZero()
               ? state
               : ItemState::coupled(op, "pads a sum over items");
  if (!state.is(kPerItem))
    return state;
  if (nn::getShape(op.getInput())[state.axis] !=
      nn::getShape(op.getResult())[state.axis])
    return ItemState::coupled(op, "adds rows to the items");
  ItemState result = state;
  result.isOwnNumber = result.leadsWithOwnNumber = false;
  return result;
}

ItemState concat(nn::ConcatOp op, States operands) {
  if (allAre(operands, kSum))
    return ItemState::sum();
  if (allAre(operands, kInvariant)) // a table of angles
    return ItemState();
  if (!allAre(operands, kPerItem))
    return ItemState::coupled(op, "joins items with other values");
  int64_t axis = op.getAxis();
  ItemState result = operands[0];
  for (const ItemState &state : operands) {
    if (state.axis != result.axis || state.major != result.major)
      return ItemState::coupled(op, "joins items in different orders");
    result.declaredIndex &= state.declaredIndex;
  }
  result.isOwnNumber = false;
  result.leadsWithOwnNumber = operands[0].isOwnNumber &&
                              axis == rankOf(op.getResult()) - 1 &&
                              axis != result.axis;
  if (axis != result.axis)
    return result;
  nn::DimExpr size = nn::getShape(op.getOperand(0))[axis];
  for (Value operand : op.getInputs())
    if (nn::getShape(operand)[axis] != size || result.major != nn::DimExpr(1))
      return ItemState::coupled(op, "joins items along their own axis");
  result.major = int64_t(op.getInputs().size());
  return result;
}

ItemState reduce(nn::ReduceOp op, const ItemState &state,
                 bool localStatistics) {
  bool linear = op.getKind() == nn::ReduceKind::sum ||
                op.getKind() == nn::ReduceKind::mean;
  if (!state.is(kPerItem)) {
    if (state.is(kSum) && !linear)
      return ItemState::coupled(op, "is not linear in a sum over items");
    return state;
  }
  ArrayRef<int64_t> axes = op.getAxes();
  if (!llvm::is_contained(axes, state.axis)) {
    ItemState result = state;
    if (!op.getKeepdims())
      result.axis -=
          llvm::count_if(axes, [&](int64_t a) { return a < state.axis; });
    result.declaredIndex = result.isOwnNumber = result.leadsWithOwnNumber =
        false;
    return result;
  }
  if (op.getKind() == nn::ReduceKind::sum)
    return ItemState::sum();
  bool statistics = op.getKind() == nn::ReduceKind::mean &&
                    int64_t(axes.size()) < rankOf(op.getInput());
  if (statistics && localStatistics)
    return {};
  return ItemState::coupled(
      op, statistics
              ? "takes a mean over all items (batch normalisation in "
                "training form? the recipe may say \"batch_norm\": \"local\")"
              : "combines all items");
}

/// What a running count may go through on its way to be an index.
bool keepsRunningCount(Operation *op) {
  bool integer = getElementTypeOrSelf(op->getResult(0)).isIntOrIndex();
  return integer && isa<nn::ReshapeOp, nn::CastOp, nn::AddOp, nn::SubOp,
                        nn::MulOp, nn::MaxOp, nn::MinOp, nn::WhereOp>(op);
}

/// Whether numbers of rows become something else than rows picked by them.
bool losesOwnNumber(Operation *op, States operands, const ItemState &result) {
  for (auto [i, state] : llvm::enumerate(operands))
    if (state.hasOwnNumber() && !result.hasOwnNumber() &&
        !(i == 1 && picksItems(op, operands)))
      return true;
  return false;
}

ItemState alongAxis(Operation *op, const ItemState &state, int64_t axis) {
  if (!state.is(kPerItem))
    return state.is(kSum)
               ? ItemState::coupled(op, "is not linear in a sum over items")
               : state;
  if (state.axis == axis)
    return ItemState::coupled(op, "works along the axis of items");
  return state;
}

ItemState cumsum(nn::CumsumOp op, const ItemState &state) {
  bool counts = state.is(kPerItem) && state.axis == int64_t(op.getAxis()) &&
                state.major == nn::DimExpr(1) &&
                getElementTypeOrSelf(op.getResult()).isInteger();
  if (!counts) {
    ItemState result = alongAxis(op, state, op.getAxis());
    result.isOwnNumber = result.leadsWithOwnNumber = false;
    return result;
  }
  ItemState result = ItemState::perItem(state.axis);
  result.isRunningCount = true;
  result.culprit = op;
  return result;
}

ItemState linear(nn::LinearOp op, States operands) {
  if (!allAre(operands.drop_front(), kInvariant))
    return ItemState::coupled(op, "has weights that depend on items", true);
  const ItemState &state = operands[0];
  if (state.is(kSum))
    return op.getBias()
               ? ItemState::coupled(op, "adds a bias to a sum over items")
               : state;
  return alongAxis(op, state, rankOf(op.getInput()) - 1);
}

ItemState matmul(nn::MatmulOp op, States operands) {
  int64_t rank = rankOf(op.getResult());
  std::optional<int64_t> axis;
  unsigned contracted = 0, given = 0;
  nn::DimExpr major = 1;
  for (auto [i, state] : llvm::enumerate(operands)) {
    if (state.is(kSum))
      return operands[1 - i].is(kInvariant)
                 ? ItemState::sum()
                 : ItemState::coupled(op, "is not linear in a sum over items");
    if (state.is(kInvariant))
      continue;
    ++given;
    major = state.major;
    int64_t own = rankOf(op->getOperand(i));
    // From the right: 0 is the last axis. lhs [m, k], rhs [k, n].
    int64_t fromRight = own - 1 - state.axis;
    bool swapped = i == 0 ? op.getTransA() : op.getTransB();
    int64_t inner = (i == 0) != swapped ? 0 : 1;
    if (fromRight == inner) {
      ++contracted;
      continue;
    }
    int64_t place = fromRight > 1 ? fromRight : (i == 0 ? 1 : 0);
    if (axis && *axis != rank - 1 - place)
      return ItemState::coupled(op, "compares every item with every other",
                                true);
    axis = rank - 1 - place;
  }
  if (contracted == 0)
    return axis ? ItemState::perItem(*axis, major) : ItemState();
  if (contracted == given && !axis)
    return ItemState::sum();
  return ItemState::coupled(
      op, "sums over items what other items are multiplied with", true);
}

/// Item axis 0 of the data, weights without items.
ItemState leading(Operation *op, States operands, unsigned data) {
  std::optional<ItemState> result;
  for (auto [i, state] : llvm::enumerate(operands)) {
    if (state.is(kInvariant))
      continue;
    if (!state.is(kPerItem) || state.axis != 0 || i >= data)
      return ItemState::coupled(op, "needs the items on the first axis");
    if (result && result->major != state.major)
      return ItemState::coupled(op, "combines items in different orders");
    result = state;
  }
  return result.value_or(ItemState());
}

ItemState rotary(nn::RotaryOp op, States operands) {
  for (auto [operand, state] : llvm::zip(op->getOperands(), operands))
    if (state.is(kPerItem) && rankOf(operand) == 2)
      return ItemState::coupled(op, "turns by angles of another item");
  return leading(op, operands, 3);
}

ItemState attention(nn::AttentionOp op, States operands) {
  SmallVector<ItemState> moved(operands);
  if (Value mask = op.getMask(); mask && moved[3].is(kPerItem))
    moved[3].axis += 4 - rankOf(mask); // masks broadcast to [b, h, t, s]
  return leading(op, moved, moved.size());
}

ItemState norm(Operation *op, States operands, int64_t axes) {
  if (!allAre(operands.drop_front(), kInvariant))
    return ItemState::coupled(op, "has a scale that depends on items");
  const ItemState &state = operands[0];
  if (state.is(kPerItem) && state.axis < rankOf(op->getOperand(0)) - axes)
    return state;
  return state.is(kInvariant) ? state
                              : ItemState::coupled(op, "normalises over items");
}

ItemState transfer(Operation *op, States s, const ItemAnalysis &analysis) {
  return TypeSwitch<Operation *, ItemState>(op)
      .Case<nn::GenerateOp>(
          [&](auto o) { return transferGenerate(o, analysis); })
      .Case<nn::ReshapeOp>([&](auto o) { return reshape(o, s[0], analysis); })
      .Case<nn::BroadcastOp>(
          [&](auto o) { return broadcast(o, s[0], analysis); })
      .Case<nn::TransposeOp>([&](auto o) { return transpose(o, s[0]); })
      .Case<nn::SliceOp>([&](auto o) { return slice(o, s[0]); })
      .Case<nn::PadOp>([&](auto o) { return pad(o, s[0]); })
      .Case<nn::ConcatOp>([&](auto o) { return concat(o, s); })
      .Case<nn::ReduceOp>([&](auto o) {
        return reduce(o, s[0], analysis.takesLocalStatistics());
      })
      .Case<nn::CumsumOp>([&](auto o) { return cumsum(o, s[0]); })
      .Case<nn::SoftmaxOp, nn::LogSoftmaxOp>(
          [&](auto o) { return alongAxis(o, s[0], o.getAxis()); })
      .Case<nn::ArgMaxOp>([&](auto o) {
        ItemState state = alongAxis(o, s[0], o.getAxis());
        if (!state.is(kPerItem))
          return state;
        bool drops = !o.getKeepdims() && state.axis > int64_t(o.getAxis());
        return ItemState::perItem(state.axis - drops, state.major);
      })
      .Case<nn::TopKOp>([&](auto o) {
        // Indices are places along the axis, whatever the input's numbers are.
        ItemState state = alongAxis(o, s[0], o.getAxis());
        return state.is(kPerItem) ? ItemState::perItem(state.axis, state.major)
                                  : state;
      })
      .Case<nn::LinearOp>([&](auto o) { return linear(o, s); })
      .Case<nn::MatmulOp>([&](auto o) { return matmul(o, s); })
      .Case<nn::ConvOp, nn::ConvDxOp, nn::PoolOp, nn::GroupNormOp>(
          [&](auto o) { return leading(o, s, 1); })
      .Case<nn::AttentionOp>([&](auto o) { return attention(o, s); })
      .Case<nn::RotaryOp>([&](auto o) { return rotary(o, s); })
      .Case<nn::LayerNormOp, nn::RmsNormOp>(
          [&](auto o) { return norm(o, s, o.getAxes()); })
      .Case<nn::GatherOp>([&](auto o) { return gather(o, s); })
      .Case<nn::GatherElementsOp>([&](auto o) { return gatherElements(o, s); })
      .Case<nn::GatherNdOp>([&](auto o) { return gatherNd(o, s); })
      .Case<nn::ScatterNdOp>([&](auto o) { return scatterNd(o, s); })
      .Case<nn::CrossEntropyOp>([&](auto o) { return crossEntropy(o, s); })
      .Case<nn::ScalarOpInterface>([&](auto) { return elementwise(op, s); })
      .Default([&](Operation *) {
        if (allAre(s, kInvariant))
          return ItemState();
        return ItemState::coupled(op, "is not known to treat items alone");
      });
}

} // namespace

SmallVector<ItemState> transferItems(Operation *op, States operands,
                                     const ItemAnalysis &analysis) {
  SmallVector<ItemState> results(op->getNumResults());
  if (results.empty())
    return results;
  auto *coupled = llvm::find_if(
      operands, [](const ItemState &s) { return s.is(ItemState::Coupled); });
  if (coupled != operands.end()) {
    llvm::fill(results, *coupled);
    return results;
  }
  auto *count = llvm::find_if(
      operands, [](const ItemState &s) { return s.isRunningCount; });
  bool counts = count != operands.end();
  if (counts && !keepsRunningCount(op) &&
      !(isa<nn::GatherOp>(op) && count == &operands[1])) {
    llvm::fill(results, ItemState::coupled(count->culprit,
                                           "works along the axis of items"));
    return results;
  }
  ItemState state = transfer(op, operands, analysis);
  if (!state.is(ItemState::Coupled) && losesOwnNumber(op, operands, state))
    state = ItemState::coupled(op, kNumberInPart);
  if (counts && state.is(kPerItem) && keepsRunningCount(op)) {
    state.isRunningCount = true;
    state.culprit = count->culprit;
  }
  for (auto [result, value] : llvm::zip(results, op->getResults())) {
    SmallVector<int64_t> axes = analysis.getItemAxes(value.getType());
    result = state;
    bool fits = state.is(ItemState::Coupled) ||
                (state.is(kPerItem) ? axes.size() == 1 && axes[0] == state.axis
                                    : axes.empty());
    if (!fits && state.is(kInvariant) && axes.size() == 1)
      result = ItemState::coupled(
          op, "gives items rows by their place in the batch");
    else if (!fits)
      result = ItemState::coupled(op, "combines every item with every other",
                                  axes.size() > 1);
  }
  return results;
}

} // namespace dt::modules
