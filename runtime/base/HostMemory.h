//===- HostMemory.h - Memory that this process may use ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_BASE_HOSTMEMORY_H
#define DT_RUNTIME_BASE_HOSTMEMORY_H

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <unistd.h>

namespace dt::rt {

/// Bytes that the machine has, or fewer where control groups of version 2 or 1
/// give a container a limit.
inline uint64_t hostMemory() {
  uint64_t least =
      uint64_t(::sysconf(_SC_PHYS_PAGES)) * uint64_t(::sysconf(_SC_PAGESIZE));
  for (const char *name : {"/sys/fs/cgroup/memory.max",
                           "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(name); // "max": no limit
    if (uint64_t bytes = 0; file >> bytes && bytes > 0)
      least = std::min(least, bytes);
  }
  return least;
}

} // namespace dt::rt

#endif // DT_RUNTIME_BASE_HOSTMEMORY_H
