//===- ShowChoices.cpp - Numbers of chosen experts as outputs ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// docs/routers.md. How many rows an expert got is counted by who reads them.
//
//===----------------------------------------------------------------------===//

#include "passes/import/Choices.h"
#include "passes/import/Passes.h"

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNShape.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace dt::import {
#define GEN_PASS_DEF_SHOWCHOICES
#include "passes/import/Passes.h.inc"

/// Seen through reshapes and casts of integers.
static Value asChosen(Value numbers) {
  for (;;) {
    numbers = nn::throughReshapes(numbers);
    auto cast = numbers.getDefiningOp<nn::CastOp>();
    if (!cast || !isa<IntegerType>(getElementTypeOrSelf(cast.getInput())))
      return numbers;
    numbers = cast.getInput();
  }
}

Choices findExpertChoices(func::FuncOp function) {
  Choices choices;
  function.walk([&](nn::ExpertLinearOp op) {
    choices[asChosen(op.getExperts())].push_back(op);
  });
  return choices;
}

int64_t countExperts(nn::ExpertLinearOp product) {
  return nn::getShape(product.getWeight())[0].constant();
}

void addResult(func::FuncOp function, Value value, StringRef name) {
  Builder b(function.getContext());
  auto attributes =
      b.getDictionaryAttr(b.getNamedAttr(nn::kNameAttr, b.getStringAttr(name)));
  (void)function.insertResult(function.getNumResults(), value.getType(),
                              attributes);
  Operation *end = function.getBody().front().getTerminator();
  end->insertOperands(end->getNumOperands(), value);
}

namespace {

struct ShowChoicesPass : impl::ShowChoicesBase<ShowChoicesPass> {
  void runOnOperation() override {
    dist::ModuleOp module = getOperation();
    if (!module.getShowChoices())
      return;
    module.setShowChoices(false);
    Choices choices = findExpertChoices(module.getForward());
    if (choices.empty()) {
      module.emitError("'")
          << module.getSymName()
          << "' is to show the choices of experts (experts.choices), but it "
             "has no layer of experts";
      return signalPassFailure();
    }
    for (auto [i, entry] : llvm::enumerate(choices)) {
      auto &[choice, products] = entry;
      addResult(
          module.getForward(), choice,
          llvm::formatv("choices.{0}.of.{1}", i, countExperts(products.front()))
              .str());
    }
  }
};

} // namespace
} // namespace dt::import
