//===- Status.cpp - who is doing what, and who has stopped ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Status.h"
#include "runtime/Error.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
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
  std::atomic<int32_t> reported; ///< of cell 0: the line has been printed
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
std::string boardName() {
  char state = 0;
  unsigned long long start = 0;
  int parent = ::getppid();
  readStat(parent, state, start);
  return "/dev/shm/disttrain-" + std::to_string(::getuid()) + "-" +
         std::to_string(parent) + "-" + std::to_string(start);
}

} // namespace

ProcessState stateOf(int pid) {
  char state = 0;
  unsigned long long start;
  if (!readStat(pid, state, start) || state == 'Z' || state == 'X')
    return ProcessState::Gone;
  return state == 'T' || state == 't' ? ProcessState::Stopped
                                      : ProcessState::Running;
}

StatusBoard::StatusBoard(int rank, int ranks)
    : StatusBoard(boardName(), rank, ranks) {}

StatusBoard::StatusBoard(const std::string &name, int rank, int ranks)
    : path(name), bytes(sizeof(Cell) * size_t(ranks)), self(rank),
      count(ranks) {
  int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                    S_IRUSR | S_IWUSR);
  if (file < 0 || ::ftruncate(file, off_t(bytes)) != 0)
    throw Error(path + ": " + std::strerror(errno));
  memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED)
    throw Error(path + ": " + std::strerror(errno));
  Cell &cell = cells()[self];
  cell.task.store(0);
  cell.flags.store(0);
  cell.pid.store(::getpid());
}

StatusBoard::~StatusBoard() {
  ::munmap(memory, bytes);
  // Whoever is first; the others have it mapped.
  ::unlink(path.c_str());
}

StatusBoard::Cell *StatusBoard::cells() const {
  return static_cast<Cell *>(memory);
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
    if (nap % 10 == 9)
      check();
  }
}

void Watchdog::fail(int rank, const char *what) {
  if (board.claimReport()) {
    StatusBoard::Record record = board.read(rank);
    std::string line =
        "error: " + describe(rank, record.step, record.row) + " " + what + "\n";
    if (::write(STDERR_FILENO, line.data(), line.size()) < 0)
      ::_exit(exitAfterFault);
  }
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
  if (::getppid() != parent)
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
  int suspect = -1;
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
    if (!record.waiting && suspect < 0)
      suspect = r;
  }
  // Others may hang in a collective with one that was stopped, so that is
  // looked for first.
  if (suspect >= 0)
    fail(suspect, "makes no progress");
}

} // namespace dt::rt
