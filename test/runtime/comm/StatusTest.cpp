//===- StatusTest.cpp - failures of ranks are seen and named ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Ranks are processes here: each test starts some, harms one, and looks at
// how the others end and what they print.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Clock.h"
#include "runtime/base/FileActivity.h"
#include "runtime/comm/Watchdog.h"
#include "test/Contains.h"

#include <chrono>
#include <csignal>
#include <functional>
#include <sys/wait.h>
#include <unistd.h>

using namespace dt::rt;

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Of a board that is not there: an earlier process of this number may have
/// left one.
std::string newBoardName() {
  static int serial = 0;
  std::string name = "/dev/shm/disttrain-test-" + std::to_string(::getpid()) +
                     "-" + std::to_string(++serial);
  ::unlink(name.c_str());
  return name;
}

std::string describePlace(int rank, int64_t step, int32_t row) {
  return "rank " + std::to_string(rank) + " at step " + std::to_string(step) +
         ", row " + std::to_string(row);
}

/// Three ranks that run `body`, and what they print to stderr.
class BoardRanks {
public:
  explicit BoardRanks(const std::function<void(StatusBoard &)> &body,
                      double stall = 30) {
    EXPECT_EQ(::pipe(output), 0);
    for (int rank = 0; rank < count; ++rank) {
      pids[rank] = ::fork();
      if (pids[rank] == 0)
        live(rank, body, stall);
    }
    ::close(output[1]);
  }
  ~BoardRanks() {
    ::close(output[0]);
    ::unlink(name.c_str()); // ranks that are ended leave it
  }

  void signal(int rank, int signal) { ::kill(pids[rank], signal); }
  void signalAll(int signal) {
    for (pid_t pid : pids)
      ::kill(pid, signal);
  }

  /// Until all have begun step `step`, however slow the machine is.
  void awaitStep(int64_t step) {
    StatusBoard board(name, -1, count);
    for (int rank = 0; rank < count; ++rank)
      while (!board.read(rank).pid || board.read(rank).step != step) {
        if (hasEnded(rank)) {
          ADD_FAILURE() << "rank " << rank << " ended before step " << step;
          return;
        }
        std::this_thread::sleep_for(milliseconds(5));
      }
  }

