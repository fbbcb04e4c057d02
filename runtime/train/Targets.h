//===- Targets.h - whether what a run is to write can be written ----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Most files of a run are written after its last step. A folder that is not
// there, or a name that is taken, must not be found out only then.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_TRAIN_TARGETS_H
#define DT_RUNTIME_TRAIN_TARGETS_H

#include "runtime/base/Options.h"
#include "runtime/base/OutputClaim.h"
#include "runtime/comm/Comm.h"

#include <vector>

namespace dt::rt {

/// Throws Error, which names the flag, unless every file that this rank writes
/// because of a flag can be written, no two flags name the same, and no other
/// process of this machine writes it. Leaves nothing behind; who keeps what is
/// returned keeps others out. (--checkpoint: CheckpointFolder.h; whether
/// --export can be written: Export.h)
std::vector<OutputClaim> checkTargets(const Options &options, const Comm &comm);
/// Throws CommonError unless all machines see the folders that ranks write
/// parts of one file to. All ranks call it.
void expectSharedTargets(const Options &options, Comm &comm);

} // namespace dt::rt

#endif // DT_RUNTIME_TRAIN_TARGETS_H
