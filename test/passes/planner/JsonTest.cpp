//===- JsonTest.cpp - Models, profiles and explanations as files ----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/describe/Shipped.h"
#include "passes/planner/explain/Explain.h"
#include "test/passes/planner/Architectures.h"
#include "test/passes/planner/Clusters.h"
#include "test/passes/planner/Errors.h"
#include "test/passes/planner/PrintProfile.h"

#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

using namespace dt::planner;
using Json = nlohmann::ordered_json;

namespace {

TEST(ModelJson, RoundTrip) {
  for (int billions : {7, 70}) {
    Model model = makeMultimodal(billions);
    model.modules[1].kinds[1].expertParameters = 10;
    model.modules[1].kinds[1].dispatched = {1, 2, 3};
    model.modules[1].kinds[1].routes = 2;
    model.modules[1].kinds[1].exchanged = {1, 2, 3, 4, 5, 6};
    model.modules[1].keys = {8, 4, true};
    model.modules[1].mostTokens = 8192;
    model.modules[1].mostOther = 4096;
    model.modules[1].bounds = {{ItemKind::Sample, false, 8192, "tokens"},
                               {ItemKind::Image, true, 9, "image.merged"}};
    std::string text = printModel(model);
    auto again = parseModel(text, "m.json");
    ASSERT_TRUE(bool(again)) << llvm::toString(again.takeError());
    EXPECT_EQ(printModel(*again), text);
    // And it costs the same.
    Cluster cluster = wholeCluster("h100-80g");
    Costs a(cluster, model), b(cluster, *again);
    for (int m = 0; m < 3; ++m) {
      CostOptions options;
      options.tp = 2;
      TokenSums part{3, 3000, 4e6, 20, 30, 40};
      EXPECT_EQ(a.get(0, m).module(options, part).total(),
                b.get(0, m).module(options, part).total());
      EXPECT_EQ(a.get(0, m).kept(0, 3, options, part),
                b.get(0, m).kept(0, 3, options, part));
      EXPECT_EQ(model.getFlops(m, part), again->getFlops(m, part));
    }
  }
}

/// Layers as compiled, of modules that stand in other files.
TEST(ModelJson, PartitionedRoundTrip) {
  Model model = llvm::cantFail(openModel("mllm-9b"));
  EXPECT_EQ(model.name, "mllm-9b");
  EXPECT_TRUE(model.modules[1].inputGradient);
  EXPECT_TRUE(model.modules[2].inputGradient);
  EXPECT_FALSE(model.modules[0].inputGradient);
  std::string text = printModel(model);
  Model again = llvm::cantFail(parseModel(text, "m.json"));
  EXPECT_EQ(printModel(again), text);
  Cluster cluster = wholeCluster("a800-80g");
  Costs a(cluster, model), b(cluster, again);
  CostOptions options;
  options.tp = 2;
  for (int m = 0; m < 3; ++m) {
    TokenSums part = TokenSums::of(4096);
    EXPECT_EQ(a.get(0, m).module(options, part).total(),
              b.get(0, m).module(options, part).total());
    EXPECT_EQ(a.get(0, m).kept(0, 3, options, part),
              b.get(0, m).kept(0, 3, options, part));
  }
  // The file beside its parts says the same.
  Model file = llvm::cantFail(
      openModel(DT_SOURCE "/passes/planner/describe/models/mllm-9b.json"));
  EXPECT_EQ(printModel(file), text);
}

const char *kModel =
    R"({"version": 1, "modules": [{"name": "m", "kinds": [{"name": "l", "parameters": 9,
 "forward": [{"name": "p", "kind": "gemm", "split": "columns", "rows": {"token": 1}, "n": 8, "k": 4}]}], "layers": [[0, 3], 0]}]})";

std::string modelError(const std::string &from, const std::string &to) {
  return errorOf(parseModel(replaced(kModel, from, to), "m.json"));
}

