//===- Main.cpp - a training program from its first line to its code ------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Flags, ranks, who watches them, and which of them says what went wrong.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Error.h"
#include "runtime/base/Files.h"
#include "runtime/base/Log.h"
#include "runtime/base/Process.h"
#include "runtime/base/Stop.h"
#include "runtime/comm/Agreement.h"
#include "runtime/comm/Launch.h"
#include "runtime/comm/Watchdog.h"
#include "runtime/observe/Trace.h"
#include "runtime/train/SameStart.h"
#include "runtime/train/Train.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>

namespace dt::rt {

namespace {

bool onSeveralMachines() { return launchedHere() < launchedRanks(); }

/// "rank 4 (llm stage 1, replica 0) at step 17, llm.1 forward 2"; the machine
/// is this one.
std::string describeRank(const ProgramInfo &program, int rank, int64_t step,
                         int32_t row) {
  std::string text = "rank " + std::to_string(rank), runs;
  for (const ModuleInfo &m : program.modules)
    for (size_t i = 0; i < m.ranks.size; ++i)
      if (m.ranks[i] == rank)
        runs += (runs.empty() ? "" : "; ") + std::string(m.unit) + " stage " +
                std::to_string(m.stage) + ", replica " +
                std::to_string(i / size_t(m.tp));
  text += " (" + runs + ")" + (onSeveralMachines() ? " on " + hostName() : "") +
          " at step " + std::to_string(step);
  if (row < 0 || size_t(rank) >= program.ranks.size ||
      size_t(row) >= program.ranks[size_t(rank)].rows.size)
    return text;
  return text + ", " +
         nameOf(program.ranks[size_t(rank)].rows[size_t(row)], program);
}

StatusBoard *boardInUse = nullptr;
/// Of who then ends this process with code 1.
bool claimWord() { return boardInUse->claimReport(1); }

/// The status board, from before ranks know each other, and who looks at it.
struct Watch {
  Watch() {
    bool alone = launchedRanks() == 1;
    if (hasLauncher())
      std::signal(SIGUSR2,
                  SIG_IGN); // that the launcher is gone is seen anyway
    board = alone ? std::make_unique<StatusBoard>()
                  : std::make_unique<StatusBoard>(
                        launchedBoard(), launchedRank(), launchedRanks());
    boardInUse = board.get();
    explainBusErrors(alone ? -1 : launchedRank(), claimWord);
  }
  ~Watch() { explainBusErrors(-1); }
  void begin(const ProgramInfo &program, double stall) {
    auto describe = [&program](int rank, int64_t step, int32_t row) {
      return describeRank(program, rank, step, row);
    };
    // Over TCP those of other machines see it.
    if (launchedTransport() == Transport::Mpi && launchedHere() == 1)
      guardLoneRank(*board, describe);
    dog = std::make_unique<Watchdog>(*board, describe, stall);
    installStopSignals();
  }
  /// Says what went wrong, unless it is that another rank is gone.
  void say(const std::string &what) {
    if (dog)
      dog->check();
    board->report("error: " + what, 1);
  }
  std::unique_ptr<StatusBoard> board;
  std::unique_ptr<Watchdog> dog;
};

/// Says why this rank ends, also where there is no memory left to say it with.
void sayFailure(Watch &watch, const std::exception &e) {
  try {
    bool memory = dynamic_cast<const std::bad_alloc *>(&e);
    watch.say((onSeveralMachines() ? "rank " + std::to_string(launchedRank()) +
                                         " on " + hostName() + ": "
                                   : "") +
              (memory ? "out of memory" : e.what()));
  } catch (const std::bad_alloc &) {
    endWithoutMemory("training");
  }
}

/// An Error that all ranks have is said by the first; of another, the rank
/// that has it speaks and takes the others down.
/// `wrong`: why this rank cannot begin; empty: it can.
int runRanks(const ProgramInfo &program, const char *directory,
             const Options &options, const TrainHooks &hooks,
             const std::string &wrong) {
  std::string own = launchedRank() < 0 || program.ranks.size == 1
                        ? ""
                        : "rank " + std::to_string(launchedRank()) + ": ";
  std::unique_ptr<Watch> made;
  try {
    made = std::make_unique<Watch>();
    made->begin(program, options.stall);
  } catch (const std::exception &e) {
    // The others see that this rank is gone, and nobody else knows why.
    if (made)
      made->say(own + e.what());
    else
      printLast("error: " + own + e.what());
    return 1;
  }
  Watch &watch = *made;
  std::unique_ptr<Comm> comm;
  int code = 0;
  try {
    comm = Comm::start(watch.board.get(),
                       [&](int group, const std::vector<int> &ranks) {
                         watch.dog->addGroup(group, ranks);
                       });
    comm->agree(wrong);
    comm->expectRanks(int(program.ranks.size));
    expectSameStart(*comm, options);
    runTraining(program, directory, options, *comm, hooks, watch.board.get());
  } catch (const CommonError &e) {
    if (launchedRank() == 0)
      watch.say(e.what());
    code = 1;
  } catch (const std::exception &e) { // also bad_alloc, filesystem
    sayFailure(watch, e);
    if (comm && comm->size() > 1)
      comm->abort(1);
    return 1;
  }
  if (comm)
    comm->finish();
  watch.board->leave();
  return code;
}

void printHelp(const char *program) {
  std::printf("usage: %s [flags]\n%s", program, optionsHelp());
  if (std::fflush(stdout) != 0)
    throw Error(std::string("standard output: ") + std::strerror(errno));
}

} // namespace

void expectPossible(const ProgramInfo &program, const Options &options) {
  int planned = int(program.ranks.size);
  if (options.ranks && options.ranks != planned)
    throw Error("--ranks " + std::to_string(options.ranks) +
                ": the plan of this program has " + std::to_string(planned) +
                (planned == 1 ? " rank" : " ranks"));
  for (const std::string &path : options.batch)
    if (path == "-" && planned > 1)
      throw Error(
          "--batch -: standard input is one process's, and this program "
          "has " +
          std::to_string(planned) +
          " ranks; expected files, or a pipe by its name (mkfifo)");
  expectThreads("--threads", options.threads);
  expectThreads("--workers", options.workers);
}

int trainMain(const ProgramInfo &program, const char *directory, int argc,
              char **argv, const TrainHooks &hooks) {
  beginProcess();
  explainTerminations();
  try {
    if (argc == 1) {
      if (launchedRank() == 0)
        printLast(std::string("error: nothing to do: give --data or --batch, "
                              "and --steps unless the recipe says how many (") +
                  argv[0] + " --help lists the flags)");
      return 1;
    }
    Options options;
    std::string wrong = failureOf([&] {
      options = parseOptions(argc, argv);
      if (!options.help)
        expectPossible(program, options);
    });
    // The other ranks wait: they learn of it.
    if (!wrong.empty() && !isLaunched())
      throw Error(wrong);
    if (options.help) {
      printHelp(argv[0]);
      return 0;
    }
    if (auto code = launchRanks(argc, argv, options.ranks, options.threads))
      return *code;
    restartWithWaitPolicy(argv);
    return runRanks(program, directory, options, hooks, wrong);
  } catch (const std::bad_alloc &) { // of any rank: nobody else knows
    endWithoutMemory("training");
  } catch (const std::exception &e) {
    if (launchedRank() == 0)
      printLast(std::string("error: ") + e.what());
  }
  return 1;
}

int trainMain(const ProgramInfo &program, const char *directory, int argc,
              char **argv) {
  return trainMain(program, directory, argc, argv, {});
}

} // namespace dt::rt
