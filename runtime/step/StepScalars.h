//===- StepScalars.h - numbers that a step's ranks agree on -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Loss denominators before the first forward; loss terms and the gradient norm
// at the end. Each rank gives sums over what it counts, and everybody has the
// same bits of the sums of all. These two and the check at the start are a
// step's only global exchanges. The numbers stay where they were computed: what
// needs them there is queued, and the host reads all of them at the end.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STEP_STEPSCALARS_H
#define DT_RUNTIME_STEP_STEPSCALARS_H

#include "runtime/comm/Comm.h"
#include "runtime/comm/Fabric.h"
#include "runtime/device/Array.h"
#include "runtime/state/Regions.h"
#include "runtime/step/Trainer.h"

namespace dt::rt {

class StepScalars {
public:
  StepScalars(const ProgramInfo &program, const Placement &placement,
              const Ownership &ownership, const Regions &regions, Comm &comm,
              Fabric &fabric);
  StepScalars(const StepScalars &) = delete;
  StepScalars &operator=(const StepScalars &) = delete;

  /// What a rank says in agree().
  static constexpr size_t kStartBytes = 24;
  /// Whether all ranks have the same plan and the same batch, and none failed
  /// to get it. Throws CommonError before anything has happened otherwise.
  void agree(uint64_t batchHash, const std::string &failure) const;

  /// Remembers a denominator, a numerator that a task has left in `value`
  /// (device memory, one float).
  void denominator(size_t loss, const TaskRow &row, const std::byte *value);
  void numerator(size_t loss, const TaskRow &row, const std::byte *value);

  /// All parts' denominators are there: makes the seeds.
  void makeSeeds();
  /// Of the backward functions, per loss (LossInfo); device memory.
  const float *seeds() const { return seedOfLoss.data(); }

  /// What the parts of all ranks have left, without guards. Waits for it.
  LossSums lossSums();

  /// Gradients are final: computes the verdict, and begins to read the step's
  /// numbers back.
  void finish(const StepWishes &wishes, double clipNorm);
  const Verdict *verdict() const { return numbers.verdict; }
  /// Loss, terms, norm and whether any rank has a wish. Waits for what finish()
  /// queued, no longer.
  StepResult result();
  /// Host memory of what is read back.
  size_t readBackBytes() const { return block.size(); }

private:
  void sumParts(double *sums, bool numerators);
  void addRanks(double *sums, size_t count) const;
  float *cell(size_t loss, const TaskRow &row, bool numerator) const;

  const ProgramInfo &program;
  Comm &comm;
  FabricGroup *everybody; ///< where the host would have to wait for sums
  /// First cell of each loss, and their number: one for each of its module's
  /// parts on a rank.
  std::vector<size_t> starts;
  device::Array<float> cells; ///< [2][cell]: denominators, numerators
  device::Array<CellRange> counted;
  device::Array<LossInfo> losses;
  device::RunTable<device::FloatRun> gradients; ///< that this rank counts
  device::Array<float> seedOfLoss;
  device::Array<std::byte> block;
  StepNumbers numbers; ///< in `block`
  device::ReadBack readBack;
};

} // namespace dt::rt

#endif // DT_RUNTIME_STEP_STEPSCALARS_H
