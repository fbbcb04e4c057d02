//===- OutputRows.h - rows of parts in the batch's outputs ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_SAVE_OUTPUTROWS_H
#define DT_RUNTIME_SAVE_OUTPUTROWS_H

#include "runtime/data/BatchSource.h"

#include <cstddef>
#include <vector>

namespace dt::rt {

/// An output's extents before it was cut, and before it was padded unless
/// `padded`; its shape with these values of the symbols.
std::vector<Extent> wholeExtents(const BufferInfo &output, bool padded);
std::vector<int64_t> wholeShape(const BufferInfo &output, const int64_t *dims,
                                bool padded = false);

/// Whether parts have rows that are no item's (SymbolInfo::multiple).
bool hasPadding(const TensorInfo &tensor, const ModuleInfo &module);

/// Where the rows of a part's items begin in the whole, and how many there are;
/// -1: nowhere, as they are no item's.
void findRows(const Part &part, size_t symbol, std::vector<int64_t> &first,
              std::vector<int64_t> &rows);

/// A batch's output as bytes [outer][rows][unit], which parts are put into.
struct OutputRows {
  size_t outer, unit;
  std::vector<std::byte> bytes;

  /// Bytes [begin, begin + count) of a part whose items have `rows` rows each,
  /// from the row `first` of the whole on.
  void place(const std::vector<int64_t> &first,
             const std::vector<int64_t> &rows, size_t begin,
             const std::byte *from, size_t count);
};

} // namespace dt::rt

#endif // DT_RUNTIME_SAVE_OUTPUTROWS_H
