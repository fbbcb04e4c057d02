//===- InputTest.cpp - Clusters, data and models that are wrong -----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/cost/Cost.h"
#include "passes/planner/describe/Data.h"
#include "passes/planner/describe/Shipped.h"
#include "passes/planner/hardware/Machine.h"
#include "runtime/base/Cores.h"
#include "test/passes/planner/Architectures.h"
#include "test/passes/planner/Errors.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cmath>

#include <sched.h>

#include <gtest/gtest.h>

using namespace dt::planner;

namespace {

const char *kCluster =
    R"({"version": 1, "devices": {"d": {"flops": {"bf16": 1e12}, "memory": 1e9, "bandwidth": 1e11}},
 "nodes": [{"device": "d", "devices": 8, "count": 2, "inside": {"latency": 0, "bandwidth": 1e9}, "network": {"latency": 0, "bandwidth": 1e9}}]})";

std::string clusterError(const std::string &from, const std::string &to) {
  return errorOf(parseCluster(replaced(kCluster, from, to), "c.json"));
}

TEST(Cluster, Reads) {
  Cluster cluster = llvm::cantFail(parseCluster(kCluster, "c.json"));
  EXPECT_EQ(cluster.getNumDevices(), 16);
  EXPECT_EQ(llvm::cantFail(cluster.take(11)).getNumDevices(), 11);
  EXPECT_EQ(errorOf(cluster.take(17)), "cluster '' has 16 devices, not 17");
  EXPECT_EQ(errorOf(cluster.take(0)),
            "expected at least one device to plan for");
}

TEST(Cluster, ShippedFiles) {
  std::error_code code;
  int files = 0;
  for (llvm::sys::fs::directory_iterator
           it(DT_SOURCE "/passes/planner/hardware/clusters", code),
       end;
       it != end && !code; it.increment(code)) {
    EXPECT_EQ(errorOf(readCluster(it->path())), "") << it->path();
    // Each is known by its name, which is in it too.
    std::string name = llvm::sys::path::stem(it->path()).str();
    EXPECT_EQ(llvm::count(getShippedClusters(), name), 1) << name;
    auto cluster = openCluster(name);
    ASSERT_TRUE(bool(cluster)) << llvm::toString(cluster.takeError());
    EXPECT_EQ(cluster->name, name);
    EXPECT_EQ(cluster->assumed, "");
    ++files;
  }
  EXPECT_GE(files, 6);
  EXPECT_EQ(size_t(files), getShippedClusters().size());
}

TEST(Cluster, Names) {
  std::string error = errorOf(openCluster("h100-80"));
  EXPECT_BEGINS(error, "cluster 'h100-80' is not one of a100-80g, ");
  EXPECT_CONTAINS(error, ", here, nor a .json file; did you mean 'h100-80g'?");
  // The beginning of a name is near to it.
  EXPECT_CONTAINS(errorOf(openCluster("H100")), "; did you mean 'h100-80g'?");
  EXPECT_EQ(errorOf(openCluster("")).find("; did you mean"), std::string::npos);
  EXPECT_EQ(errorOf(openCluster("/nowhere")),
            "/nowhere: No such file or directory");
  EXPECT_EQ(errorOf(openCluster("nowhere.json")),
            "nowhere.json: No such file or directory");
  error = errorOf(openModel("mllm-9"));
  EXPECT_BEGINS(error, "model 'mllm-9' is not one of llama3_13b, ");
  EXPECT_CONTAINS(error, "; did you mean 'mllm-9b'?");
}

TEST(Cluster, ThisMachine) {
  Cluster here = llvm::cantFail(openCluster("here"));
  EXPECT_EQ(here.getNumDevices(), dt::rt::usableCores());
  EXPECT_EQ(here.nodes[0].cores, dt::rt::usableCores());
  EXPECT_GT(here.getMemory(0), 0);
  EXPECT_CONTAINS(here.assumed, "not measured");
  // One core where the process may use one.
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); ++i)
    if (CPU_ISSET(i, &before))
      CPU_SET(i, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  Cluster alone = llvm::cantFail(openCluster("here"));
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(alone.getNumDevices(), 1);
  EXPECT_EQ(alone.devices[0].memory,
            here.devices[0].memory * dt::rt::usableCores());
}

