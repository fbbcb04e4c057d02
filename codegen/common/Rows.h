//===- Rows.h - rows of the emitted tables as text --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// For each table of runtime/Tables.def a struct of the same name with the same
// columns, whose values are C++ text:
//
//   rows::CutInfo row;
//   row.dim = 1;
//   …
//   listText(row) // "{1, 32, 2, 1}"
//
// A column of which nothing is said has the table's default; to have none is a
// fatal error that names the column.
//
//===----------------------------------------------------------------------===//

#ifndef CODEGEN_COMMON_ROWS_H
#define CODEGEN_COMMON_ROWS_H

#include "codegen/common/Text.h"

#include "llvm/ADT/SmallVector.h"

#include <type_traits>

namespace dt::codegen {

struct Cell;

struct Row {
  Row(llvm::StringRef table) : table(table) {}
  Row(const Row &) = delete;

  llvm::StringRef table;
  llvm::SmallVector<Cell *> cells; ///< in the order of the columns
};

/// What a row says in one column; empty: nothing.
struct Cell {
  Cell(Row *row, llvm::StringRef column, const char *initial = nullptr)
      : column(column), initial(initial) {
    row->cells.push_back(this);
  }
  Cell(const Cell &) = delete;

  /// C++ as it is.
  void operator=(std::string value) { text = std::move(value); }
  /// A bool, a case of an enum of runtime/Enums.h, or a number.
  template <typename T, std::enable_if_t<std::is_arithmetic_v<T> ||
                                         std::is_enum_v<T>> * = nullptr>
  void operator=(T value) {
    if constexpr (std::is_same_v<T, bool>)
      text = value ? "true" : "false";
    else if constexpr (std::is_enum_v<T>)
      text = enumText(value);
    else if constexpr (std::is_floating_point_v<T>)
      text = numberText(value);
    else
      text = std::to_string(value);
  }

  llvm::StringRef column;
  const char *initial; ///< the default; null: there is none
  std::string text;
};

/// "{1, 2}": the values. Trailing columns of which nothing is said are left
/// out.
std::string listText(const Row &row);
/// ".a = 1": the columns of which something is said, but those in `without`.
llvm::SmallVector<cpp::Code>
fieldTexts(const Row &row, llvm::ArrayRef<const Cell *> without = {});
/// "{.a = 1, .b = 2}".
std::string fieldsText(const Row &row);
/// The cell of a column, or null.
Cell *findCell(const Row &row, llvm::StringRef column);

namespace rows {
#define DT_TABLE(table)                                                        \
  struct table : Row {                                                         \
    static constexpr llvm::StringLiteral kType = "dt::rt::" #table;            \
    table() : Row(#table) {}
#define DT_COLUMN(type, name) Cell name{this, #name};
#define DT_OPTIONAL(type, name, value) Cell name{this, #name, #value};
#define DT_END }
#include "runtime/Tables.def"
} // namespace rows

} // namespace dt::codegen

#endif // CODEGEN_COMMON_ROWS_H
