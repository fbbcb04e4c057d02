//===- ShardingTest.cpp - Rules of nn operators ---------------------------===//
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

/// An op with `%0`, `%1`, … as operands of the given types, and its rule.
struct Case {
  const char *op, *types, *rule;
};

class ShardingTest : public testing::TestWithParam<Case> {
protected:
  ShardingTest() {
    context.loadDialect<NNDialect, func::FuncDialect, arith::ArithDialect>();
  }
  /// The last op of a function with these arguments.
  Operation *parse(const Case &c) {
    std::string args;
    unsigned n = 0;
    for (StringRef rest = c.types; !rest.empty();) {
      auto [type, tail] = rest.split(';');
      args += (n ? ", %a" : "%a") + std::to_string(n) + ": tensor<" +
              type.str() + ">";
      ++n;
      rest = tail;
    }
    std::string text =
        "func.func @f(" + args + ") {\n  " + c.op + "\n  return\n}\n";
    module = parseSourceString<ModuleOp>(text, &context);
    if (!module)
      return nullptr;
    auto f = *module->getOps<func::FuncOp>().begin();
    return f.front().getTerminator()->getPrevNode();
  }
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

} // namespace

TEST_P(ShardingTest, Rule) {
  Operation *op = parse(GetParam());
  ASSERT_TRUE(op);
  auto sharding = dyn_cast<ShardingOpInterface>(op);
  ASSERT_TRUE(sharding);
  EXPECT_EQ(sharding.getShardingRule().str(), GetParam().rule);
}

static const Case kElementwise[] = {
    {"nn.add %a0, %a1 : tensor<2x3xf32>, tensor<3xf32>", "2x3xf32;3xf32",
     "([a b], [b]) -> ([a b]) linear{0, 1}"},
    {"nn.mul %a0, %a1 : tensor<2x3xf32>, tensor<2x1xf32>", "2x3xf32;2x1xf32",
     "([a b], [a -]) -> ([a b]) linear{0} linear{1}"},
    {"nn.div %a0, %a1 : tensor<3xf32>, tensor<3xf32>", "3xf32;3xf32",
     "([a], [a]) -> ([a]) linear{0}"},
    {"nn.silu %a0 : tensor<3xf32>", "3xf32", "([a]) -> ([a])"},
    {"nn.silu_grad %a0, %a1 : tensor<3xf32>, tensor<3xf32>", "3xf32;3xf32",
     "([a], [a]) -> ([a]) linear{1}"},
    {"nn.where %a0, %a1, %a2 : tensor<3xi1>, tensor<3xf32>, tensor<f32>",
     "3xi1;3xf32;f32", "([a], [a], []) -> ([a]) linear{1, 2}"},
    {"nn.add %a0, %a0 : tensor<3xi64>, tensor<3xi64>", "3xi64",
     "([a], [a]) -> ([a])"},
};
INSTANTIATE_TEST_SUITE_P(Elementwise, ShardingTest,
                         testing::ValuesIn(kElementwise));

