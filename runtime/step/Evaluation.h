//===- Evaluation.h - all modules on one rank, forward only -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// During training each module is where the plan puts it. Evaluation and
// sampling want the forward functions of all of them in turn, on samples of
// their own: one rank gets memory for the modules that it does not run, and the
// current parameters whenever all ranks agree to (TrainHooks::wants). What the
// training keeps between steps is not touched.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STEP_EVALUATION_H
#define DT_RUNTIME_STEP_EVALUATION_H

#include "runtime/step/Trainer.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace dt::rt {

class Evaluation {
public:
  /// All ranks make theirs at the same point, between steps, and `trainer`
  /// outlives them. `root`: the rank with the modules. Throws CommonError if
  /// there is not enough memory, or a module is cut inside its replicas (tp >
  /// 1): its function is a part of the work only.
  explicit Evaluation(Trainer &trainer, int root = 0);
  ~Evaluation();
  Evaluation(const Evaluation &) = delete;
  Evaluation &operator=(const Evaluation &) = delete;

  const ProgramInfo &program() const { return trainer.program(); }
  /// Whether this is the rank with the modules; the calls below `update` are
  /// only for it.
  bool here() const { return trainer.comm().rank() == root; }

  /// The root's copies of all parameters become what they are now. All ranks
  /// call it between steps.
  void update();

  /// Runs the forward function of a module in slot 0. `part.inputs` gives raw
  /// inputs and edges; those that are empty stay as they are in the arena.
  /// Throws Error if the part does not fit the module.
  void forward(int module, const Part &part);
  /// Host copy of an output after `forward`.
  std::vector<std::byte> output(int module, int index, const Part &part) const;

private:
  /// The rank that the root gets a module's parameters from.
  int sourceOf(size_t module) const;
  void allocate();
  std::byte *make(size_t bytes, const char *what);
  std::byte *address(size_t module, const BufferInfo &buffer) const {
    return arenas[module] + buffer.offset;
  }

  Trainer &trainer;
  int root;
  std::vector<std::byte *> arenas, parameters; ///< by module
  std::byte *scratch = nullptr;
  std::vector<void *> owned;
  std::shared_ptr<TensorParallel> alone; ///< the root's group of itself
};

} // namespace dt::rt

#endif // DT_RUNTIME_STEP_EVALUATION_H
