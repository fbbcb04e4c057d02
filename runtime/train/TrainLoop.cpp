//===- TrainLoop.cpp - steps of one run, and what they leave ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/TrainLoop.h"
#include "runtime/base/Error.h"
#include "runtime/base/Files.h"
#include "runtime/base/HostMemory.h"
#include "runtime/base/Log.h"
#include "runtime/base/Stop.h"
#include "runtime/comm/Agreement.h"
#include "runtime/comm/Launch.h"
#include "runtime/observe/Metrics.h"
#include "runtime/observe/Progress.h"
#include "runtime/observe/Recorder.h"
#include "runtime/save/Checkpoint.h"
#include "runtime/save/CheckpointFolder.h"
#include "runtime/step/Validation.h"
#include "runtime/train/Replicas.h"

#include <cmath>
#include <limits>
#include <set>

namespace dt::rt {

namespace {

/// "step 17: loss 'text' is nan", of a step whose numbers are none.
std::string notFinite(const ProgramInfo &program, const StepResult &result,
                      int64_t step) {
  std::string what = "the gradient norm";
  double value = result.norm;
  if (!std::isfinite(result.loss))
    what = "the loss", value = result.loss;
  for (size_t l = result.terms.size(); l-- > 0;)
    if (!std::isfinite(result.terms[l]))
      what = std::string("loss '") + program.losses[l].name + "'",
      value = result.terms[l];
  return "step " + std::to_string(step) + ": " + what + " is " +
         (std::isnan(value) ? "nan"
          : value > 0       ? "inf"
                            : "-inf");
}

/// The newest checkpoint's step, as the first rank sees it; -1: there is none.
int64_t newestStep(Comm &comm, const std::string &directory) {
  double mine = -1;
  std::string failure;
  if (comm.rank() == 0 && !directory.empty())
    failure = failureOf([&] {
      std::vector<int64_t> saved = checkpointSteps(directory);
      mine = saved.empty() ? -1 : double(saved.back());
    });
  comm.agree(failure);
  return int64_t(comm.allGather({mine}, "setup")[0]);
}

/// The validation loss of the best checkpoint, on all ranks; infinite if there
/// is none for this data.
double bestLoss(Comm &comm, const std::string &directory, uint64_t data) {
  double mine = std::numeric_limits<double>::infinity();
  if (comm.rank() == 0)
    try {
      int64_t step = bestStep(directory);
      nlohmann::json found =
          step < 0 ? nlohmann::json()
                   : readCheckpointIndex(checkpointPath(directory, step), step)
                         .validation;
      if (!found.is_null() && found["data"] == hexText(data))
        mine = found["loss"];
    } catch (const Error &) { // another will be the best
    }
  return comm.allGather({mine}, "setup")[0];
}

/// Of a rank, in bytes. A quarter of the machine's memory for all its ranks
/// leaves enough for data and files.
size_t memoryOfCopies(const Options &options) {
  if (options.snapshotMemory)
    return options.snapshotMemory;
  uint64_t ranks = uint64_t(std::max(1, launchedHere()));
  return std::max<uint64_t>(hostMemory() / 4 / ranks, device::Snapshot::kLeast);
}

/// Steps of one run, and what it leaves.
class TrainLoop {
public:
  /// `validation` may be null.
  TrainLoop(Trainer &trainer, BatchSource &source, Validation *validation,
            const Options &options, const TrainHooks &hooks, StatusBoard *board,
            int64_t first, int64_t total)
      : trainer(trainer), source(source), validation(validation),
        options(options), hooks(hooks), board(board),
        speaks(trainer.comm().rank() == 0), alone(trainer.comm().size() == 1),
        recorder(trainer, options, board, bool(hooks.afterStep)),
        metrics(trainer.program(), speaks ? options.metrics : "",
                speaks ? options.tensorboard : "", options.resume ? first : 0),
        progress(trainer.program(), first, total, options.logEvery),
        checkpoints(trainer, options.checkpoint, options.keep,
                    options.resume ? first : -1, memoryOfCopies(options)),
        first(first), total(total), step(first),
        report{first, total, nullptr, 0, &recorder.times()} {
    if (validation && options.resume)
      best = bestLoss(trainer.comm(), options.checkpoint, validation->hash());
  }

