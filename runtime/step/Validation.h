//===- Validation.h - losses on data that is not trained on -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// --validate: between two steps the forward part of the training's own schedule
// runs over all batches of another data set, on the ranks where the modules
// are, under any plan. It is the same code as a step's, so it needs no program
// of its own and no other memory, and a loss means the same as in training.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STEP_VALIDATION_H
#define DT_RUNTIME_STEP_VALIDATION_H

#include "runtime/step/Trainer.h"

#include <memory>
#include <string>
#include <vector>

namespace dt::rt {

class StatusBoard;

struct ValidationResult {
  double loss = 0;
  std::vector<double> terms; ///< per loss, without its weight
  std::vector<bool> empty{}; ///< per loss: nothing counted for it
  double seconds = 0;
};

class Validation {
public:
  /// `board`: learns what this rank does; may be null.
  Validation(Trainer &trainer, std::unique_ptr<BatchSource> source,
             StatusBoard *board)
      : trainer(trainer), source(std::move(source)), board(board) {}

  /// All ranks call it, between steps. Equal for equal parameters: batches and
  /// draws are those of the data's first steps each time. Throws CommonError or
  /// Error.
  ValidationResult run();
  /// Identifies the data.
  uint64_t hash() const { return source->hash(); }
  std::string summary() const;

private:
  Trainer &trainer;
  std::unique_ptr<BatchSource> source;
  StatusBoard *board;
};

} // namespace dt::rt

#endif // DT_RUNTIME_STEP_VALIDATION_H
