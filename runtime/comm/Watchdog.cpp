//===- Watchdog.cpp - a rank that has failed is named ---------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Watchdog.h"
#include "runtime/base/Clock.h"
#include "runtime/base/FileActivity.h"
#include "runtime/base/Stop.h"
#include "runtime/base/Thread.h"
#include "runtime/comm/Launch.h"
#include "runtime/device/Device.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <new>
#include <numeric>
#include <unistd.h>

namespace dt::rt {

namespace {

/// Seconds beyond the stall after which a wait for a rank that nobody on this
/// node knows is a fault: its own node is asked first.
constexpr double kOtherNode = 5;
/// Seconds that a rank has to say itself what is wrong with it.
constexpr double kOwnWord = 2;
/// A waiting thread that runs polls, or looks many times a second. Less
/// than this share of a core, and fewer turns a second, is a thread that hangs.
constexpr double kRunning = 0.01, kTurns = 5;
/// Who has not run himself for this share of the stall (a stopped process, a
/// machine that was suspended) cannot say of others that they were silent.
constexpr double kOwnStop = 0.25;

std::string listOf(const std::vector<int> &ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i)
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

std::string nameOf(const StatusBoard::Record &record) {
  if (record.waits.group == kStartGroup)
    return "the start of all ranks";
  if (record.waits.group == kEndGroup)
    return "the end of all ranks";
  if (record.waits.kind == Awaited::Message)
    return (record.label.empty() ? "a message" : "message " + record.label) +
           " from or to rank " + std::to_string(record.waits.peer);
  return "collective " + std::to_string(record.waits.number) + " of group " +
         std::to_string(record.waits.group - kFirstGroup) +
         (record.label.empty() ? "" : " (" + record.label + ")");
}

} // namespace

Watchdog::Watchdog(StatusBoard &board, Describe describe, double stall)
    : board(board), describe(std::move(describe)), stall(stall),
      parent(::getppid()), looked(now()), seen(size_t(board.ranks())),
      groups(kWatchedGroups) {
  lookAnew();
  std::vector<int> all(size_t(board.ranks()));
  std::iota(all.begin(), all.end(), 0);
  groups[kStartGroup] = groups[kEndGroup] = groups[kFirstGroup] = all;
  thread = startThread("the watchdog", [this] { watch(); });
}

void guardLoneRank(StatusBoard &board, const Watchdog::Describe &describe) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return; // a rank trains without it as well
  pid_t child = ::fork();
  if (child != 0) { // the other end closes when this process is gone
    ::close(ends[0]);
    return;
  }
  ::close(ends[1]);
  char none;
  while (::read(ends[0], &none, 1) < 0 && errno == EINTR)
    ;
  // Who is killed as a consequence was asked to end first.
  StatusBoard::Record record = board.read(board.rank());
  if (!record.left && !board.isStopRequested())
    board.report("error: " + describe(board.rank(), record.step, record.row) +
                     " died",
                 exitAfterFault);
  ::_exit(0);
}

Watchdog::~Watchdog() {
  stop = true;
  thread.join();
}

void Watchdog::addGroup(int number, const std::vector<int> &ranks) {
  std::lock_guard<std::mutex> lock(checking);
  if (number + kFirstGroup < kWatchedGroups)
    groups[size_t(number + kFirstGroup)] = ranks;
}

void Watchdog::watch() {
  // Asleep in short naps, so that the destructor does not wait.
  for (int nap = 0; !stop; ++nap) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    double time = now();
    if (time - looked > stall * kOwnStop)
      lookAnew();
    looked = time;
    try {
      handOn();
      if (nap % 4 == 3)
        check();
    } catch (const std::bad_alloc &) { // who needs the memory says so
    }
  }
}

void Watchdog::handOn() {
  if (isStopRequested())
    board.requestStop();
  else if (board.isStopRequested())
    requestStop();
  board.awaitWriter(awaitedWriter());
  if (uint64_t progress = progressCount(); progress != filesProgress) {
    filesProgress = progress;
    board.tick();
  }
  if (uint64_t progress = device::countProgress(); progress != deviceProgress) {
    deviceProgress = progress;
    board.tick();
  }
}

