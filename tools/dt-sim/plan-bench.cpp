//===- plan-bench.cpp - How fast planning is ------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Prints the figures of `tools/bench plan`: times against their limits, and
// what `joint` gains over DistTrain's published policy. Times are thread CPU
// time, since machines are shared; of `joint`, which uses several threads, the
// least wall time of three runs.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/describe/Shipped.h"
#include "passes/planner/explain/Explain.h"
#include "runtime/reorder/Order.h"
#include "runtime/reorder/Partition.h"
#include "test/passes/planner/Architectures.h"
#include "test/passes/planner/Ladder.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <limits>
#include <string>
#include <tuple>

using namespace dt::planner;

namespace {

double now(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

Model shipped(const char *name) { return llvm::cantFail(openModel(name)); }

double least(int runs, llvm::function_ref<void()> run,
             clockid_t clock = CLOCK_THREAD_CPUTIME_ID) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < runs; ++i) {
    double begin = now(clock);
    run();
    best = std::min(best, now(clock) - begin);
  }
  return best;
}

void benchFormula() {
  for (int64_t gpus : {96, 648, 1296, 10000}) {
    FormulaProblem problem;
    problem.gpus = gpus;
    problem.batch = 1920;
    problem.memory = 80;
    problem.backbone = {
        "llm", {{1, 20000}, {2, 11000}, {4, 5800}, {8, 3000}}, 80, 265, 795, 8};
    problem.others = {
        {"encoder", {{1, 300}, {2, 160}, {4, 85}, {8, 45}}, 32, 2.3, 7, 0.3},
        {"generator",
         {{1, 280}, {2, 150}, {4, 80}, {8, 43}},
         24,
         3.7,
         11,
         0.2}};
    double seconds = least(
        5, [&] { llvm::consumeError(solveFormula(problem).takeError()); });
    std::printf("DistTrain's formulation, exact, %5lld GPUs   %9.3f ms\n",
                (long long)gpus, 1e3 * seconds);
  }
}

void benchReorder() {
  auto data = makePacked();
  std::vector<Sample> batch = drawBatch(*data, 1, 1920);
  std::vector<int64_t> loads;
  for (const Sample &sample : batch)
    loads.push_back(int64_t(momentsOf(sample, ItemKind::Image).tokens));
  for (int dp : {8, 64, 240, 640, 1920}) {
    dt::reorder::PartitionOptions options;
    options.groups = dp;
    dt::reorder::Partition parts;
    double seconds =
        least(7, [&] { parts = dt::reorder::partition(loads, options); });
    double bound = double(dt::reorder::partitionLowerBound(loads, dp));
    std::printf(
        "1,920 samples over DP %-4d                    %9.3f ms  %.2f %% "
        "over the bound (LPT %.2f %%)\n",
        dp, 1e3 * seconds, 100 * (double(parts.largest) / bound - 1),
        100 *
            (double(dt::reorder::partitionLPT(loads, options).largest) / bound -
             1));
  }
  for (auto [p, n] :
       {std::pair(4, 16), std::pair(12, 96), std::pair(16, 128)}) {
    std::vector<std::vector<int64_t>> forward(p,
                                              std::vector<int64_t>(n, 30000));
    for (int k = 0; k < n; ++k)
      forward[0][k] = loads[k] * 30000 / (loads[0] + 1);
    auto problem = dt::reorder::make1F1B(forward, forward, 500);
    double seconds = least(3, [&] { dt::reorder::reorder(problem); });
    std::printf("order of %3d microbatches, %2d stages          %9.3f ms\n", n,
                p, 1e3 * seconds);
  }
}

void printTime(const std::string &what, double seconds, double limit) {
  std::printf("%-48s %9.3f s   limit %4.1f s%s\n", what.c_str(), seconds, limit,
              seconds <= limit ? "" : "   TOO SLOW");
  std::fflush(stdout);
}

