//===- MaskTables.cpp - What constant masks say -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/import/MaskTables.h"

#include <algorithm>
#include <map>

using namespace mlir;
using namespace dt;
using namespace dt::import;

namespace {
/// A constant [queries, keys] of bools.
struct Table {
  int64_t rows, columns;
  std::vector<bool> visible;

  bool at(int64_t i, int64_t j) const { return visible[i * columns + j]; }

  static std::optional<Table> read(const ScoreView &view, bool holds) {
    auto constant = view.value.getDefiningOp<nn::ConstantOp>();
    auto elements =
        constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
    if (!elements || !elements.getElementType().isInteger(1) ||
        view.runsAlong(kBatch) || view.runsAlong(kHead) ||
        !view.runsAlong(kQuery) || !view.runsAlong(kKey))
      return std::nullopt;
    Table table{
        *view.sizeOf(kQuery).asConstant(), *view.sizeOf(kKey).asConstant(), {}};
    for (bool value : elements.getValues<bool>())
      table.visible.push_back(value == holds);
    return table;
  }
};
} // namespace

std::optional<SmallVector<IndexBound>> import::readBand(const ScoreView &view,
                                                        bool holds) {
  std::optional<Table> table = Table::read(view, holds);
  if (!table)
    return std::nullopt;
  int64_t least = table->columns, most = -table->rows;
  for (int64_t i = 0; i < table->rows; ++i)
    for (int64_t j = 0; j < table->columns; ++j)
      if (table->at(i, j))
        least = std::min(least, j - i), most = std::max(most, j - i);
  for (int64_t i = 0; i < table->rows; ++i)
    for (int64_t j = 0; j < table->columns; ++j)
      if (table->at(i, j) != (least <= j - i && j - i <= most))
        return std::nullopt;
  if (least > most) // nothing is visible
    return std::nullopt;
  SmallVector<IndexBound> bounds;
  if (least > 1 - table->rows)
    bounds.push_back({nn::DimExpr(least), std::nullopt});
  if (most < table->columns - 1)
    bounds.push_back({std::nullopt, nn::DimExpr(most)});
  return bounds;
}

std::optional<Blocks> import::readBlocks(const ScoreView &view, bool holds) {
  std::optional<Table> table = Table::read(view, holds);
  if (!table)
    return std::nullopt;
  constexpr int32_t kSeesNone = -1, kUnseen = -2;
  Blocks blocks;
  blocks.keys.assign(table->columns, kUnseen);
  std::map<std::vector<bool>, int32_t> numbers;
  for (int64_t i = 0; i < table->rows; ++i) {
    auto begin = table->visible.begin() + i * table->columns;
    std::vector<bool> row(begin, begin + table->columns);
    auto [known, added] = numbers.try_emplace(row, int32_t(numbers.size()));
    bool any = llvm::is_contained(row, true);
    blocks.queries.push_back(any ? known->second : kSeesNone);
    for (int64_t j = 0; added && j < table->columns; ++j) {
      if (row[j] && blocks.keys[j] != kUnseen)
        return std::nullopt; // another set of keys has it, too
      if (row[j])
        blocks.keys[j] = known->second;
    }
  }
  return blocks;
}
