//===- CollectiveTraffic.h - what collectives must move ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The bytes that a step gives to collectives, from the program's tables and the
// dims of its parts alone: the other side of what Comm counts. Shares neither
// buckets nor routes with the code that sends.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_OBSERVE_COLLECTIVETRAFFIC_H
#define DT_RUNTIME_OBSERVE_COLLECTIVETRAFFIC_H

#include "runtime/data/BatchSource.h"
#include "runtime/state/Ownership.h"

#include <map>
#include <string>

namespace dt::rt {

/// Bytes that this rank gives in a step, by label of Comm::traffic.
std::map<std::string, uint64_t> expectedCollectives(const ProgramInfo &program,
                                                    const Placement &placement,
                                                    const Ownership &ownership,
                                                    const Batch &batch);

/// Which ranks a label's traffic is among: "tp" (inside a replica, as generated
/// functions ask, and sums of partial gradients), "dp" (over replicas), "ties"
/// (holders of a tied tensor), "edges" (inside a replica, what messages
/// brought), "world" (a step's scalars), "control" (everything else: not of a
/// step, no function of the manifest).
const char *axisOf(const std::string &label);

} // namespace dt::rt

#endif // DT_RUNTIME_OBSERVE_COLLECTIVETRAFFIC_H