TEST(Cluster, OtherMachines) {
  Cluster typical = llvm::cantFail(openCluster("cpu-2"));
  Machine machine;
  machine.cores = 64;
  machine.memory = 64e9;
  machine.instructions = "AVX2";
  machine.flopsPerCycle = 32;
  Cluster many = describeMachine(machine, typical);
  EXPECT_EQ(many.getNumDevices(), 64);
  EXPECT_EQ(many.devices[0].memory, 1e9);
  // 64 cores share the memory's channels.
  EXPECT_EQ(many.devices[0].bandwidth, 2.5e9);
  EXPECT_EQ(many.devices[0].flops["f32"], 64e9);
  EXPECT_EQ(many.devices[0].flops["bf16"], 64e9);
  // More ranks than cores share them.
  Cluster shared = describeMachine(machine, typical, 128);
  EXPECT_EQ(shared.getNumDevices(), 128);
  EXPECT_EQ(shared.devices[0].memory, 0.5e9);
  EXPECT_EQ(shared.devices[0].flops["f32"], 32e9);
  EXPECT_EQ(shared.devices[0].bandwidth, 1.25e9);
  EXPECT_EQ(llvm::cantFail(openCluster("here:7")).getNumDevices(), 7);
  EXPECT_BEGINS(errorOf(openCluster("here:0")), "cluster 'here:0': expected");
  EXPECT_BEGINS(errorOf(openCluster("here:x")), "cluster 'here:x': expected");
  // A little memory is not all reserved.
  machine.memory = 64 * 100e6;
  EXPECT_EQ(describeMachine(machine, typical).getMemory(0), 75e6);
}

TEST(Cluster, Errors) {
  EXPECT_CONTAINS(errorOf(parseCluster("{", "c.json")), "c.json: not JSON: ");
  EXPECT_NE(errorOf(readCluster("/nowhere.json")), "");
  EXPECT_BEGINS(clusterError("\"memory\": 1e9", "\"memory\": -1"),
                "c.json: devices.d.memory: expected a number");
  EXPECT_BEGINS(clusterError("\"memory\"", "\"memroy\""),
                "c.json: devices.d: unknown key 'memroy'; did you mean "
                "'memory'?");
  EXPECT_BEGINS(clusterError("\"bf16\"", "\"bf61\""),
                "c.json: devices.d.flops.bf61: unknown precision");
  EXPECT_BEGINS(clusterError("\"device\": \"d\"", "\"device\": \"e\""),
                "c.json: nodes[0].device: no device is named 'e'");
  // A second kind of node is behind a network.
  EXPECT_EQ(clusterError("\"nodes\": [", "\"nodes\": [{\"device\": \"d\", "
                                         "\"devices\": 1, \"count\": 1, "
                                         "\"inside\": {\"latency\": 0, "
                                         "\"bandwidth\": 1}}, "),
            "c.json: nodes[0]: the key 'network' is missing");
  EXPECT_NE(clusterError("\"devices\": 8", "\"devices\": 0"), "");
  EXPECT_NE(clusterError("\"count\": 2", "\"count\": 99999999"), "");
  EXPECT_NE(clusterError("1e11", "1e999"), "");
  EXPECT_NE(clusterError("\"version\": 1", "\"version\": 2"), "");
}

TEST(Cluster, Levels) {
  auto with = [](const std::string &levels) {
    std::string text = kCluster;
    text.insert(text.size() - 1, ", \"levels\": [" + levels + "]");
    return parseCluster(text, "c.json");
  };
  Cluster cluster = llvm::cantFail(
      with(R"({"nodes": 2}, {"nodes": 6, "oversubscription": 4, "rails": 1})"));
  ASSERT_EQ(cluster.levels.size(), 2u);
  EXPECT_EQ(cluster.levels[1].nodes, 6);
  EXPECT_EQ(cluster.levels[1].oversubscription, 4);
  EXPECT_EQ(errorOf(with("{}")),
            "c.json: levels[0]: the key 'nodes' is missing");
  EXPECT_EQ(errorOf(with(R"({"nodes": 4}, {"nodes": 6})")),
            "c.json: levels[1].nodes: expected a multiple of the 4 below it, "
            "and more, not 6");
  EXPECT_EQ(errorOf(with(R"({"nodes": 1})")),
            "c.json: levels[0].nodes: expected a multiple of the 1 below it, "
            "and more, not 1");
  EXPECT_EQ(errorOf(with(R"({"nodes": 2, "rails": 2})")),
            "c.json: levels[0].rails: expected at most the 1 NICs of a node, "
            "not 2");
  EXPECT_BEGINS(errorOf(with(R"({"nodes": 2, "oversubscription": 0.5})")),
                "c.json: levels[0].oversubscription: expected a number");
  EXPECT_BEGINS(errorOf(with(R"({"nodes": 2, "oversubscripton": 2})")),
                "c.json: levels[0]: unknown key 'oversubscripton'; did "
                "you mean 'oversubscription'?");
}