void Watchdog::fail(int rank, const std::string &what) {
  StatusBoard::Record record = board.read(rank);
  board.report("error: " + describe(rank, record.step, record.row) + " " + what,
               exitAfterFault);
  // A rank that is stopped cannot end itself.
  for (int r = 0; r < board.ranks(); ++r) {
    StatusBoard::Record record = board.read(r);
    if (record.pid && r != board.rank() && !record.left &&
        stateOf(record.pid) == ProcessState::Stopped)
      ::kill(record.pid, SIGKILL);
  }
  ::_exit(exitAfterFault);
}

/// For what follows from a silence. A process that was stopped since its last
/// nap, maybe in the middle of a check, looks anew after the next one.
void Watchdog::failByTime(int rank, const std::string &what) {
  if (now() - looked <= stall * kOwnStop)
    fail(rank, what);
}

void Watchdog::check() {
  if (stop)
    return;
  std::lock_guard<std::mutex> lock(checking);
  // A launcher ends when a rank has died: ranks come first.
  for (int r = 0; r < board.ranks(); ++r) {
    StatusBoard::Record record = board.read(r);
    if (!record.pid || record.left || r == board.rank())
      continue;
    if (stateOf(record.pid) == ProcessState::Gone && !board.read(r).left)
      fail(r, "died");
  }
  if (board.ranks() > 1 && (::getppid() != parent || isLauncherGone()))
    fail(board.rank(), "ends: its launcher is gone");
  look();
  checkStopped();
  checkOwnFiles();
  checkStall();
}

void Watchdog::lookAnew() {
  std::lock_guard<std::mutex> lock(checking);
  restartActivities();
  for (Seen &s : seen) {
    s.changed = s.runs = now();
    s.sampled = 0;
  }
}

void Watchdog::look() {
  double time = now();
  for (int r = 0; r < board.ranks(); ++r) {
    StatusBoard::Record record = board.read(r);
    Seen &s = seen[size_t(r)];
    if (record.progress != s.progress || record.left) {
      s.progress = record.progress;
      s.changed = time;
      s.sampled = 0;
    } else if (record.pid && !s.sampled && time - s.changed > stall / 2) {
      s.time = timeOf(record.pid, record.thread);
      s.sampled = time;
    }
  }
}

bool Watchdog::isSilent(int rank, double extra) const {
  return now() - seen[size_t(rank)].changed >= stall + extra;
}

/// Whether the main thread of a silent rank has run lately.
bool Watchdog::hasRun(int rank) const {
  const Seen &s = seen[size_t(rank)];
  StatusBoard::Record record = board.read(rank);
  if (!s.sampled)
    return true;
  ThreadTime time = timeOf(record.pid, record.thread);
  if (!time.known || !s.time.known)
    return true;
  double passed = std::max(now() - s.sampled, 0.1);
  return time.seconds - s.time.seconds > kRunning * passed ||
         double(time.turns - s.time.turns) > kTurns * passed;
}

void Watchdog::checkStopped() {
  for (int r = 0; r < board.ranks(); ++r) {
    StatusBoard::Record record = board.read(r);
    Seen &s = seen[size_t(r)];
    if (!record.pid || record.left ||
        stateOf(record.pid) != ProcessState::Stopped)
      s.runs = now();
    else if (now() - s.runs >= stall)
      failByTime(r, "was stopped");
  }
}

void Watchdog::checkOwnFiles() {
  std::string what = silentActivity(stall);
  if (!what.empty())
    failByTime(board.rank(), "makes no progress in " + what);
}