/// A Llama-like backbone of 130 billion parameters on 10,000 devices.
void benchSimulator(const Cluster &all) {
  TransformerShape shape;
  shape.layers = 70;
  shape.hidden = 12288;
  shape.ffn = 32768;
  shape.heads = 96;
  shape.kvHeads = 96;
  shape.vocabulary = 150528;
  shape.gated = shape.causal = true;
  Model model = shipped("mllm-72b");
  model.name = "mllm-130b";
  model.modules[1] = makeTransformer("llm", ItemKind::Sample, shape);
  model.modules[1].inputGradient = true;
  Cluster cluster = llvm::cantFail(all.take(10000));
  Costs costs(cluster, model);
  Plan plan;
  plan.ranks = 10000;
  plan.microbatches = 32;
  PolicyInput input{costs, drawBatch(*makeUniform({8192, {}}), 1, 1)};
  auto addUnit = [&](int m, int tp, int64_t dp, int pp, int64_t first) {
    UnitPlan unit = makeUnit(input, m, tp, dp, pp, 1, Save::Vjp);
    unit.firstRank = first;
    plan.units.push_back(unit);
  };
  addUnit(0, 1, 464, 1, 9280);
  addUnit(1, 8, 116, 10, 0);
  addUnit(2, 1, 232, 1, 9744);
  Sample sample{8192, {std::vector<ItemSize>(16, 1024), {4096, 4096}}};
  for (const char *name : {"uniform", "packed", "documents"}) {
    std::unique_ptr<Data> data = std::string(name) == "uniform"
                                     ? makeUniform(sample)
                                     : llvm::cantFail(openData(name));
    // As many samples as all parts hold evenly.
    std::vector<Sample> batch = drawBatch(*data, 1, 116 * 32);
    StepOptions options;
    options.requireMemory = false;
    bool folded = false;
    double seconds = least(1, [&] {
      auto step = simulateStep(costs, plan, batch, options);
      if (!step)
        std::printf("%s\n", llvm::toString(step.takeError()).c_str());
      else
        folded = step->folded;
    });
    printTime(std::string("one step, 130B, 10,000 devices, ") + name +
                  (folded ? " (folded)" : ""),
              seconds, 5);
  }
}

void benchJoint(const Cluster &all) {
  Model model = shipped("mllm-72b");
  for (auto [devices, samples, limit] :
       {std::tuple<int64_t, int64_t, double>(1296, 1920, 10),
        {10000, 3840, 10}}) {
    Cluster cluster = llvm::cantFail(all.take(devices));
    Costs costs(cluster, model);
    for (const char *name : {"packed", "documents"}) {
      auto data = llvm::cantFail(openData(name));
      std::vector<Sample> batch = drawBatch(*data, 1, samples);
      std::string error;
      double seconds = least(
          3,
          [&] {
            if (auto plan = makePlan("joint", {costs, batch}); !plan)
              error = llvm::toString(plan.takeError());
          },
          CLOCK_MONOTONIC);
      if (!error.empty())
        std::printf("%s\n", error.c_str());
      printTime("joint, 72B, " + std::to_string(devices) + " devices, " + name,
                seconds, limit);
    }
  }
}

/// A batch and DistTrain's plan for it.
struct Baseline {
  std::vector<Sample> batch;
  Plan plan;
};

/// The two largest batches tried for which DistTrain's plan has `n`
/// microbatches; if there is none, the one that comes nearest.
std::vector<Baseline> batchesFor(const Costs &costs, const Data &data,
                                 int64_t n) {
  std::vector<Baseline> exact, nearest;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t dp : {72, 64, 60, 48, 32, 30, 27, 24, 18, 16, 15, 8, 4, 2, 1}) {
    if (exact.size() == 2)
      break;
    std::vector<Sample> batch = drawBatch(data, 1, n * dp);
    auto found = makePlan("disttrain", {costs, batch});
    if (!found) {
      llvm::consumeError(found.takeError());
      continue;
    }
    double off = std::fabs(std::log(double(found->microbatches) / double(n)));
    if (off == 0) {
      exact.push_back({std::move(batch), std::move(*found)});
    } else if (off < least) {
      least = off;
      nearest.assign(1, {std::move(batch), std::move(*found)});
    }
  }
  return exact.empty() ? nearest : exact;
}

