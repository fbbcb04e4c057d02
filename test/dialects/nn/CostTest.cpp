//===- CostTest.cpp - Operations of attention -----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace dt::nn;

namespace {

/// Multiplications and additions of self-attention, 3 heads of 4 numbers, over
/// `tokens` tokens.
int64_t flopsOf(int64_t tokens, const std::string &rules) {
  MLIRContext context;
  context.loadDialect<NNDialect, func::FuncDialect>();
  std::string type = "tensor<2x" + std::to_string(tokens) + "x3x4xf32>";
  std::string text =
      "func.func @f(%a: " + type +
      ") {\n  %0, %1 = " + "nn.attention %a, %a, %a {scale = 1.0 : f64" +
      rules + "} : " + type + ", " + type + ", " + type + "\n  return\n}\n";
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  AttentionOp found;
  module->walk([&](AttentionOp op) { found = op; });
  return *found.getFlops().asConstant();
}

int64_t pairsIn(int64_t tokens, int64_t window, bool causal) {
  int64_t pairs = 0;
  for (int64_t i = 0; i < tokens; ++i)
    for (int64_t j = 0; j < tokens; ++j)
      pairs += i - j < window && (causal ? j <= i : j - i < window);
  return pairs;
}

} // namespace

TEST(AttentionCost, WindowsLeavePairs) {
  for (int64_t tokens : {1, 5, 8})
    for (int64_t window : {1, 2, 5, 100})
      for (bool causal : {false, true})
        EXPECT_EQ(flopsOf(tokens, ", window = " + std::to_string(window) +
                                      " : i64" + (causal ? ", causal" : "")),
                  2 * 3 * 2 * (4 + 4) * pairsIn(tokens, window, causal))
            << tokens << " tokens, window " << window;
}

TEST(AttentionCost, CausalIsHalf) {
  EXPECT_EQ(flopsOf(8, ", causal") * 2, flopsOf(8, ""));
}
