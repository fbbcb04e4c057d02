//===- Creation.cpp - Tensors from nothing, regions of scalars --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNInference.h"
#include "dialects/nn/NNNumbers.h"
#include "dialects/nn/NNRuleBuilder.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace dt::nn;

/// Made from nothing: any part can be made alone, knowing its place.
static ShardingRule creationRule(Operation *op) {
  RuleBuilder b(op);
  b.result(0, b.letters(getShape(op->getResult(0)), FactorKind::blocked));
  return b.finish();
}

LogicalResult ConstantOp::verify() {
  constexpr int64_t limit = 65536;
  if (getValue().getType() != getType())
    return emitOpError() << "value is " << getValue().getType();
  if (!getValue().isSplat() && getValue().getNumElements() > limit)
    return emitOpError() << "has " << getValue().getNumElements()
                         << " elements, more than " << limit
                         << ": make it a parameter or an nn.generate";
  return success();
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

ShardingRule ConstantOp::getShardingRule() { return creationRule(*this); }

LogicalResult GenerateOp::verify() {
  Block &block = getBody().front();
  Type element = scalarOf(getResult());
  if (block.getNumArguments() != getShape(getResult()).size() ||
      !llvm::all_of(block.getArgumentTypes(), llvm::IsaPred<IndexType>))
    return emitOpError("region must take one index a dim");
  auto yield =
      dyn_cast_or_null<YieldOp>(block.empty() ? nullptr : &block.back());
  if (!yield || yield.getValues().size() != 1 ||
      yield.getValues()[0].getType() != element)
    return emitOpError() << "region must yield one " << element;
  return success();
}

ShardingRule GenerateOp::getShardingRule() { return creationRule(*this); }

// Exporters write positions as functions of indices, also along the batch: a
// row's own place (to pick from flattened rows), or a place inside the item (a
// mask that is repeated for every item). Both are the same whatever part an
// item is in.

namespace {
/// c + the sum of a[i] * argument i.
struct IndexForm {
  int64_t constant = 0;
  SmallVector<int64_t> factors;
};

std::optional<IndexForm> parse(Value value, Block &body) {
  IndexForm result{0, SmallVector<int64_t>(body.getNumArguments(), 0)};
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    result.factors[argument.getArgNumber()] = 1;
    return result;
  }
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant))) {
    result.constant = constant.getSExtValue();
    return result;
  }
  Operation *op = value.getDefiningOp();
  if (isa<arith::IndexCastOp>(op))
    return parse(op->getOperand(0), body);
  if (!isa<arith::AddIOp, arith::MulIOp>(op))
    return std::nullopt;
  auto lhs = parse(op->getOperand(0), body),
       rhs = parse(op->getOperand(1), body);
  if (!lhs || !rhs)
    return std::nullopt;
  if (isa<arith::AddIOp>(op)) {
    lhs->constant += rhs->constant;
    for (auto [sum, factor] : llvm::zip(lhs->factors, rhs->factors))
      sum += factor;
    return lhs;
  }
  if (llvm::any_of(lhs->factors, [](int64_t f) { return f != 0; }))
    std::swap(lhs, rhs);
  if (llvm::any_of(lhs->factors, [](int64_t f) { return f != 0; }))
    return std::nullopt;
  rhs->constant *= lhs->constant;
  for (int64_t &factor : rhs->factors)
    factor *= lhs->constant;
  return rhs;
}

/// Rows from item to item, if element at index i of `axis` is in [i * rows, (i
/// + 1) * rows).
std::optional<int64_t> getOwnRows(GenerateOp op, int64_t axis) {
  Block &body = op.getBody().front();
  auto form = parse(body.getTerminator()->getOperand(0), body);
  if (!form || form->constant < 0)
    return std::nullopt;
  int64_t last = form->constant;
  Shape shape = getShape(op.getResult());
  for (auto [i, factor] : llvm::enumerate(form->factors)) {
    if (int64_t(i) == axis || factor == 0)
      continue;
    auto size = shape[i].asConstant();
    if (factor < 0 || !size)
      return std::nullopt;
    last += factor * (*size - 1);
  }
  int64_t rows = form->factors[axis];
  return rows > last ? std::optional(rows) : std::nullopt;
}

/// Whether the number of the row counts only as its place inside the item.
bool isPlaceInItem(BlockArgument number, const DimExpr &size) {
  return llvm::all_of(number.getUses(), [&](OpOperand &use) {
    APInt period;
    return isa<arith::RemSIOp, arith::RemUIOp>(use.getOwner()) &&
           use.getOperandNumber() == 0 &&
           matchPattern(use.getOwner()->getOperand(1),
                        m_ConstantInt(&period)) &&
           period.isStrictlyPositive() && size.exactDiv(period.getSExtValue());
  });
}

