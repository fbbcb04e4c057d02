//===- SmallTraining.h - training the hand-written program ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// On the ranks of the tests under any plan that fits their number, and the same
// model in a few lines of plain arithmetic.
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_RUNTIME_MPI_SMALLTRAINING_H
#define DT_TEST_RUNTIME_MPI_SMALLTRAINING_H

#include "runtime/state/Init.h"
#include "runtime/step/Optimizer.h"
#include "runtime/train/Train.h"
#include "test/runtime/PlannedMessages.h"
#include "test/runtime/SmallProgram.h"
#include "test/runtime/comm/mpi/Ranks.h"

#include <cmath>

namespace small {

using namespace dt::rt;

inline std::vector<SmallPlan> plans() {
  std::vector<SmallPlan> fit;
  for (int32_t zero : {0, 1})
    for (SmallPlan plan :
         {SmallPlan{2, 1, 2}, SmallPlan{3, 1}, SmallPlan{1, 3}, SmallPlan{2, 2},
          SmallPlan{1, 2}, SmallPlan{2, 1}, SmallPlan{1, 1, 2}, SmallPlan{1, 1},
          SmallPlan{1, 1, 1, 0, 2, 3}, SmallPlan{2, 1, 1, 0, 3, 2},
          SmallPlan{1, 1, 2, 0, 1, 2}, SmallPlan{1, 2, 1, 0, 2, 1},
          SmallPlan{2, 1, 2, 0, 2, 2}})
      if (plan.zero = zero; plan.ranks() == ranks().size())
        fit.push_back(plan);
  return fit;
}

/// Of tower.w's six elements, then head.u's and head.v's two.
struct Given {
  std::vector<float> values; ///< at the beginning; empty: the program's
  std::vector<UpdateRule> rules = std::vector<UpdateRule>(10, UpdateRule{true});
};

/// The same model in double.
inline std::vector<double> reference(int steps, const Given &given = {}) {
  std::vector<float> x = randoms(kImages * 3, 11),
                     f = randoms(kSamples * 2, 12), t = randoms(kSamples, 13),
                     w(6);
  initialize(w.data(), {2, 3}, "normal(0,0.5)", "tower.w", 3);
  std::vector<double> p(w.begin(), w.end()), m(10), v(10), losses;
  p.insert(p.end(), {1, 1, double(0.3f), double(-0.2f)});
  if (!given.values.empty())
    p.assign(given.values.begin(), given.values.end());
  for (int step = 0; step < steps; ++step) {
    std::vector<double> y(kSamples), g(10), e(kImages * 2);
    for (int64_t s = 0; s < kSamples; ++s)
      y[size_t(s)] = f[size_t(s) * 2] * p[8] + f[size_t(s) * 2 + 1] * p[9];
    for (size_t i = 0; i < size_t(kImages); ++i)
      for (size_t o = 0; o < 2; ++o) {
        for (size_t k = 0; k < 3; ++k)
          e[i * 2 + o] += x[i * 3 + k] * p[o * 3 + k];
        y[size_t(kOwners[i])] += e[i * 2 + o] * p[6 + o];
      }
    double loss = 0, norm = 0;
    std::vector<double> d(kSamples);
    for (size_t s = 0; s < size_t(kSamples); ++s) {
      d[s] = 2 * (y[s] - t[s]) / kSamples;
      loss += (y[s] - t[s]) * (y[s] - t[s]) / kSamples;
      g[8] += d[s] * f[s * 2], g[9] += d[s] * f[s * 2 + 1];
    }
    for (size_t i = 0; i < size_t(kImages); ++i)
      for (size_t o = 0; o < 2; ++o) {
        double up = d[size_t(kOwners[i])];
        g[6 + o] += up * e[i * 2 + o];
        for (size_t k = 0; k < 3; ++k)
          g[o * 3 + k] += up * p[6 + o] * x[i * 3 + k];
      }
    losses.push_back(loss);
    for (double value : g)
      norm += value * value;
    double scale = std::min(1.0, 1.0 / (std::sqrt(norm) + 1e-6));
    double lr = learningRate(kOptimizer, step, steps);
    for (size_t i = 0; i < 10; ++i) {
      m[i] += (g[i] * scale - m[i]) * 0.1;
      v[i] = 0.999 * v[i] + 0.001 * g[i] * scale * g[i] * scale;
      const UpdateRule &rule = given.rules[i];
      double decay = rule.weightDecay < 0 ? 0.01 : rule.weightDecay,
             rate = lr * rule.lrFactor;
      p[i] *= 1 - (i == 6 || i == 7 ? 0 : rate * decay);
      p[i] -= rate / (1 - std::pow(0.9, step + 1)) * m[i] /
              (std::sqrt(v[i] / (1 - std::pow(0.999, step + 1))) + 1e-8);
    }
  }
  return losses;
}

inline std::vector<double> train(const SmallPlan &plan,
                                 const SharedFolder &folder, Options options,
                                 int64_t micro = 2, const Given &given = {}) {
  SmallProgram program(micro, plan);
  for (size_t i = 0; i < 3; ++i) { // a parameter's first element speaks for it
    const UpdateRule &rule = given.rules[i == 0 ? 0 : 4 + 2 * i];
    program.parameters[i].lrFactor = rule.lrFactor;
    program.parameters[i].weightDecay = rule.weightDecay;
  }
  std::vector<double> losses;
  options.batch = {folder / "batch"};
  options.logEvery = 1e9;
  TrainHooks hooks;
  hooks.afterStep = [&](Trainer &trainer, const StepReport &report) {
    expectPlanned(trainer);
    losses.push_back(report.result->loss);
  };
  runTraining(program.info, folder.path, options, ranks(), hooks);
  return losses;
}

inline Options steps(int64_t n) {
  Options options;
  options.steps = n;
  return options;
}

inline std::string nameOf(const SmallPlan &plan) {
  return std::to_string(plan.towers) + "-" + std::to_string(plan.heads) + "x" +
         std::to_string(plan.tp) + "-" + std::to_string(plan.zero) + "-" +
         std::to_string(plan.towerSub) + std::to_string(plan.headSub);
}

} // namespace small

#endif // DT_TEST_RUNTIME_MPI_SMALLTRAINING_H
