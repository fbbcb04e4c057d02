//===- Step.cpp - What a plan's step costs --------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/sim/StepBuilder.h"

#include "runtime/reorder/Order.h"
#include "passes/schedule/Schedule.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace llvm;

namespace dt::plan {

Costs::Costs(const Cluster &cluster, const Model &model)
    : cluster(cluster), model(model), modules(model.modules.size()) {
  for (size_t node = 0; node < cluster.nodes.size(); ++node)
    for (const Module &module : model.modules)
      costs.push_back(std::make_unique<ModuleCost>(cluster, int(node), module));
  for (size_t m = 0; m < modules; ++m) {
    CostOptions options;
    auto nanoseconds = [&](double tokens) {
      return 1e9 * get(0, int(m)).module(options, Moments::of(tokens)).total();
    };
    // Through three points far enough apart to see the square.
    double a = 512, b = 2048, c = 8192;
    double fa = nanoseconds(a), fb = nanoseconds(b), fc = nanoseconds(c);
    ItemCost cost;
    cost.square =
        std::max(0.0, ((fc - fb) / (c - b) - (fb - fa) / (b - a)) / (c - a));
    cost.token = std::max(0.0, (fb - fa) / (b - a) - cost.square * (a + b));
    cost.item = std::max(0.0, fa - cost.token * a - cost.square * a * a);
    items.push_back(cost);
  }
}

double Costs::work(int module, const Moments &all, double count) const {
  if (all.empty())
    return 0;
  double best = INFINITY;
  for (size_t node = 0; node < cluster.nodes.size(); ++node)
    for (int tp = 1; tp <= model.modules[module].maxTP; tp *= 2) {
      CostOptions options;
      options.tp = tp;
      options.save = Save::All;
      // In pieces of a device's usual part, not one huge product.
      Moments piece = all * (1 / count);
      Times times = get(int(node), module).module(options, piece);
      best = std::min(best, times.total() * count * tp);
    }
  return best;
}

double Costs::workBound(const std::vector<Sample> &batch) const {
  double sum = 0;
  for (size_t m = 0; m < modules; ++m)
    sum += work(int(m), momentsOf(batch, model.modules[m].item),
                double(batch.size()));
  return sum / double(cluster.getNumDevices());
}

namespace {

/// The order of tasks alone: that of messages is for programs, not for times.
Expected<schedule::Solution> solve(const schedule::Problem &problem,
                                   const std::string &name) {
  schedule::Options options;
  options.communicate = false;
  return schedule::solve(problem, name, options);
}

/// Order of microbatches: the pipeline of the slowest replica of each stage.
Expected<std::vector<int32_t>> findOrder(const schedule::Problem &full,
                                         const Plan &plan, int64_t effort) {
  schedule::Problem small = full;
  int n = small.microbatches;
  std::map<std::vector<int>, int> rankOf; // shared ranks stay shared
  std::vector<std::vector<int64_t>> rows;
  for (schedule::Stage &stage : small.stages) {
    int replicas = int(stage.replicas.size());
    auto slowest = [&](const schedule::Table &table) {
      std::vector<int64_t> row(n, 0);
      for (int k = 0; k < n; ++k)
        for (int r = 0; r < replicas; ++r)
          row[k] = std::max(row[k], table.at(k, r, n, replicas));
      return row;
    };
    std::vector<int64_t> forward = slowest(stage.forward),
                         input = slowest(stage.input),
                         weight = slowest(stage.weight);
    rows.push_back(forward);
    rows.push_back(input);
    rows.push_back(weight);
    auto it = rankOf.try_emplace({stage.replicas[0][0]}, int(rankOf.size()));
    stage.replicas = {{it.first->second}};
    // Tables keep their shape, for schedules that look at the times.
    stage.forward = schedule::Table(forward);
    stage.input = schedule::Table(input);
    stage.weight = schedule::Table(weight);
    stage.activation = stage.weightActivation = schedule::Table(0);
  }
  for (schedule::Edge &edge : small.edges)
    edge.routes.clear();
  small.ranks = int(rankOf.size());
  small.memory.clear();
  if (Error error = small.check())
    return std::move(error);
  auto solution = plan::solve(small, plan.schedule);
  if (!solution)
    return solution.takeError();
  schedule::Graph graph(small);
  auto timeline = schedule::evaluate(graph, *solution);
  if (!timeline)
    return timeline.takeError();
  return reorder::reorder(
             makeOrderProblem(graph, *solution, *timeline, std::move(rows)),
             {effort})
      .order;
}

bool wantsOrder(const Plan &plan) {
  bool inter = plan.reorder == Reorder::Inter || plan.reorder == Reorder::Both;
  return inter && plan.assign == Assign::Items && plan.microbatches > 2;
}

/// The schedule reads no times, so an order found for it stays right.
Expected<schedule::Solution> order(const Costs &costs, const Plan &plan,
                                   const StepOptions &options, Parts &parts,
                                   StepBuilder &builder,
                                   schedule::Problem &problem) {
  if (wantsOrder(plan)) {
    auto found = findOrder(problem, plan, options.orderEffort);
    if (!found)
      return found.takeError();
    parts.permute(*found);
    problem = builder.build(parts);
  }
  if (plan.schedule == "nested")
    builder.limitMemory(problem);
  return plan::solve(problem, plan.schedule);
}

Error checkMemory(const Costs &costs, const Plan &plan,
                  const StepResult &result) {
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const UnitPlan &unit = plan.units[u];
    double has =
        costs.cluster.getMemory(costs.cluster.getNodeKind(unit.firstRank));
    double needs = result.memory[u].total();
    if (needs > has)
      return createStringError(
          inconvertibleErrorCode(),
          formatv("module '{0}' does not fit: {1:f0} bytes a device, {2:f0} "
                  "more than there are (weights and optimizer {3:f0}, "
                  "activations {4:f0}, message buffers {5:f0})",
                  costs.model.modules[u].name, needs, needs - has,
                  result.memory[u].state, result.memory[u].activations,
                  result.memory[u].buffers));
  }
  return Error::success();
}

void predict(const Costs &costs, const Plan &plan,
             const std::vector<Sample> &batch, StepResult &result) {
  Prediction &p = result.predicted;
  p = plan.predicted;
  const Simulation &sim = result.simulation;
  p.step = double(sim.step) * 1e-9;
  p.bound = costs.workBound(batch);
  p.wallBubble = sim.getWallBubble();
  p.spanBubble = sim.getSpanBubble();
  double flops = 0, peak = 0;
  for (size_t m = 0; m < costs.model.modules.size(); ++m)
    flops += costs.model.getFlops(
        int(m), momentsOf(batch, costs.model.modules[m].item));
  const std::string &precision =
      costs.model.modules[costs.model.pace].precision;
  for (size_t i = 0; i < costs.cluster.nodes.size(); ++i)
    peak += costs.cluster.getDevice(int(i)).flops.at(precision) *
            double(costs.cluster.getNumDevices(int(i)));
  p.mfu = p.step > 0 ? flops / (p.step * peak) : 0;
  p.memory.clear();
  p.busy.assign(plan.units.size(), 0);
  for (const StepResult::Memory &memory : result.memory)
    p.memory.push_back(memory.total());
  std::vector<double> count(plan.units.size(), 0);
  for (size_t rank = 0; rank < sim.busy.size(); ++rank) {
    int unit = result.unitOfRank[rank];
    p.busy[unit] +=
        double(sim.busy[rank]) / double(std::max<Time>(1, sim.step));
    ++count[unit];
  }
  for (size_t u = 0; u < p.busy.size(); ++u)
    p.busy[u] = count[u] > 0 ? p.busy[u] / count[u] : 0;
}

} // namespace

Expected<StepResult> simulateStep(const Costs &costs, const Plan &plan,
                                  const std::vector<Sample> &batch,
                                  const StepOptions &options) {
  if (Error error = checkPlan(plan, costs.model, costs.cluster))
    return std::move(error);
  if (batch.empty())
    return createStringError(inconvertibleErrorCode(),
                             "a step needs at least one sample");
  Parts parts = makeParts(costs.model, plan, batch, costs.items);
  StepResult result;
  StepBuilder builder(costs, plan, options);
  result.problem = builder.build(parts);
  if (Error error = result.problem.check())
    return std::move(error);
  auto solution = order(costs, plan, options, parts, builder, result.problem);
  if (!solution)
    return solution.takeError();
  result.solution = std::move(*solution);
  schedule::Graph graph(result.problem);
  builder.describe(graph, result);
  if (options.requireMemory)
    if (Error error = checkMemory(costs, plan, result))
      return std::move(error);
  EngineOptions engine = builder.getEngineOptions(result.problem);
  auto simulation = simulate(graph, result.solution, engine);
  if (!simulation)
    return simulation.takeError();
  result.simulation = std::move(*simulation);
  predict(costs, plan, batch, result);
  return std::move(result);
}

} // namespace dt::plan
