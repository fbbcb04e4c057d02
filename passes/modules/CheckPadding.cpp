//===- CheckPadding.cpp - Rows that are no item's ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Numbers of such rows are 0. What is read there is a row that exists, if rows
// of the same items are read; what is written there would be another's.
//
//===----------------------------------------------------------------------===//

#include "passes/modules/CheckPadding.h"

#include "dialects/nn/NNOps.h"
#include "dialects/nn/NNShape.h"
#include "passes/modules/ItemAxes.h"
#include "passes/modules/VerifyApart.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace dt::modules {

namespace {

class PaddingChecker {
public:
  PaddingChecker(dist::ModuleOp module, nn::DimOp rounded)
      : module(module), rounded(rounded) {}

  std::optional<PaddingTrouble> find() {
    if (Operation *op = findLocalStatistics(module))
      return PaddingTrouble{op->getLoc(),
                            describe(op) + " takes their statistics"};
    std::optional<PaddingTrouble> found = findLoss();
    module.getForward().walk([&](Operation *op) {
      if (StringRef what = found ? "" : reach(op); !what.empty())
        found = PaddingTrouble{op->getLoc(), describe(op) + " " + what.str()};
    });
    if (!found && !isApart())
      found = PaddingTrouble{module.getLoc(), "items depend on one another"};
    return found;
  }

private:
  bool isApart() {
    ScopedDiagnosticHandler quiet(module.getContext(),
                                  [](Diagnostic &) { return success(); });
    return succeeded(verifyApart(module));
  }

  bool hasRows(Value value) {
    return llvm::any_of(nn::getShape(value), [&](const nn::DimExpr &size) {
      return llvm::is_contained(size.symbols(), rounded.getSymName());
    });
  }

  /// Whether items' rows other than those of the dim are in a value.
  bool hasOtherRows(Value value) {
    return llvm::any_of(nn::getShape(value), [&](const nn::DimExpr &size) {
      return llvm::any_of(size.symbols(), [&](const std::string &symbol) {
        auto dim = module.lookupSymbol<nn::DimOp>(symbol);
        return dim && dim.getItem() && dim != rounded;
      });
    });
  }

  /// What of an op would reach other rows; empty: nothing.
  StringRef reach(Operation *op) {
    // There are such rows only where there are items that have some.
    auto reads = [&](auto gather) -> StringRef {
      bool bad =
          hasRows(gather.getIndices()) && hasOtherRows(gather.getInput());
      return bad ? "reads rows of other items where they say" : "";
    };
    return llvm::TypeSwitch<Operation *, StringRef>(op)
        .Case<nn::ScatterNdOp>([&](auto scatter) -> StringRef {
          return hasRows(scatter.getIndices()) ? "writes where they say" : "";
        })
        .Case<nn::BalanceOp>([&](auto balance) -> StringRef {
          return hasRows(balance.getExperts()) ? "counts them" : "";
        })
        .Case<nn::GatherOp>([&](auto gather) -> StringRef {
          if (hasRows(gather.getInput()) && gather.getInOrder())
            return "wants a place for each of them";
          return gather.getZeroOutOfRange() ? "" : reads(gather);
        })
        .Case<nn::GatherElementsOp, nn::GatherNdOp>(reads)
        .Default(StringRef());
  }

  /// A loss that does not leave such rows out by itself.
  std::optional<PaddingTrouble> findLoss() {
    func::FuncOp forward = module.getForward();
    Operation *terminator = forward.getBody().front().getTerminator();
    for (auto loss :
         module->getParentOfType<mlir::ModuleOp>().getOps<dist::LossOp>()) {
      if (loss.getModule() != module.getSymName() || loss.getIgnoresPadding())
        continue;
      auto result = dist::ModuleOp::findResult(forward, loss.getNumerator());
      if (result && addsRowsUp(terminator->getOperand(*result)))
        return PaddingTrouble{
            loss.getLoc(),
            ("loss '" + loss.getName() + "' adds them up").str()};
    }
    return std::nullopt;
  }

  /// Whether a number is made of values with such rows.
  bool addsRowsUp(Value number) {
    llvm::DenseSet<Operation *> seen;
    SmallVector<Value> open = {number};
    while (!open.empty()) {
      Operation *op = open.pop_back_val().getDefiningOp();
      if (!op || !seen.insert(op).second)
        continue;
      for (Value operand : op->getOperands()) {
        if (hasRows(operand))
          return true;
        if (cast<RankedTensorType>(operand.getType()).getRank() == 0)
          open.push_back(operand);
      }
    }
    return false;
  }

  dist::ModuleOp module;
  nn::DimOp rounded;
};

} // namespace

std::optional<PaddingTrouble> findPaddingTrouble(dist::ModuleOp module,
                                                 nn::DimOp dim) {
  return PaddingChecker(module, dim).find();
}

LogicalResult checkPadding(dist::ModuleOp module) {
  for (auto dim : module.getOps<nn::DimOp>())
    if (dim.getMeasure() && dim.getMultiple() > 1)
      if (auto trouble = findPaddingTrouble(module, dim))
        return emitError(trouble->where)
               << "rows of '" << dim.getQuantity()
               << "' are rounded up to a multiple of "
               << int64_t(dim.getMultiple())
               << ", and those behind the last item's are nobody's, but "
               << trouble->what << " in module '" << module.getExternalName()
               << "'; leave \"multiple\" of this measure out";
  return success();
}

} // namespace dt::modules
