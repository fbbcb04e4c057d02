//===- Log.cpp - lines that training does not wait for --------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Log.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <poll.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

namespace dt::rt {

namespace {

using Seconds = std::chrono::duration<double>;

/// Bytes that may wait.
constexpr size_t kMost = size_t(1) << 20;
/// Bytes that one call of the system gets: of a pipe that has room at all, so
/// much may be written without waiting.
constexpr size_t kPiece = 4096;
/// Seconds that who says something waits for it to be written.
constexpr Seconds kPatience(0.1);

/// One of the two descriptors.
class Output {
public:
  Output(int fd, const char *name) : fd(fd), name(name) {}

  void write(const char *text, size_t bytes) {
    std::unique_lock<std::mutex> lock(mutex);
    if (!start())
      return writeHere(text, bytes);
    if (waiting.size() + bytes > kMost) {
      leaveOut(text, bytes);
    } else {
      waiting.append(text, bytes);
      changed.notify_all();
    }
    if (!late)
      late = !changed.wait_for(lock, kPatience, [&] { return isEmpty(); });
  }

  /// Until all is written; false if nothing has moved on for so long.
  bool flush(double seconds) {
    std::unique_lock<std::mutex> lock(mutex);
    for (size_t before = written; !isEmpty(); before = written)
      if (!changed.wait_for(lock, Seconds(seconds),
                            [&] { return isEmpty() || written != before; }))
        return false;
    return true;
  }

  /// How many lines will not be read; of a process that ends.
  size_t countUnread() {
    std::lock_guard<std::mutex> lock(mutex);
    return leftOut + lines(waiting.data(), waiting.size());
  }

private:
  bool isEmpty() const {
    return (waiting.empty() && !busy) || owner != ::getpid();
  }

  static size_t lines(const char *text, size_t bytes) {
    return size_t(std::count(text, text + bytes, '\n'));
  }

  void leaveOut(const char *text, size_t bytes) {
    leftOut += lines(text, bytes);
  }

  /// False: there is no thread, also in a child process.
  bool start() {
    if (owner)
      return owner == ::getpid();
    try {
      std::thread([this] { run(); }).detach();
    } catch (const std::system_error &) { // the next one tries again
      return false;
    }
    owner = ::getpid();
    return true;
  }

  void run() {
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return !waiting.empty(); });
      std::string text;
      std::swap(text, waiting);
      busy = true;
      for (size_t at = 0; at < text.size();)
        at += writePiece(lock, text.data() + at,
                         std::min(kPiece, text.size() - at));
      busy = false;
      if (waiting.empty())
        late = false;
      sayWhatIsMissing();
      changed.notify_all();
    }
  }

  /// Behind what was written late.
  void sayWhatIsMissing() {
    if (!leftOut || late || failed)
      return;
    waiting.append("(" + std::to_string(leftOut) +
                   (leftOut == 1 ? " line" : " lines") +
                   " left out here: nobody read them in time)\n");
    leftOut = 0;
  }

  /// How many bytes are done with.
  size_t writePiece(std::unique_lock<std::mutex> &lock, const char *text,
                    size_t bytes) {
    lock.unlock();
    ssize_t n = ::write(fd, text, bytes);
    int problem = n < 0 ? errno : 0;
    if (problem == EAGAIN) { // who shares it has made it so
      pollfd entry{fd, POLLOUT, 0};
      ::poll(&entry, 1, 1000);
    }
    lock.lock();
    if (problem == EAGAIN || problem == EINTR)
      return 0;
    if (n < 0) {
      leaveOut(text, bytes);
      complain(problem);
      n = ssize_t(bytes);
    } else {
      failed = false;
    }
    written += size_t(n);
    changed.notify_all();
    return size_t(n);
  }

  void complain(int problem);

  /// Without a thread of its own.
  void writeHere(const char *text, size_t bytes) {
    while (bytes) {
      ssize_t n = ::write(fd, text, bytes);
      if (n < 0 && errno != EINTR)
        return complain(errno);
      text += std::max<ssize_t>(n, 0);
      bytes -= size_t(std::max<ssize_t>(n, 0));
    }
  }

  int fd;
  const char *name;
  std::mutex mutex;
  std::condition_variable changed;
  std::string waiting;
  size_t written = 0, leftOut = 0;
  bool busy = false;   ///< the thread writes
  bool late = false;   ///< nobody waits until all is written
  bool failed = false; ///< the last write has
  bool told = false;
  pid_t owner = 0; ///< the process whose thread writes; 0: none yet
};

/// Never destroyed: other threads may speak until the end.
Output &standard(int fd) {
  static Output *const out = new Output(STDOUT_FILENO, "standard output");
  static Output *const error = new Output(STDERR_FILENO, "standard error");
  static const int registered = std::atexit([] { flushLog(); });
  (void)registered;
  return fd == STDERR_FILENO ? *error : *out;
}

/// Of standard error nobody can be told.
void Output::complain(int problem) {
  failed = true;
  if (std::exchange(told, true) || fd == STDERR_FILENO)
    return;
  std::string line = std::string("warning: ") + name + ": " +
                     std::strerror(problem) +
                     "; the run goes on without its log\n";
  standard(STDERR_FILENO).write(line.data(), line.size());
}

std::string formatted(const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  int length = std::vsnprintf(nullptr, 0, format, again);
  va_end(again);
  std::string text(size_t(std::max(length, 0)) + 1, '\0');
  std::vsnprintf(text.data(), text.size(), format, arguments);
  text.pop_back();
  return text;
}

} // namespace

void writeLog(int descriptor, const char *text, size_t bytes) {
  if (descriptor == STDOUT_FILENO)
    std::fflush(stdout); // what hooks have printed
  if (bytes)
    standard(descriptor).write(text, bytes);
}

void printLog(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = formatted(format, arguments);
  va_end(arguments);
  writeLog(STDOUT_FILENO, text.data(), text.size());
}

void printError(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = formatted(format, arguments);
  va_end(arguments);
  writeLog(STDERR_FILENO, text.data(), text.size());
}

void printLast(const std::string &line, double seconds) {
  std::string text = line + "\n";
  writeLog(STDERR_FILENO, text.data(), text.size());
  standard(STDERR_FILENO).flush(seconds);
}

void flushLog(double seconds) {
  Output &out = standard(STDOUT_FILENO);
  if (!out.flush(seconds))
    if (size_t unread = out.countUnread())
      printError("warning: standard output: %zu lines were not read\n", unread);
  standard(STDERR_FILENO).flush(seconds);
}

} // namespace dt::rt
