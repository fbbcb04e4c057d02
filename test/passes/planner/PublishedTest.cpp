//===- PublishedTest.cpp - Steps that others have measured ----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Layouts and steps of data/published*.json beside what the simulator predicts
// for them. DT_PRINT=1 prints each (tools/bench published).
//
//===----------------------------------------------------------------------===//

#include "passes/planner/policies/Policy.h"
#include "test/passes/planner/Architectures.h"
#include "test/passes/planner/Clusters.h"

#include "llvm/Support/FormatVariadic.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <utility>

#include <gtest/gtest.h>

using namespace dt::planner;
using Json = nlohmann::json;

namespace {

TransformerShape shapeOf(const Json &row) {
  TransformerShape shape;
  shape.layers = row["layers"];
  shape.hidden = row["hidden"];
  shape.ffn = row["ffn"].is_number() ? row["ffn"].get<int>() : 4 * shape.hidden;
  shape.heads = row["heads"];
  shape.kvHeads = row.value("kv_heads", 0);
  shape.vocabulary = row["vocab"];
  shape.gated = row.value("gated", false);
  shape.causal = true;
  // Before FlashAttention scores and masks of dropout were kept in memory.
  shape.fused = row["hardware"] != "A100";
  shape.dropout = !shape.fused;
  shape.headDim = row.value("head_dim", 0);
  shape.window = row.value("window", 0);
  shape.experts = row.value("experts", 0);
  shape.topK = row.value("top_k", 1);
  shape.expertFfn = row.value("expert_ffn", 0);
  shape.sharedFfn = row.value("shared_ffn", 0);
  shape.denseLayers = row.value("dense_layers", 0);
  shape.every = row.value("every", 1);
  shape.copies = row.value("copies", 0);
  shape.queryRank = row.value("query_rank", 0);
  shape.latentRank = row.value("latent_rank", 0);
  shape.rotated = row.value("rotated", 0);
  shape.later = row.value("later", 0);
  return shape;
}

/// Stages of equally many layers; where only embedding and head make them
/// equal, these are counted. Else the last has what is left. `later`: further
/// layers and heads at the end.
std::vector<int> cutsOf(int layers, int stages, int later) {
  bool ends = layers % stages != 0 && (layers + 2) % stages == 0;
  int each = (layers + stages - 1) / stages;
  std::vector<int> cuts = {0};
  for (int s = 1; s < stages; ++s)
    cuts.push_back(ends ? (layers + 2) * s / stages : 1 + each * s);
  cuts.push_back(layers + 2 + 2 * later);
  return cuts;
}

Plan planOf(const Json &row, int layers) {
  Plan plan;
  plan.ranks = row["gpus"];
  plan.micro = row["micro_batch"];
  plan.assign = Assign::Given;
  plan.reorder = Reorder::None;
  UnitPlan unit;
  unit.tp = row["TP"];
  unit.dp = row["DP"];
  unit.pp = row["PP"];
  unit.vpp = row.value("VPP", 1);
  unit.cp = row.value("CP", 1);
  plan.sequenceParallel = row.value("sequence_parallel", unit.tp > 1);
  std::string recompute = row.value("recompute", "none");
  unit.save = recompute == "full"   ? Save::None
              : recompute == "none" ? Save::All
                                    : Save::Vjp;
  unit.zero = row.value("zero", 1);
  unit.ep = row.value("EP", 1);
  unit.etp = row.value("ETP", 0);
  unit.cuts = cutsOf(layers, unit.pp * unit.vpp, row.value("later", 0));
  plan.microbatches =
      row["global_batch"].get<int64_t>() / (unit.dp * plan.micro);
  plan.schedule = unit.vpp > 1 ? "interleaved" : "1f1b";
  plan.units = {std::move(unit)};
  return plan;
}

/// Pieces of products and collectives where these run beside each other.
constexpr int kPieces = 4;

Model modelOf(const Json &row) {
  Model model;
  model.modules = {makeTransformer("gpt", ItemKind::Sample, shapeOf(row))};
  model.modules[0].bytes.gradient =
      row.value("gradient_bytes", row["hardware"] == "A100" ? 4 : 2);
  return model;
}

Cluster clusterOf(const Json &row) {
  static const std::map<std::string, std::string> kClusters = {
      {"A100", "a100-80g"}, {"H100", "h100-80g"}, {"GB200", "gb200-nvl72"}};
  Cluster cluster = takeDevices(kClusters.at(row["hardware"]), row["gpus"]);
  for (NodeKind &node : cluster.nodes)
    node.pieces = row.value("overlap", false) ? kPieces : 1;
  return cluster;
}

/// What a row was run with.
struct Run {
  explicit Run(const Json &row)
      : model(modelOf(row)), cluster(clusterOf(row)), costs(cluster, model),
        plan(planOf(row, row["layers"])) {
    Sample sample;
    sample.tokens = row["seq"];
    batch.assign(row["global_batch"].get<size_t>(), sample);
  }

  llvm::Expected<PlannedStep> simulate(bool requireMemory) const {
    StepOptions options;
    options.requireMemory = requireMemory;
    return simulateStep(costs, plan, batch, options);
  }

