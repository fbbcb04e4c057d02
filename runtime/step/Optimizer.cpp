//===- Optimizer.cpp - from gradients to new parameters ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/step/Optimizer.h"
#include "runtime/device/Device.h"

#include <algorithm>
#include <cmath>

namespace dt::rt {

double learningRate(const OptimizerInfo &info, int64_t step,
                    int64_t totalSteps) {
  if (info.totalSteps > 0)
    totalSteps = info.totalSteps;
  if (step < info.warmupSteps)
    return info.lr * double(step + 1) / double(info.warmupSteps);
  double start = double(info.warmupSteps) +
                 info.decayFrom * double(totalSteps - info.warmupSteps);
  if (info.schedule == ScheduleKind::Constant || double(step) <= start)
    return info.lr;
  double x =
      double(totalSteps) > start
          ? std::min(1.0, (double(step) - start) / (double(totalSteps) - start))
          : 1.0;
  double f = info.schedule == ScheduleKind::Linear
                 ? 1 - x
                 : 0.5 * (1 + std::cos(3.14159265358979323846 * x));
  return info.lr * (info.finalFraction + (1 - info.finalFraction) * f);
}

double Optimizer::scaleFor(double norm) const {
  if (info.clipNorm <= 0)
    return 1;
  double scale = info.clipNorm / (norm + 1e-6);
  return scale > 1 ? 1.0 : scale; // NaN goes through, as in torch.clamp
}

void Optimizer::update(float *p, const float *g,
                       const Moments<float *> &moments, size_t count,
                       const UpdateRule &rule, int64_t step, double lr,
                       double scale, bf16 *working) const {
  double decay = !rule.decay             ? 0
                 : rule.weightDecay >= 0 ? rule.weightDecay
                                         : info.weightDecay;
  device::update(info.kind,
                 {info.settings.data, lr * rule.lrFactor, decay, scale, step},
                 p, g, moments, count, working);
}

} // namespace dt::rt
