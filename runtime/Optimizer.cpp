//===- Optimizer.cpp - from gradients to new parameters
//--------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Optimizer.h"
#include "runtime/Device.h"

#include <algorithm>
#include <cmath>

namespace dt::rt {

namespace {

size_t elementsOf(const ParameterInfo &p) {
  size_t count = 1;
  for (int32_t i = 0; i < p.tensor.rank; ++i)
    count *= p.tensor.shape[i].offset;
  return count;
}

} // namespace

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

size_t trainableBytes(const ProgramInfo &program) {
  size_t bytes = 0;
  for (const ParameterInfo &p : program.parameters)
    if (p.trainable)
      bytes = std::max(bytes, p.offset + elementsOf(p) * sizeof(float));
  return (bytes + 63) / 64 * 64;
}

Optimizer::Optimizer(const ProgramInfo &program, const OptimizerInfo &info)
    : info(info) {
  size_t previousEnd =
      0; // end of the last parameter, rounded up to its padding
  for (const ParameterInfo &p : program.parameters) {
    if (!p.trainable || !p.hasGradient)
      continue;
    size_t begin = p.offset / sizeof(float), count = elementsOf(p);
    // Padding between neighbours is zero in all blocks and stays zero.
    if (!runs.empty() && runs.back().decay == p.decay && previousEnd == begin)
      runs.back().count = begin + count - runs.back().begin;
    else
      runs.push_back({begin, count, p.decay});
    previousEnd = (begin + count + 15) / 16 * 16;
  }
}

int Optimizer::moments() const {
  return info.kind == OptimizerKind::AdamW ? 2 : info.momentum != 0 ? 1 : 0;
}

double Optimizer::norm(const float *gradients) const {
  double sum = 0;
  for (const Run &run : runs)
    sum += device::sumOfSquares(gradients + run.begin, run.count);
  return std::sqrt(sum);
}

void Optimizer::update(float *parameters, const float *gradients, float *first,
                       float *second, int64_t step, double lr,
                       double norm) const {
  double scale = 1;
  if (info.clipNorm > 0) {
    scale = info.clipNorm / (norm + 1e-6);
    scale = scale > 1 ? 1.0 : scale; // NaN goes through, as in torch.clamp
  }
  for (const Run &run : runs) {
    float *p = parameters + run.begin;
    const float *g = gradients + run.begin;
    double decay = run.decay ? info.weightDecay : 0;
    if (info.kind == OptimizerKind::AdamW) {
      double t = double(step + 1);
      device::adamw(p, g, first + run.begin, second + run.begin, run.count,
                    {lr, info.beta1, info.beta2, info.eps, decay,
                     1 - std::pow(info.beta1, t), 1 - std::pow(info.beta2, t),
                     scale});
    } else {
      device::sgd(p, g, first ? first + run.begin : nullptr, run.count,
                  {lr, info.momentum, decay, scale, step == 0});
    }
  }
}

} // namespace dt::rt