  /// Returns how many steps are done. Throws CommonError; what was saved until
  /// then is complete.
  int64_t run() {
    try {
      checkReplicas();
      if (step == total)
        validate();
      while (step < total && !stop)
        oneStep();
    } catch (const BatchesEnded &e) {
      stop = true;
      ended = e.what();
    } catch (const CommonError &) {
      checkpoints.settle();
      throw;
    }
    if (speaks)
      progress.finish();
    end();
    return step;
  }
  /// Of what does not keep the weights from being exported.
  const std::string &lateFailure() const { return late; }

private:
  void oneStep() {
    double begin = now(), cpu = threadSeconds();
    const Batch &batch = nextBatch(trainer, source, step);
    double awaited = now() - begin;
    recorder.beginStep(batch, step, step == first);
    // A failed write ends the run on all ranks, as a signal does.
    bool ends =
        isStopRequested() || checkpoints.failed() || !metrics.failure().empty();
    result = trainer.step(batch, step, &recorder,
                          {ends, hooks.wants && hooks.wants()});
    double end = now();
    recorder.endStep(batch, result, begin, end, threadSeconds() - cpu);
    ++step;
    facts = {};
    report = {step, total, &result, end - begin, &recorder.times()};
    if (!result.finite() && options.onNaN == OnNaN::Skip)
      countSkipped();
    metrics.step(step, result, {report.seconds, awaited}, batch, skipped,
                 recorder.times());
    if (speaks) {
      warnEmpty();
      progress.step(step, result, batch);
    }
    if (!result.finite() && options.onNaN == OnNaN::Stop)
      failNotFinite("");
    if (!result.finite() && options.onNaN == OnNaN::Back)
      return goBack();
    if (result.stop || step == total ||
        (options.checkReplicas && step % options.checkReplicas == 0))
      checkReplicas();
    if (hooks.afterStep) {
      Waits waits(board, {Awaited::Hook});
      hooks.afterStep(trainer, report);
    }
    stop = result.stop || (alone && isStopRequested());
    // Who was asked to end may have little time.
    if (step == total ||
        (!stop && options.validateEvery && step % options.validateEvery == 0))
      validate();
    if (facts.best || (options.saveEvery && step % options.saveEvery == 0))
      save();
  }

  /// Once a step at most.
  void checkReplicas() {
    if (alone || !options.checkReplicas || checked == step)
      return;
    expectEqualReplicas(trainer, step);
    checked = step;
  }

  /// Once a loss: a batch may have nothing of one, all batches should not.
  void warnEmpty() {
    warned.resize(result.empty.size());
    for (size_t l = 0; l < result.empty.size(); ++l)
      if (result.empty[l] && !warned[l] &&
          trainer.program().losses[l].weight != 0) {
        warned[l] = true;
        warn(std::string("loss '") + trainer.program().losses[l].name +
             "' is 0 in step " + std::to_string(step) +
             ", because nothing of the batch counts for it (labels that are "
             "all ignored)");
      }
  }

  /// A loss that is no number is no reason to end: parameters are what they
  /// are. Sets what a checkpoint of this step is to say of it.
  void validate() {
    if (!validation)
      return;
    if (speaks)
      progress.finish();
    ValidationResult found = validation->run();
    metrics.validation(step, found);
    facts.best =
        step > first && !(found.loss >= best) && std::isfinite(found.loss);
    if (std::isfinite(found.loss))
      facts.validation = {{"loss", found.loss},
                          {"data", hexText(validation->hash())}};
    if (facts.best)
      best = found.loss;
    if (speaks)
      progress.validation(step, found, facts.best);
  }

  CheckpointFacts factsOfStep() const {
    CheckpointFacts all = facts;
    all.dataHash = source.hash();
    return all;
  }

  /// The same numbers on all ranks.
  [[noreturn]] void failNotFinite(const std::string &more) {
    if (speaks)
      progress.finish();
    checkpoints.settle();
    int64_t newest = newestStep(trainer.comm(), options.checkpoint);
    throw CommonError(notFinite(trainer.program(), result, step) + more +
                      (newest < 0
                           ? ""
                           : "; the newest checkpoint is " +
                                 checkpointPath(options.checkpoint, newest)));
  }

  void warn(const std::string &line) {
    if (!speaks)
      return;
    progress.finish();
    printError("warning: %s\n", line.c_str());
  }

