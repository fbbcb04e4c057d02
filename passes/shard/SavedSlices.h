//===- SavedSlices.h - Of a saved tensor the rank's slice -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SHARD_SAVEDSLICES_H
#define PASSES_SHARD_SAVEDSLICES_H

#include "dialects/dist/DistOps.h"

namespace dt::shard {

/// In the module's own functions: if the backward only slices a tensor that the
/// forward saves (dist.slice, perhaps of reshapes), the slice is saved.
void saveSlices(dist::ModuleOp module);

} // namespace dt::shard

#endif // PASSES_SHARD_SAVEDSLICES_H
