//===- GenerateRule.cpp - What generated tensors know of items --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Exporters write positions as functions of indices, also along the batch: a
// row's own place (to pick from flattened rows), or a place inside the item (a
// mask that is repeated for every item). Both are the same whatever part an
// item is in.
//
//===----------------------------------------------------------------------===//

#include "passes/modules/Denominator.h"
#include "passes/modules/ItemRules.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace dt::modules {

namespace {

/// c + the sum of a[i] * argument i.
struct Linear {
  int64_t constant = 0;
  SmallVector<int64_t> factors;
};

std::optional<Linear> parse(Value value, Block &body) {
  Linear result{0, SmallVector<int64_t>(body.getNumArguments(), 0)};
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
std::optional<int64_t> getOwnRows(nn::GenerateOp op, int64_t axis) {
  Block &body = op.getBody().front();
  auto form = parse(body.getTerminator()->getOperand(0), body);
  if (!form || form->constant < 0)
    return std::nullopt;
  int64_t last = form->constant;
  nn::Shape shape = nn::getShape(op.getResult());
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
bool isPlaceInItem(BlockArgument number, const nn::DimExpr &size) {
  return llvm::all_of(number.getUses(), [&](OpOperand &use) {
    APInt period;
    return isa<arith::RemSIOp, arith::RemUIOp>(use.getOwner()) &&
           use.getOperandNumber() == 0 &&
           matchPattern(use.getOwner()->getOperand(1),
                        m_ConstantInt(&period)) &&
           period.isStrictlyPositive() && size.exactDiv(period.getSExtValue());
  });
}

bool countsItems(nn::GenerateOp op, const ItemAnalysis &analysis) {
  bool counts = false;
  op.getBody().walk([&](nn::SizeOp size) {
    auto expr = nn::DimExpr::parse(size.getExpr());
    counts |= !expr || llvm::any_of(expr->symbols(), [&](auto &s) {
      return analysis.isItem(s);
    });
  });
  return counts;
}

} // namespace

ItemState transferGenerate(nn::GenerateOp op, const ItemAnalysis &analysis) {
  auto type = cast<RankedTensorType>(op.getType());
  SmallVector<int64_t> axes = analysis.getItemAxes(type);
  bool counts = countsItems(op, analysis);
  if (counts && type.getRank() == 0) { // a number of elements
    auto size = readSize(op.getBody().front().getTerminator()->getOperand(0));
    bool sums = size && isSumOverItems(*size, [&](StringRef s) {
                  return analysis.isItem(s);
                });
    return sums
               ? ItemState::sum()
               : ItemState::coupled(op, "is not linear in the number of items");
  }
  if (counts)
    return ItemState::coupled(op, "depends on the number of items");
  if (axes.empty())
    return {};
  if (axes.size() > 1)
    return ItemState::coupled(op, "is a table of items by items", true);
  BlockArgument number = op.getBody().getArgument(axes[0]);
  ItemState state = ItemState::perItem(axes[0]);
  nn::DimExpr size = nn::getShape(op.getResult())[axes[0]];
  if (isPlaceInItem(number, size)) // or not used at all
    return state;
  auto rows = getOwnRows(op, axes[0]);
  if (!rows)
    return ItemState::coupled(op, kNumberInPart);
  state.isOwnNumber = true;
  state.ownRange = size * nn::DimExpr(*rows);
  return state;
}

} // namespace dt::modules
