//===- Launch.cpp - a program that starts its own ranks ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Launch.h"
#include "runtime/base/Clock.h"
#include "runtime/base/Cores.h"
#include "runtime/base/Error.h"
#include "runtime/base/Log.h"
#include "runtime/base/Stop.h"
#include "runtime/comm/RankProcesses.h"
#include "runtime/comm/Status.h"
#include "runtime/comm/tcp/Meeting.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace dt::rt {

namespace {

#ifdef DT_RUNTIME_MPI
constexpr bool kHasMpi = true;
#else
constexpr bool kHasMpi = false;
#endif

/// The first of these variables that is a number.
std::optional<int> numberOf(std::initializer_list<const char *> names) {
  for (const char *name : names) {
    const char *text = std::getenv(name);
    if (!text || !*text)
      continue;
    char *end;
    long value = std::strtol(text, &end, 10);
    if (!*end && value >= 0 && value < (1 << 30))
      return int(value);
  }
  return std::nullopt;
}

std::string ownPath(const char *argument) {
#ifdef __linux__
  char path[4096];
  ssize_t n = ::readlink("/proc/self/exe", path, sizeof path - 1);
  if (n > 0)
    return std::string(path, n);
#endif
  return argument;
}

void setEnvironment(int ranks, int threads) {
  // mpirun gives ranks a terminal of its own, whatever ours is.
  if (::isatty(STDOUT_FILENO))
    ::setenv("DT_TERMINAL", "1", 1);
  else
    ::unsetenv("DT_TERMINAL");
  std::string share = std::to_string(std::max(1, usableCores() / ranks));
  if (threads == 0)
    ::setenv("OMP_NUM_THREADS", share.c_str(), 0);
}

volatile std::sig_atomic_t stops = 0, interrupts = 0, quits = 0, suspends = 0;

void onSignal(int signal) {
  if (signal == SIGQUIT)
    quits = 1;
  else if (signal == SIGTSTP)
    suspends = 1;
  else
    stops = 1;
  if (signal == SIGINT)
    interrupts = interrupts + 1;
}

/// What the launcher does in place of the system, from now on until the end.
class Handlers {
public:
  Handlers() {
    for (volatile std::sig_atomic_t *count :
         {&stops, &interrupts, &quits, &suspends})
      *count = 0;
    signals = stopSignals();
    signals.insert(signals.end(), {SIGQUIT, SIGTSTP});
    before.resize(signals.size());
    struct sigaction action{};
    action.sa_handler = onSignal;
    action.sa_flags = SA_RESTART;
    for (size_t i = 0; i < signals.size(); ++i)
      ::sigaction(signals[i], &action, &before[i]);
  }
  ~Handlers() {
    for (size_t i = 0; i < signals.size(); ++i)
      ::sigaction(signals[i], &before[i], nullptr);
  }

private:
  std::vector<int> signals;
  std::vector<struct sigaction> before;
};

/// Seconds that all have to end when a rank is gone. mpirun waits for machines
/// that cannot be reached until TCP gives them up.
constexpr double kPatience = 10;
/// Where no rank is left there is nothing to wait for but mpirun's own end; one
/// in twenty Open MPI 4.1.4 hang there when ranks end in MPI_Finalize.
constexpr double kPatienceWithoutRanks = 3;

/// The ranks and their end.
class Launcher {
public:
  Launcher(std::unique_ptr<RankProcesses> started, int ranks)
      : ranks(ranks), processes(std::move(started)),
        board(StatusBoard::nameFor(processes->parent()), -1, ranks) {
    processes->begin();
  }

