//===- plan-bench.cpp - How fast planning is ------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Prints the figures of `tools/bench plan`. Times are thread CPU time, the
// least of several runs, since machines are shared.
//
//===----------------------------------------------------------------------===//

#include "passes/plan/Architectures.h"
#include "passes/plan/policies/Policy.h"
#include "runtime/reorder/Order.h"
#include "runtime/reorder/Partition.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <limits>

using namespace dt::plan;

namespace {

double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

double least(int runs, llvm::function_ref<void()> run) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < runs; ++i) {
    double begin = now();
    run();
    best = std::min(best, now() - begin);
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
  std::vector<Sample> batch = drawBatch(*data, 1, 0, 1920);
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

void benchPolicies(const char *file) {
  auto all = readCluster(file);
  if (!all) {
    std::fprintf(stderr, "%s\n", llvm::toString(all.takeError()).c_str());
    return;
  }
  Model model = makeMultimodal(70);
  for (auto [devices, samples] :
       {std::pair<int64_t, int64_t>(96, 128), {1296, 1920}, {10000, 3840}}) {
    Cluster cluster = llvm::cantFail(all->take(devices));
    Costs costs(cluster, model);
    for (const char *name : {"packed", "documents"}) {
      auto data = llvm::cantFail(openData(name));
      std::vector<Sample> batch = drawBatch(*data, 1, 0, samples);
      double disttrain = 0;
      for (const Policy &policy : getPolicies()) {
        if (devices > 2000 && std::string(policy.name) != "joint" &&
            std::string(policy.name) != "disttrain")
          continue;
        double begin = now();
        auto plan = makePlan(policy.name, {costs, batch});
        double seconds = now() - begin;
        if (!plan) {
          std::printf("%-15s %5lld GPUs %-9s  %s\n", policy.name,
                      (long long)devices, name,
                      llvm::toString(plan.takeError()).c_str());
          continue;
        }
        const Prediction &p = plan->predicted;
        if (std::string(policy.name) == "disttrain")
          disttrain = p.step;
        std::printf("%-18s %5lld GPUs %-9s %8.3f s planned, step %9.3f s, MFU "
                    "%4.1f %%, ceiling %5.2f, against disttrain %.3f\n",
                    plan->policy.c_str(), (long long)devices, name, seconds,
                    p.step, 100 * p.mfu, p.step / p.bound,
                    disttrain > 0 ? disttrain / p.step : 0);
        std::fflush(stdout);
      }
    }
  }
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: plan-bench CLUSTER.json\n");
    return 2;
  }
  benchFormula();
  benchReorder();
  benchPolicies(argv[1]);
  return 0;
}
