//===- SizesTest.cpp - Figures of tokens from several sizes ---------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/describe/Sizes.h"
#include "passes/planner/describe/Shipped.h"
#include "passes/planner/explain/Explain.h"
#include "test/passes/planner/Architectures.h"
#include "test/passes/planner/Clusters.h"
#include "test/passes/planner/Errors.h"

#include <gtest/gtest.h>

using namespace dt::planner;

namespace {

/// One layer whose figures at t tokens are polynomials: what a compiler would
/// say of items of that size.
SizedModel atTokens(double t) {
  Op product;
  product.name = "linear";
  product.kind = Op::Gemm;
  product.rows.item = t / 4;
  product.n = 64;
  product.k = 16;
  product.bytes.item = 20 * t;
  product.fixedBytes = 4096;
  Op scores;
  scores.name = "attention";
  scores.kind = Op::Attention;
  scores.flops.item = 32 * t * t + 8 * (t + 1);
  Op positions; // added to embeddings: a table that grows with the image
  positions.name = "add";
  positions.fixedBytes = 100 + 64 * t;
  positions.bytes.item = 128 * t;
  RankLayer layer;
  layer.forward = {product, scores, product, positions};
  layer.kept.item = 12 * t + 4;
  layer.forwardExchanges = {{dt::rt::CollectiveKind::AllReduce, {8 * t, 0, 0}}};
  layer.parameters = 1024 + 16 * t;
  LayerKind kind;
  kind.name = "layer";
  kind.forward = layer.forward;
  kind.parameters = layer.parameters;
  Module module;
  module.name = "m" + std::to_string(int(t));
  module.precision = "f32";
  module.bytes.weight = module.bytes.gradient = 4;
  module.kinds = {kind};
  module.layers = {0};
  module.partitioned[{1, Save::Vjp}] = {layer};
  Model model;
  model.modules = {module};
  return {t, model, module.name + ".json"};
}

TEST(Sizes, FitsAndChecks) {
  Model model = llvm::cantFail(fitTokens(
      {atTokens(4096), atTokens(256), atTokens(1024), atTokens(576)}));
  const RankLayer &layer = model.modules[0].partitioned.at({1, Save::Vjp})[0];
  EXPECT_EQ(layer.forward[0].rows.token, 0.25);
  EXPECT_EQ(layer.forward[0].rows.item, 0);
  EXPECT_EQ(layer.forward[0].fixedBytes, 4096);
  EXPECT_EQ(layer.forward[1].flops.square, 32);
  EXPECT_EQ(layer.forward[1].flops.token, 8);
  EXPECT_EQ(layer.forward[1].flops.item, 8);
  // What grows with tokens is each item's.
  EXPECT_EQ(layer.forward[3].fixedBytes, 100);
  EXPECT_EQ(layer.forward[3].bytes.token, 128 + 64);
  EXPECT_EQ(layer.kept.token, 12);
  EXPECT_EQ(layer.kept.item, 4);
  EXPECT_EQ(layer.forwardExchanges[0].bytes.token, 8);
  EXPECT_EQ(layer.parameters, 1024 + 16 * 4096);

  EXPECT_EQ(errorOf(fitTokens({atTokens(256), atTokens(1024)})),
            "figures of tokens need a program at three sizes, not 2");
  EXPECT_EQ(errorOf(fitTokens({atTokens(256), atTokens(256), atTokens(512)})),
            "m256.json: expected tokens of 1 to 2^24, others than those of "
            "other sizes");
  SizedModel off = atTokens(576);
  off.model.modules[0].kinds[0].forward[1].flops.item *= 1.001;
  std::string error =
      errorOf(fitTokens({atTokens(256), off, atTokens(1024), atTokens(4096)}));
  EXPECT_BEGINS(error, "module 'm4096', layer 'layer', forward attention: "
                       "FLOPs: ");
  off = atTokens(576);
  off.model.modules[0].kinds[0].forward.pop_back();
  error = errorOf(fitTokens({off, atTokens(1024), atTokens(4096)}));
  EXPECT_BEGINS(error, "m576.json and m4096.json are not one program");
  // A layout that is cut otherwise at another size is left to the rules.
  off = atTokens(576);
  off.model.modules[0].partitioned.at({1, Save::Vjp})[0].forward.pop_back();
  std::vector<std::string> leftOut;
  EXPECT_TRUE(llvm::cantFail(
                  fitTokens({off, atTokens(1024), atTokens(4096)}, 0, &leftOut))
                  .modules[0]
                  .partitioned.empty());
  ASSERT_EQ(leftOut.size(), 1u);
  EXPECT_EQ(leftOut[0],
            "module 'm4096', layer 'layer' at TP 1 and 'vjp' is cut "
            "otherwise at sizes next to 4096 tokens: this layout is priced by "
            "rule");
  // Or goes by the sizes at which it is cut alike.
  model = llvm::cantFail(fitTokens(
      {off, atTokens(768), atTokens(1024), atTokens(2048), atTokens(4096)},
      1024));
  EXPECT_EQ(model.modules[0]
                .partitioned.at({1, Save::Vjp})[0]
                .forward[1]
                .flops.square,
            32);
  EXPECT_EQ(model.modules[0].getParameters(), 1024 + 16 * 1024);
  off = atTokens(576);
  off.model.modules[0].kinds[0].output.token = 1;
  error = errorOf(fitTokens({off, atTokens(1024), atTokens(4096)}));
  EXPECT_CONTAINS(error, "is a function of tokens already");
}

TEST(Sizes, CondensedCostsTheSame) {
  Model model = llvm::cantFail(
      fitTokens({atTokens(4096), atTokens(256), atTokens(1024)}));
  Module &module = model.modules[0];
  RankLayer &layer = module.partitioned.at({1, Save::Vjp})[0];
  layer.forward.push_back(layer.forward[3]);
  layer.weight = layer.forward;
  module.kinds[0].weight = layer.weight;
  Model condensed = model;
  condense(condensed);
  const RankLayer &small =
      condensed.modules[0].partitioned.at({1, Save::Vjp})[0];
  ASSERT_EQ(small.forward.size(), 3u);
  EXPECT_EQ(small.forward[0].count, 2);
  EXPECT_EQ(small.forward[2].count, 2);
  Cluster cluster = wholeCluster("a800-80g");
  EXPECT_FALSE(bool(setMixedPrecision(model, "bf16")));
  EXPECT_FALSE(bool(setMixedPrecision(condensed, "bf16")));
  EXPECT_EQ(llvm::toString(setMixedPrecision(model, "bf16")),
            "module 'm4096' computes in bf16, expected f32");
  Costs a(cluster, model), b(cluster, condensed);
  TokenSums part{3, 3000, 4e6};
  for (Save save : {Save::Vjp, Save::All}) { // as compiled, and by rule
    CostOptions options;
    options.save = save;
    Times x = a.get(0, 0).module(options, part),
          y = b.get(0, 0).module(options, part);
    EXPECT_DOUBLE_EQ(x.forward, y.forward);
    EXPECT_DOUBLE_EQ(x.weight, y.weight);
    EXPECT_DOUBLE_EQ(a.get(0, 0).keptForWeights(0, options, part),
                     b.get(0, 0).keptForWeights(0, options, part));
  }
  EXPECT_DOUBLE_EQ(model.getFlops(0, part), condensed.getFlops(0, part));
}

double flopsOf(const std::vector<Op> &ops, const TokenSums &part) {
  double sum = 0;
  for (const Op &op : ops)
    sum += op.kind == Op::Gemm
               ? 2 * op.rows.at(part) * op.n * op.k * op.count
               : (op.kind == Op::Stream ? 0 : op.flops.at(part));
  return sum;
}

/// What was imported against what is written down of the same networks. They
/// differ by what the sizes in Architectures.h leave out.
TEST(Shipped, AsArchitectures) {
  struct Case {
    const char *name;
    int billions;
  };
  for (Case c : {Case{"mllm-9b", 7}, Case{"mllm-15b", 13}, {"mllm-72b", 70}}) {
    Model imported = llvm::cantFail(openModel(c.name)),
          written = makeMultimodal(c.billions);
    ASSERT_EQ(imported.modules.size(), 3u);
    EXPECT_EQ(imported.pace, 1);
    auto ratio = [&](int m, const TokenSums &part) {
      return imported.getFlops(m, part) / written.getFlops(m, part);
    };
    auto parameters = [&](int m) {
      return imported.modules[m].getParameters() /
             written.modules[m].getParameters();
    };
    // Positions of 4096 patches, norms, biases; the projector's first product
    // takes four patches at once, so its weight is four times as large but both
    // have a quarter of the rows. The larger, the wider the projector.
    EXPECT_NEAR(parameters(0), 1.04, 0.015);
    EXPECT_NEAR(ratio(0, TokenSums::of(1024)), 0.965, 0.03);
    EXPECT_NEAR(parameters(1), 1, 1e-4);
    EXPECT_NEAR(ratio(1, TokenSums::of(8192)), 1, 1e-4);
    // The written UNet leaves out the convolutions between levels and the
    // projections of time steps, and its attention has no bias.
    EXPECT_NEAR(parameters(2), 1.09, 0.01);
    EXPECT_NEAR(ratio(2, TokenSums::of(4096)), 1.086, 0.01);
    for (const Module &module : imported.modules) {
      EXPECT_EQ(module.precision, "bf16");
      EXPECT_TRUE(module.trainable);
      // A module as the compiler cuts it for every TP of a node.
      for (Save save : {Save::None, Save::Vjp, Save::All})
        EXPECT_TRUE(module.partitioned.count({1, save})) << module.name;
      EXPECT_EQ(module.maxTP % 8, 0) << module.name;
    }
    // One rank does all that the module does.
    const Module &llm = imported.modules[1];
    const RankLayer &whole = llm.partitioned.at({1, Save::All})[1],
                    &eighth = llm.partitioned.at({8, Save::All})[1];
    TokenSums part = TokenSums::of(4096);
    EXPECT_DOUBLE_EQ(flopsOf(whole.forward, part),
                     flopsOf(llm.kinds[1].forward, part));
    EXPECT_DOUBLE_EQ(8 * flopsOf(eighth.forward, part),
                     flopsOf(whole.forward, part));
    EXPECT_EQ(eighth.forwardExchanges.size(), 2u);
    // With sequence parallelism it has the same products, streams and keeps
    // less, and its messages are halves of two each.
    const RankLayer &parallel = llm.partitioned.at({8, Save::All, true})[1];
    auto bytesOf = [&](const std::vector<Op> &ops) {
      double bytes = 0;
      for (const Op &op : ops)
        bytes += op.bytes.at(part) + op.fixedBytes;
      return bytes;
    };
    EXPECT_DOUBLE_EQ(flopsOf(parallel.forward, part),
                     flopsOf(eighth.forward, part));
    EXPECT_DOUBLE_EQ(parallel.parameters, eighth.parameters);
    EXPECT_LT(bytesOf(parallel.forward), 0.8 * bytesOf(eighth.forward));
    EXPECT_LT(parallel.kept.at(part), 0.6 * eighth.kept.at(part));
    EXPECT_EQ(parallel.forwardExchanges.size(), 4u);
    EXPECT_EQ(parallel.forwardExchanges[0].kind,
              dt::rt::CollectiveKind::AllGather);
    EXPECT_EQ(parallel.forwardExchanges[1].kind,
              dt::rt::CollectiveKind::ReduceScatter);
    // Costs follow the options; where there is no such layout, the other's.
    Cluster cluster = wholeCluster("a800-80g");
    ModuleCost costs(cluster, 0, llm);
    CostOptions options;
    options.tp = 8;
    options.save = Save::All;
    EXPECT_DOUBLE_EQ(costs.keptByKind(1, options, part),
                     parallel.kept.at(part));
    options.sequenceParallel = false;
    EXPECT_DOUBLE_EQ(costs.keptByKind(1, options, part), eighth.kept.at(part));
    EXPECT_EQ(llm.getPartitioned({1, Save::All, true}),
              &llm.partitioned.at({1, Save::All}));
    EXPECT_EQ(llm.getPartitioned({16, Save::All, true}), nullptr);
  }
  EXPECT_CONTAINS(errorOf(openModel("mllm-1b")), "mllm-9b");
}

} // namespace