  Model model;
  Cluster cluster;
  Costs costs;
  Plan plan;
  std::vector<Sample> batch;
};

double predict(const Json &row) {
  auto result = Run(row).simulate(/*requireMemory=*/false);
  if (!result) {
    ADD_FAILURE() << llvm::toString(result.takeError());
    return 0;
  }
  return result->predicted.step;
}

/// Where a rate was published: of model FLOPs, or of those that were computed.
double measured(const Json &row) {
  if (row.contains("iteration_s"))
    return row["iteration_s"];
  if (row.contains("tokens_per_gpu_s"))
    return row["global_batch"].get<double>() * row["seq"].get<double>() /
           (row["tokens_per_gpu_s"].get<double>() * row["gpus"].get<double>());
  double h = row["hidden"], l = row["layers"], s = row["seq"], v = row["vocab"],
         b = row["global_batch"];
  bool again = row.value("recompute", "none") == "full";
  double flops = (again ? 96 : 72) * b * s * l * h * h *
                 (1 + s / (6 * h) + v / ((again ? 16 : 12) * l * h));
  return flops / (row["tflops_per_gpu"].get<double>() * 1e12 *
                  row["gpus"].get<double>());
}

/// All rows, with what their families say of all.
std::vector<Json> readRows(const char *file) {
  Json json = Json::parse(std::ifstream(std::string(DT_PLAN_DATA "/") + file));
  std::vector<Json> rows = json.value("rows", std::vector<Json>());
  for (Json family : json.value("families", std::vector<Json>())) {
    std::vector<Json> own = family["rows"];
    family.erase("rows");
    for (const Json &row : own) {
      rows.push_back(family);
      rows.back().update(row);
    }
  }
  return rows;
}

/// Mean error of each family, in the order of their names.
std::map<std::string, double> errorsOf(const std::vector<Json> &rows) {
  std::map<std::string, std::pair<double, int>> families;
  for (const Json &row : rows) {
    double error = predict(row) / measured(row) - 1;
    auto &[sum, count] = families[row["family"]];
    sum += std::fabs(error);
    ++count;
    if (getenv("DT_PRINT"))
      std::printf("%-20s %-30s %7.3f s, predicted %+5.1f %%%s\n",
                  row["family"].get<std::string>().c_str(),
                  row["id"].get<std::string>().c_str(), measured(row),
                  100 * error, row.value("fitted", false) ? " (fitted)" : "");
  }
  std::map<std::string, double> means;
  for (auto &[family, value] : families) {
    means[family] = value.first / value.second;
    if (getenv("DT_PRINT"))
      std::printf("%-20s mean error %.1f %%\n", family.c_str(),
                  100 * means[family]);
  }
  return means;
}

/// gemm.peak of the A100 was fitted on sc21-table1; 2205-* says how well.
TEST(Published, A100) {
  for (auto &[family, error] : errorsOf(readRows("published.json")))
    EXPECT_LE(error, 0.1) << family;
}

/// gemm.peak of both was fitted on one family each, which says so. Where a
/// layout was not published in full, what is assumed costs accuracy.
TEST(Published, H100AndGB200) {
  std::vector<Json> rows = readRows("published_h100.json");
  std::map<std::string, double> limits;
  for (const Json &row : rows)
    limits[row["family"]] = row.value("assumed", false) ? 0.15 : 0.1;
  for (auto &[family, error] : errorsOf(rows))
    EXPECT_LE(error, limits[family]) << family;
}

/// Nothing was fitted on mixtures of experts. Families that are further off
/// than 10 % say why.
TEST(Published, ExpertsOnH100) {
  std::vector<Json> rows = readRows("published_experts.json");
  std::map<std::string, double> limits;
  for (const Json &row : rows)
    limits[row["family"]] =
        row.contains("why") ? row["limit"].get<double>() : 0.1;
  for (auto &[family, error] : errorsOf(rows))
    EXPECT_LE(error, limits[family]) << family;
}

std::string layoutOf(const Plan &plan) {
  const UnitPlan &unit = plan.units[0];
  return llvm::formatv("TP {0}, PP {1}, VPP {2}, CP {3}, DP {4}, {5}, save {6}",
                       unit.tp, unit.pp, unit.vpp, unit.cp, unit.dp,
                       plan.schedule, describeSaves(unit))
      .str();
}

/// The planner's own plan beside the published layout: a row of the table of
/// docs/planning-recipes.md. Where that layout fits into the memory, what is
/// chosen must be as fast.
void compareRecipe(const Json &row) {
  Run run(row);
  auto recipe = run.simulate(/*requireMemory=*/false);
  ASSERT_TRUE(bool(recipe)) << llvm::toString(recipe.takeError());
  auto chosen = makePlan("joint", {run.costs, run.batch});
  ASSERT_TRUE(bool(chosen)) << llvm::toString(chosen.takeError());
  double theirs = recipe->predicted.step, ours = chosen->predicted.step,
         has = run.cluster.getMemory(0), needs = recipe->predicted.memory[0];
  if (needs <= has) {
    EXPECT_LE(ours, theirs);
  }
  if (getenv("DT_PRINT"))
    std::printf(
        "%s\n",
        llvm::formatv("| {0} | {1} | {2:f2} | {3:f2} | {4} | {5:f2} | "
                      "{6}{7:f1} % | {8} |",
                      row["family"].get<std::string>(),
                      row["id"].get<std::string>(), measured(row), theirs,
                      needs <= has ? "fits"
                                   : llvm::formatv("{0:f1} GiB too much",
                                                   (needs - has) / (1 << 30))
                                         .str(),
                      ours, ours > theirs ? "+" : "", 100 * (ours / theirs - 1),
                      layoutOf(*chosen))
            .str()
            .c_str());
}

/// The smallest of four families; DT_PRINT=1: all, which takes minutes
/// (tools/bench recipes).
TEST(Recipes, JointIsAsFast) {
  std::string last;
  for (const Json &row : readRows("published_h100.json")) {
    std::string family = row["family"];
    bool small = family != std::exchange(last, family) &&
                 row["gpus"].get<int>() <= 64 && !row.value("assumed", false);
    if (small || getenv("DT_PRINT")) {
      SCOPED_TRACE(family + " " + row["id"].get<std::string>());
      compareRecipe(row);
    }
  }
}

} // namespace