std::vector<int> Watchdog::awaitedBy(int rank,
                                     const StatusBoard::Record &record) const {
  const Awaited &waits = record.waits;
  if (waits.kind == Awaited::Own)
    return record.writer >= 0 ? std::vector<int>{record.writer}
                              : std::vector<int>();
  if (waits.kind == Awaited::Message)
    return {waits.peer};
  if (waits.kind != Awaited::Collective)
    return {};
  bool counted = waits.group >= 0 && waits.group < kWatchedGroups &&
                 !groups[size_t(waits.group)].empty();
  const std::vector<int> &members =
      groups[counted ? size_t(waits.group) : kFirstGroup];
  std::vector<int> missing, others;
  for (int r : members) {
    if (r == rank)
      continue;
    others.push_back(r);
    // Numbers may wrap.
    if (counted && int32_t(board.entered(r, waits.group) - waits.number) < 0)
      missing.push_back(r);
  }
  return missing.empty() ? others : missing;
}

/// From a silent rank that waits to whoever it waits for, and so on. Nobody, if
/// one of these moves on or may.
Watchdog::Verdict Watchdog::follow(int first) const {
  std::vector<int> reached = {first}, waiting;
  Verdict unknown;
  for (size_t i = 0; i < reached.size(); ++i) {
    int rank = reached[i];
    StatusBoard::Record record = board.read(rank);
    std::string who = "rank " + std::to_string(rank);
    if (!record.pid || record.left) {
      unknown = {first, "waits for " + who +
                            (record.left ? ", which has ended"
                             : launchedHere() < board.ranks()
                                 ? " on another machine, which is not heard of"
                                 : ", which has not begun here")};
      continue;
    }
    if (!isSilent(rank) || record.waits.kind == Awaited::Hook ||
        record.waits.kind == Awaited::Nothing)
      return {}; // it moves on, or is judged by itself
    waiting.push_back(rank);
    std::vector<int> next = awaitedBy(rank, record);
    // Its own watchdog knows the file; it has the word first.
    if (next.empty())
      return isSilent(rank, kOwnWord)
                 ? Verdict{rank, "makes no progress: its own readers and "
                                 "writers stand still"}
                 : Verdict();
    for (int r : next)
      if (r >= 0 && r < board.ranks() &&
          std::find(reached.begin(), reached.end(), r) == reached.end())
        reached.push_back(r);
  }
  if (unknown.rank >= 0)
    return isSilent(first, kOtherNode) ? unknown : Verdict();
  return judgeCircle(waiting);
}

/// These ranks wait for one another only.
Watchdog::Verdict Watchdog::judgeCircle(const std::vector<int> &ranks) const {
  for (int rank : ranks)
    if (stateOf(board.read(rank).pid) == ProcessState::Stopped)
      return {rank, "was stopped"};
  for (int rank : ranks)
    if (!hasRun(rank))
      return {rank, "hangs inside " + nameOf(board.read(rank))};
  std::string text;
  for (int rank : ranks)
    text += (text.empty() ? "" : "; ") + ("rank " + std::to_string(rank)) +
            " for " + nameOf(board.read(rank));
  return {ranks.front(), "waits for " + nameOf(board.read(ranks.front())) +
                             ", which does not come: " + listOf(ranks) +
                             (ranks.size() > 1 ? " wait" : " waits") +
                             " for one another (" + text + ")"};
}

/// Ranks that wait are late because of others: the one to name works for too
/// long at one task, or stands at the end of all waiting.
void Watchdog::checkStall() {
  for (int r = 0; r < board.ranks(); ++r) {
    StatusBoard::Record record = board.read(r);
    if (record.pid && !record.left &&
        isSilent(r, r == board.rank() ? 0 : kOwnWord) &&
        record.waits.kind == Awaited::Nothing)
      failByTime(r, "makes no progress");
  }
  for (int r = 0; r < board.ranks(); ++r) {
    StatusBoard::Record record = board.read(r);
    if (!record.pid || record.left || !isSilent(r) ||
        record.waits.kind == Awaited::Hook)
      continue;
    if (Verdict verdict = follow(r); verdict.rank >= 0)
      failByTime(verdict.rank, verdict.what);
  }
}

} // namespace dt::rt
