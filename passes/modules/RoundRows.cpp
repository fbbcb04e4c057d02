//===- RoundRows.cpp - Rows that ranks can share out ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Ranks can share rows out whose number they divide. That of packed rows is
// known at run time only. So it is made a multiple of what the plan asks for.
//
//===----------------------------------------------------------------------===//

#include "passes/modules/RoundRows.h"

#include "passes/modules/CheckPadding.h"
#include "passes/modules/Passes.h"

#include "mlir/IR/AttrTypeSubElements.h"

#include <numeric>

using namespace mlir;

namespace dt::modules {
#define GEN_PASS_DEF_ROUNDROWS
#include "passes/modules/Passes.h.inc"

namespace {

/// Blocks of so many rows for each rank, if rows are many; no part that is full
/// then has more than one row in kFewer of padding.
constexpr int64_t kBlock = 128, kFewer = 32;

/// Ranks that each have packed rows of their own.
int64_t countSharers(dist::ModuleOp module) {
  int64_t tp = module.getSequenceParallel() ? module.getTp() : 1;
  return module.getWholeBatch()
             ? 1
             : int64_t(module.getCp()) * int64_t(module.getJoined()) * tp;
}

int64_t findMultiple(int64_t sharers, int64_t bound) {
  int64_t block = kBlock;
  while (block > 1 && block * sharers * kFewer > bound)
    block /= 2;
  return block * sharers;
}

/// Sizes of `dim` are made of a symbol that counts `factor` times as many rows.
void rescale(dist::ModuleOp module, nn::DimOp dim, int64_t factor) {
  auto scaled = [&](StringRef symbol) -> std::optional<nn::DimExpr> {
    if (symbol != dim.getSymName())
      return std::nullopt;
    return nn::DimExpr::symbol(symbol) * nn::DimExpr(factor);
  };
  AttrTypeReplacer replacer; // all sizes are made of this attribute
  replacer.addReplacement([&](nn::DimAttr attr) -> std::optional<Attribute> {
    return nn::DimAttr::get(attr.getContext(),
                            attr.getSize().substitute(scaled));
  });
  replacer.recursivelyReplaceElementsIn(module, /*replaceAttrs=*/true,
                                        /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
}

/// Whether joined replicas have items of their own.
bool sharesOutSamples(dist::ModuleOp module, nn::DimOp dim) {
  return module.getJoined() > 1 && !module.getWholeBatch() &&
         dim.getItem() == module.getItem() &&
         dim.getMultiple() % module.getJoined() != 0;
}

void setMultiple(dist::ModuleOp module, nn::DimOp dim, int64_t multiple) {
  if (multiple == int64_t(dim.getMultiple()))
    return;
  int64_t bound = *dim.getBound();
  rescale(module, dim, multiple / int64_t(dim.getMultiple()));
  dim.setMultiple(multiple);
  dim.setBound(bound);
}

/// Whether rows may be rounded is checked later, with an error.
void roundAsSaid(dist::ModuleOp module, nn::DimOp dim) {
  auto measure = dist::getMeasure(module->getParentOfType<mlir::ModuleOp>(),
                                  *dim.getItem(), *dim.getMeasure());
  if (measure)
    setMultiple(module, dim,
                std::lcm(dim.getMultiple(), measure.getMultiple()));
}

void roundFor(int64_t sharers, dist::ModuleOp module, nn::DimOp dim) {
  auto after = std::lcm(int64_t(dim.getMultiple()),
                        findMultiple(sharers, *dim.getBound()));
  if (auto trouble = findPaddingTrouble(module, dim))
    module.emitRemark("rows of '")
        << dim.getQuantity() << "' are not rounded up to a multiple of "
        << after << ", so that " << sharers
        << " ranks do not share them out: those behind the last item's are "
           "nobody's, but "
        << trouble->what;
  else
    setMultiple(module, dim, after);
}

struct RoundRowsPass : impl::RoundRowsBase<RoundRowsPass> {
  void runOnOperation() override {
    for (auto module : getOperation().getOps<dist::ModuleOp>())
      if (failed(roundRows(module,
                           [&](nn::DimOp dim) { return check(module, dim); })))
        return signalPassFailure();
  }

  /// Of items that are counted each part has as many, which the ranks divide:
  /// none is made up.
  LogicalResult check(dist::ModuleOp module, nn::DimOp dim) {
    dist::Placement placement(module);
    auto batch = dist::getOnly<dist::BatchOp>(getOperation());
    int64_t joined = module.getJoined(), span = module.getSpan(),
            micro = batch ? int64_t(batch.getMicro()) : 1,
            global = batch ? int64_t(batch.getGlobal()) : 1,
            parts = placement.getNumParts();
    bool alike = module.getItem() == dist::kSample && global % micro == 0 &&
                 *dim.getBound() * parts == micro * span;
    if (alike && micro % (parts * joined) == 0)
      return success();
    auto plan = dist::getOnly<dist::PlanOp>(getOperation());
    return emitError(plan ? plan.getLoc() : module.getLoc())
           << "units." << placement.unit << ".ep: " << module.getEp()
           << " ranks share out experts over " << joined
           << " replicas, which need as many samples each; a microbatch has "
           << micro << " samples (of " << global << " in a step) for "
           << parts * joined << " parts";
  }
};

} // namespace

LogicalResult roundRows(dist::ModuleOp module,
                        function_ref<LogicalResult(nn::DimOp)> check) {
  for (auto dim : module.getOps<nn::DimOp>()) {
    if (!dim.getMax() || !module.getForward())
      continue;
    if (dim.getMeasure()) {
      roundAsSaid(module, dim);
      if (int64_t sharers = countSharers(module);
          dim.getMultiple() % uint64_t(sharers) != 0)
        roundFor(sharers, module, dim);
    } else if (sharesOutSamples(module, dim)) {
      if (failed(check(dim)))
        return failure();
      setMultiple(
          module, dim,
          std::lcm(int64_t(dim.getMultiple()), int64_t(module.getJoined())));
    }
  }
  return success();
}

} // namespace dt::modules
