//===- PolicyTest.cpp - Plans of all policies -----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/policies/Policy.h"
#include "test/passes/planner/Architectures.h"
#include "test/passes/planner/Clusters.h"
#include "test/passes/planner/Errors.h"

#include <nlohmann/json.hpp>

#include <cmath>

#include <gtest/gtest.h>

using namespace dt::planner;

namespace {

struct Setting {
  Setting(int64_t devices, int64_t samples, const char *data = "packed")
      : cluster(takeDevices("a800-80g", devices)), model(makeMultimodal(7)),
        costs(cluster, model),
        batch(drawBatch(*llvm::cantFail(openData(data)), 1, samples)) {}
  PolicyInput input() const { return {costs, batch, 6}; }
  Cluster cluster;
  Model model;
  Costs costs;
  std::vector<Sample> batch;
};

TEST(Policy, AllFitAndNoneBeatsTheBound) {
  Setting setting(24, 24);
  for (const Policy &policy : getPolicies()) {
    SCOPED_TRACE(policy.name);
    auto plan = makePlan(policy.name, setting.input());
    ASSERT_TRUE(bool(plan)) << llvm::toString(plan.takeError());
    EXPECT_FALSE(bool(checkPlan(*plan, setting.model, setting.cluster)));
    EXPECT_GE(plan->predicted.step, plan->predicted.bound);
    EXPECT_LT(plan->predicted.mfu, 0.76);
    for (double bytes : plan->predicted.memory)
      EXPECT_LE(bytes, setting.cluster.getMemory(0));
    // The printed plan says what was simulated.
    auto json = nlohmann::json::parse(printPlan(*plan, setting.model));
    EXPECT_EQ(json["units"].size(), 3u);
    EXPECT_EQ(json["predicted"]["step"], plan->predicted.step);
    // Simulated again, it takes as long.
    auto again = simulateStep(setting.costs, *plan, setting.batch);
    ASSERT_TRUE(bool(again));
    EXPECT_EQ(again->predicted.step, plan->predicted.step);
  }
}

/// Whatever the others find, `joint` has it too, also where it would settle on
/// something simpler.
TEST(Policy, JointIsNoSlowerThanAnyOther) {
  Cluster cluster = takeDevices("h100-80g", 64);
  Model model = llvm::cantFail(openModel("llama3_70b"));
  Costs costs(cluster, model);
  std::vector<Sample> batch(64, Sample{8192, {}});
  Setting towers(24, 24, "documents");
  PolicyInput inputs[] = {{costs, batch, 6}, towers.input()};
  for (const PolicyInput &input : inputs) {
    Plan joint = llvm::cantFail(makePlan("joint", input));
    for (const Policy &policy : getPolicies()) {
      auto plan = makePlan(policy.name, input);
      if (plan && plan->notExecutable.empty()) {
        EXPECT_LE(joint.predicted.step, plan->predicted.step) << policy.name;
      }
      llvm::consumeError(plan.takeError());
    }
  }
}

TEST(Policy, DistTrainsPlanHasItsObjective) {
  Setting setting(24, 24);
  auto plan = makePlan("disttrain", setting.input());
  ASSERT_TRUE(bool(plan));
  EXPECT_EQ(24 % plan->units[1].dp, 0);
  EXPECT_EQ(plan->microbatches, 24 / plan->units[1].dp);
}

TEST(Policy, Errors) {
  Setting setting(1, 4);
  EXPECT_NE(errorOf(makePlan("joint", setting.input())), "");
  EXPECT_BEGINS(errorOf(makePlan("jiont", setting.input())),
                "no policy is named 'jiont'");
  setting.batch.clear();
  EXPECT_EQ(errorOf(makePlan("joint", setting.input())),
            "a plan needs a global batch of at least 1");
}

TEST(Policy, NamesTheMissingBytes) {
  Setting setting(24, 24);
  setting.cluster.devices[0].memory = setting.cluster.devices[0].reserve + 1e9;
  std::string error = errorOf(makePlan("disttrain", setting.input()));
  EXPECT_CONTAINS(error, "does not fit");
  EXPECT_CONTAINS(error, "llm");
}

TEST(Policy, PrimeDevicesAndNoImages) {
  Setting setting(23, 29);
  for (Sample &sample : setting.batch) {
    sample.items.clear();
  }
  for (const char *policy : {"disttrain", "joint"}) {
    auto plan = makePlan(policy, setting.input());
    ASSERT_TRUE(bool(plan))
        << policy << ": " << llvm::toString(plan.takeError());
  }
}

/// A transformer that fits anywhere.
Model makeSmall() {
  TransformerShape shape{.layers = 4, .hidden = 256, .ffn = 1024, .heads = 4};
  shape.vocabulary = 1000;
  Model model;
  model.name = "small";
  model.modules = {makeTransformer("llm", ItemKind::Sample, shape)};
  return model;
}

TEST(Policy, OneDevice) {
  Cluster cluster = takeDevices("l40s-48g", 1);
  Model model = makeSmall();
  Costs costs(cluster, model);
  for (int samples : {1, 7}) {
    std::vector<Sample> batch(samples, Sample{64, {}});
    for (const Policy &policy : getPolicies()) {
      auto plan = makePlan(policy.name, {costs, batch, 6});
      ASSERT_TRUE(bool(plan))
          << policy.name << ": " << llvm::toString(plan.takeError());
      EXPECT_EQ(plan->ranks, 1);
      EXPECT_GE(plan->predicted.step, plan->predicted.bound);
    }
  }
}

/// Every policy says what does not fit and by how much; none crashes.
TEST(Policy, FitsNowhere) {
  for (int64_t devices : {1, 13, 24}) {
    Setting setting(devices, 24);
    setting.cluster.devices[0].memory =
        setting.cluster.devices[0].reserve + 2e8;
    for (const Policy &policy : getPolicies()) {
      std::string error = errorOf(makePlan(policy.name, setting.input()));
      EXPECT_NE(error, "") << policy.name;
      EXPECT_EQ(error.find('\n'), std::string::npos) << error;
      if (std::string(policy.name) == "joint") {
        EXPECT_CONTAINS(error, "not fit");
        EXPECT_CONTAINS(error, "bytes");
      }
    }
  }
}

/// What one layer needs in its backward is more than a device has, unless a
/// part is worked on in pieces.
TEST(Policy, PiecesFitWhereWholePartsDoNot) {
  Cluster cluster = takeDevices("l40s-48g", 1);
  Model model = makeSmall();
  Costs costs(cluster, model);
  std::vector<Sample> batch(64, Sample{512, {}});
  Plan plan;
  plan.ranks = plan.microbatches = 1;
  plan.micro = 64;
  plan.units = {makeUnit({costs, batch}, 0, 1, 1, 1, 1, Save::None)};
  StepOptions options;
  options.requireMemory = false;
  PlannedStep whole = llvm::cantFail(simulateStep(costs, plan, batch, options));
  plan.units[0].sub = 8;
  PlannedStep pieces =
      llvm::cantFail(simulateStep(costs, plan, batch, options));
  // The same is kept, an eighth is needed at once, smaller kernels are slower.
  EXPECT_EQ(pieces.memory[0].activations, whole.memory[0].activations);
  EXPECT_NEAR(pieces.memory[0].workspace, whole.memory[0].workspace / 8, 1);
  EXPECT_GT(pieces.predicted.step, whole.predicted.step);
  EXPECT_LT(pieces.predicted.step, 2 * whole.predicted.step);
  auto json = nlohmann::json::parse(printPlan(plan, model));
  EXPECT_EQ(json["units"]["llm"]["sub"], 8);
}

/// Nobody has images: encoder and generator have nothing to do, all the time.
TEST(Policy, NoImagesForAnyPolicy) {
  Setting setting(32, 16);
  for (Sample &sample : setting.batch) {
    sample.items.clear();
  }
  for (const Policy &policy : getPolicies()) {
    auto plan = makePlan(policy.name, setting.input());
    if (!plan) {
      // A policy may find no plan, but says so.
      EXPECT_NE(llvm::toString(plan.takeError()), "") << policy.name;
      continue;
    }
    EXPECT_TRUE(std::isfinite(plan->predicted.step)) << policy.name;
    EXPECT_TRUE(std::isfinite(plan->predicted.mfu)) << policy.name;
  }
}

} // namespace
