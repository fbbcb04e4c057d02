//===- Status.cpp - who is doing what, and who has stopped ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Status.h"
#include "runtime/base/Clock.h"
#include "runtime/base/Error.h"
#include "runtime/base/Log.h"
#include "runtime/comm/Launch.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace dt::rt {

/// Only whole words that are written by one process; on lines of its own.
struct alignas(64) StatusBoard::Cell {
  std::atomic<int32_t> pid, thread, left, writer;
  std::atomic<uint64_t> task; ///< step << 24 | row + 1
  std::atomic<uint64_t> progress;
  std::atomic<int32_t> kind, peer, group; ///< of Awaited
  std::atomic<uint32_t> number;
  std::atomic<const char *> label; ///< in the rank's own memory
  char text[72];                   ///< the label's, for the others
  std::atomic<uint32_t> entered[kWatchedGroups];
};

/// Behind the cells.
struct StatusBoard::Text {
  std::atomic<int32_t> reported; ///< somebody has the word
  std::atomic<int32_t> stop;     ///< somebody was asked to end
  std::atomic<int32_t> nodes;    ///< 1: there are ranks on other nodes
  std::atomic<int32_t> code;
  std::atomic<int32_t> length; ///< of what is left for the launcher
  char line[1016];
};

namespace {

constexpr int rowBits = 24;

/// Seconds that a look which fails is repeated where an answer is needed.
constexpr double kLooksFor = 5;

/// Of /proc/PID/stat: state letter and start time (ticks).
struct Stat {
  char state = 0;
  unsigned long long start = 0;
  int problem = 0; ///< errno; ENOENT and ESRCH: there is no such process
};

/// The name in parentheses may hold anything.
Stat readStat(int pid) {
  char text[1024];
  Stat stat;
  int file = ::open(("/proc/" + std::to_string(pid) + "/stat").c_str(),
                    O_RDONLY | O_CLOEXEC);
  ssize_t n = file < 0 ? -1 : ::read(file, text, sizeof text - 1);
  stat.problem = n < 0 ? errno : 0;
  if (file >= 0)
    ::close(file);
  text[std::max<ssize_t>(n, 0)] = 0;
  const char *end = std::strrchr(text, ')');
  if (!stat.problem &&
      (!end || std::sscanf(end + 1,
                           " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u "
                           "%*u %*d %*d %*d %*d %*d %*d %llu",
                           &stat.state, &stat.start) != 2))
    stat.problem = EIO;
  return stat;
}

bool saysNothing(const Stat &stat) {
  return stat.problem && stat.problem != ENOENT && stat.problem != ESRCH;
}

/// Whether a process is not there, whatever /proc shows.
bool isMissing(int pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; }

/// A process number may be used again; with its start time it is unique. Of one
/// that this user may not see the number alone.
std::string uniqueName(int pid) {
  Stat stat = readStat(pid);
  for (double until = now() + kLooksFor;
       saysNothing(stat) && stat.problem != EACCES && stat.problem != EPERM;
       stat = readStat(pid)) {
    if (now() > until)
      throw Error("/proc/" + std::to_string(pid) +
                  "/stat: " + std::strerror(stat.problem));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return std::to_string(pid) + "-" + std::to_string(stat.start);
}

constexpr const char *launcherVariable = "DT_LAUNCHER";

int ownThread() {
#ifdef __linux__
  return int(::syscall(SYS_gettid));
#else
  return ::getpid();
#endif
}

} // namespace

void announceLauncher() {
  ::setenv(launcherVariable, uniqueName(::getpid()).c_str(), 1);
}

bool hasLauncher() { return ::getenv(launcherVariable); }

bool isLauncherGone() {
  const char *name = ::getenv(launcherVariable);
  if (!name)
    return false;
  int pid = std::atoi(name);
  Stat stat = readStat(pid);
  const char *start = std::strchr(name, '-');
  bool other = !stat.problem && start && std::stoull(start + 1) != stat.start;
  return other || stateOf(pid) == ProcessState::Gone;
}

std::string StatusBoard::nameFor(int parent) {
  return "/dev/shm/disttrain-" + std::to_string(::getuid()) + "-" +
         uniqueName(parent);
}

ProcessState stateOf(int pid) {
  Stat stat = readStat(pid);
  if (stat.problem)
    return isMissing(pid) ? ProcessState::Gone : ProcessState::Running;
  if (stat.state == 'Z' || stat.state == 'X')
    return ProcessState::Gone;
  return stat.state == 'T' || stat.state == 't' ? ProcessState::Stopped
                                                : ProcessState::Running;
}

StatusBoard::StatusBoard()
    : bytes(sizeof(Cell) + sizeof(Text)), self(0), count(1) {
  memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw Error(std::string("no memory for the status: ") +
                std::strerror(errno));
  cells()[0].writer.store(-1);
  cells()[0].thread.store(ownThread());
  cells()[0].pid.store(::getpid());
}

StatusBoard::StatusBoard(const std::string &name, int rank, int ranks)
    : path(name), bytes(sizeof(Cell) * size_t(ranks) + sizeof(Text)),
      self(rank), count(ranks) {
  int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                    S_IRUSR | S_IWUSR);
  if (file < 0)
    throw Error(path + ": " + std::strerror(errno));
  // Room now: without it the first access would end the process by a signal.
  int problem = ::posix_fallocate(file, 0, off_t(bytes));
  if (problem == EINVAL || problem == EOPNOTSUPP) // a file system without it
    problem = ::ftruncate(file, off_t(bytes)) ? errno : 0;
  if (!problem) {
    memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    problem = memory == MAP_FAILED ? errno : 0;
  }
  if (!problem && self >= 0) {
    bool alone = !hasLauncher() && !::flock(file, LOCK_EX);
    if (alone) // one process after another
      forgetDead();
    moveIn();
    if (alone) // the mapping would hold it
      ::flock(file, LOCK_UN);
  }
  ::close(file);
  if (problem) {
    if (self < 0)
      ::unlink(path.c_str());
    throw Error(
        path + ": cannot reserve " + std::to_string(bytes) +
        " bytes, which the ranks of a node share: " + std::strerror(problem));
  }
}

