//===- Launch.cpp - ranks that mpirun starts --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Clock.h"
#include "runtime/base/Error.h"
#include "runtime/comm/RankProcesses.h"
#include "runtime/comm/mpi/OutputRelay.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/wait.h>
#include <unistd.h>

namespace dt::rt {

namespace {

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

/// Open MPI is told to allow more ranks than cores and root, unless its
/// variables say otherwise.
void setEnvironment() {
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
      {"OPAL_OUTPUT_REDIRECT", "file"},
      // Of who crashes, mpirun included, the line says enough.
      {"OMPI_MCA_opal_signal", ""}};
  for (auto &setting : settings)
    ::setenv(setting[0], setting[1], 0);
}

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

/// Seconds after which mpirun is killed, too: it cleans up after its ranks, if
/// it still can.
constexpr double kCleansUp = 5;
/// Codes above are mpirun's own; of ranks that are killed it is 128 and the
/// signal.
constexpr int kMostOfRanks = 128 + 64;

class Mpirun final : public RankProcesses {
public:
  explicit Mpirun(const std::vector<std::string> &command) {
    if (::pipe2(ready, O_CLOEXEC) != 0)
      throw Error(std::string("cannot start mpirun: ") + std::strerror(errno));
    pid_t parent = ::getpid();
    child = ::fork();
    int problem = errno;
    if (child == 0) {
      ::close(ready[1]);
      relay.take();
      // mpirun would kill the ranks on signals, whatever they are doing; it
      // gives them no mask. They end by themselves, and mpirun with them. When
      // the launcher is gone mpirun hands this signal on, and ranks end by it;
      // but those with a watchdog ignore it, say what happened and end then.
      leaveTerminal(0, parent, SIGUSR2);
      char none;
      while (::read(ready[0], &none, 1) < 0 && errno == EINTR)
        ;
      become(command);
    }
    ::close(ready[0]);
    relay.leave();
    if (child < 0) {
      ::close(ready[1]);
      throw Error(std::string("cannot start mpirun: ") +
                  std::strerror(problem));
    }
  }
  ~Mpirun() override {
    if (!ended) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
    begin();
  }

  pid_t parent() const override { return child; }
  void begin() override {
    if (ready[1] >= 0)
      ::close(ready[1]);
    ready[1] = -1;
  }
  bool haveEnded() override {
    pid_t found = ::waitpid(child, &how, WNOHANG);
    ended = found == child || (found < 0 && errno != EINTR);
    if (ended)
      relay.finish();
    return ended;
  }
  int status() const override { return how; }
  std::string name() const override { return "mpirun"; }
  bool isOwnCode(int code) const override { return code > kMostOfRanks; }
  void kill(bool begun) override {
    if (!killed)
      killed = now();
    if (!begun || now() - killed > kCleansUp)
      ::kill(child, SIGKILL);
  }
  /// Its children too: ssh holds on to a machine that is out of reach.
  void giveUp() override {
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

private:
  OutputRelay relay; ///< from before there are other pipes
  int ready[2];
  pid_t child = -1;
  int how = 0;
  bool ended = false;
  double killed = 0;
};

} // namespace

std::unique_ptr<RankProcesses>
startUnderMpirun(std::vector<std::string> command, int ranks) {
  std::string mpirun = findExecutable("mpirun");
  if (mpirun.empty())
    throw Error("no mpirun in PATH (Debian: install openmpi-bin)");
  forgetLaunchers();
  setEnvironment();
  std::vector<std::string> all = {mpirun, "-n", std::to_string(ranks)};
  // Open MPI's own variables come along to other machines, these do not.
  for (const char *variable : {"OMP_NUM_THREADS", "DT_WAIT", "DT_PROGRESS"})
    if (std::getenv(variable))
      all.insert(all.end(), {"-x", variable});
  all.insert(all.end(), command.begin(), command.end());
  return std::make_unique<Mpirun>(all);
}

} // namespace dt::rt
