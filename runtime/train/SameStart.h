//===- SameStart.h - ranks that were started alike --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A launcher may start ranks with other flags, from other folders, or another
// program. What would give wrong weights or a message that nobody expects is
// compared before anything else is done.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_TRAIN_SAMESTART_H
#define DT_RUNTIME_TRAIN_SAMESTART_H

#include "runtime/base/Options.h"
#include "runtime/comm/Comm.h"

namespace dt::rt {

/// Called by all ranks. Throws CommonError that names the flag or variable, the
/// first rank that differs from rank 0, and both values; also if the program
/// itself is another.
void expectSameStart(Comm &comm, const Options &options);

} // namespace dt::rt

#endif // DT_RUNTIME_TRAIN_SAMESTART_H
