//===- Process.h - what a process has from its start ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_BASE_PROCESS_H
#define DT_RUNTIME_BASE_PROCESS_H

#include <csignal>
#include <fcntl.h>
#include <unistd.h>

namespace dt::rt {

/// The first line of main() of every program here. Standard descriptors that
/// are closed become /dev/null: else the first file that is opened would take
/// their number, and the log would go into it. A write beyond `ulimit -f` is an
/// error of that write (EFBIG), not a signal that ends the process without a
/// word. What this sets is handed on to programs that are started.
inline void beginProcess() {
  for (int fd = 0; fd <= STDERR_FILENO; ++fd)
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) != fd)
      ::_exit(1); // and nobody could be told
  std::signal(SIGXFSZ, SIG_IGN);
}

} // namespace dt::rt

#endif // DT_RUNTIME_BASE_PROCESS_H
