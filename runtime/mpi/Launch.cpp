//===- Launch.cpp - a program that starts its own ranks ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/mpi/Launch.h"
#include "runtime/Cores.h"
#include "runtime/Error.h"
#include "runtime/Status.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/wait.h>
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
std::string findProgram(const std::string &name) {
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

volatile pid_t launcher = 0;
volatile std::sig_atomic_t signalled = 0;

void passOn(int) {
  if (launcher > 0)
    ::kill(launcher, signalled ? SIGTERM : SIGUSR1);
  signalled = 1;
}

[[noreturn]] void becomeLauncher(const std::string &mpirun,
                                 std::vector<char *> &arguments, pid_t parent) {
  ::setpgid(0, 0);
#ifdef __linux__
  // When the launcher is gone mpirun hands this signal on, and ranks end by it;
  // but those with a watchdog ignore it, say what happened and end then.
  ::prctl(PR_SET_PDEATHSIG, SIGUSR2);
  if (::getppid() != parent)
    ::_exit(1);
#endif
  // A process in the background must not read the terminal.
  int null = ::open("/dev/null", O_RDONLY);
  if (null >= 0)
    ::dup2(null, 0);
  ::execv(mpirun.c_str(), arguments.data());
  ::_exit(127);
}

} // namespace

bool isLaunched() {
  return numberOf({"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"})
      .has_value();
}

int launchedRanks() {
  if (!isLaunched())
    return 1;
  return numberOf({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS",
                   "SLURM_NTASKS"})
      .value_or(1);
}

int launchedRank() {
  return numberOf({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
      .value_or(0);
}

std::optional<int> launchRanks(int argc, char **argv, int ranks, int threads) {
  if (ranks <= 1 || isLaunched())
    return std::nullopt;
  std::string flag = "--ranks " + std::to_string(ranks) + ": ";
#ifndef DT_RUNTIME_MPI
  throw Error(flag + "this program was built without MPI (Debian: install "
                     "libopenmpi-dev and build it again)");
#endif
  std::string mpirun = findProgram("mpirun"), program = ownPath(argv[0]);
  if (mpirun.empty())
    throw Error(flag + "no mpirun in PATH (Debian: install openmpi-bin)");
  setEnvironment(ranks, threads);
  std::string name = "mpirun", count = "-n", number = std::to_string(ranks);
  std::vector<char *> arguments = {&name[0], &count[0], &number[0],
                                   &program[0]};
  arguments.insert(arguments.end(), argv + 1, argv + argc);
  arguments.push_back(nullptr);

  pid_t parent = ::getpid();
  announceLauncher();
  launcher = 0;
  signalled = 0;
  auto interrupt = std::signal(SIGINT, passOn);
  auto terminate = std::signal(SIGTERM, passOn);
  pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    becomeLauncher(mpirun, arguments, parent);
  }
  if (child < 0)
    throw Error(flag + "cannot start mpirun: " + std::strerror(errno));
  launcher = child;
  std::string board = StatusBoard::nameFor(child);
  if (signalled) // between the two lines above
    ::kill(child, SIGTERM);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  launcher = 0;
  std::signal(SIGINT, interrupt);
  std::signal(SIGTERM, terminate);
  std::string report = StatusBoard::takeReport(board, ranks);
  if (WIFSIGNALED(status) && report.empty())
    report =
        "error: mpirun was ended by signal " + std::to_string(WTERMSIG(status));
  if (status && !report.empty())
    std::fprintf(stderr, "%s\n", report.c_str());
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

} // namespace dt::rt