/// A stage has a tied parameter once; copies in other stages are updated whole.
TEST(ModelJson, Ties) {
  Model model = llvm::cantFail(parseModel(
      R"({"version": 1, "modules": [{"name": "m", "kinds": [{"name": "a", "parameters": 100}, {"name": "b", "parameters": 10}],
 "layers": [0, [1, 2], 0], "ties": [{"layers": [0, 3], "parameters": 80}]}]})",
      "m.json"));
  EXPECT_EQ(printModel(llvm::cantFail(parseModel(printModel(model), "m.json"))),
            printModel(model));
  EXPECT_EQ(model.modules[0].getParameters(), 140);
  Cluster cluster = wholeCluster("h100-80g");
  ModuleCost cost(cluster, 0, model.modules[0]);
  EXPECT_EQ(cost.rankParameters(0, 4, 2), 70);
  EXPECT_EQ(cost.rankParameters(0, 2, 1), 110);
  StateBytes one = cost.stateBytes(0, 4, 1, 4),
             first = cost.stateBytes(0, 2, 1, 4);
  EXPECT_EQ(one.moments, 12 * 140 / 4);
  EXPECT_EQ(one.sums, 4 * 140 / 4);
  EXPECT_EQ(first.moments, 12 * (30.0 / 4 + 80));
  EXPECT_EQ(first.sums, 4 * 30.0 / 4);
}

/// What a layer's parameters take is its own, where the model says so. A copy
/// of a tied one in another stage is summed in float32.
TEST(ModelJson, ParameterBytes) {
  Model model = llvm::cantFail(parseModel(
      R"({"version": 1, "modules": [{"name": "m", "weight_bytes": 2, "gradient_bytes": 2, "optimizer_bytes": 12,
 "kinds": [{"name": "table", "parameters": 100, "parameter_bytes": {"weight": 4, "gradient": 4, "optimizer": 8}},
           {"name": "b", "parameters": 10}, {"name": "frozen", "parameters": 20, "parameter_bytes": {"weight": 2, "gradient": 0, "optimizer": 0}}],
 "layers": [0, 1, 2, 1], "ties": [{"layers": [1, 3], "parameters": 8}]}]})",
      "m.json"));
  EXPECT_EQ(printModel(llvm::cantFail(parseModel(printModel(model), "m.json"))),
            printModel(model));
  Cluster cluster = wholeCluster("h100-80g");
  ModuleCost cost(cluster, 0, model.modules[0]);
  StateBytes all = cost.stateBytes(0, 4, 1, 4),
             table = cost.stateBytes(0, 1, 2, 1),
             last = cost.stateBytes(2, 4, 1, 4);
  EXPECT_EQ(all.parameters, 4 * 100 + 2 * 12 + 2 * 20);
  EXPECT_EQ(all.gradients, 4 * 100 + 2 * 12);
  EXPECT_EQ(all.moments, (8.0 * 100 + 12 * 12) / 4);
  EXPECT_EQ(table.total(), (4 + 4 + 8) * 50);
  EXPECT_EQ(last.gradients, 2 * 2 + 4 * 8);
  EXPECT_EQ(last.moments, 12 * (2.0 / 4 + 8));
}

