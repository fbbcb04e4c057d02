//===- References.h - inputs that point into the batch ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Positions in [sample, token], and the samples of items, as a batch file has
// them: of the whole batch. A part has its own.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_REFERENCES_H
#define DT_RUNTIME_DATA_REFERENCES_H

#include "runtime/Program.h"

#include <cstddef>
#include <string>
#include <vector>

namespace dt::rt {

/// A raw input of a module, whole.
struct WholeInput {
  std::string name; ///< in the file
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes; ///< empty if this rank has no use for them
  bool index = false;           ///< holds positions in [sample, token]
  bool itemOf = false;          ///< holds samples
  std::string rebase;           ///< holds rows of that measure's items; or ""
  int64_t pad = -1;             ///< what an index has where no position is
  /// Of each sample (or item, with `rebase`) the first value that points to it;
  /// then the end of all.
  std::vector<int64_t> begins;

  bool refers() const { return index || itemOf || !rebase.empty(); }
};

/// Throws unless all values are below the batch's end or padding; `path` is the
/// file's. Counted from the end, as ONNX has negative indices, they would be
/// other ones in each part.
void checkReferences(const WholeInput &input, DType type,
                     const std::string &path);
/// Of an input that was checked: the sample or item that a value points to; -1
/// for padding.
int64_t targetOf(const WholeInput &input, int64_t value);
/// Makes `bytes`, some rows of the input, point into the part of these samples
/// or items, ascending. Throws if one points elsewhere.
void rebase(const WholeInput &input, DType type, std::vector<std::byte> &bytes,
            const std::vector<int64_t> &part, const std::string &path);

} // namespace dt::rt

#endif // DT_RUNTIME_DATA_REFERENCES_H
