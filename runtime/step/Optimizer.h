//===- Optimizer.h - from gradients to new parameters -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// PyTorch's AdamW and SGD over ranges of flat arrays. Which ranges a rank
// updates is Ownership.h's business.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STEP_OPTIMIZER_H
#define DT_RUNTIME_STEP_OPTIMIZER_H

#include "runtime/Program.h"
#include "runtime/state/Ownership.h"

namespace dt::rt {

/// The learning rate of a step (0-based), see OptimizerInfo. `totalSteps`
/// replaces a total of 0.
double learningRate(const OptimizerInfo &info, int64_t step,
                    int64_t totalSteps);

class Optimizer {
public:
  explicit Optimizer(const OptimizerInfo &info) : info(info) {}

  /// Number of moments an element has: AdamW 2, SGD with momentum 1, without 0.
  int moments() const;
  /// Their names in files: "exp_avg", "exp_avg_sq"; "momentum".
  const char *momentName(int moment) const;

  /// What gradients are multiplied with: below 1 where the recipe clips and the
  /// global norm is too large.
  double scaleFor(double norm) const;

  /// One update of `count` elements with learning rate `lr` (times the rule's
  /// factor) at `step` (0-based). SGD does not use `second`.
  void update(float *parameters, const float *gradients, float *first,
              float *second, size_t count, const UpdateRule &rule, int64_t step,
              double lr, double scale) const;

private:
  OptimizerInfo info;
};

} // namespace dt::rt

#endif // DT_RUNTIME_STEP_OPTIMIZER_H
