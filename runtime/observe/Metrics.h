//===- Metrics.h - numbers of a run, for other tools ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_OBSERVE_METRICS_H
#define DT_RUNTIME_OBSERVE_METRICS_H

#include "runtime/base/Files.h"
#include "runtime/observe/EventFile.h"
#include "runtime/step/Trainer.h"
#include "runtime/step/Validation.h"

namespace dt::rt {

/// Times of a step on the first rank.
struct StepSeconds {
  double all = 0;
  double data = 0; ///< of these until the rank has its batch
};

/// --metrics: a JSON object a step: step (of steps done), loss, a field a term
/// (but for saysNothing()), lr, grad_norm, seconds, data_seconds of them
/// (StepSeconds), samples_per_second, tokens_per_second where the data knows
/// tokens, flops_per_second of the model, mfu where the peak of all devices is
/// known (docs/throughput.md), utilisation where a dim adds up a measure
/// (docs/sizes.md), skipped where updates have been left out (how many so far),
/// and milliseconds a module; and one a validation: step, validation_loss, a
/// field a term, validation_seconds. --tensorboard: the same numbers but for
/// times as events (EventFile.h).
class Metrics {
public:
  /// An empty path: nothing is written there. Of what the file has, lines of
  /// steps up to `first` stay (a resumed run; 0: a new one): a run that was
  /// killed has written steps that are done again, maybe half a line. Until
  /// these lines are safe in a new file the old one stays as it is. Throws
  /// SystemError.
  Metrics(const ProgramInfo &program, const std::string &path,
          const std::string &events, int64_t first);
  /// `skipped`: updates so far.
  void step(int64_t step, const StepResult &result, const StepSeconds &times,
            const Batch &batch, int64_t skipped,
            const std::vector<double> &moduleSeconds);
  /// Steps after `step` are done again: what was written of them goes. Throws
  /// SystemError.
  void goBack(int64_t step);
  void validation(int64_t step, const ValidationResult &result);
  /// Why something could not be written; nothing is written after it.
  const std::string &failure() const {
    return file.failure().empty() ? events.failure() : file.failure();
  }

private:
  /// A field a loss.
  void addTerms(nlohmann::ordered_json &line, const std::string &prefix,
                const std::vector<double> &terms,
                const std::vector<bool> &empty) const;
  void write(int64_t step, const nlohmann::ordered_json &line);

  /// Opens the file with its lines of steps up to `last`.
  void openAt(int64_t last);

  const ProgramInfo &program;
  double peak; ///< FLOP/s of all devices; 0: not known
  std::string path;
  FileWriter file;
  EventFile events;
};

} // namespace dt::rt

#endif // DT_RUNTIME_OBSERVE_METRICS_H
