//===- Trainer.h - the state of a program and its step ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Memory, parameters and the step of one rank of a program, without files,
// flags or output: what tests, evaluation and sampling programs use directly,
// and what the training loop (Train.cpp) drives.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STEP_TRAINER_H
#define DT_RUNTIME_STEP_TRAINER_H

#include "runtime/Program.h"
#include "runtime/comm/Comm.h"
#include "runtime/comm/MessageBlocks.h"
#include "runtime/data/BatchSource.h"
#include "runtime/state/Ownership.h"
#include "runtime/state/ParameterValues.h"
#include "runtime/state/Regions.h"
#include "runtime/step/InputPlaces.h"
#include "runtime/step/Optimizer.h"
#include "runtime/step/TaskRecordings.h"
#include "runtime/step/WholeUpdates.h"

#include <memory>
#include <string>
#include <vector>

namespace dt::rt {

class Reducer;
class StepScalars;
class Transfers;

/// Shape of a parameter in files: neither cut nor padded.
std::vector<int64_t> wholeShape(const ParameterInfo &parameter);

/// Whether it stands beside a weight of a graph (LoRA), and in no graph itself.
bool isAdapter(const ParameterInfo &original);

/// What a rank gives to a step besides its work; StepResult says whether any
/// rank did, so that all of them act on it after the same step.
struct StepWishes {
  bool stop = false;  ///< this rank was asked to end
  bool pause = false; ///< it wants to do something with all ranks
};

struct StepResult {
  double loss = 0;
  std::vector<double> terms; ///< per loss, without its weight
  std::vector<bool> empty;   ///< per loss: its denominator was 0
  double norm = 0;           ///< of all gradients, before clipping
  double lr = 0;
  bool stop = false;  ///< some rank was asked to end
  bool pause = false; ///< some rank wants something of all between steps
  /// Whether loss, terms and norm are numbers; else the optimizer did nothing.
  bool finite() const;
};

/// Sums over parts and ranks of one or more batches, per loss.
struct LossSums {
  std::vector<double> numerators, denominators;
  int64_t batches = 1;
  void add(const LossSums &other);
  /// The terms, as if all samples were one batch; returns the loss.
  double terms(const ProgramInfo &program, std::vector<double> &terms) const;
  /// Per loss: its denominator is 0.
  std::vector<bool> empty(const ProgramInfo &program) const;
};

/// Whether a term says nothing: it has no weight, it is only shown, and nothing
/// counted for it.
inline bool saysNothing(const ProgramInfo &program, size_t loss,
                        const std::vector<bool> &empty) {
  return program.losses[loss].weight == 0 && loss < empty.size() && empty[loss];
}

/// Seconds since an arbitrary start, the same for all processes of a machine;
/// of the device's work, if that is wanted (StepObserver::wantsTimes).
struct RowTime {
  double wait;       ///< began to wait for messages
  double begin, end; ///< of the row's own work
  /// Seconds of the calling thread's processor time from `wait` to `end`,
  /// without calls that wait for other ranks and without what sums of gradients
  /// take inside a backward function.
  double cpu;
  uint64_t sent = 0; ///< bytes that a Send row gave to other ranks
  /// Processor seconds of each collective in the row, waiting included.
  std::vector<float> collectives;
};

/// Watches the rows of a step.
class StepObserver {
public:
  virtual ~StepObserver() = default;
  /// False: on a device that works on its own, times of rows are those of the
  /// host.
  virtual bool wantsTimes() const { return false; }
  /// The rank comes to row `row` of its list (-1: what comes before and after
  /// the rows) and waits for others, or has what it waited for and works.
  virtual void enters(int32_t /*row*/, bool /*waiting*/) {}
  /// Row `number` of the list. Outputs of a Forward row are valid now (copies
  /// wait for them). `part`: null for rows that run no function of a module.
  virtual void rowDone(int32_t /*number*/, const TaskRow & /*row*/,
                       const Part * /*part*/) {}
  /// The same for all rows in order, after the last one, when their times are
  /// known.
  virtual void rowTimed(int32_t /*number*/, const TaskRow & /*row*/,
                        const Part * /*part*/, const RowTime & /*time*/) {}
  /// Of one bucket of a module's gradients: the sum over replicas began and was
  /// seen to have ended (seconds as in RowTime). After the rows, in order.
  virtual void reduced(size_t /*module*/, size_t /*bytes*/, double /*begin*/,
                       double /*end*/) {}
  /// After the rows: processor seconds in calls that end the sums of gradients,
  /// waiting included.
  virtual void exchanged(double /*cpu*/) {}
  /// Gradients are complete (each element on the rank that owns it) and stay
  /// until the next step. Parameters may be updated already.
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

