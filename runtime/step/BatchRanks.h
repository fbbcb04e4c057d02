//===- BatchRanks.h - a step's inputs go to the ranks -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STEP_BATCHRANKS_H
#define DT_RUNTIME_STEP_BATCHRANKS_H

#include "runtime/comm/Comm.h"
#include "runtime/data/BatchSource.h"

#include <memory>

namespace dt::rt {

/// Parcels that are sent are counted (Comm::traffic) as kDataSent, those that
/// come as kDataReceived, of which the first rank has none.
inline constexpr char kDataSent[] = "data", kDataReceived[] = "data received";

/// All ranks of `comm`, which must outlive the result.
std::shared_ptr<BatchPeers> makeBatchPeers(Comm &comm);

} // namespace dt::rt

#endif // DT_RUNTIME_STEP_BATCHRANKS_H
