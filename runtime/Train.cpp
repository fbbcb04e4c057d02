//===- Train.cpp - the training loop
//---------------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Train.h"
#include "runtime/Checkpoint.h"
#include "runtime/Device.h"
#include "runtime/Error.h"
#include "runtime/Export.h"
#include "runtime/Outputs.h"
#include "runtime/Progress.h"

#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <unistd.h>

namespace dt::rt {

namespace {

volatile std::sig_atomic_t stopRequested = 0;

/// The first Ctrl-C lets the step end; the second one kills, as usual.
void requestStop(int signal) {
  stopRequested = 1;
  std::signal(signal, SIG_DFL);
}

/// Installed while training runs; puts back what was there.
class StopSignals {
public:
  StopSignals()
      : interrupt(std::signal(SIGINT, requestStop)),
        terminate(std::signal(SIGTERM, requestStop)) {
    stopRequested = 0;
  }
  ~StopSignals() {
    std::signal(SIGINT, interrupt);
    std::signal(SIGTERM, terminate);
  }

private:
  void (*interrupt)(int);
  void (*terminate)(int);
};

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
                                        const Options &options, uint64_t seed) {
  if (!options.batch.empty())
    return openFileBatch(program, plan, options.batch);
  if (options.data.empty())
    throw Error("nothing to train on: give --data or --batch");
#ifndef DT_RUNTIME_NO_SHARDS
  return openShardBatch(program, plan, {options.data, seed, options.workers});
#else
  (void)seed;
  throw Error("--data: this program was built without shards, use --batch");
#endif
}

/// Collects times, dumps and trace events of a run.
class Recorder : public StepObserver {
public:
  Recorder(const Trainer &trainer, const Options &options, bool times)
      : trainer(trainer), options(options),
        wanted(times || !options.metrics.empty()), trace(options.trace),
        moduleSeconds(trainer.program().modules.size) {}

  void beginStep(const Batch &batch, int64_t step, bool dump) {
    this->step = step;
    std::fill(moduleSeconds.begin(), moduleSeconds.end(), 0);
    outputs.reset();
    gradients = dump && !options.saveGradients.empty();
    if (dump && !options.saveOutputs.empty())
      outputs = std::make_unique<OutputCollector>(trainer, batch);
  }

  void endStep(const StepResult &result, double begin) {
    if (outputs)
      outputs->write(options.saveOutputs, result);
    trace.event("step", step, begin, now(), 1);
  }

  bool wantsTimes() const override { return wanted || trace.enabled(); }

  void rowDone(const TaskRow &row, const Part &part, double begin,
               double end) override {
    static const char *const kinds[] = {"denominator", "forward", "backward"};
    const ProgramInfo &program = trainer.program();
    bool loss = row.kind == TaskKind::Denominator;
    moduleSeconds[loss ? program.losses[row.index].module : row.index] +=
        end - begin;
    if (trace.enabled())
      trace.event(std::string(loss ? program.losses[row.index].name
                                   : program.modules[row.index].name) +
                      " " + kinds[int(row.kind)] + " " +
                      std::to_string(row.microbatch),
                  step, begin, end);
    if (outputs)
      outputs->add(row, part);
    lastRow = end;
  }

  void gradientsDone(const StepResult &) override {
    if (gradients)
      writeGradients(trainer, options.saveGradients);
  }

  const std::vector<double> &times() const { return moduleSeconds; }

private:
  const Trainer &trainer;
  const Options &options;
  bool wanted; ///< somebody reads times()
  Trace trace;
  std::vector<double> moduleSeconds;
  std::unique_ptr<OutputCollector> outputs;
  bool gradients = false;
  int64_t step = 0;
  double lastRow = 0;
};

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
    all += trainer.elements(p);
    trained += p.trainable ? trainer.elements(p) : 0;
  }
  std::printf(
      "%s: %lld parameters, %lld trained; batch %lld in %lld parts; %s\n",
      program.name, (long long)all, (long long)trained,
      (long long)program.globalBatch, (long long)microbatchesOf(program),
      device::describe());
  if (source && !source->summary().empty())
    std::printf("%s\n", source->summary().c_str());
  if (first)
    std::printf("resumed at step %lld\n", (long long)first);
  std::fflush(stdout);
}