static const Case kProducts[] = {
    {"nn.linear %a0, %a1 : tensor<2x5x3xf32>, tensor<4x3xf32>",
     "2x5x3xf32;4x3xf32",
     "([a b c], [d c]) -> ([a b d]) c:sum linear{0} linear{1}"},
    {"nn.linear %a0, %a1, %a2 {in_out} : tensor<5x3xf32>, tensor<3x4xf32>, "
     "tensor<4xf32>",
     "5x3xf32;3x4xf32;4xf32",
     "([a b], [b c], [c]) -> ([a c]) b:sum linear{0, 2} linear{1, 2} "
     "addends{2}"},
    {"nn.linear_dw %a0, %a1 : tensor<2x5x3xf32>, tensor<2x5x4xf32>",
     "2x5x3xf32;2x5x4xf32",
     "([a b c], [a b d]) -> ([d c]) a:sum b:sum linear{0} linear{1}"},
    {"nn.matmul %a0, %a1 {trans_b} : tensor<6x2x3xf32>, tensor<4x3xf32>",
     "6x2x3xf32;4x3xf32",
     "([a b d], [c d]) -> ([a b c]) d:sum linear{0} linear{1}"},
    {"nn.limit_choices %a0 of 4 within 1.25 apart %a1 : tensor<2x6xi64>, "
     "tensor<2x3xi64>",
     "2x6xi64;2x3xi64", "([a b], [a c]) -> ([a b]) b:replicate c:replicate"},
    {"%o, %p, %e = nn.route %a0 of 4 : tensor<6xi64>", "6xi64",
     "([a]) -> ([b], [c], [d]) a:replicate b:routed c:places d:ends "
     "e:experts"},
    {"nn.dispatch %a0 by %a1, %a2 each 2 : tensor<3x4xf32>, tensor<6xi32>, "
     "tensor<6xi32>",
     "3x4xf32;6xi32;6xi32",
     "([a e], [c], [d]) -> ([b e]) a:replicate b:routed c:routed d:places "
     "linear{0}"},
    {"nn.combine %a0 by %a1, %a2 each 2 : tensor<6x4xf32>, tensor<6xi32>, "
     "tensor<6xi32>",
     "6x4xf32;6xi32;6xi32",
     "([a e], [c], [d]) -> ([b e]) a:routed b:replicate c:routed d:places "
     "linear{0}"},
    {"nn.grouped_linear %a0, %a1 at %a2 bias %a3 {in_out} : tensor<6x4xf32>, "
     "tensor<2x4x5xf32>, tensor<3xi32>, tensor<2x5xf32>",
     "6x4xf32;2x4x5xf32;3xi32;2x5xf32",
     "([a d], [b d e], [c], [b e]) -> ([a e]) a:routed b:experts "
     "c:ends d:sum linear{0, 3} linear{1, 3} addends{3}"},
    {"nn.grouped_linear_dw %a0, %a1 at %a2 : tensor<6x4xf32>, "
     "tensor<6x5xf32>, tensor<3xi32>",
     "6x4xf32;6x5xf32;3xi32",
     "([a d], [a e], [c]) -> ([b e d]) a:routed b:experts c:ends "
     "linear{0} linear{1}"},
    {"nn.conv %a0, %a1 {strides = array<i64: 1>, pads = array<i64: 1, 1>, "
     "dilations = array<i64: 1>, groups = 2 : i64} : tensor<2x4x8xf32>, "
     "tensor<6x2x3xf32>",
     "2x4x8xf32;6x2x3xf32",
     "([a bc e], [bd c f]) -> ([a bd g]) b:group c:sum e:replicate "
     "f:replicate g:replicate linear{0} linear{1}"},
    {"nn.attention %a0, %a1, %a1 {scale = 1.0 : f64} : tensor<2x5x4x8xf32>, "
     "tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>",
     "2x5x4x8xf32;2x6x2x8xf32",
     "([a b cd f], [a e c f], [a e c g]) -> ([a b cd g], [a cd b]) c:group "
     "e:replicate f:replicate g:replicate"},
    {"nn.attention_grad %a0, %a1, %a1 of %a0, %a2, %a0 {scale = 1.0 : f64, "
     "causal} : tensor<2x5x4x8xf32>, tensor<2x6x2x8xf32>, "
     "tensor<2x6x2x8xf32>, tensor<2x5x4x8xf32>, tensor<2x4x5xf32>, "
     "tensor<2x5x4x8xf32>",
     "2x5x4x8xf32;2x6x2x8xf32;2x4x5xf32",
     "([a b cd f], [a e c f], [a e c g], [a b cd g], [a cd b], [a b cd g]) -> "
     "([a b cd f], [a e c f], [a e c g]) b:blocked c:group d:sum e:replicate "
     "f:replicate g:replicate linear{5}"},
    {"nn.attention %a0, %a1, %a1 segments %a2 by %a3 {scale = 1.0 : f64, "
     "window = 3 : i64} : tensor<2x5x4x8xf32>, tensor<2x6x2x8xf32>, "
     "tensor<2x6x2x8xf32>, tensor<2x5xi32>, tensor<1x6xi32>",
     "2x5x4x8xf32;2x6x2x8xf32;2x5xi32;1x6xi32",
     "([a b cd f], [a e c f], [a e c g], [a b], [- e]) -> "
     "([a b cd g], [a cd b]) b:blocked c:group e:replicate f:replicate "
     "g:replicate"},
    {"nn.attention_grad %a0, %a1, %a1 segments %a2 by %a3 of %a0, %a4, %a0 "
     "{scale = 1.0 : f64} : tensor<2x5x4x8xf32>, tensor<2x6x2x8xf32>, "
     "tensor<2x6x2x8xf32>, tensor<1x1xi64>, tensor<2x6xi64>, "
     "tensor<2x5x4x8xf32>, tensor<2x4x5xf32>, tensor<2x5x4x8xf32>",
     "2x5x4x8xf32;2x6x2x8xf32;1x1xi64;2x6xi64;2x4x5xf32",
     "([a b cd f], [a e c f], [a e c g], [- -], [a e], [a b cd g], [a cd b], "
     "[a b cd g]) -> ([a b cd f], [a e c f], [a e c g]) b:sum c:group "
     "d:sum e:replicate f:replicate g:replicate linear{7}"},
    {"nn.rotary %a0, %a1, %a1 : tensor<2x5x4x8xf32>, tensor<5x4xf32>, "
     "tensor<5x4xf32>",
     "2x5x4x8xf32;5x4xf32",
     "([a b c d], [b e], [b e]) -> ([a b c d]) d:replicate e:replicate "
     "linear{0}"},
};
INSTANTIATE_TEST_SUITE_P(Products, ShardingTest, testing::ValuesIn(kProducts));

