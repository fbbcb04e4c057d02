//===- Optimizer.cpp - from gradients to new parameters ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/step/Optimizer.h"

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

UpdateStep Optimizer::stepOf(const UpdateRule &rule, int64_t step,
                             double lr) const {
  double decay = !rule.decay             ? 0
                 : rule.weightDecay >= 0 ? rule.weightDecay
                                         : info.weightDecay;
  return {info.settings.data, lr * rule.lrFactor, decay, step,
          info.averageDecay};
}

/// The sign of the gradient alone: Lion without a mean.
static constexpr double kSigns[] = {0, 1};

void Optimizer::update(const device::Runs<device::UpdateRun> &runs,
                       const UpdateRule &rule, int64_t step, double lr,
                       const Verdict *verdict) const {
  if (rule.isRouting())
    device::update(OptimizerKind::Lion,
                   {kSigns, rule.routingRate, 0, step, info.averageDecay}, runs,
                   verdict);
  else
    device::update(info.kind, stepOf(rule, step, lr), runs, verdict);
}

/// `place`: of the range's gradients, in bytes.
static device::UpdateRun runOf(const Region &region, const UpdateRange &u,
                               size_t place, size_t moments) {
  std::byte *stored = region.parameters + u.range.stored;
  bool narrow = u.range.type != DType::F32;
  device::UpdateRun run{narrow ? region.masters + u.moment
                               : reinterpret_cast<float *>(stored),
                        floatsAt(region.gradients + place, u.range.gradient),
                        {},
                        u.range.count,
                        narrow ? reinterpret_cast<bf16 *>(stored) : nullptr,
                        region.average ? region.average + u.moment : nullptr};
  for (size_t k = 0; k < moments; ++k)
    run.moments.at[k] = region.moments.at[k] + u.kept.at[k];
  return run;
}

Updates::Updates(const Optimizer &optimizer, const Ownership &ownership,
                 const Regions &regions, size_t modules)
    : optimizer(optimizer) {
  std::vector<UpdateRule> rules;
  std::vector<std::vector<device::UpdateRun>> runs;
  for (size_t m = 0; m < modules; ++m)
    for (const UpdateRange &u : ownership.updates(m)) {
      if (!u.rule.isRouting() && optimizer.isWhole(u.rule.matrix))
        continue;
      size_t i =
          size_t(std::find(rules.begin(), rules.end(), u.rule) - rules.begin());
      if (i == rules.size())
        rules.push_back(u.rule), runs.emplace_back();
      runs[i].push_back(runOf(regions.at(m), u,
                              ownership.gradientBytes(m, u.range.begin),
                              optimizer.moments().size));
    }
  for (size_t i = 0; i < rules.size(); ++i)
    tables.push_back({rules[i], {runs[i], "the optimizer's table"}});
}

void Updates::run(int64_t step, double lr, const Verdict *verdict) const {
  for (const Table &table : tables)
    optimizer.update(table.runs, table.rule, step, lr, verdict);
}

} // namespace dt::rt
