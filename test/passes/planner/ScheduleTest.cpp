//===- ScheduleTest.cpp - Barriers, rounds and memory in simulated steps --===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/Schedule.h"
#include "passes/planner/policies/Policy.h"
#include "test/passes/planner/Architectures.h"
#include "test/passes/planner/Clusters.h"
#include "test/passes/planner/Errors.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <random>

using namespace dt::planner;
namespace scheduler = dt::scheduler;

namespace {

Cluster load(int64_t devices, int pieces = 1) {
  Cluster cluster = takeDevices("a800-80g", devices);
  for (NodeKind &node : cluster.nodes)
    node.pieces = pieces;
  return cluster;
}

/// Two towers whose embeddings meet.
Model makeTowers(bool contrast) {
  TransformerShape shape{
      .layers = 12, .hidden = 1024, .ffn = 4096, .heads = 16};
  shape.patch = 588;
  TransformerShape text = shape;
  text.patch = 0;
  text.vocabulary = 50000;
  Model model;
  model.name = "towers";
  model.modules = {makeTransformer("image", ItemKind::Image, shape),
                   makeTransformer("text", ItemKind::Sample, text)};
  model.modules[1].layers.pop_back();
  model.pace = 1;
  if (contrast)
    model.contrast = {{0, 1}, 512};
  return model;
}

std::vector<Sample> pairs(int count) {
  return std::vector<Sample>(count, Sample{64, {{256}}});
}

PlannedStep simulateTowers(bool contrast, const char *schedule) {
  Model model = makeTowers(contrast);
  Cluster cluster = load(8);
  Costs costs(cluster, model);
  std::vector<Sample> batch = pairs(256);
  PolicyInput input{costs, batch};
  Plan plan;
  plan.microbatches = 16;
  plan.micro = 8;
  plan.schedule = schedule;
  plan.units = {makeUnit(input, 0, 1, 2, 2, 1, Save::All),
                makeUnit(input, 1, 1, 2, 2, 1, Save::All)};
  EXPECT_TRUE(placeUnits(input, plan));
  auto result = simulateStep(costs, plan, batch);
  EXPECT_TRUE(bool(result)) << llvm::toString(result.takeError());
  return std::move(*result);
}

/// No gradient before the last embedding, and all activations are there then.
TEST(Contrast, IsABarrier) {
  PlannedStep free = simulateTowers(false, "1f1b");
  for (const char *schedule : {"1f1b", "gpipe", "distmm-pipe", "zb"}) {
    SCOPED_TRACE(schedule);
    PlannedStep result = simulateTowers(true, schedule);
    dt::scheduler::TaskGraph graph(result.problem);
    dt::scheduler::Time lastForward = 0, firstBackward = INT64_MAX, sync = -1;
    for (const auto &tasks : result.solution.ranks)
      for (const dt::scheduler::Task &task : tasks) {
        int node = graph.getNode(task);
        if (task.kind == dt::scheduler::Kind::Sync)
          sync = result.simulation.start[node];
        else if (task.kind == dt::scheduler::Kind::Forward)
          lastForward = std::max(lastForward, result.simulation.end[node]);
        else if (task.kind != dt::scheduler::Kind::Weight)
          firstBackward =
              std::min(firstBackward, result.simulation.start[node]);
      }
    EXPECT_GE(sync, lastForward);
    EXPECT_GE(firstBackward, lastForward);
    for (size_t u = 0; u < 2; ++u)
      EXPECT_GT(result.memory[u].activations, 3 * free.memory[u].activations);
  }
}

TEST(Contrast, EveryPolicyPlans) {
  Model model = makeTowers(true);
  Cluster cluster = load(16);
  Costs costs(cluster, model);
  std::vector<Sample> batch = pairs(512);
  double best = 0, others = 1e9;
  for (const Policy &policy : getPolicies()) {
    auto found = findPlans(policy.name, {costs, batch, 6});
    ASSERT_TRUE(bool(found))
        << policy.name << ": " << llvm::toString(found.takeError());
    double step = found->getFastest().predicted.step;
    (std::string(policy.name) == "joint" ? best : others) =
        std::string(policy.name) == "joint" ? step : std::min(others, step);
  }
  EXPECT_LE(best, 1.001 * others);
}

TEST(Contrast, JsonRoundTripAndErrors) {
  Model model = makeTowers(true);
  std::string text = printModel(model);
  Model again = llvm::cantFail(parseModel(text, "m.json"));
  EXPECT_EQ(again.contrast.towers, model.contrast.towers);
  EXPECT_EQ(printModel(again), text);
  text = replaced(text, "\"width\":512", "\"width\": -1");
  EXPECT_EQ(errorOf(parseModel(text, "m.json")),
            "m.json: contrast.width: expected a number from 1.0 to "
            "1000000000.0, not -1.0");
  model.contrast.towers = {0, 7};
  EXPECT_EQ(llvm::toString(model.check()),
            "the contrastive loss names a module that does not exist");
}

/// A layer of a rank of two: one product, whose result is summed, and another
/// sum that no product stands beside.
Module makeSummedProduct(bool sums) {
  Op product;
  product.kind = Op::Gemm;
  product.rows = {0, 1, 0};
  product.n = product.k = 4096;
  product.bytes = {0, 2 * 2 * 4096, 0};
  product.fixedBytes = 2.0 * 4096 * 4096;
  RankLayer layer;
  layer.forward = {product};
  Exchange alone{dt::rt::CollectiveKind::AllReduce, {0, 1024, 0}};
  Exchange sum{dt::rt::CollectiveKind::AllReduce, {0, 2 * 4096, 0}};
  sum.beside = {product};
  if (sums)
    layer.forwardExchanges = {sum, alone};
  Module module;
  module.kinds.resize(1);
  module.layers = {0};
  module.trainable = false;
  module.partitioned[{2, Save::Vjp, false}] = {layer};
  return module;
}

/// Layers hand on shares of 100 bytes, a message has 400: the first of a stage
/// keeps that. A layer that was read alone keeps what it did alone.
TEST(Cost, TheFirstOfAStageKeepsWhatComesIn) {
  Cluster gpus = load(8);
  Model model;
  model.modules = {makeSummedProduct(false)};
  Module &module = model.modules[0];
  module.name = "m";
  module.trainable = true;
  module.layers = {0, 0, 0};
  RankLayer &layer = module.partitioned.at({2, Save::Vjp, false})[0];
  layer.kept.item = 100;
  layer.scratch.item = 7;
  auto bytes = [&](const Module &module) {
    CostOptions options;
    options.tp = 2;
    options.sequenceParallel = false;
    ModuleCost cost(gpus, 0, module);
    TokenSums two = TokenSums::of(1) * 2;
    return std::pair(cost.kept(0, 3, options, two),
                     cost.workspace(0, options, two, false, 5));
  };
  module.precision = "f32";
  EXPECT_EQ(bytes(module), std::pair(600.0, 19.0));
  layer.chained = true;
  layer.keptAtStart.item = 400;
  EXPECT_EQ(bytes(module), std::pair(1200.0, 14.0));
  Model again = llvm::cantFail(parseModel(printModel(model), "m.json"));
  EXPECT_EQ(bytes(again.modules[0]), std::pair(1200.0, 14.0));
}

/// While one strip travels the next is multiplied, if devices compute by
/// themselves: all but one strip of the shorter side is hidden, each has its
/// latency, and weights are read for each.
TEST(Cost, StripsArePricedAsTheyRun) {
  Cluster gpus = load(8), cores = load(8);
  for (NodeKind &node : cores.nodes)
    node.cores = 8;
  Module summed = makeSummedProduct(true), bare = makeSummedProduct(false);
  auto seconds = [](const Cluster &cluster, const Module &module, double tokens,
                    int overlap) {
    CostOptions options;
    options.tp = 2;
    options.sequenceParallel = false;
    options.overlap = overlap;
    return ModuleCost(cluster, 0, module)
        .layer(0, options, TokenSums::of(tokens))
        .forward;
  };
  Group pair = gpus.getGroup(0, 2, 1);
  for (double tokens : {8192.0, 64.0}) {
    double product = seconds(gpus, bare, tokens, 1),
           sum = gpus.allReduce(pair, tokens * 2 * 4096),
           alone = gpus.allReduce(pair, tokens * 1024);
    EXPECT_NEAR(seconds(gpus, summed, tokens, 1), product + sum + alone, 1e-12);
    EXPECT_NEAR(seconds(gpus, summed, tokens, 0), product + sum + alone, 1e-12);
    for (int n : {2, 4, 8}) {
      double strip = seconds(gpus, bare, tokens / n, 1),
             travels = gpus.allReduce(pair, tokens * 2 * 4096 / n);
      EXPECT_NEAR(seconds(gpus, summed, tokens, n),
                  strip + travels + (n - 1) * std::max(strip, travels) + alone,
                  1e-12);
      EXPECT_NEAR(seconds(cores, summed, tokens, n),
                  n * (strip + travels) + alone, 1e-12);
    }
  }
  EXPECT_LT(seconds(gpus, summed, 8192, 4), seconds(gpus, summed, 8192, 1));
  EXPECT_GT(seconds(gpus, summed, 64, 4), seconds(gpus, summed, 64, 1));
}

/// A collective beside which products run costs what they do not hide of it: in
/// halves only if it is covered there, and all of it where ranks' cores carry
/// the messages.
TEST(Cost, CoveredCollectivesCostWhatProductsLeave) {
  Cluster gpus = load(8), cores = load(8);
  for (NodeKind &node : cores.nodes)
    node.cores = 8;
  auto seconds = [](const Cluster &cluster, bool split,
                    std::vector<Exchange> exchanges) {
    Module module = makeSummedProduct(false);
    RankLayer &layer = module.partitioned.at({2, Save::Vjp, false})[0];
    layer.forwardExchanges = std::move(exchanges);
    CostOptions options;
    options.tp = 2;
    options.sequenceParallel = false;
    options.overlap = 1;
    options.splitBackward = split;
    return ModuleCost(cluster, 0, module)
        .layer(0, options, TokenSums::of(8192))
        .forward;
  };
  Exchange open{dt::rt::CollectiveKind::AllReduce, {0, 2 * 4096, 0}},
      whole = open, halves = open, long_ = open;
  whole.covered = halves.covered = halves.coveredInHalves = true;
  long_.bytes.token = 1e9;
  long_.covered = true;
  for (bool split : {false, true}) {
    double product = seconds(gpus, split, {}),
           all = seconds(gpus, split, {open});
    EXPECT_GT(all, product);
    EXPECT_EQ(seconds(gpus, split, {halves}), product);
    EXPECT_EQ(seconds(gpus, split, {whole}), split ? all : product);
    EXPECT_EQ(seconds(cores, split, {halves}), seconds(cores, split, {open}));
  }
  double travels = gpus.allReduce(gpus.getGroup(0, 2, 1), 8192 * 1e9);
  EXPECT_NEAR(seconds(gpus, false, {long_}), travels, 1e-9 * travels);
}

/// What goes round in n - 1 steps takes as long as if it were gathered.
TEST(Cost, AShiftIsAStepOfAGather) {
  using dt::rt::CollectiveKind;
  Cluster gpus = load(8);
  auto seconds = [&](int ranks, std::vector<Exchange> exchanges) {
    Module module = makeSummedProduct(false);
    RankLayer layer = module.partitioned.at({2, Save::Vjp, false})[0];
    layer.forwardExchanges = std::move(exchanges);
    module.partitioned = {{{ranks, Save::Vjp, false}, {layer}}};
    CostOptions options;
    options.tp = ranks;
    options.sequenceParallel = false;
    options.overlap = 1;
    return ModuleCost(gpus, 0, module)
        .layer(0, options, TokenSums::of(8192))
        .forward;
  };
  for (int ranks : {2, 4, 8}) {
    Exchange shift{CollectiveKind::Shift, {0, 1024, 0}},
        gather{CollectiveKind::AllGather, {0, 1024.0 * ranks, 0}};
    EXPECT_NEAR(seconds(ranks, std::vector(size_t(ranks - 1), shift)),
                seconds(ranks, {gather}), 1e-12);
    EXPECT_GT(seconds(ranks, {shift}), seconds(ranks, {}));
  }
}

/// Collectives hide behind products, but for one piece, and never cost more.
TEST(Cost, PiecesOverlap) {
  Model model = makeMultimodal(70);
  Cluster plain = load(8), cut = load(8, 4);
  Costs a(plain, model), b(cut, model);
  TokenSums part = TokenSums::of(8192);
  for (int tp : {1, 2, 4, 8}) {
    CostOptions options;
    options.tp = tp;
    Times x = a.get(0, 1).module(options, part),
          y = b.get(0, 1).module(options, part);
    if (tp == 1) {
      EXPECT_EQ(x.total(), y.total());
      continue;
    }
    // Smaller products are slower, which counts against what is hidden.
    EXPECT_LE(y.reduce, (tp < 4 ? 1 : 0.75) * x.reduce);
    EXPECT_GT(y.reduce, 0.25 * x.reduce);
    EXPECT_NEAR(x.total() - x.reduce, y.total() - y.reduce, 1e-9 * x.total());
  }
}

/// Of all cuts: the most expensive stage, then the sum of squares.
std::pair<double, double> leastOfAll(const std::vector<double> &costs,
                                     const std::vector<double> &begins,
                                     int stages, int from, double most,
                                     double squares) {
  std::pair<double, double> least(INFINITY, INFINITY);
  double sum = from > 0 && !begins.empty() ? begins[from] : 0;
  int layers = int(costs.size());
  for (int end = from + 1; end <= layers - (stages - 1); ++end) {
    sum += costs[end - 1];
    double all = squares + sum * sum;
    if (stages > 1)
      least = std::min(least, leastOfAll(costs, begins, stages - 1, end,
                                         std::max(most, sum), all));
    else if (end == layers)
      least = std::min(least, {std::max(most, sum), all});
  }
  return least;
}

TEST(Cuts, AreTheBestOfAll) {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    int layers = 2 + int(random() % 9),
        stages = 1 + int(random() % unsigned(layers));
    std::vector<double> costs(layers), begins(i % 2 ? layers : 0);
    for (double &cost : costs)
      cost = double(random() % 6);
    for (double &begin : begins)
      begin = double(random() % 4);
    std::vector<int> cuts = balancedCuts(costs, stages, begins);
    ASSERT_EQ(int(cuts.size()), stages + 1);
    double most = 0, squares = 0;
    for (int s = 0; s < stages; ++s) {
      ASSERT_LT(cuts[s], cuts[s + 1]);
      double sum = s > 0 && !begins.empty() ? begins[cuts[s]] : 0;
      for (int layer = cuts[s]; layer < cuts[s + 1]; ++layer)
        sum += costs[layer];
      most = std::max(most, sum);
      squares += sum * sum;
    }
    EXPECT_EQ(leastOfAll(costs, begins, stages, 0, 0, 0),
              std::pair(most, squares));
  }
  // Where one stage must have more, the others are alike.
  EXPECT_EQ(balancedCuts(std::vector<double>(9, 1.0), 4),
            (std::vector<int>{0, 3, 5, 7, 9}));
}