TEST(ModelJson, Errors) {
  EXPECT_EQ(llvm::cantFail(parseModel(kModel, "m.json")).modules[0].layers,
            std::vector<int>(4, 0));
  EXPECT_CONTAINS(errorOf(parseModel("[", "m.json")), "m.json: not JSON: ");
  EXPECT_BEGINS(modelError("\"gemm\"", "\"gem\""),
                "m.json: modules[0].kinds[0].forward[0].kind: ");
  EXPECT_BEGINS(modelError("\"n\": 8", "\"n\": -8"),
                "m.json: modules[0].kinds[0].forward[0].n: ");
  EXPECT_NE(modelError("\"n\": 8", "\"n\": NaN"), "");
  EXPECT_NE(modelError("\"n\": 8", "\"n\": 1e400"), "");
  EXPECT_EQ(modelError("[0, 3]", "[1, 3]"),
            "m.json: modules[0].layers[0]: there are only 1 kinds of layers");
  EXPECT_BEGINS(modelError("\"name\": \"l\"",
                           R"("name": "l", "parameter_bytes": {"weight": 2})"),
                "m.json: modules[0].kinds[0].parameter_bytes: ");
  for (const char *tie : {R"("layers": [1, 0], "parameters": 3)",
                          R"("layers": [0, 4], "parameters": 3)",
                          R"("layers": [0, 1], "parameters": 10)"})
    EXPECT_EQ(modelError("[[0, 3], 0]",
                         std::string("[[0, 3], 0], \"ties\": [{") + tie + "}]"),
              "m.json: module 'm', ties: expected two or more of its layers, "
              "ascending, and parameters that each of them has");
  auto layouts = [&](const std::string &list) {
    return modelError(
        "[[0, 3], 0]}",
        "[0], \"partitioned\": {\"ops\": [{\"name\": \"p\", \"kind\": "
        "\"stream\"}], \"layouts\": [" +
            list + "]}}");
  };
  std::string good =
      R"({"tp": 2, "save": "vjp", "kinds": [{"forward": [0], "forward_exchanges": [{"kind": "all_reduce", "count": 2}]}]})";
  EXPECT_EQ(layouts(good), "");
  EXPECT_EQ(layouts(good + "," + good),
            "m.json: modules[0].partitioned.layouts[1]: a second layout of TP "
            "2 and 'vjp'");
  std::string parallel = good;
  parallel.insert(parallel.find("\"kinds\""), "\"sequence_parallel\": true, ");
  EXPECT_EQ(layouts(good + "," + parallel), "");
  EXPECT_EQ(layouts(parallel + "," + parallel),
            "m.json: modules[0].partitioned.layouts[1]: a second layout of TP "
            "2 and 'vjp' with sequence parallelism");
  EXPECT_EQ(layouts(R"({"tp": 2, "save": "vjp", "kinds": []})"),
            "m.json: modules[0].partitioned.layouts[0].kinds: expected one "
            "entry for each of the 1 kinds of layers");
  EXPECT_EQ(
      layouts(R"({"tp": 2, "save": "vjp", "kinds": [{"forward": [1]}]})"),
      "m.json: modules[0].partitioned.layouts[0].kinds[0].forward[0]: there "
      "are only 1 operations in the table");
  EXPECT_NE(
      layouts(
          R"({"tp": 2, "save": "vjp", "kinds": [{"kept": {"item": NaN}}]})"),
      "");
  const char *part =
      R"({"version": 1, "modules": [{"name": "m", "item": "sample", "model": "n.json"}]})";
  EXPECT_EQ(errorOf(parseModel(part, "m.json")),
            "m.json: modules[0].model: expected the module itself, in a file "
            "that is a part of another");
  EXPECT_EQ(
      errorOf(parseModel(part, "m.json",
                         [](llvm::StringRef name) -> llvm::Expected<Model> {
                           return llvm::createStringError(name + ": not there");
                         })),
      "m.json: modules[0].model: n.json: not there");
  EXPECT_NE(modelError("[0, 3]", "[0, 3000000000]"), "");
  EXPECT_NE(modelError("[[0, 3], 0]", "[]"), "");
  EXPECT_BEGINS(modelError("\"split\"", "\"splti\""),
                "m.json: modules[0].kinds[0].forward[0]: unknown key "
                "'splti'");
  EXPECT_BEGINS(modelError("]}]}", "]}], \"pace\": \"n\"}"),
                "m.json: pace: no module is named 'n'");
}

const char *kProfile =
    R"({"version": 1, "modules": {"llm": {"layer": [
 {"tp": 1, "tokens": 1024, "forward": 0.01, "backward": 0.012, "weight": 0.009},
 {"tp": 1, "tokens": 4096, "forward": 0.05, "backward": 0.06, "weight": 0.04},
 {"tp": 4, "tokens": 4096, "forward": 0.02, "backward": 0.03, "weight": 0.01}]}}})";

