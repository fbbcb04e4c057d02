//===- Train.cpp - the training loop ----------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Train.h"
#include "runtime/Checkpoint.h"
#include "runtime/Device.h"
#include "runtime/Error.h"
#include "runtime/Export.h"
#include "runtime/Profile.h"
#include "runtime/Progress.h"
#include "runtime/Recorder.h"
#include "runtime/Stop.h"
#include "runtime/Watchdog.h"
#include "runtime/mpi/Launch.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <unistd.h>

namespace dt::rt {

namespace {

/// What an Error of `body` says; empty if there is none.
template <typename Body> std::string failureOf(Body body) {
  try {
    body();
  } catch (const Error &e) {
    return e.what();
  }
  return {};
}

nlohmann::json readPlan(const std::string &directory) {
  std::string path = directory + "/plan.json";
  std::ifstream stream(path);
  if (!stream)
    throw Error(path +
                ": cannot open (does --program name the program's directory?)");
  nlohmann::json plan = nlohmann::json::parse(stream, nullptr, false);
  if (!plan.is_object())
    throw Error(path + ": not a JSON object");
  return plan;
}

std::unique_ptr<BatchSource> openSource(const ProgramInfo &program,
                                        const nlohmann::json &plan,
                                        const Options &options, uint64_t seed,
                                        int rank) {
  RankView view = viewOf(program, rank);
  Reorder reorder = options.reorder.value_or(program.reorder);
  if (!options.batch.empty())
    return openFileBatch(program, plan, options.batch, view, reorder);
  if (options.data.empty())
    throw Error("nothing to train on: give --data or --batch");
#ifndef DT_RUNTIME_NO_SHARDS
  return openShardBatch(program, plan, {options.data, seed, options.workers},
                        view, reorder);
#else
  (void)seed;
  throw Error("--data: this program was built without shards, use --batch");
#endif
}

/// As openSource; false if this process was asked to end before it was done.
bool opened(std::unique_ptr<BatchSource> &source, const ProgramInfo &program,
            const nlohmann::json &plan, const Options &options, int rank) {
  try {
    source = openSource(program, plan, options,
                        options.seed.value_or(program.seed), rank);
  } catch (const Stopped &) {
    return false;
  }
  return true;
}

bool onAnyRank(Comm &comm, bool mine) {
  int64_t value = mine, any = 0;
  comm.world().allReduce(Reduction::Max, DType::I64, &value, &any, 1, "setup");
  return any;
}

/// Nothing was done, so there is nothing to save.
int64_t sayStoppedEarly(const Comm &comm) {
  if (comm.rank() == 0)
    std::printf("stopped before the first step\n");
  std::fflush(stdout);
  return 0;
}

Trainer::Settings settingsOf(const ProgramInfo &program,
                             const Options &options) {
  Trainer::Settings settings = Trainer::defaults(program);
  settings.threads = options.threads;
  settings.seed = options.seed.value_or(program.seed);
  settings.optimizer.lr = options.lr.value_or(program.optimizer.lr);
  settings.totalSteps =
      options.steps >= 0 ? options.steps : program.optimizer.totalSteps;
  return settings;
}

void logStart(const Trainer &trainer, const BatchSource *source,
              int64_t first) {
  const ProgramInfo &program = trainer.program();
  int64_t trained = 0, all = 0;
  for (const ParameterInfo &p : program.parameters) {
    if (p.tied >= 0)
      continue;
    all += trainer.elements(p);
    trained += p.trainable ? trainer.elements(p) : 0;
  }
  std::printf(
      "%s: %lld parameters, %lld trained; batch %lld in %lld parts; %s\n",
      program.name, (long long)all, (long long)trained,
      (long long)program.globalBatch, (long long)microbatchCount(program),
      device::describe());
  if (trainer.comm().size() > 1)
    std::printf("%s; schedule %s\n", trainer.comm().describe().c_str(),
                program.schedule ? program.schedule : "accumulate");
  if (source && !source->summary().empty())
    std::printf("%s\n", source->summary().c_str());
  if (first)
    std::printf("resumed at step %lld\n", (long long)first);
  std::fflush(stdout);
}

/// A batch that one rank cannot get ends all of them with its message.
const Batch &nextBatch(Trainer &trainer, BatchSource &source, int64_t step) {
  Waits waits(trainer.comm().board(), {Awaited::Own});
  const Batch *batch = nullptr;
  std::string failure = failureOf([&] { batch = &source.next(step); });
  if (!batch)
    trainer.stepFailed(failure);
  return *batch;
}

/// Steps `first` to `total`; returns how many are done.
int64_t trainLoop(Trainer &trainer, BatchSource &source, const Options &options,
                  const TrainHooks &hooks, StatusBoard *board, int64_t first,
                  int64_t total) {
  bool speaks = trainer.comm().rank() == 0, alone = trainer.comm().size() == 1;
  Recorder recorder(trainer, options, board, bool(hooks.afterStep));
  Metrics metrics(speaks ? options.metrics : "", options.resume ? first : 0);
  Progress progress(trainer.program(), first, total, options.logEvery);
  CheckpointWriter checkpoints(trainer, options.checkpoint);
  int64_t step = first, saved = -1;
  bool stop = false;
  StepResult result;
  StepReport report{first, total, nullptr, 0, &recorder.times()};
  auto save = [&] {
    if (!options.checkpoint.empty() && saved != step)
      checkpoints.save(step, source.hash());
    saved = step;
  };
  while (step < total && !stop) {
    double begin = now(), cpu = threadSeconds();
    const Batch &batch = nextBatch(trainer, source, step);
    recorder.beginStep(batch, step, step == first);
    result = trainer.step(batch, step, &recorder,
                          {isStopRequested(), hooks.wants && hooks.wants()});
    device::synchronize();
    double end = now();
    recorder.endStep(batch, result, begin, end, threadSeconds() - cpu);
    ++step;
    report = {step, total, &result, end - begin, &recorder.times()};
    metrics.step(trainer.program(), step, result, report.seconds,
                 recorder.times());
    if (speaks)
      progress.step(step, result);
    if (hooks.afterStep) {
      Waits waits(board, {Awaited::Hook});
      hooks.afterStep(trainer, report);
    }
    stop = result.stop || (alone && isStopRequested());
    if (options.saveEvery && step % options.saveEvery == 0)
      save();
  }
  if (speaks)
    progress.finish();
  if (step > first || first == 0)
    save();
  checkpoints.finish();
  std::string text = recorder.finish();
  if (stop && speaks)
    std::printf("stopped after step %lld%s%s\n", (long long)step,
                options.checkpoint.empty() ? "" : ", saved in ",
                options.checkpoint.c_str());
  if (!text.empty())
    std::printf("%s", text.c_str());
  std::fflush(stdout);
  Waits waits(board, {Awaited::Hook});
  if (hooks.afterTraining)
    hooks.afterTraining(trainer, report);
  return step;
}

} // namespace

#ifdef __linux__
/// OpenMP threads that sleep at once cost more than a small product; threads
/// that spin for long steal the core of whoever else runs. A short spin is near
/// the best in both cases. The OpenMP library reads its settings before main(),
/// hence the second start; a setting of the user's is left alone.
void restartWithWaitPolicy(char **argv) {
  if (::getenv("OMP_WAIT_POLICY") || ::getenv("GOMP_SPINCOUNT") ||
      ::getenv("KMP_BLOCKTIME"))
    return;
  keepStopSignals();
  ::setenv("GOMP_SPINCOUNT", "3000", 1);
  ::setenv("KMP_BLOCKTIME", "1", 1);
  ::execv("/proc/self/exe", argv); // on failure: go on as we are
  installStopSignals();
}
#else
void restartWithWaitPolicy(char **) {}
#endif

int64_t runTraining(const ProgramInfo &program, const std::string &directory,
                    const Options &options, Comm &comm, const TrainHooks &hooks,
                    StatusBoard *board) {
  installStopSignals();
  comm.expectRanks(int(program.ranks.size));
  std::string home = options.program.empty() ? directory : options.program;
  Trainer::Settings settings = settingsOf(program, options);
  if (!options.profile.empty()) {
    Waits waits(board, {Awaited::Hook}); // tasks, in its own order
    writeProfile(program, settings, home + "/weights.safetensors", comm,
                 options.rows.empty() ? std::vector<int64_t>{program.microBatch}
                                      : options.rows,
                 options.profile);
    return 0;
  }
  bool wantsData = !options.data.empty() || !options.batch.empty();
  int64_t total = settings.totalSteps;
  bool exportOnly =
      !wantsData && !options.exportTo.empty() && options.steps <= 0;
  nlohmann::json plan;
  std::unique_ptr<BatchSource> source;
  bool stopped = false;
  comm.agree(failureOf([&] {
    plan = readPlan(home);
    if (!options.checkpoint.empty() && !options.resume)
      expectNoCheckpoints(options.checkpoint);
    if (options.steps < 0 && program.optimizer.totalSteps == 0 && wantsData)
      throw Error("give --steps: the recipe's schedule has no length");
    if (wantsData || (total > 0 && !exportOnly))
      stopped = !opened(source, program, plan, options, comm.rank());
  }));
  if (onAnyRank(comm, stopped))
    return sayStoppedEarly(comm);
  Trainer trainer(program, settings, comm);
  int64_t done = 0;
  comm.agree(failureOf([&] {
    if (options.resume)
      done = loadCheckpoint(trainer, options.checkpoint,
                            source ? source->hash() : 0);
    else
      trainer.initializeParameters(home + "/weights.safetensors");
  }));
  if (comm.rank() == 0)
    logStart(trainer, source.get(), done);
  if (hooks.beforeTraining) {
    Waits waits(board, {Awaited::Hook});
    hooks.beforeTraining(trainer);
  }
  if (source)
    done = trainLoop(trainer, *source, options, hooks, board, done,
                     std::max(done, total));
  if (!options.exportTo.empty())
    exportOnnx(trainer, home + "/onnx", options.exportTo);
  return done;
}

namespace {

/// "rank 4 (llm stage 1, replica 0) at step 17, llm.1 forward 2".
std::string describeRank(const ProgramInfo &program, int rank, int64_t step,
                         int32_t row) {
  std::string text = "rank " + std::to_string(rank), runs;
  for (const ModuleInfo &m : program.modules)
    for (size_t i = 0; i < m.ranks.size; ++i)
      if (m.ranks[i] == rank)
        runs += (runs.empty() ? "" : "; ") + std::string(m.unit) + " stage " +
                std::to_string(m.stage) + ", replica " +
                std::to_string(i / size_t(m.tp));
  text += " (" + runs + ") at step " + std::to_string(step);
  if (row < 0 || size_t(rank) >= program.ranks.size ||
      size_t(row) >= program.ranks[size_t(rank)].rows.size)
    return text;
  return text + ", " +
         nameOf(program.ranks[size_t(rank)].rows[size_t(row)], program);
}

StatusBoard *boardInUse = nullptr;
bool claimWord() { return boardInUse->claimReport(); }

/// The status board, from before ranks know each other, and who looks at it.
struct Watch {
  Watch(const ProgramInfo &program, double stall) {
    bool alone = launchedRanks() == 1;
    if (!alone)
      std::signal(SIGUSR2, SIG_IGN); // that the launcher is gone is seen anyway
    board =
        alone ? std::make_unique<StatusBoard>()
              : std::make_unique<StatusBoard>(launchedRank(), launchedRanks());
    boardInUse = board.get();
    explainBusErrors(alone ? -1 : launchedRank(), claimWord);
    dog = std::make_unique<Watchdog>(
        *board,
        [&program](int rank, int64_t step, int32_t row) {
          return describeRank(program, rank, step, row);
        },
        stall);
  }
  /// Says what went wrong, unless it is that another rank is gone.
  void say(const std::exception &e) {
    dog->check();
    board->report(std::string("error: ") + e.what(), 1);
  }
  std::unique_ptr<StatusBoard> board;
  std::unique_ptr<Watchdog> dog;
};

/// An Error that all ranks have is said by the first; of another, the rank that
/// has it speaks and takes the others down.
int runRanks(const ProgramInfo &program, const char *directory,
             const Options &options, const TrainHooks &hooks) {
  Watch watch(program, options.stall);
  std::unique_ptr<Comm> comm = Comm::start(
      watch.board.get(), [&](int group, const std::vector<int> &ranks) {
        watch.dog->addGroup(group, ranks);
      });
  int code = 0;
  try {
    runTraining(program, directory, options, *comm, hooks, watch.board.get());
  } catch (const CommonError &e) {
    if (comm->rank() == 0)
      watch.say(e);
    code = 1;
  } catch (const std::exception &e) { // also bad_alloc, filesystem
    watch.say(e);
    if (comm->size() > 1)
      comm->abort(1);
    return 1;
  }
  comm->finish();
  watch.board->leave();
  return code;
}

} // namespace

void expectPossible(const ProgramInfo &program, const Options &options) {
  int planned = int(program.ranks.size);
  if (options.ranks && options.ranks != planned)
    throw Error("--ranks " + std::to_string(options.ranks) +
                ": the plan of this program has " + std::to_string(planned) +
                (planned == 1 ? " rank" : " ranks"));
  expectThreads("--threads", options.threads);
  expectThreads("--workers", options.workers);
}

int trainMain(const ProgramInfo &program, const char *directory, int argc,
              char **argv, const TrainHooks &hooks) {
  try {
    Options options = parseOptions(argc, argv);
    if (options.help) {
      std::printf("usage: %s [flags]\n%s", argv[0], optionsHelp());
      return 0;
    }
    expectPossible(program, options);
    if (auto code = launchRanks(argc, argv, options.ranks, options.threads))
      return *code;
    restartWithWaitPolicy(argv);
    return runRanks(program, directory, options, hooks);
  } catch (const std::exception &e) {
    if (launchedRank() == 0)
      std::fprintf(stderr, "error: %s\n", e.what());
  }
  return 1;
}

int trainMain(const ProgramInfo &program, const char *directory, int argc,
              char **argv) {
  return trainMain(program, directory, argc, argv, {});
}

} // namespace dt::rt
