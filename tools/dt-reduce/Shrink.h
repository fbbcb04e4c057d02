//===- Shrink.h - Ops that a test can do without ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TOOLS_DT_REDUCE_SHRINK_H
#define TOOLS_DT_REDUCE_SHRINK_H

namespace dt {

/// --shrink='test=SCRIPT': takes ops away as long as the module is valid and
/// the script, called with a file that holds it, ends with 1. Larger ones come
/// first; uses of a result become uses of another value of its type. MLIR's own
/// --reduction-tree also tries what is no valid IR, and ends in a crash there.
void registerShrink();

} // namespace dt

#endif // TOOLS_DT_REDUCE_SHRINK_H