TEST(Profile, IsUsedInsteadOfTheModel) {
  Profile profile = llvm::cantFail(parseProfile(kProfile, "p.json"));
  EXPECT_EQ(printProfile(
                llvm::cantFail(parseProfile(printProfile(profile), "p.json"))),
            printProfile(profile));
  Cluster cluster = wholeCluster("a800-80g");
  Model model = makeMultimodal(7);
  EXPECT_FALSE(bool(profile.check(model)));
  Costs costs(cluster, model, &profile);
  EXPECT_TRUE(costs.isMeasured(1));
  EXPECT_FALSE(costs.isMeasured(0));
  const ModuleCost &cost = costs.get(0, 1);
  CostOptions options;
  // Exact at measured points, monotone between them.
  Times a = cost.layer(1, options, TokenSums::of(1024)),
        b = cost.layer(1, options, TokenSums::of(4096)),
        c = cost.layer(1, options, TokenSums::of(2048));
  EXPECT_DOUBLE_EQ(a.forward, 0.01);
  EXPECT_DOUBLE_EQ(a.input, 0.012);
  EXPECT_DOUBLE_EQ(a.weight, 0.009);
  EXPECT_DOUBLE_EQ(b.forward, 0.05);
  EXPECT_GT(c.forward, a.forward);
  EXPECT_LT(c.forward, b.forward);
  options.tp = 4;
  // The group's messages come on top of what was measured.
  Times d = cost.layer(1, options, TokenSums::of(4096));
  double reduce = cluster.allReduce(
      cluster.getGroup(0, 4, 1),
      model.modules[1].kinds[1].reduced.at(TokenSums::of(4096)));
  EXPECT_GT(reduce, 0);
  EXPECT_NEAR(d.forward,
              0.02 + model.modules[1].kinds[1].forwardReduces * reduce, 1e-12);
  // Another saved set does more again, or less.
  options.tp = 1;
  options.save = Save::None;
  EXPECT_GT(cost.layer(1, options, TokenSums::of(4096)).input, 0.06);
  options.save = Save::All;
  EXPECT_LT(cost.layer(1, options, TokenSums::of(4096)).input, 0.06);
  // What was not measured is modelled.
  EXPECT_EQ(cost.layer(0, {}, TokenSums::of(4096)).total(),
            ModuleCost(cluster, 0, model.modules[1])
                .layer(0, {}, TokenSums::of(4096))
                .total());
  EXPECT_EQ(cost.layer(1, options, {}).total(), 0);
}

/// Where both gradients were measured together the model shares them out.
TEST(Profile, BackwardInOnePiece) {
  std::string text = kProfile;
  for (const char *weight :
       {", \"weight\": 0.009", ", \"weight\": 0.04", ", \"weight\": 0.01"})
    text.erase(text.find(weight), std::strlen(weight));
  Profile profile = llvm::cantFail(parseProfile(text, "p.json"));
  Cluster cluster = wholeCluster("a800-80g");
  Model model = makeMultimodal(7);
  Costs costs(cluster, model, &profile);
  Times times = costs.get(0, 1).layer(1, {}, TokenSums::of(4096));
  EXPECT_NEAR(times.input + times.weight, 0.06, 1e-12);
  EXPECT_GT(times.weight, 0.01);
  EXPECT_GT(times.input, 0.01);
}

TEST(Profile, Links) {
  std::string text = kProfile;
  text.insert(text.rfind('}'),
              R"(, "update": 1e-9, "inside": {"latency": 1e-6, "bandwidth": 7},
                 "reduce": {"latency": 2e-6, "bandwidth": 3})");
  Profile profile = llvm::cantFail(parseProfile(text, "p.json"));
  EXPECT_EQ(printProfile(
                llvm::cantFail(parseProfile(printProfile(profile), "p.json"))),
            printProfile(profile));
  Cluster cluster = wholeCluster("a800-80g");
  profile.setLinks(cluster);
  Group pair = cluster.getGroup(0, 2, 1);
  EXPECT_NEAR(cluster.allReduce(pair, 30), 2 * (2e-6 + 15 / 3.0), 1e-9);
  EXPECT_NEAR(cluster.allGather(pair, 28), 1e-6 + 14 / 7.0, 1e-9);
  profile.device = "another";
  Cluster other = wholeCluster("a800-80g");
  double before = other.allReduce(pair, 30);
  profile.setLinks(other);
  EXPECT_EQ(other.allReduce(pair, 30), before);
}

