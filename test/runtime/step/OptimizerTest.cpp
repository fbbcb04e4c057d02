//===- OptimizerTest.cpp - PyTorch's formulas by hand -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/step/Optimizer.h"
#include "runtime/EnumTexts.h"
#include "runtime/device/Device.h"
#include "test/runtime/TestSupport.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace dt::rt;

namespace {

constexpr double kAdamW[] = {0.9, 0.999, 1e-8}, kMomentum[] = {0.9},
                 kNoMomentum[] = {0};

OptimizerInfo adamw(double clip = 0) {
  return {OptimizerKind::AdamW, kAdamW, 0.1, 0.01, clip};
}
const OptimizerInfo kSgd = {OptimizerKind::SGD, kMomentum, 0.1, 0.01};

void update(const Optimizer &optimizer, const device::UpdateRun &run,
            const UpdateRule &rule, int64_t step, double scale = 1,
            bool applies = true) {
  Verdict verdict{0, 0, scale, applies};
  optimizer.update({&run, 1, run.count}, rule, step, 0.1, &verdict);
}

struct State {
  std::vector<float> p = std::vector<float>(32, 1.f),
                     g = std::vector<float>(32), m = g, v = g;
  /// The first half with weight decay, the second without.
  void update(const Optimizer &optimizer, int64_t step, double norm = 0) {
    for (int half = 0; half < 2; ++half)
      ::update(optimizer,
               {&p[half * 16u],
                &g[half * 16u],
                {&m[half * 16u], &v[half * 16u]},
                16,
                nullptr},
               {half == 0}, step, clipScale(optimizer.clipNorm(), norm));
  }
};

TEST(Optimizer, AdamW) {
  Optimizer optimizer(adamw());
  ASSERT_EQ(optimizer.moments().size, 2u);
  EXPECT_STREQ(optimizer.moments()[1], "exp_avg_sq");
  State s;
  s.g[0] = s.g[16] = 0.5f;
  s.update(optimizer, 0);
  EXPECT_NEAR(s.p[0], 0.899,
              1e-6); // 1 * (1 - 0.1 * 0.01) - 0.1 * 0.05 / 0.1 / 0.5
  EXPECT_NEAR(s.p[1], 0.999, 1e-6); // decay without a gradient value
  EXPECT_NEAR(s.p[16], 0.9, 1e-6);  // no decay
  s.g[0] = s.g[16] = -0.25f;
  s.update(optimizer, 1);
  EXPECT_NEAR(s.m[0], 0.02, 1e-7);
  EXPECT_NEAR(s.v[0], 3.1225e-4, 1e-9);
  EXPECT_NEAR(s.p[0], 0.8714662, 2e-6);
}

/// A group's rate and decay, against torch.optim.AdamW with such groups.
TEST(Optimizer, AdamWGroups) {
  Optimizer optimizer(adamw());
  for (UpdateRule rule : {UpdateRule{true, 0.5, 0.2}, UpdateRule{true, 0.5},
                          UpdateRule{false, 0.5, 0.2}, UpdateRule{true, 0}}) {
    double rate = 0.1 * rule.lrFactor, p = 1, m = 0, v = 0;
    double decay = !rule.decay ? 0 : rule.weightDecay >= 0 ? 0.2 : 0.01;
    float have = 1, first = 0, second = 0;
    for (int step = 0; step < 3; ++step) {
      float g = 0.5f - 0.3f * float(step);
      update(optimizer, {&have, &g, {&first, &second}, 1, nullptr}, rule, step);
      double t = step + 1, gradient = double(g);
      p *= 1 - rate * decay;
      m = 0.9 * m + 0.1 * gradient, v = 0.999 * v + 0.001 * gradient * gradient;
      p -= rate * (m / (1 - std::pow(0.9, t))) /
           (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
      EXPECT_NEAR(have, p, 4 * kEps) << rule.lrFactor << " " << decay;
    }
  }
}

TEST(Optimizer, SgdGroups) {
  Optimizer optimizer(kSgd);
  float have = 1, buffer = 0, g = 0.5f;
  double p = 1, b = 0;
  for (int step = 0; step < 3; ++step) {
    update(optimizer, {&have, &g, {&buffer}, 1, nullptr}, {true, 2, 0.3}, step);
    b = (step ? 0.9 * b : 0) + 0.5 + 0.3 * p;
    p -= 0.2 * b;
    EXPECT_NEAR(have, p, 4 * kEps);
  }
}

/// By the rate against the sign of the gradient, whatever the optimizer is:
/// no learning rate, decay or clipping, and no moment changes.
TEST(Optimizer, RoutingBiases) {
  constexpr double kAdafactor[] = {-0.8, 1e-30, 1e-3, 1};
  for (const OptimizerInfo &info :
       {adamw(1), kSgd,
        OptimizerInfo{OptimizerKind::Adafactor, kAdafactor, 0.1, 0.01}}) {
    float p[] = {1, 1, 1, 1}, g[] = {300, -1, 0, 2}, m[4] = {}, v[4] = {},
          average[] = {1, 1, 1, 1};
    device::UpdateRun run{p, g, {m, v}, 4, nullptr, average};
    UpdateRule rule{false, 3, 0.5, false, 0.25};
    update(Optimizer(info), run, rule, 7, 0.001);
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(p[i], i == 1 ? 1.25f : i == 2 ? 1.f : 0.75f);
      EXPECT_EQ(m[i], 0);
      EXPECT_EQ(v[i], 0);
    }
    update(Optimizer(info), run, rule, 8, 0.001, false);
    EXPECT_EQ(p[0], 0.75f);
  }
}

/// All targets compute with these: rounded once, from double.
TEST(Optimizer, ScalarsAreRoundedOnce) {
  UpdateStep step{kAdamW, 1e-3, 0.01, 0};
  optimizers::AdamW s(step);
  EXPECT_EQ(s.weight1, 0.1f);
  EXPECT_EQ(s.weight2, 0.001f);
  EXPECT_NE(s.weight2, 1 - 0.999f);
  EXPECT_EQ(s.keep, 0.99999f);
  float p = 1, g = 1, m = 0, v = 0;
  device::UpdateRun run{&p, &g, {&m, &v}, 1, nullptr};
  Verdict verdict{0, 0, 1, true};
  device::update(OptimizerKind::AdamW, step, {&run, 1, 1}, &verdict);
  EXPECT_EQ(m, 0.1f);
  EXPECT_EQ(v, 0.001f);
}

/// What recipes, IR and checkpoints take for granted.
TEST(Optimizer, Descriptions) {
  for (const OptimizerDescription &optimizer : kOptimizers) {
    EXPECT_EQ(&describe(*fromText<OptimizerKind>(optimizer.name)), &optimizer);
    std::vector<double> settings;
    for (const OptimizerSetting &setting : optimizer.settings) {
      EXPECT_GE(setting.initial, setting.range.low) << setting.name;
      EXPECT_LE(setting.initial, setting.range.high) << setting.name;
      settings.push_back(setting.initial);
    }
    EXPECT_LE(optimizer.countMoments(settings.data()), optimizer.moments.size);
  }
}

TEST(Optimizer, ClippingByGlobalNorm) {
  Optimizer optimizer(adamw(1.0));
  State s;
  s.g[0] = 3, s.g[16] = 4;
  s.update(optimizer, 0, 5);
  EXPECT_NEAR(s.m[0], 0.1 * 3 / (5 + 1e-6), 1e-7);
  EXPECT_EQ(clipScale(1, 0.5), 1);
  EXPECT_TRUE(std::isnan(clipScale(1, NAN)));
}

/// Where the verdict says no, nothing changes.
TEST(Optimizer, VerdictThatNothingApplies) {
  float p = 1, g = 1, m = 2, v = 3;
  update(Optimizer(adamw()), {&p, &g, {&m, &v}, 1, nullptr}, {true}, 0, NAN,
         false);
  EXPECT_EQ(p, 1);
  EXPECT_EQ(m, 2);
  EXPECT_EQ(v, 3);
}

/// Of a loss with a guard and one without a denominator.
TEST(StepNumbers, Judge) {
  LossInfo losses[2] = {};
  losses[0].weight = 2, losses[0].atLeast = 1, losses[0].plus = 3;
  losses[0].denominator = [](const TaskContext &) {};
  losses[1].weight = 0.5;
  std::vector<std::byte> block(StepNumbers::bytes(2));
  StepNumbers step(block.data(), 2);
  step.denominators[0] = 0.5, step.numerators[0] = 8, step.numerators[1] = 6;
  *step.squares = 16;
  judge(step, losses, 1, false);
  EXPECT_EQ(seedOf(losses[0], 0.5), 0.5f);
  EXPECT_EQ(seedOf(losses[0], -3), 0.5f);
  EXPECT_EQ(seedOf(losses[1], 0), 0.5f);
  EXPECT_EQ(step.terms[0], 2);
  EXPECT_EQ(step.terms[1], 6);
  EXPECT_EQ(step.verdict->loss, 7);
  EXPECT_EQ(step.verdict->norm, 4);
  EXPECT_EQ(step.verdict->scale, 1 / (4 + 1e-6));
  EXPECT_TRUE(step.verdict->applies);
  judge(step, losses, 1, true);
  EXPECT_FALSE(step.verdict->applies);
  for (double *number : {&step.numerators[1], step.squares}) {
    double before = *number;
    *number = INFINITY;
    judge(step, losses, 0, false);
    EXPECT_FALSE(step.verdict->applies);
    *number = before;
  }
  losses[0].atLeast = 0, losses[0].plus = 0;
  step.denominators[0] = 0;
  judge(step, losses, 0, false);
  EXPECT_EQ(step.terms[0], 0);
  EXPECT_EQ(seedOf(losses[0], 0), 0);
  EXPECT_TRUE(step.verdict->applies);
}

TEST(Optimizer, SgdWithMomentum) {
  Optimizer optimizer(kSgd);
  EXPECT_EQ(optimizer.moments().size, 1u);
  EXPECT_TRUE(Optimizer({OptimizerKind::SGD, kNoMomentum}).moments().empty());
  State s;
  s.g[0] = 0.5f;
  s.update(optimizer, 0);
  EXPECT_NEAR(s.p[0], 1 - 0.1 * 0.51, 1e-6);
  s.update(optimizer, 1);
  double g = 0.5 + 0.01 * 0.949, b = 0.9 * 0.51 + g;
  EXPECT_NEAR(s.p[0], 0.949 - 0.1 * b, 1e-6);
}

/// The paper's formula in double: gradients of both signs, and 0, which moves
/// nothing but by decay.
TEST(Optimizer, Lion) {
  constexpr double kSettings[] = {0.9, 0.99};
  Optimizer optimizer({OptimizerKind::Lion, kSettings, 0.1, 0.3});
  ASSERT_EQ(optimizer.moments().size, 1u);
  for (double sign : {1., -1., 0.}) {
    float have = 1, mean = 0;
    double p = 1, m = 0;
    for (int step = 0; step < 12; ++step) {
      float g = float(sign) * (step < 3 ? 0.5f : -0.02f);
      update(optimizer, {&have, &g, {&mean}, 1, nullptr}, {true, 0.5}, step);
      double u = 0.9 * m + 0.1 * double(g);
      p = p * (1 - 0.05 * 0.3) - 0.05 * double((u > 0) - (u < 0));
      m = 0.99 * m + 0.01 * double(g);
      EXPECT_NEAR(have, p, 4 * (step + 1) * kEps) << sign << " " << step;
      EXPECT_NEAR(mean, m, 4 * kEps);
    }
  }
  float p = 1, g = NAN, m = 0;
  update(optimizer, {&p, &g, {&m}, 1, nullptr}, {false}, 0);
  EXPECT_TRUE(std::isnan(p));
}

/// Of updates that apply, and of the new parameters.
TEST(Optimizer, Average) {
  OptimizerInfo info = adamw();
  info.averageDecay = 0.9;
  Optimizer optimizer(info);
  EXPECT_TRUE(optimizer.averages());
  float p = 1, m = 0, v = 0, average = 0.5f;
  double want = 0.5;
  for (int step = 0; step < 5; ++step) {
    float g = 0.5f - 0.3f * float(step);
    device::UpdateRun run{&p, &g, {&m, &v}, 1, nullptr, &average};
    update(optimizer, run, {true}, step, 1, step != 2);
    want = step == 2 ? want : 0.9 * want + 0.1 * double(p);
    EXPECT_NEAR(average, want, 4 * kEps);
  }
}

TEST(Optimizer, Schedules) {
  OptimizerInfo info = adamw();
  info.lr = 1, info.warmupSteps = 10, info.schedule = ScheduleKind::Linear,
  info.decayFrom = 0.5, info.finalFraction = 0.1;
  EXPECT_DOUBLE_EQ(learningRate(info, 0, 110), 0.1);
  EXPECT_DOUBLE_EQ(learningRate(info, 9, 110), 1);
  EXPECT_DOUBLE_EQ(learningRate(info, 60, 110), 1);
  EXPECT_DOUBLE_EQ(learningRate(info, 85, 110), 0.55);
  EXPECT_DOUBLE_EQ(learningRate(info, 500, 110), 0.1);
  info.schedule = ScheduleKind::Cosine;
  EXPECT_NEAR(learningRate(info, 85, 110), 0.55, 1e-12);
  EXPECT_NEAR(learningRate(info, 110, 110), 0.1, 1e-12);
  info.totalSteps = 1000; // the recipe's own length wins
  EXPECT_DOUBLE_EQ(learningRate(info, 110, 110), 1);
  info.schedule = ScheduleKind::Constant;
  EXPECT_DOUBLE_EQ(learningRate(info, 5000, 110), 1);
}

} // namespace