bool countsItems(GenerateOp op, const ItemContext &context) {
  bool counts = false;
  op.getBody().walk([&](SizeOp size) {
    counts |= llvm::any_of(size.getSize().symbols(),
                           [&](auto &s) { return context.isItem(s); });
  });
  return counts;
}

/// How much a value of the body grows if both numbers grow by 1; nothing: that
/// depends on what they are.
std::optional<int64_t> getDrift(Value value, ArrayRef<BlockArgument> numbers) {
  if (llvm::is_contained(numbers, value))
    return 1;
  Operation *op = value.getDefiningOp();
  if (!op)
    return 0; // another axis' number
  SmallVector<int64_t> drifts;
  for (Value operand : op->getOperands()) {
    auto drift = getDrift(operand, numbers);
    if (!drift)
      return std::nullopt;
    drifts.push_back(*drift);
  }
  if (llvm::all_of(drifts, [](int64_t drift) { return drift == 0; }))
    return 0;
  if (isa<arith::IndexCastOp>(op))
    return drifts[0];
  if (isa<arith::AddIOp>(op))
    return drifts[0] + drifts[1];
  if (isa<arith::SubIOp>(op))
    return drifts[0] - drifts[1];
  if (isa<arith::CmpIOp>(op) && drifts[0] == drifts[1])
    return 0;
  return std::nullopt;
}

/// Whether an element depends only on how far apart its numbers on two axes
/// are.
bool isByDistance(GenerateOp op, ArrayRef<int64_t> axes) {
  Block &body = op.getBody().front();
  SmallVector<BlockArgument> numbers;
  for (int64_t axis : axes)
    numbers.push_back(body.getArgument(axis));
  return axes.size() == 2 &&
         getDrift(body.getTerminator()->getOperand(0), numbers) == 0;
}

} // namespace

ItemState GenerateOp::inferItems(ItemStates, const ItemContext &context) {
  auto type = cast<RankedTensorType>(getType());
  SmallVector<int64_t> axes = context.getItemAxes(type);
  bool counts = countsItems(*this, context);
  if (counts && type.getRank() == 0) { // a number of elements
    auto size = readSize(getBody().front().getTerminator()->getOperand(0));
    bool sums = size && isSumOverItems(*size, [&](StringRef s) {
                  return context.isItem(s);
                });
    return sums ? ItemState::sum()
                : ItemState::coupled(*this,
                                     "is not linear in the number of items");
  }
  if (counts)
    return ItemState::coupled(*this, "depends on the number of items");
  if (axes.empty())
    return {};
  if (axes.size() > 1) {
    auto state =
        ItemState::coupled(*this, "is a table of items by items", true);
    state.isPairTable = isByDistance(*this, axes);
    return state;
  }
  BlockArgument number = getBody().getArgument(axes[0]);
  ItemState state = ItemState::perItem(axes[0]);
  DimExpr size = getShape(getResult())[axes[0]];
  if (isPlaceInItem(number, size)) // or not used at all
    return state;
  auto rows = getOwnRows(*this, axes[0]);
  if (!rows)
    return ItemState::coupled(*this, kNumberInPart);
  state.isOwnNumber = true;
  state.ownRange = size * DimExpr(*rows);
  return state;
}

LogicalResult FusedOp::verify() {
  Block &block = getBody().front();
  if (block.getNumArguments() != getInputs().size())
    return emitOpError("region must take one scalar an input");
  SmallVector<Shape> shapes;
  for (auto [argument, input] : llvm::zip(block.getArguments(), getInputs())) {
    if (argument.getType() != scalarOf(input))
      return emitOpError() << "block argument " << argument.getArgNumber()
                           << " must be " << scalarOf(input);
    shapes.push_back(getShape(input));
  }
  auto yield =
      dyn_cast_or_null<YieldOp>(block.empty() ? nullptr : &block.back());
  if (!yield || yield.getValues().size() != getResults().size())
    return emitOpError("region must yield one scalar a result");
  for (auto [value, result] : llvm::zip(yield.getValues(), getResults())) {
    if (value.getType() != scalarOf(result))
      return emitOpError() << "yields " << value.getType() << " for "
                           << result.getType();
    if (getShape(result) != getShape(getResults()[0]))
      return emitOpError("results must have one shape");
  }
  if (getResults().empty())
    return emitOpError("needs a result");
  Shape out = getShape(getResults()[0]);
  shapes.push_back(out);
  std::optional<Shape> together = broadcastShapes(shapes);
  if (!together || *together != out)
    return emitOpError() << "inputs do not broadcast to " << shapeToString(out);
  return success();
}