std::string profileError(const std::string &from, const std::string &to) {
  auto profile = parseProfile(replaced(kProfile, from, to), "p.json");
  if (!profile)
    return llvm::toString(profile.takeError());
  return llvm::toString(profile->check(makeMultimodal(7)));
}

TEST(Profile, Errors) {
  EXPECT_BEGINS(profileError("0.01,", "NaN,"), "p.json: not JSON: ");
  EXPECT_BEGINS(profileError("0.01,", "-0.01,"),
                "p.json: modules.llm.layer[0].forward: ");
  EXPECT_EQ(profileError("\"tokens\": 4096", "\"tokens\": 512"),
            "p.json: modules.llm.layer[1].tokens: expected more tokens than in "
            "the point before of the same TP: points ascend");
  EXPECT_NE(profileError("0.01,", "\"a\","), "");
  EXPECT_CONTAINS(profileError(", \"weight\": 0.04", ""), "'weight' is given");
  EXPECT_NE(profileError("\"tokens\"", "\"token\""), "");
  EXPECT_EQ(profileError("\"llm\"", "\"lm\""),
            "the profile names module 'lm', which the model does not have; did "
            "you mean 'llm'?");
  EXPECT_BEGINS(profileError("\"layer\"", "\"layers\""),
                "the profile names layer 'layers' of module 'llm'");
  EXPECT_NE(errorOf(parseProfile(R"({"version": 1, "modules": {}})", "p")), "");
}

TEST(Explain, SaysWhatAndWhy) {
  Cluster cluster = takeDevices("a800-80g", 16);
  Model model = makeMultimodal(7);
  Costs costs(cluster, model);
  auto data = llvm::cantFail(openData("documents"));
  std::vector<Sample> batch = drawBatch(*data, 1, 32);
  PolicyInput input{costs, batch, 8};
  auto plan = makePlan("joint", input);
  ASSERT_TRUE(bool(plan)) << llvm::toString(plan.takeError());
  if (!plan->searched)
    plan->searched.emplace();
  EXPECT_TRUE(plan->searched->sizes.empty());
  plan->searched->sizes = {
      {1, {0.02, false}}, {2, {0.03, true}}, {4, {INFINITY, true}}};
  ExplainOptions options;
  options.relax = false;
  options.data = data.get();
  options.seeds = 3;
  auto why = explain(input, *plan, options);
  ASSERT_TRUE(bool(why)) << llvm::toString(why.takeError());
  EXPECT_EQ(why->units.size(), 3u);
  EXPECT_EQ(why->others.size(), getPolicies().size() - 1);
  EXPECT_EQ(why->spread.seeds, 3);
  EXPECT_LE(why->spread.least, why->spread.mean);
  Json json = Json::parse(printJson(*why, model));
  EXPECT_EQ(json["predicted"]["step"], plan->predicted.step);
  EXPECT_EQ(json["predicted"]["costs"], "model");
  EXPECT_EQ(json["units"]["llm"]["predicted"]["costs"], "model");
  EXPECT_GT(json["units"]["llm"]["predicted"]["memory"]["state"], 0.0);
  EXPECT_EQ(json["predicted"]["others"].size(), why->others.size());
  EXPECT_EQ(json["predicted"]["searched"]["microbatches"],
            Json::parse(R"({"1": {"step": 0.02}, "2": {"at_least": 0.03}})"));
  std::string text, page;
  llvm::raw_string_ostream textStream(text), pageStream(page);
  printText(textStream, *why, input);
  for (const char *word : {"ceiling", "llm", "disttrain", "where device time",
                           "bound by", "other seeds",
                           "so many microbatches: 1 20.0 ms, 2 at least 30.0 "
                           "ms, 4 does not fit\n"})
    EXPECT_CONTAINS(text, word) << word;
  EXPECT_FALSE(bool(printHtml(pageStream, *why, input)));
  for (const char *word : {"<svg", "</svg>", "Alternatives", "</html>"})
    EXPECT_CONTAINS(page, word) << word;
}

} // namespace
