//===- Status.cpp - who is doing what, and who has stopped ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Status.h"
#include "runtime/Error.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dt::rt {

/// Only whole words that are written by one process; on a line of its own.
struct alignas(64) StatusBoard::Cell {
  std::atomic<int32_t> pid, flags; ///< flags: 1 left, 2 waiting
  std::atomic<uint64_t> task;      ///< step << 24 | row + 1
  std::atomic<uint64_t> progress;
  std::atomic<int32_t> reported; ///< of cell 0: somebody has the word
};

/// Behind the cells.
struct StatusBoard::Text {
  std::atomic<int32_t> length; ///< of what is left for the launcher
  char line[1020];
};

namespace {

constexpr int left = 1, waiting = 2;
constexpr int rowBits = 24;

double seconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

/// State letter and start time (ticks) of a process, from /proc/PID/stat; the
/// name in parentheses may hold anything.
bool readStat(int pid, char &state, unsigned long long &start) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text))
    return false;
  size_t end = text.rfind(')');
  if (end == std::string::npos)
    return false;
  start = 0;
  return std::sscanf(text.c_str() + end + 1,
                     " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d "
                     "%*d %*d %*d %*d %*d %llu",
                     &state, &start) >= 1;
}

/// A process number may be used again; with its start time it is unique.
std::string uniqueName(int pid) {
  char state = 0;
  unsigned long long start = 0;
  readStat(pid, state, start);
  return std::to_string(pid) + "-" + std::to_string(start);
}

constexpr const char *launcherVariable = "DT_LAUNCHER";

void print(const std::string &line) {
  std::string text = line + "\n";
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0)
    return; // nobody listens
}

} // namespace

void announceLauncher() {
  ::setenv(launcherVariable, uniqueName(::getpid()).c_str(), 1);
}

bool hasLauncher() { return ::getenv(launcherVariable); }

bool isLauncherGone() {
  const char *name = ::getenv(launcherVariable);
  return name && (uniqueName(std::atoi(name)) != name ||
                  stateOf(std::atoi(name)) == ProcessState::Gone);
}

std::string StatusBoard::nameFor(int parent) {
  return "/dev/shm/disttrain-" + std::to_string(::getuid()) + "-" +
         uniqueName(parent);
}

ProcessState stateOf(int pid) {
  char state = 0;
  unsigned long long start;
  if (!readStat(pid, state, start) || state == 'Z' || state == 'X')
    return ProcessState::Gone;
  return state == 'T' || state == 't' ? ProcessState::Stopped
                                      : ProcessState::Running;
}

StatusBoard::StatusBoard(int rank, int ranks)
    : StatusBoard(nameFor(::getppid()), rank, ranks) {}

StatusBoard::StatusBoard(const std::string &name, int rank, int ranks)
    : path(name), bytes(sizeof(Cell) * size_t(ranks) + sizeof(Text)),
      self(rank), count(ranks) {
  int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                    S_IRUSR | S_IWUSR);
  if (file < 0 || ::ftruncate(file, off_t(bytes)) != 0)
    throw Error(path + ": " + std::strerror(errno));
  memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED)
    throw Error(path + ": " + std::strerror(errno));
  if (self < 0)
    return; // who only reads
  Cell &cell = cells()[self];
  cell.task.store(0);
  cell.flags.store(0);
  cell.pid.store(::getpid());
}

