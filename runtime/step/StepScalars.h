//===- StepScalars.h - numbers that a step's ranks agree on -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Loss denominators before the first forward; loss terms and the gradient norm
// at the end. Each rank gives sums over what it counts, all gather all of them
// and add in the order of ranks, so everybody has the same bits. These two and
// the check at the start are a step's only global exchanges.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STEP_STEPSCALARS_H
#define DT_RUNTIME_STEP_STEPSCALARS_H

#include "runtime/comm/Comm.h"
#include "runtime/state/Regions.h"
#include "runtime/step/Trainer.h"

namespace dt::rt {

class StepScalars {
public:
  StepScalars(const ProgramInfo &program, const Placement &placement,
              const Ownership &ownership, const Regions &regions, Comm &comm);
  ~StepScalars();
  StepScalars(const StepScalars &) = delete;
  StepScalars &operator=(const StepScalars &) = delete;

  /// Whether all ranks have the same plan and the same batch, and none failed
  /// to get it. Throws CommonError before anything has happened otherwise.
  void agree(uint64_t batchHash, const std::string &failure) const;

  /// Remembers a denominator, a numerator that a task has left in `value`
  /// (device memory, one float).
  void denominator(size_t loss, const TaskRow &row, const std::byte *value);
  void numerator(size_t loss, const TaskRow &row, const std::byte *value);

  /// All parts' denominators are there: seeds of the backward functions, per
  /// loss (LossInfo).
  const std::vector<float> &makeSeeds();

  /// What the parts of all ranks have left, without guards.
  LossSums lossSums() const;

  /// Fills loss, terms, norm and whether any rank has a wish; gradients are
  /// final.
  void finish(StepResult &result, const StepWishes &wishes) const;

private:
  std::vector<double> sums(bool numerators) const;
  std::vector<double> addRanks(const std::vector<double> &mine) const;
  double sumOfSquares() const;
  std::byte *cell(size_t loss, const TaskRow &row, bool numerator) const;

  const ProgramInfo &program;
  const Placement &placement;
  const Ownership &ownership;
  const Regions &regions;
  Comm &comm;
  /// First cell of each loss, and their number: one for each of its module's
  /// parts on a rank.
  std::vector<size_t> starts;
  std::byte *cells;              ///< [2][cell] floats: denominators, numerators
  std::vector<double> sumsBelow; ///< of denominators
  std::vector<double> denominators; ///< with guards
  std::vector<float> seeds;
};

} // namespace dt::rt

#endif // DT_RUNTIME_STEP_STEPSCALARS_H