  /// The optimizer did nothing. A line for the 1st, 2nd, 4th, 8th…
  void countSkipped() {
    ++skipped;
    if ((skipped & (skipped - 1)) == 0)
      warn(notFinite(trainer.program(), result, step) +
           (skipped == 1 ? "; its update is left out"
                         : "; " + std::to_string(skipped) +
                               " updates are left out so far"));
  }

  /// To the state of the newest checkpoint, because of each step once: what
  /// comes again does not come from outside.
  void goBack() {
    if (!failed.insert(step).second)
      failNotFinite(" again");
    std::string wrong = checkpoints.settle();
    if (!wrong.empty() || newestStep(trainer.comm(), options.checkpoint) < 0)
      failNotFinite(wrong.empty() ? "" : "; " + wrong);
    LoadedCheckpoint loaded = resumeCheckpoint(trainer, options.checkpoint,
                                               source.hash(), options.newData);
    setAsideOthers(trainer.comm(), options.checkpoint, loaded);
    for (const std::string &line : loaded.warnings)
      warn(line);
    warn(notFinite(trainer.program(), result, step) + "; going back to " +
         checkpointPath(options.checkpoint, loaded.step));
    step = saved = loaded.step;
    checked = -1;
    facts = {};
    progress.goBack(step);
    trainer.comm().agree(failureOf([&] { metrics.goBack(step); }));
  }

  /// Does not save over what could not be saved: the loop ends, and end() says
  /// why.
  void save() {
    if (options.checkpoint.empty() || saved == step)
      return;
    checkReplicas();
    failure = checkpoints.settle();
    if (failure.empty()) {
      checkpoints.save(step, factsOfStep());
      saved = step;
    } else {
      stop = true;
    }
  }

  /// After a failed write the state is saved once more: it may go well now.
  void end() {
    if (failure.empty())
      failure = checkpoints.settle();
    if (failure.empty())
      failure = trainer.comm().firstText(metrics.failure());
    if (!options.checkpoint.empty() && saved != step &&
        (step > first || first == 0)) {
      checkReplicas();
      std::string wrong = failureOf([&] {
        checkpoints.save(step, factsOfStep());
        checkpoints.finish();
        saved = step;
      });
      if (failure.empty() && !wrong.empty())
        throw CommonError(wrong);
      if (wrong.empty() && !failure.empty())
        failure += "; the state is saved in " +
                   checkpointPath(options.checkpoint, step);
    }
    if (failure.empty() && !ended.empty())
      failure = ended + (options.checkpoint.empty() || saved != step
                             ? ""
                             : "; the state is saved in " +
                                   checkpointPath(options.checkpoint, step));
    if (!failure.empty())
      throw CommonError(failure);
    if (skipped && speaks)
      printLog("%lld of %lld updates left out\n", (long long)skipped,
               (long long)(step - first));
    std::string text;
    late = failureOf([&] { text = recorder.finish(); });
    if (stop && speaks)
      printLog("stopped after step %lld%s%s\n", (long long)step,
               options.checkpoint.empty() ? "" : ", saved in ",
               options.checkpoint.c_str());
    printLog("%s", text.c_str());
    Waits waits(board, {Awaited::Hook});
    if (hooks.afterTraining)
      hooks.afterTraining(trainer, report);
  }

  Trainer &trainer;
  BatchSource &source;
  Validation *validation;
  const Options &options;
  const TrainHooks &hooks;
  StatusBoard *board;
  bool speaks, alone;
  Recorder recorder;
  Metrics metrics;
  Progress progress;
  CheckpointWriter checkpoints;
  int64_t first, total, step, saved = -1, checked = -1, skipped = 0;
  std::set<int64_t> failed; ///< steps that the run has gone back because of
  CheckpointFacts facts;    ///< of this step
  double best = std::numeric_limits<double>::infinity(); ///< validation loss
  bool stop = false;
  std::string ended; ///< why there are no more batches; empty: there are
  StepResult result;
  std::vector<bool> warned; ///< of losses
  StepReport report;
  std::string failure, late; ///< the same on all ranks
};

} // namespace

LoopEnd runLoop(Trainer &trainer, BatchSource &source, Validation *validation,
                const Options &options, const TrainHooks &hooks,
                StatusBoard *board, int64_t first, int64_t total) {
  TrainLoop loop(trainer, source, validation, options, hooks, board, first,
                 total);
  int64_t done = loop.run();
  return {done, loop.lateFailure()};
}

} // namespace dt::rt