StatusBoard::~StatusBoard() {
  ::munmap(memory, bytes);
  // A launcher still wants to read it; else whoever is first, since the others
  // have it mapped.
  if (self < 0 || !hasLauncher())
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

void StatusBoard::wait(bool on) {
  Cell &cell = cells()[self];
  cell.flags.store(on ? waiting : 0, std::memory_order_relaxed);
  cell.progress.fetch_add(1, std::memory_order_release);
}

void StatusBoard::leave() { cells()[self].flags.store(left); }

bool StatusBoard::claimReport() {
  int32_t no = 0;
  return cells()[0].reported.compare_exchange_strong(no, 1);
}

void StatusBoard::report(const std::string &line) {
  if (!claimReport())
    return;
  if (!hasLauncher() || isLauncherGone())
    return print(line);
  size_t length = std::min(line.size(), sizeof(Text::line));
  std::memcpy(text()->line, line.data(), length);
  text()->length.store(int32_t(length));
}

std::string StatusBoard::takeReport(const std::string &name, int ranks) {
  if (::access(name.c_str(), R_OK | W_OK) != 0)
    return {};
  StatusBoard board(name, -1, ranks);
  if (int32_t length = board.text()->length.load(); length > 0)
    return {board.text()->line, size_t(length)};
  // Whoever never began was the reason that the others ended.
  for (int rank = 0; rank < ranks; ++rank)
    if (!board.read(rank).pid)
      return "error: rank " + std::to_string(rank) + " ended before it began";
  for (int rank = 0; rank < ranks; ++rank)
    if (Record record = board.read(rank); !record.left)
      return "error: rank " + std::to_string(rank) + " ended at step " +
             std::to_string(record.step);
  return {};
}

StatusBoard::Record StatusBoard::read(int rank) const {
  const Cell &cell = cells()[rank];
  Record record;
  record.pid = cell.pid.load();
  record.progress = cell.progress.load(std::memory_order_acquire);
  uint64_t task = cell.task.load(std::memory_order_relaxed);
  record.step = int64_t(task >> rowBits);
  record.row = int32_t(task & ((1u << rowBits) - 1)) - 1;
  int flags = cell.flags.load();
  record.left = flags & left;
  record.waiting = flags & waiting;
  return record;
}

//===----------------------------------------------------------------------===//
// Watchdog
//===----------------------------------------------------------------------===//

Watchdog::Watchdog(StatusBoard &board, Describe describe, double stall)
    : board(board), describe(std::move(describe)), stall(stall),
      parent(::getppid()), lastProgress(board.ranks(), 0),
      lastChange(board.ranks(), seconds()), thread([this] { watch(); }) {}

Watchdog::~Watchdog() {
  stop = true;
  thread.join();
}

void Watchdog::watch() {
  // Asleep in short naps, so that the destructor does not wait.
  for (int nap = 0; !stop; ++nap) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (nap % 4 == 3)
      check();
  }
}

void Watchdog::fail(int rank, const char *what) {
  StatusBoard::Record record = board.read(rank);
  board.report("error: " + describe(rank, record.step, record.row) + " " +
               what);
  // A rank that is stopped cannot end itself.
  for (int r = 0; r < board.ranks(); ++r) {
    StatusBoard::Record record = board.read(r);
    if (record.pid && r != board.rank() && !record.left &&
        stateOf(record.pid) == ProcessState::Stopped)
      ::kill(record.pid, SIGKILL);
  }
  ::_exit(exitAfterFault);
}

void Watchdog::check() {
  if (stop)
    return;
  if (::getppid() != parent || isLauncherGone())
    fail(board.rank(), "ends: its launcher is gone");
  for (int r = 0; r < board.ranks(); ++r) {
    StatusBoard::Record record = board.read(r);
    if (!record.pid || record.left || r == board.rank())
      continue;
    if (stateOf(record.pid) == ProcessState::Gone && !board.read(r).left)
      fail(r, "died");
  }
  checkStall();
}

/// Ranks that wait are late because of others: the one to name is stopped, or
/// works for too long at one task.
void Watchdog::checkStall() {
  double now = seconds();
  int silent = -1;
  for (int r = 0; r < board.ranks(); ++r) {
    StatusBoard::Record record = board.read(r);
    if (record.progress != lastProgress[r] || !record.pid || record.left) {
      lastProgress[r] = record.progress;
      lastChange[r] = now;
    }
    if (now - lastChange[r] < stall)
      continue;
    if (r != board.rank() && stateOf(record.pid) == ProcessState::Stopped)
      fail(r, "was stopped");
    if (!record.waiting && silent < 0)
      silent = r;
  }
  if (silent >= 0)
    fail(silent, "makes no progress");
}

} // namespace dt::rt