/// A board without any living process is that of a run that was killed.
void StatusBoard::forgetDead() {
  for (int rank = 0; rank < count; ++rank)
    if (int pid = cells()[rank].pid.load();
        pid && stateOf(pid) != ProcessState::Gone)
      return;
  std::memset(memory, 0, bytes);
}

void StatusBoard::moveIn() {
  if (launchedHere() < count)
    text()->nodes.store(1);
  Cell &cell = cells()[self];
  cell.task.store(0);
  cell.left.store(0);
  cell.writer.store(-1);
  cell.thread.store(ownThread());
  cell.pid.store(::getpid());
}

StatusBoard::~StatusBoard() {
  ::munmap(memory, bytes);
  // A launcher still wants to read it; else whoever is first, since the others
  // have it mapped.
  if (!path.empty() && (self < 0 || !hasLauncher()))
    ::unlink(path.c_str());
}

StatusBoard::Cell *StatusBoard::cells() const {
  return static_cast<Cell *>(memory);
}

StatusBoard::Text *StatusBoard::text() const {
  return reinterpret_cast<Text *>(cells() + count);
}

void StatusBoard::begin(int64_t step, int32_t row) {
  Cell &cell = cells()[self];
  cell.task.store(uint64_t(step) << rowBits | uint64_t(row + 1),
                  std::memory_order_relaxed);
  cell.progress.fetch_add(1, std::memory_order_release);
}

void StatusBoard::await(const Awaited &what) {
  Cell &cell = cells()[self];
  cell.kind.store(what.kind, std::memory_order_relaxed);
  cell.peer.store(what.peer, std::memory_order_relaxed);
  cell.group.store(what.group, std::memory_order_relaxed);
  cell.number.store(what.number, std::memory_order_relaxed);
  if (cell.label.load(std::memory_order_relaxed) != what.label) {
    cell.label.store(what.label, std::memory_order_relaxed);
    std::strncpy(cell.text, what.label, sizeof cell.text - 1);
  }
  cell.progress.fetch_add(1, std::memory_order_release);
}

Awaited StatusBoard::awaited() const {
  const Cell &cell = cells()[self];
  const char *label = cell.label.load();
  return {cell.kind.load(), cell.peer.load(), cell.group.load(),
          cell.number.load(), label ? label : ""};
}

void StatusBoard::enter(int group, uint32_t number) {
  if (group >= 0 && group < kWatchedGroups)
    cells()[self].entered[group].store(number, std::memory_order_relaxed);
}

