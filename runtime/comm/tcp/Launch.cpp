//===- Launch.cpp - ranks that this program starts itself -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// With the environment that torchrun would give them, on this machine, and a
// secret of their own. Rank 0 is given a socket that listens already, so that
// the port is nobody else's.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Clock.h"
#include "runtime/base/Error.h"
#include "runtime/comm/RankProcesses.h"
#include "runtime/comm/Status.h"
#include "runtime/comm/tcp/Meeting.h"
#include "runtime/comm/tcp/Secret.h"
#include "runtime/comm/tcp/Socket.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <random>
#include <sys/wait.h>
#include <unistd.h>

namespace dt::rt {

namespace {

/// Seconds that ranks have to end by themselves when one has failed.
constexpr double kEnd = 5;

class Family final : public RankProcesses {
public:
  Family(std::vector<std::string> command, int ranks)
      : command(std::move(command)), children(size_t(ranks)),
        listener(tcp::listenOn(0, tcp::kLoopback)) {
    set("WORLD_SIZE", ranks);
    set("LOCAL_WORLD_SIZE", ranks);
    set("MASTER_PORT", listener.ownPort());
    ::setenv("MASTER_ADDR", tcp::kLoopback, 1);
    ::setenv("DT_COMM", "tcp", 1);
    std::random_device random;
    set("DT_RUN_ID", (uint64_t(random()) << 32 | random()) >> 1);
    ::setenv("DT_SECRET", tcp::makeSecret().c_str(), 1);
    // Of a run around this one.
    for (const char *name :
         {"DT_PORT", "DT_SECRET_FILE", "TORCHELASTIC_USE_AGENT_STORE"})
      ::unsetenv(name);
  }
  ~Family() override {
    killAll();
    for (Child &child : children)
      if (child.pid > 0 && !child.ended)
        ::waitpid(child.pid, nullptr, 0);
  }

  pid_t parent() const override { return ::getpid(); }

  void begin() override {
    for (size_t rank = 0; rank < children.size(); ++rank)
      start(int(rank));
    listener.close(); // rank 0 has it
  }

  bool haveEnded() override {
    bool all = true;
    for (size_t rank = 0; rank < children.size(); ++rank) {
      Child &child = children[rank];
      if (child.ended)
        continue;
      pid_t found = ::waitpid(child.pid, &child.how, WNOHANG);
      child.ended = found == child.pid || (found < 0 && errno != EINTR);
      all = all && child.ended;
      if (child.ended)
        judge(int(rank), child.how);
    }
    // Some may not know yet, and nobody tells them any more.
    if (failed && now() - failed > kEnd)
      killAll();
    return all;
  }
  int status() const override { return how; }
  std::string name() const override { return "rank " + std::to_string(who); }
  bool isOwnCode(int) const override { return false; }
  void kill(bool) override { killAll(); }
  void giveUp() override { killAll(); }

private:
  struct Child {
    pid_t pid = -1;
    int how = 0;
    bool ended = false;
  };

  template <typename T> static void set(const char *name, T value) {
    ::setenv(name, std::to_string(value).c_str(), 1);
  }

  void start(int rank) {
    pid_t group = rank ? children[0].pid : 0, own = ::getpid();
    Child &child = children[size_t(rank)];
    child.pid = ::fork();
    if (child.pid == 0) {
      // Ranks with a watchdog ignore this signal, and say that the launcher is
      // gone.
      leaveTerminal(group, own, SIGUSR2);
      set("RANK", rank);
      set("LOCAL_RANK", rank);
      ::unsetenv(tcp::kListener);
      if (rank == 0) {
        set(tcp::kListener, listener.get());
        ::fcntl(listener.get(), F_SETFD, 0);
      }
      become(command);
    }
    if (child.pid < 0)
      throw Error(std::string("cannot start a process: ") +
                  std::strerror(errno));
    ::setpgid(child.pid, rank ? group : child.pid); // whoever is first
  }

  /// A rank that ends because another one failed knows less than any other.
  static int weight(int how) {
    return !how                                                   ? 0
           : WIFEXITED(how) && WEXITSTATUS(how) == exitAfterFault ? 1
           : WIFSIGNALED(how)                                     ? 2
                                                                  : 3;
  }
  void judge(int rank, int ended) {
    if (!failed && ended)
      failed = now();
    if (weight(ended) > weight(how)) {
      how = ended;
      who = rank;
    }
  }

  void killAll() {
    for (Child &child : children)
      if (child.pid > 0 && !child.ended)
        ::kill(child.pid, SIGKILL);
  }

  std::vector<std::string> command;
  std::vector<Child> children;
  tcp::Socket listener;
  double failed = 0;
  int how = 0, who = 0;
};

} // namespace

std::unique_ptr<RankProcesses> startOverTcp(std::vector<std::string> command,
                                            int ranks) {
  return std::make_unique<Family>(std::move(command), ranks);
}

} // namespace dt::rt
