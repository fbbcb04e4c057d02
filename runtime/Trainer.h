//===- Trainer.h - the state of a program and its step ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Memory, parameters and the step of one program, without files, flags or
// output: what tests, evaluation and sampling programs use directly, and what
// the training loop (Train.cpp) drives.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_TRAINER_H
#define DT_RUNTIME_TRAINER_H

#include "runtime/Optimizer.h"
#include "runtime/Program.h"
#include "runtime/data/BatchSource.h"

#include <functional>
#include <string>
#include <vector>

namespace dt::rt {

/// Extents of a tensor for given symbol values.
std::vector<int64_t> shapeOf(const TensorInfo &tensor, const int64_t *dims);

/// The parts that a step needs, `ceil(globalBatch / microBatch)`.
int64_t microbatchesOf(const ProgramInfo &program);

struct StepResult {
  double loss = 0;
  std::vector<double> terms; ///< per loss, without its weight
  double norm = 0;           ///< of all gradients, before clipping
  double lr = 0;
};

/// Watches the rows of a step. Times are seconds since an arbitrary start.
class StepObserver {
public:
  virtual ~StepObserver() = default;
  /// True: the device is synchronised after each row, so that times are those
  /// of the row alone.
  virtual bool wantsTimes() const { return false; }
  /// Outputs of a Forward row are valid now.
  virtual void rowDone(const TaskRow & /*row*/, const Part & /*part*/,
                       double /*begin*/, double /*end*/) {}
  /// Gradients are complete, the optimizer has not run.
  virtual void gradientsDone(const StepResult & /*result*/) {}
};

class Trainer {
public:
  struct Settings {
    uint64_t seed = 0;
    OptimizerInfo optimizer;
    int64_t totalSteps = 0; ///< for a schedule without a length of its own
    int threads = 0;        ///< 0: OpenMP's default
  };
  static Settings defaults(const ProgramInfo &program) {
    return {program.seed, program.optimizer, 0, 0};
  }

  Trainer(const ProgramInfo &program, const Settings &settings);
  ~Trainer();
  Trainer(const Trainer &) = delete;
  Trainer &operator=(const Trainer &) = delete;

  const ProgramInfo &program() const { return info; }
  const Settings &settings() const { return options; }

  /// Initial values: by rule, else from `weightsFile` (safetensors; may be
  /// empty if every parameter has a rule).
  void initializeParameters(const std::string &weightsFile);

  /// One training step on `batch`. Throws Error if the batch does not fit the
  /// program.
  StepResult step(const Batch &batch, int64_t step,
                  StepObserver *observer = nullptr);

  /// Runs the forward function of a module alone, in slot 0. `part.inputs`
  /// gives raw inputs and also edges, where nothing upstream has run. Outputs:
  /// `output`.
  void forward(int module, const Part &part);
  /// Host copy of an output after `forward` (or inside StepObserver::rowDone,
  /// with the row's slot).
  std::vector<std::byte> output(int module, int index, const Part &part,
                                int slot = 0) const;

  /// Index by name; throws Error.
  int moduleIndex(const std::string &name) const;

  std::byte *parameterData() const { return parameters; }
  std::byte *gradientData() const { return gradients; }
  float *moment(int i) const { return moments[i]; }
  const Optimizer &optimizer() const { return updater; }
  int64_t elements(const ParameterInfo &parameter) const;

private:
  std::byte *address(const BufferInfo &buffer, const Part &part,
                     int slot) const;
  const Part &partOf(const Batch &batch, int module, uint32_t microbatch) const;
  void checkBatch(const Batch &batch) const;
  void checkPart(int module, const Part &part) const;
  void upload(int module, int input, const Part &part, int slot);
  void run(TaskFn function, const Part &part, int slot, uint32_t microbatch,
           int64_t step);
  void runRow(const TaskRow &row, const Batch &batch, int64_t step);
  void makeSeeds();
  void finishLosses(StepResult &result) const;
  std::byte *lossCell(int loss, uint32_t microbatch) const;

  const ProgramInfo &info;
  Settings options;
  Optimizer updater;
  int64_t microbatches;
  std::byte *arena = nullptr, *parameters = nullptr, *gradients = nullptr;
  std::byte *lossCells =
      nullptr; ///< [2][loss][microbatch] floats: denominators, then numerators
  float *moments[2] = {nullptr, nullptr};
  std::vector<float> seeds;
  std::vector<double> denominators;
};

/// Seconds since the first call.
double now();

} // namespace dt::rt

#endif // DT_RUNTIME_TRAINER_H
