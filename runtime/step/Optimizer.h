//===- Optimizer.h - from gradients to new parameters -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The program's optimizer over runs of elements. What an element becomes is
// said by runtime/Optimizers.h, which ranges a rank updates by Ownership.h.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STEP_OPTIMIZER_H
#define DT_RUNTIME_STEP_OPTIMIZER_H

#include "runtime/device/Array.h"
#include "runtime/state/Regions.h"

namespace dt::rt {

/// The learning rate of a step (0-based), see OptimizerInfo. `totalSteps`
/// replaces a total of 0.
double learningRate(const OptimizerInfo &info, int64_t step,
                    int64_t totalSteps);

class Optimizer {
public:
  explicit Optimizer(const OptimizerInfo &info) : info(info) {}

  /// The names in files of the moments that an element has.
  Span<const char *> moments() const {
    const OptimizerDescription &kind = describe(info.kind);
    return {kind.moments.data, kind.countMoments(info.settings.data)};
  }

  /// Whether it keeps an average of what it updates.
  bool averages() const { return info.averageDecay > 0; }

  double clipNorm() const { return info.clipNorm; }

  /// Whether a parameter that is a matrix, or is none, is not updated by
  /// element (WholeUpdates.h).
  bool isWhole(bool matrix) const {
    return describe(info.kind).isWhole(matrix);
  }
  /// What an update with learning rate `lr` (times the rule's factor) at `step`
  /// (0-based) depends on.
  UpdateStep stepOf(const UpdateRule &rule, int64_t step, double lr) const;

  /// One update with learning rate `lr` (times the rule's factor) at `step`
  /// (0-based), if the verdict says so. Tables and verdict are device memory.
  void update(const device::Runs<device::UpdateRun> &runs,
              const UpdateRule &rule, int64_t step, double lr,
              const Verdict *verdict) const;

private:
  OptimizerInfo info;
};

/// All that a rank's optimizer changes by element: a table for each rule, made
/// once.
class Updates {
public:
  /// Throws Error where there is no room for them.
  Updates(const Optimizer &optimizer, const Ownership &ownership,
          const Regions &regions, size_t modules);
  /// As Optimizer::update().
  void run(int64_t step, double lr, const Verdict *verdict) const;

private:
  struct Table {
    UpdateRule rule;
    device::RunTable<device::UpdateRun> runs;
  };
  const Optimizer &optimizer;
  std::vector<Table> tables;
};

} // namespace dt::rt

#endif // DT_RUNTIME_STEP_OPTIMIZER_H
