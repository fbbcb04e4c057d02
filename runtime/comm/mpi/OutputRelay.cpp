//===- OutputRelay.cpp - hands on what mpirun prints ----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/mpi/OutputRelay.h"
#include "runtime/base/Clock.h"
#include "runtime/base/Log.h"
#include "runtime/comm/RankProcesses.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace dt::rt {

namespace {

/// Seconds that the launcher waits for the rest, of which Log.h takes two; a
/// process that mpirun has left behind may keep the pipes open.
constexpr double kRest = 3;

void close(int &end) {
  if (end >= 0)
    ::close(end);
  end = -1;
}

} // namespace

OutputRelay::OutputRelay() {
  int out[2], err[2];
  if (::pipe2(out, O_CLOEXEC) != 0)
    return;
  if (::pipe2(err, O_CLOEXEC) != 0) {
    close(out[0]);
    close(out[1]);
    return;
  }
  pid_t parent = ::getpid();
  process = ::fork();
  if (process == 0) {
    close(out[1]);
    close(err[1]);
    leaveTerminal(0, parent, /*death=*/0);
    run(out[0], err[0]);
  }
  close(out[0]);
  close(err[0]);
  ends[0] = out[1];
  ends[1] = err[1];
  if (process < 0)
    leave();
}

void OutputRelay::take() const {
  for (int i = 0; i < 2; ++i)
    if (ends[i] >= 0)
      ::dup2(ends[i], STDOUT_FILENO + i);
}

void OutputRelay::leave() {
  close(ends[0]);
  close(ends[1]);
}

void OutputRelay::finish() {
  leave();
  if (process < 0)
    return;
  auto hasEnded = [&] {
    pid_t found = ::waitpid(process, nullptr, WNOHANG);
    return found == process || (found < 0 && errno != EINTR);
  };
  for (double until = now() + kRest; !hasEnded();) {
    if (now() > until) {
      ::kill(process, SIGKILL);
      ::waitpid(process, nullptr, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  process = -1;
}

void OutputRelay::run(int out, int err) {
  sigset_t all; // it ends with those who write
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  pollfd from[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
  while (from[0].fd >= 0 || from[1].fd >= 0) {
    ::poll(from, 2, -1);
    for (int i = 0; i < 2; ++i) {
      if (from[i].fd < 0 || !from[i].revents)
        continue;
      char bytes[1 << 14];
      ssize_t n = ::read(from[i].fd, bytes, sizeof bytes);
      if (n > 0)
        writeLog(STDOUT_FILENO + i, bytes, size_t(n));
      else if (n == 0 || errno != EINTR)
        close(from[i].fd);
    }
  }
  flushLog();
  ::_exit(0);
}

} // namespace dt::rt
