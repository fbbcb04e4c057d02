//===- TrainSumsTest.cpp - what ranks send each other in a step -----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Messages in bf16, and sums of gradients that begin inside a backward.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/comm/mpi/SmallTraining.h"

#include <cstring>
#include <map>

using namespace dt::rt;
using namespace small;

namespace {

/// Embeddings and their gradients in bf16: half of the bytes, losses that are
/// near. Where the head is cut, ranks sum them in bf16 too.
TEST(RanksTrain, NarrowMessages) {
  SharedFolder folder(writeFolder);
  std::vector<double> wanted = reference(6);
  for (SmallPlan plan : plans()) {
    plan.embeds = DType::BF16;
    std::string name = folder / nameOf(plan);
    Options options = steps(6);
    options.saveOutputs = name + ".outputs";
    options.traffic = name + ".traffic";
    std::vector<double> losses = train(plan, folder, options);
    for (size_t i = 0; i < losses.size(); ++i) {
      EXPECT_NEAR(losses[i], wanted[i], 0.03 * wanted[i]) << nameOf(plan);
      EXPECT_NE(losses[i], wanted[i]);
    }
    ranks().world().barrier();
    nlohmann::json traffic = nlohmann::json::parse(readFile(options.traffic));
    for (auto &edge : traffic["edges"]) {
      EXPECT_EQ(edge["bytes"], edge["expected"]) << nameOf(plan);
      EXPECT_EQ(edge["bytes"], 6 * 7 * 4);
    }
    for (auto &entry : traffic["collectives"])
      if (entry["axis"] != "tp") // this program has no table of those
        EXPECT_EQ(entry["bytes"], entry["expected"]) << entry;
    SafetensorsFile outputs(options.saveOutputs);
    const TensorView &embeds =
        outputs.get("tower.embeds", DType::BF16, {kImages, 2});
    std::vector<float> w(6), x = randoms(kImages * 3, 11);
    initialize(w.data(), {2, 3}, "normal(0,0.5)", "tower.w", 3);
    for (size_t i = 0; i < size_t(2 * kImages); ++i) {
      bf16 value;
      std::memcpy(&value, embeds.data + 2 * i, 2);
      double sum = 0;
      for (size_t k = 0; k < 3; ++k)
        sum += x[i / 2 * 3 + k] * w[i % 2 * 3 + k];
      EXPECT_NEAR(value, sum, 0.005 * std::fabs(sum) + 1e-6) << i;
    }
    ranks().world().barrier();
  }
}

/// Sums of the head's gradients that this rank has begun, each time that its
/// backward function says that some are complete and when it returns.
struct Begun {
  static uint64_t sums() {
    auto found = ranks().traffic().find("gradients head");
    return found == ranks().traffic().end() ? 0 : found->second.calls;
  }
  struct Spy final : GradientListener {
    void ready(size_t begin, size_t end) override {
      gradientsReady(inner, begin, end);
      Begun::log.push_back(sums());
    }
    GradientListener *inner = nullptr;
  };
  static void backward(const TaskContext &c) {
    Spy spy;
    spy.inner = c.listener;
    TaskContext watched = c;
    watched.listener = &spy;
    uint64_t before = sums();
    size_t first = log.size();
    headBackward<1>(watched);
    log.push_back(sums());
    for (size_t i = first; i < log.size(); ++i)
      log[i] -= before;
  }
  static std::vector<uint64_t> log;
};
std::vector<uint64_t> Begun::log;

/// Of three microbatches, the last one's backward begins a bucket as soon as it
/// is done with it, before it computes the next one and returns. With ZeRO both
/// parameters are in one bucket.
TEST(RanksTrain, SumsBeginInsideTheLastBackward) {
  SharedFolder folder(writeFolder);
  for (const SmallPlan &plan : plans()) {
    if (plan.tp > 1 || plan.heads < 2)
      continue;
    SmallProgram program(2, plan);
    program.modules[1].backward = Begun::backward;
    Begun::log.clear();
    Options options = steps(1);
    options.batch = {folder / "batch"};
    options.logEvery = 1e9;
    options.trace = folder / (nameOf(plan) + ".sums");
    runTraining(program.info, folder.path, options, ranks(), {});
    // With three replicas blocks need 48 floats; there are 32.
    uint64_t first = plan.zero ? 0 : 1, all = plan.zero ? 1 : 2;
    std::vector<uint64_t> wanted = {0, 0, 0, 0, 0, 0, first, all, all};
    EXPECT_EQ(Begun::log,
              ranks().rank() < plan.towers ? std::vector<uint64_t>() : wanted)
        << nameOf(plan);
    ranks().world().barrier();
    nlohmann::json trace = nlohmann::json::parse(readFile(options.trace));
    std::map<std::string, int64_t> phases;
    for (const auto &event : trace["traceEvents"])
      if (event["name"] == "sum of gradients head")
        ++phases[event["ph"]];
    EXPECT_EQ(phases["b"], int64_t(all) * plan.heads);
    EXPECT_EQ(phases["e"], int64_t(all) * plan.heads);
  }
}

} // namespace
