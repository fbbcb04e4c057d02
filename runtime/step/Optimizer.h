//===- Optimizer.h - from gradients to new parameters -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The program's optimizer over ranges of flat arrays. What an element becomes
// is said by runtime/Optimizers.h, which ranges a rank updates by Ownership.h.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STEP_OPTIMIZER_H
#define DT_RUNTIME_STEP_OPTIMIZER_H

#include "runtime/Program.h"
#include "runtime/device/BFloat16.h"
#include "runtime/state/Ownership.h"

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

  /// What gradients are multiplied with: below 1 where the recipe clips and the
  /// global norm is too large.
  double scaleFor(double norm) const;

  /// One update of `count` elements with learning rate `lr` (times the rule's
  /// factor) at `step` (0-based). `working`: where they are rounded to; null:
  /// nowhere.
  void update(float *parameters, const float *gradients,
              const Moments<float *> &moments, size_t count,
              const UpdateRule &rule, int64_t step, double lr, double scale,
              bf16 *working = nullptr) const;

private:
  OptimizerInfo info;
};

} // namespace dt::rt

#endif // DT_RUNTIME_STEP_OPTIMIZER_H