  /// Exit code of a rank, or minus the signal that ended it.
  int end(int rank) {
    int status = 0;
    ::waitpid(pids[rank], &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::string text() {
    std::string result(4096, 0);
    ssize_t size = ::read(output[0], result.data(), result.size());
    result.resize(size > 0 ? size : 0);
    return result;
  }

  static constexpr int count = 3;

private:
  /// end() still says how.
  bool hasEnded(int rank) const {
    siginfo_t info{};
    ::waitid(P_PID, id_t(pids[rank]), &info, WEXITED | WNOHANG | WNOWAIT);
    return info.si_pid != 0;
  }
  void live(int rank, const std::function<void(StatusBoard &)> &body,
            double stall) {
    ::dup2(output[1], STDERR_FILENO);
    // Tests in this program may hold it.
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGALRM);
    ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
    ::alarm(120);
    {
      StatusBoard board(name, rank, count);
      Watchdog dog(board, describePlace, stall);
      body(board);
      board.leave();
    }
    ::_exit(0);
  }
  std::string name = newBoardName();
  int output[2];
  pid_t pids[count];
};

void workForever(StatusBoard &board) {
  for (int64_t step = 7;;) {
    board.begin(step, board.rank());
    std::this_thread::sleep_for(milliseconds(20));
  }
}

/// The others wait for rank 1.
void waitForRank1(StatusBoard &board) {
  for (int64_t step = 3;;) {
    if (board.rank() == 1) {
      board.begin(step, 5);
    } else if (!board.read(board.rank()).waits.kind) {
      board.begin(step, 4);
      board.await({Awaited::Message, 1});
    }
    std::this_thread::sleep_for(milliseconds(20));
  }
}

TEST(Status, EndingIsNoFault) {
  BoardRanks ranks([](StatusBoard &board) {
    board.begin(0, 0);
    std::this_thread::sleep_for(milliseconds(board.rank() * 700));
  });
  for (int r = 0; r < BoardRanks::count; ++r)
    EXPECT_EQ(ranks.end(r), 0);
  EXPECT_EQ(ranks.text(), "");
}

TEST(Status, AKilledRankIsNamedOnce) {
  BoardRanks ranks(workForever);
  ranks.awaitStep(7);
  ranks.signal(1, SIGKILL);
  EXPECT_EQ(ranks.end(0), exitAfterFault);
  EXPECT_EQ(ranks.end(2), exitAfterFault);
  EXPECT_EQ(ranks.end(1), -SIGKILL);
  EXPECT_EQ(ranks.text(), "error: rank 1 at step 7, row 1 died\n");
}

TEST(Status, AStoppedRankIsNamedAndEnded) {
  BoardRanks ranks(waitForRank1, /*stall=*/1);
  ranks.awaitStep(3);
  ranks.signal(1, SIGSTOP);
  EXPECT_EQ(ranks.end(0), exitAfterFault);
  EXPECT_EQ(ranks.end(2), exitAfterFault);
  EXPECT_EQ(ranks.end(1), -SIGKILL);
  EXPECT_EQ(ranks.text(), "error: rank 1 at step 3, row 5 was stopped\n");
}

TEST(Status, ARankWithoutProgressIsNamed) {
  BoardRanks ranks(
      [](StatusBoard &board) {
        board.begin(2, 4);
        if (board.rank() != 2)
          board.await({Awaited::Message, 2});
        std::this_thread::sleep_for(std::chrono::seconds(60));
      },
      /*stall=*/1);
  EXPECT_EQ(ranks.end(0), exitAfterFault);
  EXPECT_EQ(ranks.end(1), exitAfterFault);
  EXPECT_EQ(ranks.end(2), exitAfterFault);
  EXPECT_EQ(ranks.text(), "error: rank 2 at step 2, row 4 makes no progress\n");
}

/// Waits as MPI does: it polls.
void poll() {
  for (auto end = Clock::now() + std::chrono::seconds(60); Clock::now() < end;)
    std::this_thread::yield();
}

constexpr int kGroup = kFirstGroup; // of all ranks

/// All have begun the collective; in rank 1 the call hangs.
TEST(Status, ARankThatHangsInACollectiveIsNamed) {
  BoardRanks ranks(
      [](StatusBoard &board) {
        board.begin(2, 4);
        board.enter(kGroup, 7);
        board.await({Awaited::Collective, -1, kGroup, 7, "llm.all_reduce"});
        if (board.rank() == 1)
          ::pause();
        poll();
      },
      /*stall=*/2);
  for (int r = 0; r < BoardRanks::count; ++r)
    EXPECT_EQ(ranks.end(r), exitAfterFault);
  EXPECT_EQ(ranks.text(), "error: rank 1 at step 2, row 4 hangs inside "
                          "collective 7 of group 0 (llm.all_reduce)\n");
}

/// Rank 0 waits for 1, which waits for 2, which has not come to the collective
/// that 0 and 1 do not know of.
TEST(Status, WaitsAreFollowedToTheirEnd) {
  BoardRanks ranks(
      [](StatusBoard &board) {
        board.begin(2, 4);
        if (board.rank() < 2)
          board.await({Awaited::Message, board.rank() + 1});
        poll();
      },
      /*stall=*/1);
  for (int r = 0; r < BoardRanks::count; ++r)
    EXPECT_EQ(ranks.end(r), exitAfterFault);
  EXPECT_EQ(ranks.text(), "error: rank 2 at step 2, row 4 makes no progress\n");
}

TEST(Status, ACircleNamesTheMessages) {
  BoardRanks ranks(
      [](StatusBoard &board) {
        board.begin(2, 4);
        board.await({Awaited::Message, (board.rank() + 1) % BoardRanks::count});
        poll();
      },
      /*stall=*/2);
  for (int r = 0; r < BoardRanks::count; ++r)
    EXPECT_EQ(ranks.end(r), exitAfterFault);
  EXPECT_CONTAINS(ranks.text(), "wait for one another (rank");
}

/// Neither a hook nor a writer that moves on is a fault, though all wait.
TEST(Status, SlowIsNoFault) {
  BoardRanks ranks(
      [](StatusBoard &board) {
        board.begin(2, 4);
        if (board.rank() == 0)
          board.await({Awaited::Hook});
        else if (board.rank() == 1)
          board.await({Awaited::Own});
        else
          board.await({Awaited::Message, 0});
        for (auto end = Clock::now() + std::chrono::seconds(5);
             Clock::now() < end;) {
          std::this_thread::sleep_for(milliseconds(50));
          if (board.rank() == 1)
            progressed();
        }
      },
      /*stall=*/3);
  for (int r = 0; r < BoardRanks::count; ++r)
    EXPECT_EQ(ranks.end(r), 0);
  EXPECT_EQ(ranks.text(), "");
}

/// A machine that was suspended goes on: all were silent, nobody is at fault.
TEST(Status, WhoStoodStillBlamesNobody) {
  BoardRanks ranks(
      [](StatusBoard &board) {
        FileActivity activity("reading", "somewhere");
        for (int step = 0; step < 8; ++step) {
          board.begin(step, 1);
          activity.moved();
          for (int i = 0; i < 14; ++i)
            std::this_thread::sleep_for(milliseconds(50));
        }
      },
      /*stall=*/3);
  for (int stops = 0; stops < 2; ++stops) {
    std::this_thread::sleep_for(milliseconds(800));
    ranks.signalAll(SIGSTOP);
    std::this_thread::sleep_for(milliseconds(4500));
    ranks.signalAll(SIGCONT);
  }
  for (int r = 0; r < BoardRanks::count; ++r)
    EXPECT_EQ(ranks.end(r), 0);
  EXPECT_EQ(ranks.text(), "");
}

/// Nor is anybody where the stop comes in the middle of a check.
TEST(Status, WhoWasStoppedInACheckBlamesNobody) {
  BoardRanks ranks([](StatusBoard &board) {
    Watchdog dog(board, describePlace, /*stall=*/2);
    double begun = 0, before = now();
    for (double time = before; time - before < 2; before = time, time = now()) {
      if (time - begun > 0.1) {
        board.begin(1, 1);
        begun = time;
      }
      dog.check();
    }
  });
  ranks.awaitStep(1);
  ranks.signalAll(SIGSTOP);
  std::this_thread::sleep_for(milliseconds(3000));
  ranks.signalAll(SIGCONT);
  for (int r = 0; r < BoardRanks::count; ++r)
    EXPECT_EQ(ranks.end(r), 0);
  EXPECT_EQ(ranks.text(), "");
}

TEST(Status, AFileThatStandsStillIsNamed) {
  BoardRanks ranks(
      [](StatusBoard &board) {
        board.begin(2, 4);
        board.await({board.rank() == 2 ? Awaited::Own : Awaited::Message, 2});
        if (board.rank() == 2) {
          FileActivity activity("writing", "the/file");
          poll();
        }
        poll();
      },
      /*stall=*/1);
  for (int r = 0; r < BoardRanks::count; ++r)
    EXPECT_EQ(ranks.end(r), exitAfterFault);
  EXPECT_EQ(ranks.text(), "error: rank 2 at step 2, row 4 makes no progress in "
                          "writing the/file\n");
}

/// Who can only say a line itself (a signal's handler) leaves its code.
TEST(Status, WhoClaimsTheWordLeavesItsCode) {
  std::string name = newBoardName();
  StatusBoard launcher(name, -1, 2), failed(name, 0, 2), other(name, 1, 2);
  EXPECT_TRUE(failed.claimReport(1));
  EXPECT_FALSE(other.claimReport(exitAfterFault));
  other.report("error: rank 0 died", exitAfterFault);
  StatusBoard::Report report = launcher.takeReport();
  EXPECT_EQ(report.line, "");
  EXPECT_EQ(report.code, 1);
}

TEST(Status, ProcessStates) {
  pid_t pid = ::fork();
  if (pid == 0) {
    ::pause();
    ::_exit(0);
  }
  EXPECT_EQ(stateOf(pid), ProcessState::Running);
  ::kill(pid, SIGSTOP);
  int status;
  ::waitpid(pid, &status, WUNTRACED);
  EXPECT_EQ(stateOf(pid), ProcessState::Stopped);
  ::kill(pid, SIGKILL);
  siginfo_t info;
  ::waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
  EXPECT_EQ(stateOf(pid), ProcessState::Gone); // a zombie
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(stateOf(pid), ProcessState::Gone);
}

} // namespace
