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

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace dt::modules {

namespace {

class PaddingChecker {
public:
  explicit PaddingChecker(dist::ModuleOp module) : module(module) {}

  LogicalResult check(Operation *op) {
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case<nn::ScatterNdOp>([&](auto scatter) {
          nn::DimOp rounded = findRounded(scatter.getIndices());
          return rounded ? emit(op, rounded, "writes where these say")
                         : success();
        })
        .Case<nn::GatherOp>([&](auto gather) {
          if (nn::DimOp rounded = findRounded(gather.getInput());
              rounded && gather.getInOrder())
            return emit(op, rounded, "wants a place for each of these");
          return gather.getZeroOutOfRange() ? success() : checkRead(gather);
        })
        .Case<nn::GatherElementsOp, nn::GatherNdOp>(
            [&](auto gather) { return checkRead(gather); })
        .Default([](Operation *) { return success(); });
  }

private:
  /// A dim that a size is made of, whose rows are rounded up; null: none.
  nn::DimOp findRounded(Value value) {
    for (const nn::DimExpr &size : nn::getShape(value))
      for (const std::string &symbol : size.symbols())
        if (auto dim = module.lookupSymbol<nn::DimOp>(symbol);
            dim && dim.getMultiple() > 1)
          return dim;
    return {};
  }

  /// There are such rows only where there are items that have some.
  template <typename GatherT> LogicalResult checkRead(GatherT gather) {
    nn::DimOp rounded = findRounded(gather.getIndices());
    if (!rounded)
      return success();
    for (const nn::DimExpr &size : nn::getShape(gather.getInput()))
      for (const std::string &symbol : size.symbols()) {
        auto dim = module.lookupSymbol<nn::DimOp>(symbol);
        if (dim && dim.getItem() && dim != rounded)
          return emit(gather, rounded, "reads where these say");
      }
    return success();
  }

  LogicalResult emit(Operation *op, nn::DimOp rounded, StringRef what) {
    return op->emitError()
           << describe(op) << " of module '" << module.getExternalName() << "' "
           << what << ", but rows of '" << rounded.getQuantity()
           << "' are rounded up to a multiple of "
           << int64_t(rounded.getMultiple())
           << ": behind those of the last item they say nothing; leave "
              "\"multiple\" of this measure out";
  }

  dist::ModuleOp module;
};

} // namespace

bool hasPadding(mlir::ModuleOp program) {
  return llvm::any_of(
      program.getOps<dist::ModuleOp>(), [](dist::ModuleOp module) {
        return llvm::any_of(module.getOps<nn::DimOp>(), [](nn::DimOp dim) {
          return dim.getMultiple() > 1;
        });
      });
}

LogicalResult checkPadding(dist::ModuleOp module) {
  PaddingChecker checker(module);
  WalkResult result = module.getForward().walk([&](Operation *op) {
    return failed(checker.check(op)) ? WalkResult::interrupt()
                                     : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

} // namespace dt::modules
