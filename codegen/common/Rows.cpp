//===- Rows.cpp - rows of the emitted tables as text ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/common/Rows.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace dt::codegen {

/// Nothing is said of a column without a default.
static void checkSaid(const Row &row, const Cell &cell) {
  if (cell.text.empty() && !cell.initial) {
    errs() << "a row of " << row.table << " says nothing in column '"
           << cell.column << "'\n";
    report_fatal_error("a table is not complete");
  }
}

std::string listText(const Row &row) {
  SmallVector<cpp::Code> values;
  size_t said = 0;
  for (const Cell *cell : row.cells) {
    checkSaid(row, *cell);
    values.push_back(cell->text.empty() ? cpp::Code(cell->initial)
                                        : cell->text);
    if (!cell->text.empty())
      said = values.size();
  }
  return cpp::list(ArrayRef(values).take_front(said));
}

SmallVector<cpp::Code> fieldTexts(const Row &row,
                                  ArrayRef<const Cell *> without) {
  SmallVector<cpp::Code> fields;
  for (const Cell *cell : row.cells) {
    if (is_contained(without, cell))
      continue;
    checkSaid(row, *cell);
    if (!cell->text.empty())
      fields.push_back(cpp::field(cell->column, cell->text));
  }
  return fields;
}

std::string fieldsText(const Row &row) { return cpp::list(fieldTexts(row)); }

Cell *findCell(const Row &row, StringRef column) {
  auto it = find_if(row.cells,
                    [&](const Cell *cell) { return cell->column == column; });
  return it == row.cells.end() ? nullptr : *it;
}

} // namespace dt::codegen