/// `joint` against `disttrain`: the ratio, what no plan could exceed, and how
/// much of the gap to the work bound is closed.
void benchPair(const Costs &costs, const Data &data, const char *name,
               const Baseline &base) {
  PolicyInput input{costs, base.batch};
  auto plan = makePlan("joint", input);
  if (!plan) {
    std::printf("%s\n", llvm::toString(plan.takeError()).c_str());
    return;
  }
  const Prediction &a = base.plan.predicted, &b = plan->predicted;
  auto spread = spreadOf(input, *plan, base.plan, data, 1, 10);
  std::printf("%s, %lld devices, %-9s n %-3lld (batch %lld): disttrain %.3f s "
              "(ceiling %.2f), %s %.3f s (%.2f): x%.2f, 10 seeds x%.2f (%.2f "
              "to %.2f), closed %.0f %%\n",
              costs.model.name.c_str(),
              (long long)costs.cluster.getNumDevices(), name,
              (long long)base.plan.microbatches, (long long)base.batch.size(),
              a.step, a.step / a.bound, plan->policy.c_str(), b.step,
              b.step / b.bound, a.step / b.step, spread.mean, spread.least,
              spread.most, 100 * (a.step - b.step) / (a.step - a.bound));
  const Losses &l = b.losses;
  std::printf("    of joint's time: work %.1f %%, slower kernels %.1f, "
              "TP messages %.1f, recomputation %.1f, waiting %.1f, "
              "gradients and optimizer %.1f, idle %.1f\n",
              100 * b.bound / b.step, 100 * l.kernels, 100 * l.reduce,
              100 * l.again, 100 * l.waiting, 100 * l.tail, 100 * l.idle);
  std::fflush(stdout);
}

/// What each idea brings, beside the spread of ten other seeds.
void benchLadder(const Costs &costs, const Data &data, const Baseline &base) {
  PolicyInput input{costs, base.batch};
  auto rungs = climbLadder(input);
  if (!rungs) {
    std::printf("%s\n", llvm::toString(rungs.takeError()).c_str());
    return;
  }
  const Plan &first = rungs->front().plan;
  double before = first.predicted.step;
  for (const Rung &rung : *rungs) {
    const Prediction &p = rung.plan.predicted;
    auto spread = spreadOf(input, rung.plan, first, data, 1, 10);
    std::printf("    %-17s %8.3f s (ceiling %.2f): x%.3f by this, x%.2f in "
                "all, 10 seeds x%.2f (%.2f to %.2f)  %s, n %lld\n",
                rung.idea, p.step, p.step / p.bound, before / p.step,
                first.predicted.step / p.step, spread.mean, spread.least,
                spread.most, rung.plan.schedule.c_str(),
                (long long)rung.plan.microbatches);
    std::fflush(stdout);
    before = p.step;
  }
}

void benchGap(const Cluster &all) {
  std::printf("\njoint against disttrain (ceiling: step over the work bound; "
              "closed: share of disttrain's gap to it)\n");
  for (auto [name, devices] : {std::pair("mllm-9b", 96), {"mllm-72b", 1296}}) {
    Model model = shipped(name);
    Cluster cluster = llvm::cantFail(all.take(devices));
    Costs costs(cluster, model);
    for (const char *kind : {"packed", "documents"}) {
      auto data = llvm::cantFail(openData(kind));
      for (int64_t n : {16, 64})
        for (const Baseline &base : batchesFor(costs, *data, n)) {
          benchPair(costs, *data, kind, base);
          benchLadder(costs, *data, base);
        }
    }
  }
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: plan-bench CLUSTER\n");
    return 2;
  }
  auto all = openCluster(argv[1]);
  if (!all) {
    std::fprintf(stderr, "%s\n", llvm::toString(all.takeError()).c_str());
    return 1;
  }
  if (all->getNumDevices() < 10000) {
    std::fprintf(stderr, "%s: expected at least 10000 devices\n", argv[1]);
    return 1;
  }
  benchFormula();
  benchReorder();
  benchSimulator(*all);
  benchJoint(*all);
  benchGap(*all);
  return 0;
}
