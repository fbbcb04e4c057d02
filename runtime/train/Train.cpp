//===- Train.cpp - the training loop ----------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/Train.h"
#include "runtime/base/Error.h"
#include "runtime/base/Files.h"
#include "runtime/base/Log.h"
#include "runtime/base/Safetensors.h"
#include "runtime/base/Stop.h"
#include "runtime/comm/Agreement.h"
#include "runtime/device/Device.h"
#include "runtime/observe/Profile.h"
#include "runtime/save/Checkpoint.h"
#include "runtime/save/CheckpointFolder.h"
#include "runtime/save/Export.h"
#include "runtime/save/InitialWeights.h"
#include "runtime/save/Outputs.h"
#include "runtime/step/Validation.h"
#include "runtime/train/ProgramFiles.h"
#include "runtime/train/Sources.h"
#include "runtime/train/Targets.h"
#include "runtime/train/TrainLoop.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <unistd.h>

namespace dt::rt {

namespace {

bool onAnyRank(Comm &comm, bool mine) {
  int64_t value = mine, any = 0;
  comm.world().allReduce(Reduction::Max, DType::I64, &value, &any, 1, "setup");
  return any;
}

/// Nothing was done, so there is nothing to save.
int64_t sayStoppedEarly(const Comm &comm) {
  if (comm.rank() == 0)
    printLog("stopped before the first step\n");
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

void logStart(const Trainer &trainer, const BatchSource *source, int64_t first,
              const std::vector<std::string> &lines) {
  const ProgramInfo &program = trainer.program();
  int64_t trained = 0, all = 0;
  for (const ParameterInfo &p : program.parameters) {
    if (p.tied >= 0)
      continue;
    all += trainer.elements(p);
    trained += p.hasGradient ? trainer.elements(p) : 0;
  }
  printLog(
      "%s: %lld parameters, %lld trained; batch %s%lld in %lld parts; %s\n",
      program.name, (long long)all, (long long)trained,
      program.parts ? "of at most " : "", (long long)program.globalBatch,
      (long long)microbatchCount(program), device::describe());
  for (const ModuleInfo &module : program.modules)
    if (module.slow)
      printLog("'%s' is slow in %s\n", module.name, module.slow);
  if (trainer.comm().size() > 1) {
    std::string buffers = device::isHost()
                              ? std::string()
                              : "; buffers over " + trainer.fabric().describe();
    printLog("%s%s; schedule %s\n", trainer.comm().describe().c_str(),
             buffers.c_str(),
             program.schedule ? program.schedule : "accumulate");
  }
  if (source && !source->summary().empty())
    printLog("%s\n", source->summary().c_str());
  int64_t last = trainer.settings().totalSteps;
  if (first)
    printLog("resumed at step %lld%s\n", (long long)first,
             last > 0 && first >= last ? ", after the last one (--steps)" : "");
  for (const std::string &line : lines)
    printLog("%s\n", line.c_str());
}

/// Whether the parts of all steps to come keep to their bounds, as far as that
/// is known before the first: a line about it, on all ranks, which share the
/// work. Throws CommonError.
std::string checkSteps(Comm &comm, const BatchSource &source, int64_t first,
                       int64_t end) {
  BatchSource::Fullness mine;
  comm.agree(failureOf(
      [&] { mine = source.fullness(first + comm.rank(), end, comm.size()); }));
  std::vector<double> all =
      comm.allGather({mine.least, mine.sum, double(mine.steps)}, "setup");
  double least = 1, sum = 0, steps = 0;
  for (size_t i = 0; i + 2 < all.size(); i += 3)
    least = std::min(least, all[i]), sum += all[i + 1], steps += all[i + 2];
  if (steps == 0)
    return {};
  char line[128];
  std::snprintf(line, sizeof line,
                "parts of %.0f steps: %.1f %% of their bounds, %.1f %% in the "
                "emptiest step",
                steps, 100 * sum / steps, 100 * least);
  return line;
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
  ::setenv("GOMP_SPINCOUNT", "3000", 1);
  ::setenv("KMP_BLOCKTIME", "1", 1);
  ::execv("/proc/self/exe", argv); // on failure: go on as we are
}
#else
void restartWithWaitPolicy(char **) {}
#endif

namespace {

void warn(Comm &comm, const std::string &line) {
  if (comm.rank() == 0 && !line.empty())
    printError("warning: %s\n", line.c_str());
}

/// The folder for this run alone, without the rests of others. Who only reads
/// changes nothing and needs no lock.
std::unique_ptr<FolderLock> openCheckpoints(const Options &options, Comm &comm,
                                            bool writes) {
  const std::string &folder = options.checkpoint;
  std::unique_ptr<FolderLock> lock;
  if (writes) {
    onFirstRank(comm, {}, [&] {
      // A wrong name leaves nothing behind.
      if (options.resume)
        expectCheckpoints(folder);
      makeFolders(folder);
    });
    expectShared(comm, "--checkpoint", folder);
    lock = std::make_unique<FolderLock>(comm, folder);
    warn(comm, lock->warning());
  }
  onFirstRank(comm, {}, [&] {
    if (writes) {
      for (const std::string &line : removeUnfinished(folder))
        warn(comm, line);
      expectFolder("--checkpoint", folder);
    }
    if (!options.resume)
      expectNoCheckpoints(folder);
  });
  return lock;
}

/// Values of a new run; returns what to tell of them.
std::vector<std::string> begin(Trainer &trainer, const Options &options,
                               const std::string &home) {
  trainer.comm().agree(failureOf(
      [&] { trainer.initializeParameters(home + "/weights.safetensors"); }));
  InitialValues request{{}, options.initSkip, {}, options.initPartial};
  for (const std::string &text : options.initFrom)
    request.sources.push_back(WeightSource::parse(text));
  trainer.comm().agree(failureOf([&] {
    for (const std::string &text : options.initRename)
      request.renames.push_back(NameRule::parse(text));
  }));
  return request.sources.empty() ? std::vector<std::string>()
                                 : initializeFrom(trainer, std::move(request));
}

/// The state of the newest checkpoint, or the best; returns how many steps are
/// done.
int64_t resume(Trainer &trainer, const Options &options,
               const BatchSource *source) {
  Comm &comm = trainer.comm();
  LoadedCheckpoint loaded =
      resumeCheckpoint(trainer, options.checkpoint, source ? source->hash() : 0,
                       options.newData, options.best);
  for (const std::string &line : loaded.warnings)
    warn(comm, line);
  if (source)
    setAsideOthers(comm, options.checkpoint, loaded);
  return loaded.step;
}

} // namespace

int64_t runTraining(const ProgramInfo &program, const std::string &directory,
                    const Options &options, Comm &comm, const TrainHooks &hooks,
                    StatusBoard *board) {
  installStopSignals();
  comm.expectRanks(int(program.ranks.size));
  std::vector<OutputClaim> claims;
  comm.agree(failureOf([&] { claims = checkTargets(options, comm); }));
  expectSharedTargets(options, comm);
  std::string home =
      options.program.empty() ? findProgramFolder(directory) : options.program;
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
      !wantsData && !options.exports().empty() && options.steps <= 0;
  bool trains = wantsData || (total > 0 && !exportOnly);
  nlohmann::json sections;
  std::unique_ptr<BatchSource> source, other; // to train on, to validate on
  bool stopped = false;
  comm.agree(failureOf([&] {
    sections = readDataSections(home);
    if (options.steps < 0 && program.optimizer.totalSteps == 0 && wantsData)
      throw Error("give --steps: the recipe's schedule has no length");
    if (trains && !wantsData)
      throw Error("nothing to train on: give --data or --batch");
    if (!options.exportAverages.empty() && program.optimizer.averageDecay == 0)
      throw Error("--export-ema: the program keeps no averages; expected a "
                  "recipe with \"ema\"");
  }));
  std::unique_ptr<FolderLock> lock;
  if (!options.checkpoint.empty())
    lock = openCheckpoints(options, comm, trains);
  comm.agree(failureOf([&] {
    if (trains)
      stopped = !openSource(source, program, sections, options,
                            options.batch.empty()
                                ? std::vector<std::string>{options.data}
                                : options.batch,
                            !options.batch.empty(), comm);
  }));
  if (onAnyRank(comm, stopped))
    return sayStoppedEarly(comm);
  if (trains && !options.validate.empty()) {
    bool areBatches = onAnyRank(comm, isBatch(options.validate));
    comm.agree(failureOf([&] {
      if (!areBatches && !sections.contains("data"))
        throw Error("--validate " + options.validate +
                    ": not a batch file (safetensors); this program's recipe "
                    "has no \"data\" to read shards with");
      if (areBatches && isPipe(options.validate))
        throw Error("--validate " + options.validate +
                    ": validation reads its batches again, which a pipe does "
                    "not allow; expected files");
      stopped = !openSource(other, program, sections, options,
                            {options.validate}, areBatches, comm);
    }));
    if (onAnyRank(comm, stopped))
      return sayStoppedEarly(comm);
  }
  Trainer trainer(program, settings, comm);
  DType exported = options.exportNarrow ? DType::BF16 : DType::F32;
  for (const Options::Export &to : options.exports())
    checkExport(trainer, home + "/onnx", to.folder, exported);
  int64_t done = 0;
  std::vector<std::string> lines;
  if (options.resume)
    done = resume(trainer, options, source.get());
  else
    lines = begin(trainer, options, home);
  if (comm.rank() == 0)
    logStart(trainer, source.get(), done, lines);
  if (hooks.beforeTraining) {
    Waits waits(board, {Awaited::Hook});
    hooks.beforeTraining(trainer);
  }
  std::string late;
  if (source) {
    if (std::string line = checkSteps(comm, *source, done, total);
        comm.rank() == 0 && !line.empty())
      printLog("%s\n", line.c_str());
    std::unique_ptr<Validation> validation;
    if (other) {
      validation =
          std::make_unique<Validation>(trainer, std::move(other), board);
      if (comm.rank() == 0)
        printLog("%s\n", validation->summary().c_str());
    }
    LoopEnd end = runLoop(trainer, *source, validation.get(), options, hooks,
                          board, done, std::max(done, total));
    done = end.step;
    late = end.lateFailure;
  }
  if (source && !options.exports().empty())
    comm.agree(failureOf([&] { expectFinite(trainer, done); }));
  for (const Options::Export &to : options.exports())
    exportOnnx(trainer, home + "/onnx", to.folder, exported, to.averages);
  if (!late.empty())
    throw CommonError(late);
  return done;
}

} // namespace dt::rt