  /// Until all have ended; the exit code.
  int wait() {
    while (!processes->haveEnded()) {
      if (stops)
        board.requestStop();
      if (interrupts > 1 || quits)
        end();
      if (suspends)
        suspend();
      if (!board.failedHere())
        failed = now();
      else if (now() - failed >
               (board.allGone() ? kPatienceWithoutRanks : kPatience))
        processes->giveUp();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return codeFor(processes->status());
  }

private:
  void signalRanks(int signal) {
    for (int rank = 0; rank < ranks; ++rank)
      if (int pid = board.read(rank).pid)
        ::kill(pid, signal);
  }

  /// A second Ctrl-C, or Ctrl-\.
  void end() {
    killed = true;
    signalRanks(SIGKILL);
    processes->kill(board.anyBegan());
  }

  /// Ctrl-Z: the ranks of this machine stand still, too, until this process
  /// goes on.
  void suspend() {
    suspends = 0;
    signalRanks(SIGSTOP);
    std::raise(SIGSTOP);
    signalRanks(SIGCONT);
  }

  int codeFor(int status) {
    int code = WIFSIGNALED(status) ? exitAfterFault : WEXITSTATUS(status);
    if (killed)
      return 128 + (quits ? SIGQUIT : SIGINT);
    if (!code)
      return 0;
    // Ranks that had not begun know no signals yet: nothing was lost.
    if (stops && !board.anyTrains() && (code == exitAfterFault || code > 128)) {
      printLog("stopped before the first step\n");
      return 0;
    }
    StatusBoard::Report report;
    if (board.anyBegan() || WIFSIGNALED(status))
      report = board.takeReport(); // else they spoke for themselves
    if (report.line.empty() && processes->isOwnCode(code))
      report.line = "error: " + processes->name() + " ended with code " +
                    std::to_string(code) +
                    ": it cannot start ranks, or has lost a machine";
    if (report.line.empty() && WIFSIGNALED(status))
      report.line = "error: " + processes->name() + " was ended by signal " +
                    std::to_string(WTERMSIG(status));
    if (!report.line.empty())
      printLast(report.line);
    // mpirun gives the code of whoever it saw first.
    return report.code ? report.code : code > 128 ? exitAfterFault : code;
  }

  int ranks;
  bool killed = false;
  double failed = now(); ///< when ranks of this machine had not
  std::unique_ptr<RankProcesses> processes;
  StatusBoard board;
};

/// Rank, number of ranks and how many are on this machine, as the first
/// launcher says that names the first two. One name alone may be left over from
/// anywhere.
struct Place {
  int rank = 0, ranks = 1, here = 1;
  Transport transport = Transport::Tcp;
};
Place placeOf(const char *rank, std::initializer_list<const char *> ranks,
              std::optional<int> here) {
  std::optional<int> own = numberOf({rank}), all = numberOf(ranks);
  return own && all && *own < *all ? Place{*own, *all, here.value_or(*all)}
                                   : Place{};
}

/// Of Slurm's list of tasks by node, "2(x3),1", the entry of this node.
std::optional<int> slurmHere() {
  const char *list = std::getenv("SLURM_STEP_TASKS_PER_NODE");
  std::optional<int> node = numberOf({"SLURM_NODEID"});
  for (int before = 0; list && *list && node;) {
    int tasks = 0, times = 1, read = 0;
    if (std::sscanf(list, "%d%n", &tasks, &read) != 1)
      break;
    list += read;
    if (std::sscanf(list, "(x%d)%n", &times, &read) == 1)
      list += read;
    before += times;
    if (*node < before)
      return tasks;
    list += *list == ',';
  }
  return std::nullopt;
}

Place placeUnderMpi() {
  if (Place p = placeOf("OMPI_COMM_WORLD_RANK", {"OMPI_COMM_WORLD_SIZE"},
                        numberOf({"OMPI_COMM_WORLD_LOCAL_SIZE"}));
      p.ranks > 1)
    return p;
  std::optional<int> here = numberOf({"MPI_LOCALNRANKS"});
  if (Place p = placeOf("PMI_RANK", {"PMI_SIZE"}, here ? here : slurmHere());
      p.ranks > 1)
    return p;
  // Slurm's own variables are in every batch job; with PMIx's this is a step.
  return placeOf("PMIX_RANK", {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
                 slurmHere());
}

Place placeWithoutMpi() {
  if (std::getenv("MASTER_ADDR") && std::getenv("MASTER_PORT"))
    if (Place p =
            placeOf("RANK", {"WORLD_SIZE"}, numberOf({"LOCAL_WORLD_SIZE"}));
        p.ranks > 1)
      return p;
  // In a batch job's own shell there is no step.
  if (Place p = placeOf("SLURM_PROCID", {"SLURM_STEP_NUM_TASKS"}, slurmHere());
      p.ranks > 1 || !std::getenv("SLURM_STEP_ID"))
    return p;
  return placeOf("SLURM_PROCID", {"SLURM_NTASKS"}, slurmHere());
}

/// Of DT_COMM; nothing: it does not say.
std::optional<Transport> chosenTransport() {
  const char *choice = std::getenv("DT_COMM");
  if (choice && !std::strcmp(choice, "tcp"))
    return Transport::Tcp;
  if (choice && !std::strcmp(choice, "mpi"))
    return Transport::Mpi;
  return std::nullopt;
}

Place launchedPlace() {
  std::optional<Transport> chosen = chosenTransport();
  if (kHasMpi && chosen != Transport::Tcp)
    if (Place p = placeUnderMpi(); p.ranks > 1)
      return {p.rank, p.ranks, p.here, Transport::Mpi};
  if (chosen == Transport::Mpi)
    return {};
  Place p = placeWithoutMpi();
  return p.ranks > 1 ? p : placeUnderMpi();
}

/// Throws Error unless DT_COMM names what the program has.
void expectChoice() {
  const char *choice = std::getenv("DT_COMM");
  if (choice && *choice && !chosenTransport())
    throw Error(std::string("DT_COMM=") + choice + ": expected mpi or tcp");
  if (!kHasMpi && chosenTransport() == Transport::Mpi)
    throw Error("DT_COMM=mpi: this program was built without MPI (Debian: "
                "install libopenmpi-dev and build it again)");
}

std::unique_ptr<RankProcesses> start(const std::vector<std::string> &command,
                                     int ranks) {
#ifdef DT_RUNTIME_MPI
  if (chosenTransport() != Transport::Tcp)
    return startUnderMpirun(command, ranks);
#endif
  return startOverTcp(command, ranks);
}

} // namespace

bool isLaunched() { return launchedPlace().ranks > 1; }
int launchedRanks() { return launchedPlace().ranks; }
int launchedRank() { return launchedPlace().rank; }
int launchedHere() { return launchedPlace().here; }
Transport launchedTransport() { return launchedPlace().transport; }

std::string launchedBoard() {
  std::string name = StatusBoard::nameFor(::getppid());
  if (hasLauncher() || launchedTransport() == Transport::Mpi)
    return name;
  tcp::Meeting meeting = tcp::meetingPlace();
  return name + "-" + std::to_string(meeting.port) + "-" +
         std::to_string(std::hash<std::string>()(meeting.run));
}

void leaveTerminal(pid_t group, pid_t parent, int death) {
  ::setpgid(0, group);
  sigset_t set;
  ::sigemptyset(&set);
  for (int signal : stopSignals(/*hasLauncher=*/true))
    ::sigaddset(&set, signal);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  // What a group in the background writes would stop it (stty tostop).
  std::signal(SIGTTOU, SIG_IGN);
#ifdef __linux__
  ::prctl(PR_SET_PDEATHSIG, death);
  if (::getppid() != parent)
    ::_exit(1);
#endif
  // A process in the background must not read the terminal.
  int null = ::open("/dev/null", O_RDONLY);
  if (null >= 0)
    ::dup2(null, 0);
}

void become(const std::vector<std::string> &command) {
  std::vector<char *> arguments;
  for (const std::string &argument : command)
    arguments.push_back(const_cast<char *>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

std::optional<int> launchRanks(int argc, char **argv, int ranks, int threads) {
  expectChoice();
  // Of output that nobody takes the writer says so (Log.h, sockets).
  std::signal(SIGPIPE, SIG_IGN);
  if (ranks <= 1 || isLaunched()) {
    holdStopSignals(hasLauncher());
    return std::nullopt;
  }
  std::vector<std::string> command = {ownPath(argv[0])};
  command.insert(command.end(), argv + 1, argv + argc);
  setEnvironment(ranks, threads);
  announceLauncher();
  Handlers handlers;
  try {
    return Launcher(start(command, ranks), ranks).wait();
  } catch (const Error &e) {
    throw Error("--ranks " + std::to_string(ranks) + ": " + e.what());
  }
}

} // namespace dt::rt
