//===- Stop.cpp - being asked to end ------------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Stop.h"
#include "runtime/base/Log.h"
#include "runtime/base/Thread.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace dt::rt {

namespace {

std::atomic<bool> requested{false};

/// As it was when they were held first.
sigset_t stopSet(bool hasLauncher = false) {
  static const sigset_t set = [&] {
    sigset_t made;
    ::sigemptyset(&made);
    for (int signal : stopSignals(hasLauncher))
      ::sigaddset(&made, signal);
    return made;
  }();
  return set;
}

/// As if nobody listened.
[[noreturn]] void endBySignal(int signal) {
  std::signal(signal, SIG_DFL);
  sigset_t set = stopSet();
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  std::raise(signal);
  ::_exit(128 + signal);
}

[[noreturn]] void listen() {
  sigset_t set = stopSet();
  for (int interrupts = 0;;) {
    int signal = 0;
    if (::sigwait(&set, &signal) != 0)
      continue;
    if (signal == SIGINT && ++interrupts == 2)
      endBySignal(signal);
    requested = true;
  }
}

//===----------------------------------------------------------------------===//
// Mapped files. Everything here runs inside a signal handler.
//===----------------------------------------------------------------------===//

int ownRank = -1;
bool (*claimWord)() = nullptr;

uintptr_t hexadecimal(const char *&at) {
  uintptr_t value = 0;
  for (;; ++at) {
    int digit = *at >= '0' && *at <= '9'   ? *at - '0'
                : *at >= 'a' && *at <= 'f' ? *at - 'a' + 10
                                           : -1;
    if (digit < 0)
      return value;
    value = value << 4 | uintptr_t(digit);
  }
}

/// If a line of /proc/self/maps ("BEGIN-END … PATH") has the address, its path.
const char *pathIn(const char *line, uintptr_t address) {
  uintptr_t begin = hexadecimal(line);
  if (*line++ != '-')
    return nullptr;
  uintptr_t end = hexadecimal(line);
  const char *path = std::strchr(line, '/');
  return address >= begin && address < end && path ? path : nullptr;
}

/// Of the mapping at an address; empty if there is none.
void findMapping(uintptr_t address, char *path, size_t size) {
  static char text[1 << 13];
  path[0] = 0;
  int file = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  size_t have = 0;
  for (ssize_t n;
       (n = ::read(file, text + have, sizeof text - 1 - have)) > 0;) {
    have += size_t(n);
    text[have] = 0;
    char *line = text;
    for (char *end; (end = std::strchr(line, '\n')); line = end + 1) {
      *end = 0;
      if (const char *found = pathIn(line, address)) {
        std::strncpy(path, found, size - 1);
        path[size - 1] = 0;
        ::close(file);
        return;
      }
    }
    have -= size_t(line - text);
    std::memmove(text, line, have);
  }
  ::close(file);
}

void append(char *line, size_t size, const char *text) {
  std::strncat(line, text, size - std::strlen(line) - 1);
}

/// "error: rank 3: WHAT: WHY" and the end, with no memory but the stack's.
[[noreturn]] void endWith(const char *what, const char *why) {
  char line[4400] = "error: ";
  if (ownRank >= 0) {
    char digits[16];
    int at = sizeof digits - 1, value = ownRank;
    digits[at] = 0;
    do
      digits[--at] = char('0' + value % 10);
    while (value /= 10);
    append(line, sizeof line, "rank ");
    append(line, sizeof line, digits + at);
    append(line, sizeof line, ": ");
  }
  append(line, sizeof line, what);
  append(line, sizeof line, ": ");
  append(line, sizeof line, why);
  append(line, sizeof line, "\n");
  if (!claimWord || claimWord())
    (void)!::write(STDERR_FILENO, line, std::strlen(line));
  ::_exit(1);
}

void onBusError(int, siginfo_t *info, void *) {
  static char path[4096];
  findMapping(reinterpret_cast<uintptr_t>(info->si_addr), path, sizeof path);
  endWith(path[0] ? path : "a mapped file",
          "its bytes are not there: the file became shorter while it was in "
          "use, or its disk is full or fails");
}

void onTermination() {
  constexpr const char *unexpected = "an error that nobody expected";
  try {
    if (std::exception_ptr current = std::current_exception())
      std::rethrow_exception(current);
  } catch (const std::bad_alloc &) {
    endWith("memory", "there is no more");
  } catch (const std::exception &e) {
    endWith(unexpected, e.what());
  } catch (...) {
  }
  endWith(unexpected, "it has no text");
}

} // namespace

std::vector<int> stopSignals(bool hasLauncher) {
  std::vector<int> signals;
  struct sigaction action;
  for (int signal : kStopSignals) {
    bool ignored = ::sigaction(signal, nullptr, &action) == 0 &&
                   action.sa_handler == SIG_IGN;
    if (!(signal == SIGHUP && ignored) && !(signal == SIGUSR2 && hasLauncher))
      signals.push_back(signal);
  }
  return signals;
}

void holdStopSignals(bool hasLauncher) {
  sigset_t set = stopSet(hasLauncher);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  // A shell that starts a program in the background lets it ignore SIGINT.
  for (int signal : kStopSignals)
    if (::sigismember(&set, signal))
      std::signal(signal, SIG_DFL);
}

void installStopSignals() {
  holdStopSignals();
  static std::once_flag once;
  std::call_once(once, [] { startThread("signals", listen).detach(); });
}

bool isStopRequested() { return requested; }
void requestStop() { requested = true; }
void clearStopRequest() { requested = false; }

void endAtOnce(const std::string &what) {
  std::string rank =
      ownRank < 0 ? "" : "rank " + std::to_string(ownRank) + ": ";
  if (!claimWord || claimWord())
    printLast("error: " + rank + what);
  std::_Exit(1);
}

void endWithoutMemory(const char *what) { endWith(what, "out of memory"); }

void explainTerminations() { std::set_terminate(onTermination); }

void explainBusErrors(int rank, bool (*claim)()) {
  ownRank = rank;
  claimWord = claim;
  struct sigaction action{};
  action.sa_sigaction = onBusError;
  action.sa_flags = SA_SIGINFO | SA_RESETHAND;
  ::sigaction(SIGBUS, &action, nullptr);
}

} // namespace dt::rt