TEST(Cuts, RoundsAreEvenByPosition) {
  std::vector<double> costs(82, 1.0);
  costs.front() = 0.01;
  costs.back() = 1.2;
  for (bool back : {false, true})
    for (auto [pp, vpp] : {std::pair(9, 2), {16, 2}, {10, 4}, {27, 2}}) {
      if (back && vpp != 2)
        continue;
      std::vector<int> cuts = balancedRounds(costs, pp, vpp, back);
      ASSERT_EQ(int(cuts.size()), pp * vpp + 1);
      EXPECT_EQ(cuts.front(), 0);
      EXPECT_EQ(cuts.back(), 82);
      std::vector<double> load(pp, 0);
      for (int s = 0; s < pp * vpp; ++s) {
        EXPECT_LT(cuts[s], cuts[s + 1]);
        for (int i = cuts[s]; i < cuts[s + 1]; ++i)
          load[scheduler::positionOf(s, pp, back)] += costs[i];
      }
      EXPECT_LE(*std::max_element(load.begin(), load.end()), 81.2 / pp + 1.01);
    }
}

/// Stages that go there and back share devices with the first ones; searched
/// orders stay inside the memory that there is.
TEST(Memory, SearchedOrdersFit) {
  Model model = makeMultimodal(70);
  Cluster cluster = load(1296);
  Costs costs(cluster, model);
  std::vector<Sample> batch =
      drawBatch(*llvm::cantFail(openData("packed")), 1, 960);
  PolicyInput input{costs, batch};
  double step[2];
  for (bool back : {false, true}) {
    Plan plan;
    plan.microbatches = 28;
    plan.micro = 2;
    plan.schedule = back ? "zb-v" : "zb";
    plan.units = {
        makeUnit(input, 0, 1, 65, 1, 1, Save::None),
        makeUnit(input, 1, 4, 34, 9, back ? 2 : 1, Save::Vjp, false, back),
        makeUnit(input, 2, 1, 7, 1, 1, Save::None)};
    ASSERT_TRUE(placeUnits(input, plan));
    auto result = simulateStep(costs, plan, batch);
    ASSERT_TRUE(bool(result)) << llvm::toString(result.takeError());
    for (const PlannedStep::Memory &memory : result->memory)
      EXPECT_LE(memory.total(), cluster.getMemory(0));
    step[back] = result->predicted.step;
  }
  EXPECT_LT(step[true], step[false]);
}

