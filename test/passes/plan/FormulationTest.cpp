//===- FormulationTest.cpp - DistTrain's orchestration problem ------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/policies/Formulation.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>

#include <gtest/gtest.h>

using namespace dt::plan;
using Json = nlohmann::json;

namespace {

FormulaUnit loadUnit(const std::string &name, const Json &json) {
  FormulaUnit unit;
  unit.name = name;
  for (auto &entry : json["times_ms"].items())
    unit.time[std::stoll(entry.key())] = entry.value();
  unit.layers = json["layers"];
  unit.parameters = json["parameters_gib"];
  unit.optimizer = json["optimizer_gib"];
  unit.activations = json["activations_gib"];
  return unit;
}

FormulaProblem load(const Json &test) {
  FormulaProblem problem;
  problem.gpus = test["gpus"];
  problem.batch = test["batch"];
  problem.micro = test["micro"];
  problem.vpp = test["vpp"];
  problem.memory = test["memory_gib"];
  problem.ppDivides = test["pp"] == "divides";
  problem.backbone = loadUnit("backbone", test["units"]["backbone"]);
  for (const char *name : {"encoder", "generator"})
    if (!test["units"][name].is_null())
      problem.others.push_back(loadUnit(name, test["units"][name]));
  return problem;
}

Json reference() {
  return Json::parse(std::ifstream(DT_PLAN_DATA "/disttrain.json"))["cases"];
}

std::string errorOf(const FormulaProblem &problem) {
  auto plan = solveFormula(problem);
  return plan ? "" : llvm::toString(plan.takeError());
}

TEST(Formulation, Optimal) {
  for (const Json &test : reference()) {
    SCOPED_TRACE(test["id"].get<std::string>());
    FormulaProblem problem = load(test);
    auto plan = solveFormula(problem);
    ASSERT_TRUE(bool(plan)) << llvm::toString(plan.takeError());
    double expected = test["objective_ms"];
    EXPECT_NEAR(plan->objective / expected, 1, 1e-9);
    EXPECT_DOUBLE_EQ(plan->objective, evaluateFormula(problem, *plan));
    int64_t gpus = plan->backbone.gpus();
    for (const FormulaLayout &layout : plan->others)
      gpus += layout.gpus();
    EXPECT_LE(gpus, problem.gpus);
  }
}

TEST(Formulation, NamesWhatDoesNotFit) {
  FormulaProblem problem = load(reference()[0]);
  problem.memory = 1;
  std::string error = errorOf(problem);
  EXPECT_NE(error.find("unit 'backbone' does not fit"), std::string::npos)
      << error;
  problem.memory = 1000;
  problem.gpus = 1;
  EXPECT_EQ(errorOf(problem),
            "the units fit 1 GPUs one by one, but not together");
}

TEST(Formulation, BadInput) {
  FormulaProblem problem = load(reference()[0]);
  problem.micro = 3;
  EXPECT_EQ(errorOf(problem),
            "the global batch of 16 is no multiple of the microbatch of 3");
  problem.micro = 1;
  problem.gpus = 0;
  EXPECT_EQ(errorOf(problem), "no GPU to plan for");
  problem.gpus = 8;
  problem.backbone.time[2] = std::nan("");
  EXPECT_NE(errorOf(problem).find("unit 'backbone' has the time nan at TP 2"),
            std::string::npos);
}

TEST(Formulation, PrimeGpusAndBatch) {
  FormulaProblem problem = load(reference()[0]);
  problem.gpus = 13;
  problem.batch = 17;
  auto plan = solveFormula(problem);
  ASSERT_TRUE(bool(plan)) << llvm::toString(plan.takeError());
  EXPECT_EQ(17 % plan->backbone.dp, 0);
}

} // namespace
