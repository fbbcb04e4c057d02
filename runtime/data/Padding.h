//===- Padding.h - rows behind those of the last item -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Where a part's rows are rounded up to a multiple (SymbolInfo::multiple), its
// raw inputs have rows that are no item's (docs/sizes.md).
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_PADDING_H
#define DT_RUNTIME_DATA_PADDING_H

#include "runtime/data/BatchSource.h"

namespace dt::rt {

/// Rows of a part that are no item's, in what the symbol adds up.
int64_t paddingOf(const Part &part, size_t symbol);

/// Puts them into a raw input of which there are the rows of the part's items:
/// behind these along each axis that has some. `bytes` row-major, of `shape`.
void padInput(const InputInfo &input, const Part &part,
              std::vector<std::byte> &bytes, std::vector<int64_t> &shape);

} // namespace dt::rt

#endif // DT_RUNTIME_DATA_PADDING_H
