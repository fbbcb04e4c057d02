//===- OutputClaim.h - one process writes an output -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Two processes that write one file leave a mixture of both, or one of them
// finds its files gone. A claim is a name in the system's table of local
// sockets: it leaves no file, and ends with the process, however that ends. It
// knows processes of this machine (of this network namespace) only; a folder of
// checkpoints, which several machines share, has a lock of its own.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_BASE_OUTPUTCLAIM_H
#define DT_RUNTIME_BASE_OUTPUTCLAIM_H

#include <string>

namespace dt::rt {

class OutputClaim {
public:
  OutputClaim() = default;
  ~OutputClaim();
  OutputClaim(OutputClaim &&other) : socket(other.socket) { other.socket = -1; }
  OutputClaim &operator=(OutputClaim &&) = delete;

  /// Claims a file or a folder, which need not be there, under whatever path it
  /// is named. Returns "PATH: process 17 writes it", or nothing; nothing, too,
  /// of pipes and devices, and where the system cannot say.
  std::string take(const std::string &path);

private:
  int socket = -1;
};

} // namespace dt::rt

#endif // DT_RUNTIME_BASE_OUTPUTCLAIM_H