static const Case kNorms[] = {
    {"nn.rms_norm %a0 scale %a1 {eps = 1.0e-6 : f64} : tensor<2x5x4xf32>, "
     "tensor<4xf32>",
     "2x5x4xf32;4xf32", "([a b c], [c]) -> ([a b c]) c:replicate"},
    {"nn.rms_norm_dscale %a0, %a0 {eps = 1.0e-6 : f64} : tensor<2x5x4xf32>, "
     "tensor<2x5x4xf32>",
     "2x5x4xf32",
     "([a b c], [a b c]) -> ([c]) a:sum b:sum c:replicate linear{1}"},
    {"nn.group_norm %a0 scale %a1 {eps = 1.0e-6 : f64, groups = 2 : i64} : "
     "tensor<2x6x3xf32>, tensor<6xf32>",
     "2x6x3xf32;6xf32",
     "([a bc d], [bc]) -> ([a bc d]) b:group c:replicate d:replicate"},
    {"nn.top_k %a0 {axis = 1 : i64} : (tensor<2x4x3xf32>) -> "
     "(tensor<2x2x3xf32>, tensor<2x2x3xi64>)",
     "2x4x3xf32", "([a b c]) -> ([a d c], [a d c]) b:replicate d:replicate"},
    {"nn.softmax %a0 {axis = 1 : i64} : tensor<2x4xf32>", "2x4xf32",
     "([a b]) -> ([a b]) b:replicate"},
    {"nn.reduce sum %a0 {axes = array<i64: 1>, keepdims} : tensor<2x4xf32>",
     "2x4xf32", "([a b]) -> ([a -]) b:sum linear{0}"},
    {"nn.reduce max %a0 {axes = array<i64: 0>} : tensor<2x4xf32>", "2x4xf32",
     "([a b]) -> ([b]) a:max"},
    {"nn.reduce mean %a0 {axes = array<i64: 0>} : tensor<2x4xf32>", "2x4xf32",
     "([a b]) -> ([b]) a:blocked linear{0}"},
    {"nn.cross_entropy %a0, %a1 {ignore_index = -1 : i64} : tensor<5x7xf32>, "
     "tensor<5xi64>",
     "5x7xf32;5xi64", "([a b], [a]) -> ([a]) b:blocked"},
};
INSTANTIATE_TEST_SUITE_P(Norms, ShardingTest, testing::ValuesIn(kNorms));