void StatusBoard::tick() {
  cells()[self].progress.fetch_add(1, std::memory_order_release);
}

void StatusBoard::awaitWriter(int rank) { cells()[self].writer.store(rank); }

void StatusBoard::leave() { cells()[self].left.store(1); }

bool StatusBoard::claimReport(int code) {
  int32_t no = 0;
  if (!text()->reported.compare_exchange_strong(no, 1))
    return false;
  text()->code.store(code);
  return true;
}

void StatusBoard::report(const std::string &line, int code) {
  if (!claimReport())
    return;
  if (path.empty() || !hasLauncher() || isLauncherGone()) {
    printLast(line);
  } else {
    size_t length = std::min(line.size(), sizeof(Text::line));
    std::memcpy(text()->line, line.data(), length);
    text()->code.store(code);
    text()->length.store(int32_t(length));
  }
  std::lock_guard<std::mutex> lock(telling);
  if (tell && code == exitAfterFault)
    tell();
}

void StatusBoard::onFault(std::function<void()> what) {
  std::lock_guard<std::mutex> lock(telling);
  tell = std::move(what);
}

void StatusBoard::requestStop() { text()->stop.store(1); }
bool StatusBoard::isStopRequested() const { return text()->stop.load() != 0; }

StatusBoard::Report StatusBoard::takeReport() const {
  if (int32_t length = text()->length.load(); length > 0)
    return {{text()->line, size_t(length)}, text()->code.load()};
  if (text()->reported.load() || text()->nodes.load())
    return {"", text()->code.load()};
  // Whoever never began was the reason that the others ended.
  for (int rank = 0; rank < count; ++rank)
    if (!read(rank).pid)
      return {"error: rank " + std::to_string(rank) + " ended before it began",
              exitAfterFault};
  for (int rank = 0; rank < count; ++rank)
    if (Record record = read(rank); !record.left)
      return {"error: rank " + std::to_string(rank) + " ended at step " +
                  std::to_string(record.step),
              exitAfterFault};
  return {};
}

bool StatusBoard::failedHere() const {
  for (int rank = 0; rank < count; ++rank)
    if (Record record = read(rank);
        record.pid && !record.left && stateOf(record.pid) == ProcessState::Gone)
      return true;
  return false;
}

bool StatusBoard::allGone() const {
  for (int rank = 0; rank < count; ++rank)
    if (int pid = cells()[rank].pid.load();
        !pid || stateOf(pid) != ProcessState::Gone)
      return false;
  return true;
}

bool StatusBoard::anyTrains() const {
  for (int rank = 0; rank < count; ++rank)
    if (cells()[rank].task.load())
      return true;
  return false;
}

bool StatusBoard::anyBegan() const {
  for (int rank = 0; rank < count; ++rank)
    if (cells()[rank].pid.load())
      return true;
  return false;
}

StatusBoard::Record StatusBoard::read(int rank) const {
  const Cell &cell = cells()[rank];
  Record record;
  record.pid = cell.pid.load();
  record.thread = cell.thread.load();
  record.progress = cell.progress.load(std::memory_order_acquire);
  uint64_t task = cell.task.load(std::memory_order_relaxed);
  record.step = int64_t(task >> rowBits);
  record.row = int32_t(task & ((1u << rowBits) - 1)) - 1;
  record.left = cell.left.load();
  record.writer = cell.writer.load();
  record.waits = {cell.kind.load(), cell.peer.load(), cell.group.load(),
                  cell.number.load(), ""};
  record.label.assign(cell.text, ::strnlen(cell.text, sizeof cell.text));
  return record;
}

uint32_t StatusBoard::entered(int rank, int group) const {
  return cells()[rank].entered[group].load(std::memory_order_relaxed);
}

ThreadTime timeOf(int pid, int thread) {
  std::string folder =
      "/proc/" + std::to_string(pid) + "/task/" + std::to_string(thread) + "/";
  ThreadTime time;
  double nanoseconds = 0;
  std::ifstream(folder + "schedstat") >> nanoseconds;
  time.seconds = nanoseconds * 1e-9;
  std::ifstream status(folder + "status");
  time.known = bool(status);
  for (std::string line; std::getline(status, line);)
    if (size_t at = line.find("ctxt_switches:"); at != std::string::npos)
      time.turns += std::strtoull(line.c_str() + at + 14, nullptr, 10);
  return time;
}

} // namespace dt::rt
