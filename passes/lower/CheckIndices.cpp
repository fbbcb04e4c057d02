//===- CheckIndices.cpp - Reports of indices that are out of range --------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Where indices come from data, or are generated for an axis that may be empty,
// an rt.check_indices stands before the kernel that uses them. It says as much
// as the function knows: which input of the module they are, and which item a
// row of them is about.
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNNames.h"
#include "passes/lower/FunctionLowering.h"

using namespace mlir;
using namespace dt;
using namespace dt::lower;

namespace {

/// What an op only moves: the values of the result are values of the operand.
bool moves(Operation *op) {
  return isa<nn::ReshapeOp, nn::SliceOp, nn::TransposeOp, nn::BroadcastOp,
             nn::CastOp, nn::ConcatOp>(op);
}

/// Where values come from, over all ops of the function.
struct Origin {
  bool computed = false; ///< by some op that does more than move them
  llvm::SetVector<Value> arguments;

  explicit Origin(Value value) {
    llvm::SetVector<Value> work;
    work.insert(value);
    for (unsigned i = 0; i < work.size(); ++i) {
      Operation *op = work[i].getDefiningOp();
      if (!op) {
        arguments.insert(work[i]);
        continue;
      }
      computed |= !moves(op);
      work.insert(op->operand_begin(), op->operand_end());
    }
  }

  /// The input of the module that the values are (a part of); in a `block`
  /// they count from elsewhere.
  StringAttr input(bool block) const {
    auto argument = arguments.size() == 1 && (block || !computed)
                        ? dyn_cast<BlockArgument>(arguments[0])
                        : BlockArgument();
    auto function =
        argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp())
                 : func::FuncOp();
    return function ? function.getArgAttrOfType<StringAttr>(
                          argument.getArgNumber(), nn::kNameAttr)
                    : StringAttr();
  }
};

/// The parameter that is indexed by its name, else the op. (Locations have the
/// nodes' names, but are not in saved IR.)
std::string nameOf(Operation *op) {
  for (Value operand : op->getOperands())
    if (auto read = operand.getDefiningOp<nn::ReadOp>())
      return "'" + read.getParameter().str() + "'";
  return describe(op);
}

} // namespace

IndexRange IndexRange::ofBlock(nn::BlockAttr block) {
  IndexRange range{block.getWhat() ? block.getWhat().getValue() : "rows",
                   DimExpr(block.getExtent()), block.getWrap()};
  range.ignored = block.getIgnored();
  range.block = block;
  return range;
}

void FunctionLowering::checkIndices(Operation *op, Value indices,
                                    const IndexRange &range) {
  Origin origin(indices);
  // The importer knows what it generates, but not whether a part of the batch
  // has rows at all.
  if (origin.arguments.empty() && range.extent.asConstant())
    return;
  Value rows = indices;
  while (auto reshape = rows.getDefiningOp<nn::ReshapeOp>())
    rows = reshape.getInput();
  Shape shape = nn::getShape(rows);
  StringAttr item;
  DimExpr row = nn::getNumElements(shape);
  if (auto axis = size_t(dist::getRowAxis(shape)); axis < shape.size()) {
    SmallVector<std::string> symbols = shape[axis].symbols();
    DimExpr count =
        symbols.size() == 1 ? DimExpr::symbol(symbols[0]) : shape[axis];
    if (std::optional<DimExpr> each = row.exactDiv(count)) {
      row = *each;
      if (symbols.size() == 1)
        item = b.getStringAttr(symbols[0]);
    }
  }
  DenseI64ArrayAttr block;
  if (range.block) {
    SmallVector<int64_t> cuts{range.block.getChunk(), range.block.getOver(),
                              range.block.getStride()};
    llvm::append_range(cuts, range.block.getWithin());
    block = b.getDenseI64ArrayAttr(cuts);
  }
  std::string what = range.block && range.block.getWhat()
                         ? range.what.str()
                         : (range.what + " of " + nameOf(op)).str();
  rt::CheckIndicesOp::create(
      b, op->getLoc(), get(indices),
      nn::DimAttr::get(b.getContext(), range.extent),
      range.wrap ? b.getUnitAttr() : UnitAttr(),
      range.ignored ? b.getI64IntegerAttr(*range.ignored) : IntegerAttr(),
      block, b.getI64IntegerAttr(range.offset),
      b.getI64IntegerAttr(range.stride), b.getStringAttr(what),
      origin.input(bool(block)), item, nn::DimAttr::get(b.getContext(), row),
      /*per=*/nn::DimAttr());
}

void FunctionLowering::checkPlaces(nn::GatherOp op) {
  DimExpr rows = nn::getShape(op.getInput())[0],
          places = nn::getNumElements(nn::getShape(op.getIndices()));
  // A table of a fixed size may have more rows than are taken.
  if (rows.asConstant())
    return checkIndices(op, op.getIndices(), {"rows", rows, false, -1});
  DimExpr per = places, row = places;
  StringAttr item;
  auto eachOf = [&](const DimExpr &whole, const std::string &symbol) {
    std::optional<DimExpr> each = whole.exactDiv(DimExpr::symbol(symbol));
    return each && each->asConstant() ? each : std::nullopt;
  };
  if (SmallVector<std::string> symbols = places.symbols(); symbols.size() == 1)
    if (std::optional<DimExpr> own = eachOf(places, symbols[0])) {
      item = b.getStringAttr(symbols[0]);
      row = *own;
      if (std::optional<DimExpr> filled = eachOf(rows, symbols[0]))
        per = row, rows = *filled;
    }
  auto dim = [&](const DimExpr &e) {
    return nn::DimAttr::get(b.getContext(), e);
  };
  rt::CheckIndicesOp::create(b, op->getLoc(), get(op.getIndices()), dim(rows),
                             UnitAttr(), IntegerAttr(), DenseI64ArrayAttr(),
                             b.getI64IntegerAttr(0), b.getI64IntegerAttr(1),
                             b.getStringAttr("rows that fill them in order"),
                             StringAttr(), item, dim(row), dim(per));
}
