//===- Cores.h - Cores that this process may use ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_BASE_CORES_H
#define DT_RUNTIME_BASE_CORES_H

#include <algorithm>
#include <unistd.h>

#ifdef __linux__
#include <sched.h>
#endif

namespace dt::rt {

/// Cores that the process may run on (sched_getaffinity: containers and
/// taskset give fewer than the machine has), at least 1.
inline int usableCores() {
#ifdef __linux__
  cpu_set_t set;
  if (!::sched_getaffinity(0, sizeof set, &set))
    return CPU_COUNT(&set);
#endif
  return std::max(1, int(::sysconf(_SC_NPROCESSORS_ONLN)));
}

/// Of a rank's long work at its start, when it is one of `ranks` on a machine
/// with `cores` cores of which this process may use `usable`: launchers may
/// have given every rank cores of its own, or all of them to all ranks.
inline int coresOfRank(int usable, int cores, int ranks) {
  return std::max(1, std::min(usable, cores / std::max(1, ranks)));
}
inline int coresOfRank(int ranks) {
  return coresOfRank(usableCores(), int(::sysconf(_SC_NPROCESSORS_ONLN)),
                     ranks);
}

} // namespace dt::rt

#endif // DT_RUNTIME_BASE_CORES_H
