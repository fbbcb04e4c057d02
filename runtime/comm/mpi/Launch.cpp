//===- Launch.cpp - a program that starts its own ranks ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/mpi/Launch.h"
#include "runtime/base/Clock.h"
#include "runtime/base/Cores.h"
#include "runtime/base/Error.h"
#include "runtime/base/Stop.h"
#include "runtime/comm/Status.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace dt::rt {

namespace {

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

/// The path of a program in PATH; empty if there is none.
std::string findExecutable(const std::string &name) {
  const char *path = std::getenv("PATH");
  std::string places = path ? path : "/usr/bin:/bin";
  for (size_t at = 0; at <= places.size();) {
    size_t end = std::min(places.find(':', at), places.size());
    std::string file = places.substr(at, end - at) + "/" + name;
    if (end > at && !::access(file.c_str(), X_OK))
      return file;
    at = end + 1;
  }
  return "";
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
  static const char *const settings[][2] = {
      {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
      {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
      // A rank that waits leaves its core to one that works.
      {"OMPI_MCA_mpi_yield_when_idle", "1"},
      {"OMPI_MCA_hwloc_base_binding_policy", "none"},
      // The one line about what went wrong is this program's.
      {"OMPI_MCA_orte_execute_quiet", "1"},
      // Where /sys is not there (some containers) every process would say so.
      {"HWLOC_HIDE_ERRORS", "2"},
      // What Open MPI finds when a peer is gone goes to its session's files.
      {"OPAL_OUTPUT_REDIRECT", "file"}};
  for (auto &setting : settings)
    ::setenv(setting[0], setting[1], 0);
  // mpirun gives ranks a terminal of its own, whatever ours is.
  if (::isatty(STDOUT_FILENO))
    ::setenv("DT_TERMINAL", "1", 1);
  else
    ::unsetenv("DT_TERMINAL");
  std::string share = std::to_string(std::max(1, usableCores() / ranks));
  if (threads == 0)
    ::setenv("OMP_NUM_THREADS", share.c_str(), 0);
}

volatile std::sig_atomic_t stops = 0, interrupts = 0;

void onSignal(int signal) {
  stops = 1;
  if (signal == SIGINT)
    interrupts = interrupts + 1;
}

/// Signals that ask a run to end (Stop.h).
constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGUSR1};

/// What other launchers have left for their own ranks would confuse mpirun and
/// the ranks.
void forgetLaunchers() {
  static const char *const prefixes[] = {"PMIX_",
                                         "PMI_",
                                         "OMPI_COMM_WORLD_",
                                         "OMPI_UNIVERSE_",
                                         "OMPI_APP_CTX_",
                                         "OMPI_NUM_APP_",
                                         "OMPI_FIRST_RANKS",
                                         "OMPI_FILE_LOCATION",
                                         "OMPI_COMMAND",
                                         "OMPI_ARGV",
                                         "OMPI_MCA_orte_",
                                         "OMPI_MCA_ess",
                                         "OMPI_MCA_pmix",
                                         "HYDI_",
                                         "MPIR_CVAR_"};
  std::vector<std::string> names;
  for (char **entry = environ; *entry; ++entry)
    for (const char *prefix : prefixes)
      if (!std::strncmp(*entry, prefix, std::strlen(prefix)))
        names.emplace_back(*entry, std::strcspn(*entry, "="));
  for (const std::string &name : names)
    ::unsetenv(name.c_str());
}

/// `ready`: the parent closes it when it has seen to the child.
[[noreturn]] void becomeLauncher(const std::string &mpirun,
                                 std::vector<char *> &arguments, pid_t parent,
                                 int ready) {
  ::setpgid(0, 0);
  // mpirun would kill the ranks on these, whatever they are doing; it gives
  // them no mask. They end by themselves, and mpirun with them.
  sigset_t set;
  ::sigemptyset(&set);
  for (int signal : kStopSignals)
    ::sigaddset(&set, signal);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
#ifdef __linux__
  // When the launcher is gone mpirun hands this signal on, and ranks end by it;
  // but those with a watchdog ignore it, say what happened and end then.
  ::prctl(PR_SET_PDEATHSIG, SIGUSR2);
  if (::getppid() != parent)
    ::_exit(1);
#endif
  char none;
  while (::read(ready, &none, 1) < 0 && errno == EINTR)
    ;
  // A process in the background must not read the terminal.
  int null = ::open("/dev/null", O_RDONLY);
  if (null >= 0)
    ::dup2(null, 0);
  ::execv(mpirun.c_str(), arguments.data());
  ::_exit(127);
}

/// Seconds that mpirun has to end when a rank is gone. It waits for machines
/// that cannot be reached until TCP gives them up.
constexpr double kCleansUp = 10;
/// Codes above are mpirun's own; of ranks that are killed it is 128 and the
/// signal.
constexpr int kMostOfRanks = 128 + 64;

/// mpirun and its end.
class Launcher {
public:
  Launcher(const std::string &mpirun, std::vector<char *> &arguments, int ranks)
      : ranks(ranks) {
    int ready[2];
    if (::pipe2(ready, O_CLOEXEC) != 0)
      throw Error(std::string("cannot start mpirun: ") + std::strerror(errno));
    pid_t parent = ::getpid();
    child = ::fork();
    if (child == 0) {
      ::close(ready[1]);
      becomeLauncher(mpirun, arguments, parent, ready[0]);
    }
    int problem = errno;
    ::close(ready[0]);
    try {
      if (child < 0)
        throw Error(std::string("cannot start mpirun: ") +
                    std::strerror(problem));
      board =
          std::make_unique<StatusBoard>(StatusBoard::nameFor(child), -1, ranks);
    } catch (...) {
      if (child > 0) {
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
      }
      ::close(ready[1]);
      throw;
    }
    ::close(ready[1]); // now it begins
  }

  /// Until mpirun has ended; the exit code.
  int wait() {
    int status = 0;
    while (true) {
      pid_t ended = ::waitpid(child, &status, WNOHANG);
      if (ended == child || (ended < 0 && errno != EINTR))
        break;
      if (stops)
        board->requestStop();
      if (interrupts > 1)
        end();
      if (!board->failedHere())
        failed = now();
      else if (now() - failed > kCleansUp)
        giveUp();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return codeFor(status);
  }

private:
  /// Its children too: ssh holds on to a machine that is out of reach.
  void giveUp() {
    std::vector<pid_t> children;
    std::error_code ignored;
    std::string tasks = "/proc/" + std::to_string(child) + "/task";
    for (const auto &task :
         std::filesystem::directory_iterator(tasks, ignored)) {
      std::ifstream list(task.path() / "children");
      children.insert(children.end(), std::istream_iterator<pid_t>(list), {});
    }
    ::kill(child, SIGKILL);
    for (pid_t process : children) // each a group of its own
      ::kill(-process, SIGKILL);
  }

  /// A second Ctrl-C. mpirun cleans up after its ranks, if it still can.
  void end() {
    if (!killed)
      killed = now();
    for (int rank = 0; rank < ranks; ++rank)
      if (int pid = board->read(rank).pid)
        ::kill(pid, SIGKILL);
    if (!board->anyBegan() || now() - killed > 5)
      ::kill(child, SIGKILL);
  }

  int codeFor(int status) {
    int code = WIFSIGNALED(status) ? exitAfterFault : WEXITSTATUS(status);
    if (killed)
      return 128 + SIGINT;
    if (!code)
      return 0;
    // Ranks that had not begun know no signals yet: nothing was lost.
    if (stops && !board->anyTrains() &&
        (code == exitAfterFault || code > 128)) {
      std::printf("stopped before the first step\n");
      return 0;
    }
    StatusBoard::Report report;
    if (board->anyBegan() || WIFSIGNALED(status))
      report = board->takeReport(); // else they spoke for themselves
    if (report.line.empty() && code > kMostOfRanks)
      report.line = "error: mpirun ended with code " + std::to_string(code) +
                    ": it cannot start ranks, or has lost a machine";
    if (report.line.empty() && WIFSIGNALED(status))
      report.line = "error: mpirun was ended by signal " +
                    std::to_string(WTERMSIG(status));
    if (!report.line.empty())
      std::fprintf(stderr, "%s\n", report.line.c_str());
    // mpirun gives the code of whoever it saw first.
    return report.code ? report.code : code > 128 ? exitAfterFault : code;
  }

  int ranks;
  pid_t child = -1;
  double killed = 0;
  double failed = now(); ///< when ranks of this machine had not
  std::unique_ptr<StatusBoard> board;
};

/// Rank and number of ranks, as the first launcher says that names both. One
/// name alone may be left over from anywhere.
struct Place {
  int rank = 0, ranks = 1;
};
Place placeOf(std::initializer_list<const char *> rank,
              std::initializer_list<const char *> ranks) {
  std::optional<int> own = numberOf(rank), all = numberOf(ranks);
  return own && all && *own < *all ? Place{*own, *all} : Place{};
}
Place launchedPlace() {
  if (Place p = placeOf({"OMPI_COMM_WORLD_RANK"}, {"OMPI_COMM_WORLD_SIZE"});
      p.ranks > 1)
    return p;
  if (Place p = placeOf({"PMI_RANK"}, {"PMI_SIZE"}); p.ranks > 1)
    return p;
  // Slurm's own variables are in every batch job; with PMIx's this is a step.
  return placeOf({"PMIX_RANK"}, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
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

} // namespace

bool isLaunched() { return launchedPlace().ranks > 1; }
int launchedRanks() { return launchedPlace().ranks; }
int launchedRank() { return launchedPlace().rank; }
int launchedHere() {
  return numberOf({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"})
      .value_or(slurmHere().value_or(launchedRanks()));
}

std::optional<int> launchRanks(int argc, char **argv, int ranks, int threads) {
  if (ranks <= 1 || isLaunched()) {
    holdStopSignals();
    return std::nullopt;
  }
  std::string flag = "--ranks " + std::to_string(ranks) + ": ";
#ifndef DT_RUNTIME_MPI
  throw Error(flag + "this program was built without MPI (Debian: install "
                     "libopenmpi-dev and build it again)");
#endif
  std::string mpirun = findExecutable("mpirun"), program = ownPath(argv[0]);
  if (mpirun.empty())
    throw Error(flag + "no mpirun in PATH (Debian: install openmpi-bin)");
  forgetLaunchers();
  setEnvironment(ranks, threads);
  std::string name = "mpirun", count = "-n", number = std::to_string(ranks);
  std::vector<char *> arguments = {&name[0], &count[0], &number[0]};
  // Open MPI's own variables come along to other machines, these do not.
  std::string hands = "-x";
  std::string handed[] = {"OMP_NUM_THREADS", "DT_WAIT", "DT_PROGRESS"};
  for (std::string &variable : handed)
    if (::getenv(variable.c_str()))
      arguments.insert(arguments.end(), {&hands[0], &variable[0]});
  arguments.push_back(&program[0]);
  arguments.insert(arguments.end(), argv + 1, argv + argc);
  arguments.push_back(nullptr);

  announceLauncher();
  stops = interrupts = 0;
  struct sigaction action{}, before[std::size(kStopSignals)];
  action.sa_handler = onSignal;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < std::size(kStopSignals); ++i)
    ::sigaction(kStopSignals[i], &action, &before[i]);
  int code = 1;
  try {
    code = Launcher(mpirun, arguments, ranks).wait();
  } catch (const Error &e) {
    throw Error(flag + e.what());
  }
  for (size_t i = 0; i < std::size(kStopSignals); ++i)
    ::sigaction(kStopSignals[i], &before[i], nullptr);
  return code;
}

} // namespace dt::rt