static const Case kMovement[] = {
    {"nn.reshape %a0 : tensor<2x5x32xf32> to tensor<2x5x4x8xf32>", "2x5x32xf32",
     "([a b dc]) -> ([a b d c]) linear{0}"},
    {"nn.reshape %a0 : tensor<2x3xf32> to tensor<3x2xf32>", "2x3xf32",
     "([a b]) -> ([c d]) a:replicate b:replicate c:replicate d:replicate "
     "linear{0}"},
    {"nn.transpose %a0 [1, 0] : tensor<2x3xf32>", "2x3xf32",
     "([a b]) -> ([b a]) linear{0}"},
    {"nn.slice %a0 [0, 64] step [1, 1] : tensor<2x192xf32> to "
     "tensor<2x64xf32>",
     "2x192xf32", "([a bc]) -> ([a c]) b:replicate linear{0}"},
    {"nn.slice %a0 [1] step [1] : tensor<8xf32> to tensor<5xf32>", "8xf32",
     "([a]) -> ([b]) a:replicate b:replicate linear{0}"},
    {"nn.concat %a0, %a0 {axis = 1 : i64} : tensor<2x3xf32>, tensor<2x3xf32>",
     "2x3xf32", "([a c], [a c]) -> ([a bc]) b:replicate linear{0, 1}"},
    {"nn.concat %a0, %a1 {axis = 0 : i64} : tensor<2xf32>, tensor<3xf32>",
     "2xf32;3xf32",
     "([b], [c]) -> ([a]) a:replicate b:replicate c:replicate linear{0, 1}"},
    {"nn.gather %a0 at %a1 {axis = 0 : i64} : tensor<7x4xf32>, tensor<2x5xi64>",
     "7x4xf32;2x5xi64", "([a b], [c d]) -> ([c d b]) a:blocked linear{0}"},
    {"nn.gather_grad %a0 at %a1 {axis = 0 : i64} : (tensor<2x5x4xf32>, "
     "tensor<2x5xi64>) -> tensor<7x4xf32>",
     "2x5x4xf32;2x5xi64",
     "([c d b], [c d]) -> ([a b]) a:blocked c:sum d:sum linear{0}"},
    {"nn.scatter_nd add %a0 at %a1, %a2 : tensor<7x4xf32>, tensor<3x1xi64>, "
     "tensor<3x4xf32>",
     "7x4xf32;3x1xi64;3x4xf32",
     "([a b], [c d], [c b]) -> ([a b]) a:replicate c:sum d:replicate "
     "linear{0, 2} addends{0}"},
    {"nn.scatter_nd max %a0 at %a1, %a2 : tensor<7x4xf32>, tensor<3x1xi64>, "
     "tensor<3x4xf32>",
     "7x4xf32;3x1xi64;3x4xf32",
     "([a b], [c d], [c b]) -> ([a b]) a:replicate c:replicate d:replicate"},
    {"nn.gather_nd %a0 at %a1 : tensor<2x5x4xf32>, tensor<3x1xi64>",
     "2x5x4xf32;3x1xi64",
     "([a b c], [d e]) -> ([d b c]) a:replicate e:replicate linear{0}"},
};
INSTANTIATE_TEST_SUITE_P(Movement, ShardingTest, testing::ValuesIn(kMovement));

/// Without a rule an op runs whole on every rank. What has none is no tensor
/// computation: symbols of a module, their uses (the partitioner knows what a
/// parameter is), what import makes products of, and parts of regions.
TEST_F(ShardingTest, EveryOpHasARule) {
  static constexpr llvm::StringLiteral without[] = {
      "nn.accumulate", "nn.adapter", "nn.dim",  "nn.expert_linear",
      "nn.parameter",  "nn.read",    "nn.size", "nn.yield"};
  std::vector<std::string> missing;
  for (RegisteredOperationName op : context.getRegisteredOperations())
    if (op.getDialectNamespace() == "nn" &&
        !op.hasInterface<ShardingOpInterface>())
      missing.push_back(op.getStringRef().str());
  llvm::sort(missing);
  EXPECT_EQ(missing,
            std::vector<std::string>(std::begin(without), std::end(without)));
}

TEST_F(ShardingTest, Precision) {
  Operation *op = parse({"nn.rms_norm %a0 scale %a1 {eps = 1.0e-6 : f64} : "
                         "tensor<2x4xf32>, tensor<4xf32>",
                         "2x4xf32;4xf32", ""});
  ASSERT_TRUE(op);
  PrecisionRule rule = cast<PrecisionOpInterface>(op).getPrecisionRule();
  EXPECT_TRUE(rule.operands[0]);
  EXPECT_FALSE(rule.operands[1]);
  EXPECT_TRUE(rule.results[0]);
  EXPECT_TRUE(rule.sumsInFull);
}

TEST_F(ShardingTest, Cost) {
  Operation *op =
      parse({"nn.linear %a0, %a1 : tensor<2x5x3xf32>, tensor<4x3xf32>",
             "2x5x3xf32;4x3xf32", ""});
  ASSERT_TRUE(op);
  EXPECT_EQ(cast<CostOpInterface>(op).getFlops(), DimExpr(2 * 2 * 5 * 3 * 4));
  EXPECT_EQ(cast<CostOpInterface>(op).getBytes(), DimExpr(4 * (30 + 12 + 40)));
}