TEST(Cluster, Stragglers) {
  auto with = [](const std::string &stragglers) {
    std::string text = kCluster;
    text.insert(text.find("\"count\""),
                "\"stragglers\": [" + stragglers + "], ");
    return parseCluster(text, "c.json");
  };
  Cluster cluster = llvm::cantFail(with(
      R"({"slowdown": 1.2, "share": 0.02}, {"slowdown": 2, "share": 0.98})"));
  ASSERT_EQ(cluster.nodes[0].stragglers.size(), 2u);
  EXPECT_EQ(cluster.nodes[0].stragglers[0].slowdown, 1.2);
  EXPECT_EQ(errorOf(with(R"({"slowdown": 2, "share": 0.5},
                            {"slowdown": 3, "share": 0.75})")),
            "c.json: nodes[0].stragglers: expected shares of at most 1 "
            "together, not 1.25");
  EXPECT_BEGINS(errorOf(with(R"({"slowdown": 0.9, "share": 0.5})")),
                "c.json: nodes[0].stragglers[0].slowdown: expected a "
                "number from 1");
  EXPECT_BEGINS(errorOf(with(R"({"slowdown": 2, "share": 1.5})")),
                "c.json: nodes[0].stragglers[0].share: expected a number");
  EXPECT_EQ(errorOf(with(R"({"slowdown": 2})")),
            "c.json: nodes[0].stragglers[0]: the key 'share' is missing");
}

TEST(Cluster, Collectives) {
  Cluster cluster = llvm::cantFail(parseCluster(kCluster, "c.json"));
  Group node = cluster.getGroup(0, 8, 1);
  EXPECT_EQ(node.nodes, 1);
  EXPECT_DOUBLE_EQ(cluster.allGather(node, 8e9), 7.0);
  EXPECT_DOUBLE_EQ(cluster.allReduce(node, 8e9), 14.0);
  EXPECT_EQ(cluster.allReduce(cluster.getGroup(0, 1, 1), 8e9), 0);
  // One rank a node, eight such groups on one NIC.
  Group across = cluster.getGroup(0, 2, 8);
  EXPECT_EQ(across.nodes, 2);
  EXPECT_EQ(across.sharing, 8);
  EXPECT_DOUBLE_EQ(cluster.allGather(across, 2e9), 8.0);
}

TEST(Data, DrawsAreReproducible) {
  for (const char *name : {"packed", "documents"}) {
    auto data = llvm::cantFail(openData(name));
    Sample a = data->draw(7, 1000), b = data->draw(7, 1000);
    EXPECT_EQ(a.items, b.items);
    EXPECT_EQ(a.tokens, b.tokens);
    std::vector<Sample> batch = drawBatch(*data, 1, 500);
    double images = 0;
    for (const Sample &sample : batch) {
      EXPECT_GE(sample.tokens, 1);
      EXPECT_LE(sample.tokens, 8192);
      images += double(sample.getSizes(ItemKind::Image).size());
    }
    EXPECT_GT(images, 500);
  }
}

TEST(Data, SamplesComeInOrder) {
  auto data = parseData(
      R"({"order": "file", "samples": [{"tokens": 3}, {"tokens": 5}]})", "d");
  ASSERT_TRUE(bool(data)) << errorOf(std::move(data));
  for (uint64_t seed : {0, 1})
    for (uint64_t i = 0; i < 5; ++i)
      EXPECT_EQ((*data)->draw(seed, i).tokens, i % 2 ? 5 : 3);
  EXPECT_NE(errorOf(parseData(R"({"order": "any", "samples": [{"tokens": 3}]})",
                              "d")),
            "");
}

TEST(Data, ItemsMayBeEmpty) {
  auto data = parseData(
      R"({"kinds": ["image"], "samples": [{"tokens": 0, "items": [[0, 2]]}]})",
      "d");
  ASSERT_TRUE(bool(data)) << errorOf(std::move(data));
  EXPECT_EQ((*data)->draw(0, 0).of(ItemKind::Image),
            (std::vector<ItemSize>{0, 2}));
}

TEST(Data, ItemsMayHaveTwoMeasures) {
  auto data = parseData(
      R"({"kinds": ["image", "clip"],
          "measures": {"sample": ["tokens", "learned"], "image": ["merged", "patches"]},
          "samples": [{"tokens": [7, 3], "items": [[[4, 16], [0, 2]], [5]]}]})",
      "d");
  ASSERT_TRUE(bool(data)) << errorOf(std::move(data));
  EXPECT_EQ((*data)->getMeasures(),
            (Data::Measures{{"tokens", "learned"}, {"merged", "patches"}, {}}));
  Sample sample = (*data)->draw(0, 0);
  EXPECT_EQ(sample.tokens, 7);
  EXPECT_EQ(sample.other, 3);
  EXPECT_EQ(sample.of(ItemKind::Image),
            (std::vector<ItemSize>{{4, 16}, {0, 2}}));
  EXPECT_EQ(sample.of(ItemKind::Target), (std::vector<ItemSize>{5}));
  TokenSums sums = momentsOf(sample, ItemKind::Image);
  EXPECT_EQ(sums, (TokenSums{2, 4, 16, 18, 64, 260}));
}

