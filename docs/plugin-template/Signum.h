//===- Signum.h - An optimizer ----------------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Bernstein et al., signSGD, 2018, with momentum. Programs that use it get this
// text, for the CPU and as CUDA: it includes nothing of the plugin's.
//
//===----------------------------------------------------------------------===//

#ifndef EXAMPLE_SIGNUM_H
#define EXAMPLE_SIGNUM_H

#include "runtime/OptimizerRule.h"

namespace dt::rt::optimizers {

///   p *= 1 - lr * weightDecay
///   m = momentum * m + (1 - momentum) * g; p -= lr * sign(m)
struct Signum {
  static constexpr const char *name = "signum";
  static constexpr OptimizerSetting settings[] = {
      {"momentum", "momentum", 0.9, kBelowOne,
       "decay of the mean of gradients"}};
  static constexpr const char *moments[] = {"mean"};
  static constexpr size_t countMoments(const double *) { return 1; }

  explicit Signum(const UpdateStep &s)
      : keep(float(1 - s.lr * s.weightDecay)), momentum(float(s.settings[0])),
        weight(float(1 - s.settings[0])), lr(float(s.lr)) {}

  template <size_t kept>
  DT_HOST_DEVICE void update(float &p, float g, float scale, float *m) const {
    m[0] = momentum * m[0] + weight * (g * scale);
    p = p * keep - (m[0] > 0 ? lr : m[0] < 0 ? -lr : m[0] * 0);
  }

  float keep, momentum, weight, lr;
};

} // namespace dt::rt::optimizers

#endif // EXAMPLE_SIGNUM_H