  /// All ranks of `comm` make theirs at the same point. Throws Error.
  Trainer(const ProgramInfo &program, const Settings &settings, Comm &comm);
  ~Trainer();
  Trainer(const Trainer &) = delete;
  Trainer &operator=(const Trainer &) = delete;

  const ProgramInfo &program() const { return info; }
  const Settings &settings() const { return options; }
  Comm &comm() const { return ranks; }
  Fabric &fabric() const { return *carrier; }
  const Placement &placement() const { return places; }
  const Ownership &ownership() const { return owners; }
  const Regions &regions() const { return memory; }
  /// What messages have allocated on this rank beside its regions, in bytes.
  struct MessageBytes {
    Carrier carrier;
    size_t device, host;
  };
  MessageBytes messageBytes() const;
  const Optimizer &optimizer() const { return updater; }
  const ParameterValues &values() const { return parameterValues; }

  /// Initial values: by rule, else from `weightsFile` (safetensors; may be
  /// empty if every parameter has a rule). The same under every plan.
  void initializeParameters(const std::string &weightsFile);

  /// One training step on `batch`. Throws Error if the batch does not fit the
  /// program.
  StepResult step(const Batch &batch, int64_t step,
                  StepObserver *observer = nullptr, StepWishes wishes = {});
  /// The losses of a batch with the parameters as they are: what of a step
  /// leads to them, on the same ranks. Between steps; changes nothing that is
  /// kept between these. Throws as step().
  LossSums evaluate(const Batch &batch, StepObserver *observer = nullptr);
  /// Instead of step() or evaluate() on a rank that has no batch to give: says
  /// so to all. Throws CommonError.
  [[noreturn]] void stepFailed(const std::string &failure);

  /// Host copy of an output of a forward row inside StepObserver::rowDone.
  /// (Forward functions outside of steps: Evaluation.h.)
  std::vector<std::byte> output(int module, int index, const Part &part,
                                const TaskRow &row) const;

  /// Index by name; throws Error.
  int moduleIndex(const std::string &name) const;
  /// Of the whole parameter.
  int64_t elements(const ParameterInfo &parameter) const;

private:
  void makeUpdates();
  void findLastBackwards();
  void reserveMessages();
  void rehearse();
  void rehearse(size_t module, const int64_t *dims);
  TaskContext contextFor(size_t module, const TaskRow &row,
                         const int64_t *dims) const;
  void checkBatch(const Batch &batch) const;
  void upload(size_t module, int32_t input, const Part &part,
              const TaskRow &row);
  void run(TaskFn function, size_t module, const Part &part,
           const TaskRow &row);
  /// Throws Error if a task has come upon an index out of range. `part`: null
  /// where that may have been any of them.
  void checkFault(const Part *part) const;
  /// Null for a row that moves data.
  const Part *partOf(const TaskRow &row, const Batch &batch) const;
  /// Returns the bytes sent.
  uint64_t runRow(const TaskRow &row, const Part *part);
  void runDenominator(const TaskRow &row, const Part &part);
  void runForward(const TaskRow &row, const Part &part);
  void beginRows(const Batch &batch, StepObserver *observer);
  void runRows(const Batch &batch, StepObserver *observer,
               bool forwardOnly = false);
  void tellTimes(StepObserver *observer);
  StepResult finishStep(int64_t step, StepObserver *observer,
                        const StepWishes &wishes);

  const ProgramInfo &info;
  Settings options;
  Comm &ranks;
  Placement places;
  Ownership owners;
  Optimizer updater;
  Regions memory;
  std::shared_ptr<Fabric> carrier;
  MessageBlocks planned;
  ParameterValues parameterValues;
  std::vector<std::shared_ptr<TensorParallel>> tensorParallel;
  std::unique_ptr<Transfers> transfers;
  std::unique_ptr<Reducer> reducer;
  std::unique_ptr<StepScalars> scalars;
  std::unique_ptr<Updates> updates;
  std::unique_ptr<WholeUpdates> wholeUpdates;
  TaskRecordings recordings;
  InputPlaces inputPlaces;
  const Batch *current = nullptr; ///< inside step()
  /// A row that has run, and what is known of it at once.
  struct Ran {
    int32_t number;
    const Part *part;
    RowTime time;
  };
  std::vector<Ran> ran;
  device::Stamps stamps; ///< three a row: wait, begin, end
  /// Per row: no later one adds to the gradients of its module.
  std::vector<char> endsBackward;
};

/// The batch of a step; one that a rank cannot get ends all of them with its
/// message. Throws CommonError, or BatchesEnded on all ranks.
const Batch &nextBatch(Trainer &trainer, BatchSource &source, int64_t step);

/// Throws Error unless the part has the module's dims, within their bounds, and
/// inputs of the bytes that follow. Edges may be empty.
void checkPart(const ModuleInfo &module, const Part &part);

} // namespace dt::rt

#endif // DT_RUNTIME_STEP_TRAINER_H