/// The plan file bounds the memory of searched orders by what the planner's
/// search had: a program that searches anew stays within it and loses nothing.
TEST(Memory, PlanFileBoundsSearches) {
  Model model = makeMultimodal(70);
  Cluster cluster = load(1296);
  Costs costs(cluster, model);
  std::vector<Sample> batch =
      drawBatch(*llvm::cantFail(openData("packed")), 1, 480);
  PolicyInput input{costs, batch};
  for (std::string name : {"1f1b", "zb", "zb-v"}) {
    bool back = name == "zb-v";
    Plan plan;
    plan.microbatches = 28;
    plan.micro = 1;
    plan.schedule = name;
    plan.compiled = true;
    plan.units = {
        makeUnit(input, 0, 1, 65, 1, 1, Save::None),
        makeUnit(input, 1, 8, 17, 9, back ? 2 : 1, Save::Vjp, false, back),
        makeUnit(input, 2, 1, 7, 1, 1, Save::None)};
    ASSERT_TRUE(placeUnits(input, plan));
    auto result = simulateStep(costs, plan, batch);
    ASSERT_TRUE(bool(result)) << llvm::toString(result.takeError());
    plan.predicted = result->predicted;
    auto json = nlohmann::json::parse(printPlan(plan, model));
    // What a program does: the file says what is left for activations.
    scheduler::Problem problem = result->problem;
    problem.memory.assign(problem.ranks, 0);
    std::map<int, int> next;
    for (const scheduler::Stage &stage : problem.stages) {
      const nlohmann::json &times =
          json["units"][model.modules[stage.unit].name]["times"]["stages"];
      int64_t room = times.at(next[stage.unit]++).value("room", int64_t(0));
      ASSERT_EQ(room > 0, name != "1f1b") << name;
      for (const std::vector<int> &ranks : stage.replicas)
        for (int rank : ranks)
          problem.memory[rank] = room;
    }
    if (name == "1f1b")
      continue;
    scheduler::TaskGraph graph(problem);
    EXPECT_EQ(llvm::toString(scheduler::checkMemory(graph, result->solution)),
              "");
    scheduler::SolveOptions options;
    options.communicate = false;
    auto own = scheduler::solve(problem, name, options);
    ASSERT_TRUE(bool(own)) << llvm::toString(own.takeError());
    EXPECT_EQ(llvm::toString(scheduler::checkMemory(graph, *own)), "");
    auto planned = llvm::cantFail(evaluate(graph, result->solution)).wall;
    EXPECT_LE(llvm::cantFail(evaluate(graph, *own)).wall,
              planned + planned / 20)
        << name;
  }
}

/// Times beyond all that schedules take are errors, not overflows.
TEST(Step, TooSlow) {
  Model model = makeMultimodal(7);
  Cluster cluster = load(16);
  cluster.devices[0].flops["bf16"] = 1e-30;
  Costs costs(cluster, model);
  std::vector<Sample> batch =
      drawBatch(*llvm::cantFail(openData("packed")), 1, 4);
  EXPECT_CONTAINS(errorOf(makePlan("joint", {costs, batch, 6})),
                  "expected 0 to 2^44");
}

} // namespace
