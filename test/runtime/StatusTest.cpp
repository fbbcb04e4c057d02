//===- StatusTest.cpp - failures of ranks are seen and named ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Ranks are processes here: each test starts some, harms one, and looks at how
// the others end and what they print.
//
//===----------------------------------------------------------------------===//

#include "runtime/Status.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <sys/wait.h>
#include <unistd.h>

using namespace dt::rt;

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Three ranks that run `body`, and what they print to stderr.
class Ranks {
public:
  explicit Ranks(const std::function<void(StatusBoard &)> &body,
                 double stall = 30) {
    std::string name = "/dev/shm/disttrain-test-" + std::to_string(::getpid()) +
                       "-" + std::to_string(++serial);
    EXPECT_EQ(::pipe(output), 0);
    for (int rank = 0; rank < count; ++rank) {
      pids[rank] = ::fork();
      if (pids[rank] == 0)
        live(name, rank, body, stall);
    }
    ::close(output[1]);
  }
  ~Ranks() { ::close(output[0]); }

  void signal(int rank, int signal) { ::kill(pids[rank], signal); }

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
  void live(const std::string &name, int rank,
            const std::function<void(StatusBoard &)> &body, double stall) {
    ::dup2(output[1], STDERR_FILENO);
    ::alarm(120);
    {
      StatusBoard board(name, rank, count);
      Watchdog dog(
          board,
          [](int rank, int64_t step, int32_t row) {
            return "rank " + std::to_string(rank) + " at step " +
                   std::to_string(step) + ", row " + std::to_string(row);
          },
          stall);
      body(board);
      board.leave();
    }
    ::_exit(0);
  }
  static int serial;
  int output[2];
  pid_t pids[count];
};
int Ranks::serial = 0;

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
    } else if (!board.read(board.rank()).waiting) {
      board.wait(true);
    }
    std::this_thread::sleep_for(milliseconds(20));
  }
}

TEST(Status, EndingIsNoFault) {
  Ranks ranks([](StatusBoard &board) {
    board.begin(0, 0);
    std::this_thread::sleep_for(milliseconds(board.rank() * 700));
  });
  for (int r = 0; r < Ranks::count; ++r)
    EXPECT_EQ(ranks.end(r), 0);
  EXPECT_EQ(ranks.text(), "");
}

TEST(Status, AKilledRankIsNamedOnce) {
  Ranks ranks(workForever);
  std::this_thread::sleep_for(milliseconds(300));
  ranks.signal(1, SIGKILL);
  EXPECT_EQ(ranks.end(0), exitAfterFault);
  EXPECT_EQ(ranks.end(2), exitAfterFault);
  EXPECT_EQ(ranks.end(1), -SIGKILL);
  EXPECT_EQ(ranks.text(), "error: rank 1 at step 7, row 1 died\n");
}

TEST(Status, AStoppedRankIsNamedAndEnded) {
  Ranks ranks(waitForRank1, /*stall=*/1);
  std::this_thread::sleep_for(milliseconds(300));
  auto begin = Clock::now();
  ranks.signal(1, SIGSTOP);
  EXPECT_EQ(ranks.end(0), exitAfterFault);
  EXPECT_EQ(ranks.end(2), exitAfterFault);
  EXPECT_EQ(ranks.end(1), -SIGKILL);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
  EXPECT_EQ(ranks.text(), "error: rank 1 at step 3, row 5 was stopped\n");
}

TEST(Status, ARankWithoutProgressIsNamed) {
  Ranks ranks(
      [](StatusBoard &board) {
        board.begin(2, 4);
        board.wait(board.rank() != 2);
        std::this_thread::sleep_for(std::chrono::seconds(15));
      },
      /*stall=*/1);
  EXPECT_EQ(ranks.end(0), exitAfterFault);
  EXPECT_EQ(ranks.end(1), exitAfterFault);
  EXPECT_EQ(ranks.end(2), exitAfterFault);
  EXPECT_EQ(ranks.text(), "error: rank 2 at step 2, row 4 makes no progress\n");
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
