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
  int64_t tokens = 0;           ///< a sample, for an index
  int64_t pad = -1;             ///< what an index has where no position is
};

/// Throws unless all values are below the batch's end or padding; `path` is the
/// file's. Counted from the end, as ONNX has negative indices, they would be
/// other ones in each part.
void checkReferences(const WholeInput &input, DType type, int64_t samples,
                     const std::string &path);
/// Of an input that was checked.
bool isPadding(const WholeInput &input, int64_t value, int64_t samples);
/// Makes `bytes`, some rows of the input, point into the part of these samples,
/// ascending, of `samples`. Throws if one points elsewhere.
void rebase(const WholeInput &input, DType type, std::vector<std::byte> &bytes,
            const std::vector<int64_t> &part, int64_t samples,
            const std::string &path);

} // namespace dt::rt

#endif // DT_RUNTIME_DATA_REFERENCES_H