/// Steps `first` to `total`; returns how many are done.
int64_t trainLoop(Trainer &trainer, BatchSource &source, const Options &options,
                  const TrainHooks &hooks, int64_t first, int64_t total) {
  Recorder recorder(trainer, options, bool(hooks.afterStep));
  Metrics metrics(options.metrics, options.resume);
  Progress progress(trainer.program(), first, total, options.logEvery);
  StopSignals signals;
  int64_t step = first, saved = -1;
  StepResult result;
  StepReport report{first, total, nullptr, 0, &recorder.times()};
  auto save = [&] {
    if (!options.checkpoint.empty() && saved != step)
      saveCheckpoint(trainer, options.checkpoint, step, source.hash());
    saved = step;
  };
  while (step < total && !stopRequested) {
    double begin = now();
    const Batch &batch = source.next(step);
    recorder.beginStep(batch, step, step == first);
    result = trainer.step(batch, step, &recorder);
    device::synchronize();
    recorder.endStep(result, begin);
    ++step;
    report = {step, total, &result, now() - begin, &recorder.times()};
    metrics.step(trainer.program(), step, result, report.seconds,
                 recorder.times());
    progress.step(step, result);
    if (hooks.afterStep)
      hooks.afterStep(trainer, report);
    if (options.saveEvery && step % options.saveEvery == 0)
      save();
  }
  progress.finish();
  if (step > first || first == 0)
    save();
  if (stopRequested)
    std::printf("stopped after step %lld%s%s\n", (long long)step,
                options.checkpoint.empty() ? "" : ", saved in ",
                options.checkpoint.c_str());
  std::fflush(stdout);
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
  ::setenv("GOMP_SPINCOUNT", "3000", 1);
  ::setenv("KMP_BLOCKTIME", "1", 1);
  ::execv("/proc/self/exe", argv); // on failure: go on as we are
}
#else
void restartWithWaitPolicy(char **) {}
#endif

int64_t runTraining(const ProgramInfo &program, const std::string &directory,
                    const Options &options, const TrainHooks &hooks) {
  std::string home = options.program.empty() ? directory : options.program;
  nlohmann::json plan = readPlan(home);
  if (!options.checkpoint.empty() && !options.resume)
    expectNoCheckpoints(options.checkpoint);
  Trainer::Settings settings = settingsOf(program, options);
  bool wantsData = !options.data.empty() || !options.batch.empty();
  if (options.steps < 0 && program.optimizer.totalSteps == 0 && wantsData)
    throw Error("give --steps: the recipe's schedule has no length");
  int64_t total = settings.totalSteps;
  std::unique_ptr<BatchSource> source;
  bool exportOnly =
      !wantsData && !options.exportTo.empty() && options.steps <= 0;
  if (wantsData || (total > 0 && !exportOnly))
    source = openSource(program, plan, options, settings.seed);
  Trainer trainer(program, settings);
  int64_t done = 0;
  if (options.resume)
    done = loadCheckpoint(trainer, options.checkpoint,
                          source ? source->hash() : 0);
  else
    trainer.initializeParameters(home + "/weights.safetensors");
  logStart(trainer, source.get(), done);
  if (hooks.beforeTraining)
    hooks.beforeTraining(trainer);
  if (source)
    done = trainLoop(trainer, *source, options, hooks, done,
                     std::max(done, total));
  if (!options.exportTo.empty())
    exportOnnx(trainer, home + "/onnx", options.exportTo);
  return done;
}

int trainMain(const ProgramInfo &program, const char *directory, int argc,
              char **argv, const TrainHooks &hooks) {
  restartWithWaitPolicy(argv);
  try {
    Options options = parseOptions(argc, argv);
    if (options.help)
      std::printf("usage: %s [flags]\n%s", argv[0], optionsHelp());
    else
      runTraining(program, directory, options, hooks);
    return 0;
  } catch (const Error &e) {
    std::fprintf(stderr, "error: %s\n", e.what());
  } catch (const std::exception &e) { // bad_alloc, filesystem
    std::fprintf(stderr, "error: %s\n", e.what());
  }
  return 1;
}

int trainMain(const ProgramInfo &program, const char *directory, int argc,
              char **argv) {
  return trainMain(program, directory, argc, argv, {});
}

} // namespace dt::rt
