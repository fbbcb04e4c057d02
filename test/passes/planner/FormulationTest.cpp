//===- FormulationTest.cpp - DistTrain's orchestration problem ------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/search/Formulation.h"
#include "test/Contains.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <limits>
#include <random>

#include <gtest/gtest.h>

using namespace dt::planner;
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
  EXPECT_CONTAINS(error, "unit 'backbone' does not fit");
  problem.memory = 1000;
  problem.gpus = 1;
  EXPECT_EQ(errorOf(problem),
            "the units fit 1 GPUs one by one, but not together");
}

TEST(Formulation, TooManyUnits) {
  FormulaProblem problem = load(reference()[0]);
  problem.gpus = 96;
  problem.batch = 96;
  problem.others.assign(15, problem.others[0]);
  EXPECT_EQ(errorOf(problem), "16 units are too many for an exact solution");
}

TEST(Formulation, PrimeGpusAndBatch) {
  FormulaProblem problem = load(reference()[0]);
  problem.gpus = 13;
  problem.batch = 17;
  auto plan = solveFormula(problem);
  ASSERT_TRUE(bool(plan)) << llvm::toString(plan.takeError());
  EXPECT_EQ(17 % plan->backbone.dp, 0);
}

/// All layouts of all units, one by one.
class Enumeration {
public:
  explicit Enumeration(const FormulaProblem &problem) : problem(problem) {
    units.push_back(&problem.backbone);
    for (const FormulaUnit &unit : problem.others)
      units.push_back(&unit);
  }

  /// Infinite if nothing fits.
  double run() {
    int64_t most = problem.batch / problem.micro;
    for (int64_t dp = 1; dp <= most; ++dp)
      if (most % dp == 0) {
        samples = dp * problem.micro;
        choose(0, dp, 0, 0, 0);
      }
    return best;
  }

private:
  void choose(size_t i, int64_t pacing, int64_t gpus, double warmup,
              double slowest) {
    if (i == units.size()) {
      double steps = double(problem.batch) / double(samples) - 1;
      best = std::min(best, warmup / double(problem.vpp) + slowest * steps);
      return;
    }
    const FormulaUnit &unit = *units[i];
    for (auto [tp, time] : unit.time)
      for (int64_t dp = 1; dp <= samples; ++dp)
        for (int64_t pp = 1; pp <= unit.layers; ++pp) {
          int64_t own = samples / dp, used = gpus + tp * dp * pp;
          if ((i == 0 ? dp != pacing : samples % dp != 0) ||
              used > problem.gpus ||
              (problem.ppDivides && unit.layers % pp != 0))
            continue;
          double bytes = unit.parameters / double(tp * pp) +
                         unit.optimizer / double(tp * dp * pp) +
                         double(own) * unit.activations / double(tp);
          if (bytes > problem.memory)
            continue;
          double one = double(own) * time;
          choose(i + 1, pacing, used, warmup + one,
                 std::max(slowest, one / double(pp)));
        }
  }

  const FormulaProblem &problem;
  std::vector<const FormulaUnit *> units;
  int64_t samples = 1;
  double best = std::numeric_limits<double>::infinity();
};

TEST(Formulation, AgreesWithEnumeration) {
  std::mt19937 random(7);
  auto below = [&](int n) { return int(random() % unsigned(n)); };
  int feasible = 0;
  for (int i = 0; i < 2000; ++i) {
    SCOPED_TRACE(i);
    auto makeUnit = [&](const char *name) {
      FormulaUnit unit;
      unit.name = name;
      double time = 1 + below(1000);
      for (int64_t tp = 1; tp <= 4; tp *= 2) {
        if (below(4))
          unit.time[tp] = time;
        // Neither ideal nor always a gain.
        time *= 0.45 + 0.001 * below(600);
      }
      if (unit.time.empty())
        unit.time[1] = time;
      unit.layers = 1 + below(6);
      unit.parameters = below(30);
      unit.optimizer = below(60);
      unit.activations = below(4);
      return unit;
    };
    FormulaProblem problem;
    problem.gpus = 1 + below(24);
    problem.micro = 1 + below(2);
    problem.batch = problem.micro * (1 + below(16));
    problem.vpp = 1 + below(3);
    problem.memory = 5 + below(60);
    problem.ppDivides = below(2);
    problem.backbone = makeUnit("backbone");
    for (int n = below(3); n > 0; --n)
      problem.others.push_back(makeUnit("other"));
    double best = Enumeration(problem).run();
    auto plan = solveFormula(problem);
    EXPECT_EQ(bool(plan), !std::isinf(best));
    if (!plan) {
      EXPECT_NE(llvm::toString(plan.takeError()), "");
      continue;
    }
    ++feasible;
    EXPECT_NEAR(plan->objective, best, 1e-9 * std::max(1.0, best));
  }
  EXPECT_GT(feasible, 100);
}

} // namespace
