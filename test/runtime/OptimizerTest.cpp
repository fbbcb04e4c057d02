//===- OptimizerTest.cpp - PyTorch's formulas by hand ---------------*- C++
//-*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Optimizer.h"
#include "test/runtime/TestSupport.h"

#include <gtest/gtest.h>

using namespace dt::rt;

namespace {

constexpr Extent kShape[] = {{0, -1, 2}};
/// Offsets are 64 bytes apart: decayed, not decayed, without gradient, frozen.
constexpr ParameterInfo kParameters[] = {
    {{"m.a", DType::F32, 1, kShape}, 0, true, true, true, nullptr, {}},
    {{"m.b", DType::F32, 1, kShape}, 64, true, true, false, nullptr, {}},
    {{"m.c", DType::F32, 1, kShape}, 128, true, false, true, nullptr, {}},
    {{"m.d", DType::F32, 1, kShape}, 192, false, false, true, nullptr, {}}};

ProgramInfo makeProgram(const OptimizerInfo &optimizer) {
  ProgramInfo p{};
  p.parameters = kParameters;
  p.optimizer = optimizer;
  p.parameterBytes = 256;
  return p;
}

OptimizerInfo adamw(double clip = 0) {
  return {OptimizerKind::AdamW,   0.1, 0.9, 0.999, 1e-8, 0, 0.01, clip, 0,
          ScheduleKind::Constant, 0,   0,   0};
}

struct State {
  std::vector<float> p = std::vector<float>(64, 1.f),
                     g = std::vector<float>(48), m = g, v = g;
};

TEST(Optimizer, AdamW) {
  ProgramInfo program = makeProgram(adamw());
  Optimizer optimizer(program, program.optimizer);
  EXPECT_EQ(optimizer.moments(), 2);
  EXPECT_EQ(trainableBytes(program), 192u);
  State s;
  s.g[0] = s.g[16] = s.g[32] = 0.5f;
  optimizer.update(s.p.data(), s.g.data(), s.m.data(), s.v.data(), 0, 0.1, 0);
  EXPECT_NEAR(s.p[0], 0.899,
              1e-6); // 1 * (1 - 0.1 * 0.01) - 0.1 * 0.05 / 0.1 / 0.5
  EXPECT_NEAR(s.p[1], 0.999, 1e-6); // decay without a gradient value
  EXPECT_NEAR(s.p[16], 0.9, 1e-6);  // no decay
  EXPECT_EQ(s.p[32], 1.f);          // no gradient path: not touched
  s.g[0] = s.g[16] = -0.25f;
  optimizer.update(s.p.data(), s.g.data(), s.m.data(), s.v.data(), 1, 0.1, 0);
  EXPECT_NEAR(s.m[0], 0.02, 1e-7);
  EXPECT_NEAR(s.v[0], 3.1225e-4, 1e-9);
  EXPECT_NEAR(s.p[0], 0.8714662, 2e-6);
  EXPECT_EQ(s.p[48], 1.f);
}

TEST(Optimizer, ClippingByGlobalNorm) {
  ProgramInfo program = makeProgram(adamw(1.0));
  Optimizer optimizer(program, program.optimizer);
  State s;
  s.g[0] = 3, s.g[16] = 4, s.g[32] = 100; // the last has no gradient path
  double norm = optimizer.norm(s.g.data());
  EXPECT_DOUBLE_EQ(norm, 5);
  optimizer.update(s.p.data(), s.g.data(), s.m.data(), s.v.data(), 0, 0.1,
                   norm);
  EXPECT_NEAR(s.m[0], 0.1 * 3 / (5 + 1e-6), 1e-7);
}

TEST(Optimizer, SgdWithMomentum) {
  OptimizerInfo info{OptimizerKind::SGD,     0.1, 0, 0, 0, 0.9, 0.01, 0, 0,
                     ScheduleKind::Constant, 0,   0, 0};
  ProgramInfo program = makeProgram(info);
  Optimizer optimizer(program, info);
  EXPECT_EQ(optimizer.moments(), 1);
  State s;
  s.g[0] = 0.5f;
  optimizer.update(s.p.data(), s.g.data(), s.m.data(), nullptr, 0, 0.1, 0);
  EXPECT_NEAR(s.p[0], 1 - 0.1 * 0.51, 1e-6);
  optimizer.update(s.p.data(), s.g.data(), s.m.data(), nullptr, 1, 0.1, 0);
  double g = 0.5 + 0.01 * 0.949, b = 0.9 * 0.51 + g;
  EXPECT_NEAR(s.p[0], 0.949 - 0.1 * b, 1e-6);
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
