//===- Optimizer.h - from gradients to new parameters -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// PyTorch's AdamW and SGD over the flat parameter table. Neighbouring
// parameters with equal settings are one run, so a step is a few loops over
// long arrays.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_OPTIMIZER_H
#define DT_RUNTIME_OPTIMIZER_H

#include "runtime/Program.h"

#include <vector>

namespace dt::rt {

/// The learning rate of a step (0-based), see OptimizerInfo. `totalSteps`
/// replaces a total of 0.
double learningRate(const OptimizerInfo &info, int64_t step,
                    int64_t totalSteps);

/// Bytes of the gradient block and of each moment: up to the end of the last
/// trainable parameter.
size_t trainableBytes(const ProgramInfo &program);

class Optimizer {
public:
  /// `moments` have trainableBytes each; `second` is not used by SGD.
  Optimizer(const ProgramInfo &program, const OptimizerInfo &info);

  /// Number of moment blocks: AdamW 2, SGD with momentum 1, without 0.
  int moments() const;

  /// Global gradient norm; parameters without a gradient path do not count.
  double norm(const float *gradients) const;

  /// One update with learning rate `lr` at `step` (0-based); `norm` from above,
  /// used if the recipe clips.
  void update(float *parameters, const float *gradients, float *first,
              float *second, int64_t step, double lr, double norm) const;

private:
  struct Run {
    size_t begin, count; ///< elements
    bool decay;
  };
  OptimizerInfo info;
  std::vector<Run> runs;
};

} // namespace dt::rt

#endif // DT_RUNTIME_OPTIMIZER_H