TEST(Data, Errors) {
  EXPECT_EQ(errorOf(parseData("{}", "d.json")),
            "d.json: the key 'samples' is missing");
  EXPECT_EQ(errorOf(parseData(R"({"samples": []})", "d.json")),
            "d.json: the data description holds no samples");
  EXPECT_NE(errorOf(parseData(R"({"samples": [{"tokens": -3}]})", "d.json")),
            "");
  EXPECT_EQ(errorOf(parseData(R"({"samples": [{"tokens": 3, "count": 0}]})",
                              "d.json")),
            "d.json: the weights of all samples are zero or too large");
  EXPECT_EQ(errorOf(parseData(R"({"kinds": ["a", "b", "a"], "samples": []})",
                              "d.json")),
            "d.json: kinds: 'a' stands there twice");
  EXPECT_EQ(
      errorOf(parseData(R"({"kinds": ["a", "b"], "samples": [{"tokens": 3},)"
                        R"( {"tokens": 3, "items": [[1]]}]})",
                        "d.json")),
      "d.json: samples[1].items: expected a list for each of the 2 "
      "kinds");
  EXPECT_EQ(
      errorOf(parseData(
          R"({"kinds": ["a"], "measures": {"a": ["x", "y"]}, "samples": [{"tokens": 3, "items": [[4]]}]})",
          "d.json")),
      "d.json: samples[0].items[0][0]: expected a list, not 4");
  EXPECT_EQ(
      errorOf(parseData(
          R"({"kinds": ["a"], "measures": {"a": ["x", "y"]}, "samples": [{"tokens": 3, "items": [[[4]]]}]})",
          "d.json")),
      "d.json: samples[0].items[0][0]: expected a list of x and y");
  EXPECT_EQ(
      errorOf(parseData(
          R"({"measures": {"sample": ["x", "x"]}, "samples": [{"tokens": 3}]})",
          "d.json")),
      "d.json: measures.sample: expected one or two names of measures");
  EXPECT_NE(errorOf(openData("/nowhere")), "");
}

TEST(Model, Errors) {
  EXPECT_EQ(llvm::toString(Model().check()), "the model has no modules");
  Model model = makeMultimodal(7);
  EXPECT_FALSE(bool(model.check()));
  model.edges.push_back({1, 0, {}});
  EXPECT_EQ(llvm::toString(model.check()),
            "the modules feed one another in a cycle");
  model = makeMultimodal(7);
  model.modules[0].kinds[0].parameters = std::nan("");
  EXPECT_EQ(llvm::toString(model.check()),
            "module 'encoder', layer 'embed': expected finite figures of at "
            "least 0");
}

TEST(Cost, NoItemsCostNothing) {
  Cluster cluster = llvm::cantFail(parseCluster(kCluster, "c.json"));
  Model model = makeMultimodal(7);
  ModuleCost cost(cluster, 0, model.modules[0]);
  EXPECT_EQ(cost.module({}, {}).total(), 0);
  TokenSums part = TokenSums::of(1024);
  Times one = cost.module({}, part);
  EXPECT_GT(one.forward, 0);
  // Frozen: no weight gradient; nothing before it: no backward at all.
  model.modules[0].trainable = false;
  Times frozen = ModuleCost(cluster, 0, model.modules[0]).module({}, part);
  EXPECT_EQ(frozen.input + frozen.weight, 0);
  EXPECT_DOUBLE_EQ(frozen.forward, one.forward);
  EXPECT_EQ(ModuleCost(cluster, 0, model.modules[0]).kept(0, 3, {}, part), 0);
}

/// The sizes that the paper names.
TEST(Architectures, Sizes) {
  for (auto [billions, low, high] : {std::tuple(7, 6.5e9, 8e9),
                                     {13, 1.25e10, 1.45e10},
                                     {70, 6.9e10, 7.2e10}}) {
    Model model = makeMultimodal(billions);
    EXPECT_GT(model.modules[1].getParameters(), low);
    EXPECT_LT(model.modules[1].getParameters(), high);
    EXPECT_NEAR(model.modules[0].getParameters(), 0.65e9, 0.1e9);
    EXPECT_NEAR(model.modules[2].getParameters(), 0.85e9, 0.1e9);
  }
}

} // namespace
