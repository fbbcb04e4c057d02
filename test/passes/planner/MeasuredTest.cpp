//===- MeasuredTest.cpp - Tables of a calibrated cluster ------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/cost/Cost.h"

#include <cmath>

#include <gtest/gtest.h>

using namespace dt::planner;

namespace {

/// A core that multiplies 2^30 FLOP/s of any shape, streams 2^20 bytes/s, and
/// has attention at 2^25 forward and 2^24 back.
std::string cluster(const std::string &products, const std::string &link = "") {
  return R"({"version": 1, "devices": {"core": {"flops": {"f32": 1e12}, "memory": 1e10, "bandwidth": 1e11, "launch": 1,
    "measured": {"f32": {"products": )" +
         products + R"(,
      "weights": {"rows": [1], "columns": [1], "depth": [1], "rates": [1073741824]},
      "attention": {"sizes": [1], "rates": [33554432]}, "attention_back": {"sizes": [1], "rates": [16777216]},
      "stream": {"sizes": [1], "rates": [1048576]}}}}},
    "nodes": [{"device": "core", "devices": 4, "count": 1, "inside": {"latency": 0, "bandwidth": 1)" +
         link + "}}]}";
}
const char *kFlat =
    R"({"rows": [1], "columns": [1], "depth": [1], "rates": [1073741824]})";

Cluster parse(const std::string &text) {
  return llvm::cantFail(parseCluster(text, "c.json"));
}
std::string errorOf(const std::string &text) {
  auto cluster = parseCluster(text, "c.json");
  return cluster ? "" : llvm::toString(cluster.takeError());
}

TEST(Measured, InterpolatesLogarithms) {
  Curve curve({4, 16, 64}, {10, 40, 40});
  EXPECT_NEAR(curve.at(4), 10, 1e-9);
  EXPECT_NEAR(curve.at(8), 20, 1e-9); // half way on both scales
  EXPECT_NEAR(curve.at(16), 40, 1e-9);
  EXPECT_NEAR(curve.at(30), 40, 1e-9);
  EXPECT_NEAR(curve.at(1), 10, 1e-9); // the nearest
  EXPECT_NEAR(curve.at(1e9), 40, 1e-9);
  EXPECT_NEAR(curve.times(2).at(8), 40, 1e-9);
  // Along each axis; the last varies fastest.
  ProductRates products({{{1, 4}, {1, 4}, {1, 4}}},
                        {1, 2, 4, 8, 16, 32, 64, 128});
  for (int corner = 0; corner < 8; ++corner)
    EXPECT_NEAR(products.at(corner & 2 ? 4 : 1, corner & 1 ? 4 : 1)
                    .at(corner & 4 ? 4 : 1),
                std::ldexp(1, corner), 1e-9);
  EXPECT_NEAR(products.at(2, 2).at(2), std::sqrt(128.0), 1e-9);
}

TEST(Measured, PricesOperations) {
  Cluster here = parse(cluster(kFlat));
  Module module;
  module.precision = "f32";
  LayerKind kind;
  Op product;
  product.kind = Op::Gemm;
  product.rows = {0, 1, 0};
  product.n = 32;
  product.k = 16;
  product.bytes = {0, 1e12, 0}; // in the rate already
  Op attention;
  attention.kind = Op::Attention;
  attention.flops = {0, 0, 1024};
  attention.bytes = {0, 64, 0};
  Op stream;
  stream.bytes = {0, 512, 0};
  stream.fixedBytes = 512;
  stream.count = 2;
  kind.forward = {product, attention, stream};
  kind.input = {attention};
  kind.weight = {product};
  module.kinds = {kind};
  module.layers = {0};
  ModuleCost cost(here, 0, module);
  CostOptions options;
  options.save = Save::All;
  Times times = cost.layer(0, options, TokenSums::of(8));
  double gemm = std::ldexp(2 * 8 * 32 * 16, -30),
         scores = std::ldexp(1024 * 64, -25);
  EXPECT_NEAR(times.forward, gemm + scores + std::ldexp(8 * 512 + 512, -20),
              1e-12);
  EXPECT_NEAR(times.input, 2 * scores, 1e-12);
  EXPECT_NEAR(times.weight, gemm, 1e-12);
}

/// Fewer rows, the rate of fewer rows.
TEST(Measured, PricesStrips) {
  Cluster here = parse(cluster(R"({"rows": [2, 8], "columns": [1], "depth": )"
                               R"([1], "rates": [16384, 65536]})"));
  Op product;
  product.kind = Op::Gemm;
  product.rows = {0, 1, 0};
  product.n = 32;
  product.k = 16;
  RankLayer layer;
  layer.forward = {product};
  layer.forwardExchanges.emplace_back().beside = {product};
  Module module;
  module.precision = "f32";
  module.kinds.resize(1);
  module.layers = {0};
  module.partitioned[{2, Save::Vjp, false}] = {layer};
  ModuleCost cost(here, 0, module);
  for (int strips : {1, 4}) {
    CostOptions options;
    options.tp = 2;
    options.sequenceParallel = false;
    options.overlap = strips;
    double flops = 2 * 8 * 32 * 16;
    EXPECT_NEAR(cost.layer(0, options, TokenSums::of(8)).forward,
                flops / (strips == 1 ? 65536 : 16384), 1e-9);
  }
}

/// A sum over 4 is 6 messages of a quarter.
TEST(Measured, PricesMessages) {
  Cluster here = parse(cluster(
      kFlat, R"(, "measured": {"sizes": [64, 256], "rates": [64, 1024]})"));
  Group all = here.getGroup(0, 4, 1);
  EXPECT_NEAR(here.allReduce(all, 4096), 6 * 1.0, 1e-9);
  EXPECT_NEAR(here.allGather(all, 1024), 3 * 0.25, 1e-9);
  EXPECT_NEAR(here.pointToPoint(0, 0, true).time(128), 128 / 256.0, 1e-9);
}

TEST(Measured, Errors) {
  EXPECT_EQ(errorOf(cluster(R"({"rows": [1], "columns": [1, 2], "depth": [1], )"
                            R"("rates": [1]})")),
            "c.json: devices.core.measured.f32.products.rates: expected a rate "
            "for each of 2 sizes, not 1");
  EXPECT_EQ(errorOf(cluster(R"({"rows": [2, 2], "columns": [1], "depth": [1], )"
                            R"("rates": [1, 1]})")),
            "c.json: devices.core.measured.f32.products.rows[1]: expected more "
            "than the entry before: sizes ascend");
  EXPECT_EQ(
      errorOf(cluster(kFlat, R"(, "measured": {"sizes": [], "rates": []})")),
      "c.json: nodes[0].inside.measured.sizes: expected at least one "
      "figure");
}

} // namespace
