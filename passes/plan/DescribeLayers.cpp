//===- DescribeLayers.cpp - What layers cost, as remarks --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/LayerWork.h"
#include "passes/plan/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace dt::plan {
#define GEN_PASS_DEF_DESCRIBELAYERS
#include "passes/plan/Passes.h.inc"

namespace {

using planner::Op;
using planner::RankLayer;

/// "linear 2x: 1024 FLOPs, 96 bytes; …", equal names together.
std::string list(const std::vector<Op> &ops) {
  struct Sum {
    int count = 0;
    double flops = 0, bytes = 0;
  };
  llvm::MapVector<StringRef, Sum> sums;
  for (const Op &op : ops) {
    Sum &sum = sums[op.name];
    ++sum.count;
    sum.flops += op.flops.item;
    sum.bytes += op.bytes.item + op.fixedBytes;
  }
  std::string text;
  for (auto &[name, sum] : sums)
    text += llvm::formatv("{0}{1} {2}x: {3:f0} FLOPs, {4:f0} bytes",
                          text.empty() ? "" : "; ", name, sum.count, sum.flops,
                          sum.bytes);
  return text.empty() ? "nothing" : text;
}

std::string list(const std::vector<planner::Exchange> &exchanges) {
  std::string text;
  for (const planner::Exchange &exchange : exchanges)
    text += llvm::formatv("{0}{1} of {2:f0} bytes{3}", text.empty() ? "" : "; ",
                          rt::textOf(exchange.kind), exchange.bytes.item,
                          exchange.coveredInHalves ? " (covered)"
                          : exchange.covered       ? " (covered in one piece)"
                                                   : "");
  return text.empty() ? "nothing" : text;
}

std::string atStart(const RankLayer &layer) {
  if (!layer.chained || layer.keptAtStart == layer.kept)
    return "";
  return llvm::formatv(", as the first of a stage {0:f0}",
                       layer.keptAtStart.item);
}

struct DescribeLayersPass : impl::DescribeLayersBase<DescribeLayersPass> {
  using DescribeLayersBase::DescribeLayersBase;

  void runOnOperation() override {
    auto set = rt::fromText<rt::Save>(save.getValue());
    if (!set || tp < 1 || !llvm::isPowerOf2_64(uint64_t(tp)))
      return fail(set ? "tp: expected a power of two, not " + Twine(tp)
                      : "save: expected none, vjp or all, not '" + save + "'");
    auto program = describePartitioned(getOperation(), tp, tp);
    if (!program)
      return fail(toString(program.takeError()));
    for (const planner::Module &module : program->model.modules)
      describe(module, *set);
  }

private:
  void fail(const Twine &what) {
    emitError(UnknownLoc::get(&getContext()))
        << "dist-describe-layers: " << what;
    signalPassFailure();
  }

  void describe(const planner::Module &module, planner::Save set) {
    auto op = getOperation().lookupSymbol<dist::ModuleOp>(module.name);
    auto layers = module.partitioned.find({int(tp), set, sequenceParallel});
    if (layers == module.partitioned.end()) {
      op.emitRemark("is not cut over ")
          << tp.getValue() << " ranks"
          << (sequenceParallel ? " that share tokens" : "");
      return;
    }
    for (auto [kind, layer] : llvm::zip(module.kinds, layers->second))
      op.emitRemark("layer '")
          << kind.name << "' of one of " << tp.getValue()
          << " ranks, an item: forward " << list(layer.forward) << " | sends "
          << list(layer.forwardExchanges) << " | gradients of inputs "
          << list(layer.input) << " | of weights " << list(layer.weight)
          << " | sends " << list(layer.backwardExchanges) << " | keeps "
          << llvm::formatv("{0:f0} bytes, {1:f0} of them and {2:f0} more for "
                           "weights{3} | needs {4:f0} bytes | {5:f0} "
                           "parameters",
                           layer.kept.item, layer.keptToWeights.item,
                           layer.keptForWeights.item, atStart(layer),
                           layer.scratch.item, layer.parameters)
                 .str();
  }
};

} // namespace

} // namespace dt::plan
