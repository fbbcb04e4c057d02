//===- Shrink.cpp - Ops that a test can do without ------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-reduce/Shrink.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Reducer/Tester.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;

namespace {

bool isValid(ModuleOp module) {
  // What is wrong with a try is nobody's business.
  ScopedDiagnosticHandler silent(module.getContext(),
                                 [](Diagnostic &) { return success(); });
  return succeeded(verify(module));
}

/// Values of that type that stand before `op` in its block, the nearest first,
/// its own operands before all others.
SmallVector<Value> findSubstitutes(Operation *op, Type type) {
  SmallVector<Value> found;
  auto add = [&](Value value) {
    if (value.getType() == type && !llvm::is_contained(found, value))
      found.push_back(value);
  };
  llvm::for_each(op->getOperands(), add);
  for (Operation *before = op->getPrevNode(); before;
       before = before->getPrevNode())
    llvm::for_each(before->getResults(), add);
  llvm::for_each(op->getBlock()->getArguments(), add);
  return found;
}

/// Takes the op away; false, and nothing is done, where a result is used and no
/// other value has its type.
bool drop(Operation *op) {
  SmallVector<Value> substitutes;
  for (Value result : op->getResults()) {
    SmallVector<Value> found = result.use_empty()
                                   ? SmallVector<Value>{Value()}
                                   : findSubstitutes(op, result.getType());
    if (found.empty())
      return false;
    substitutes.push_back(found.front());
  }
  for (auto [result, substitute] : llvm::zip(op->getResults(), substitutes))
    if (substitute)
      result.replaceAllUsesWith(substitute);
  op->erase();
  return true;
}

/// Ops that may be taken away: outer ones first, later ones before those that
/// they use. An op's number is the same in a copy of the module.
SmallVector<Operation *> listOps(ModuleOp module) {
  SmallVector<Operation *> level{module}, ops;
  while (!level.empty()) {
    SmallVector<Operation *> next;
    for (Operation *outer : level)
      for (Region &region : outer->getRegions())
        for (Block &block : llvm::reverse(region))
          for (Operation &op : llvm::reverse(block))
            next.push_back(&op);
    llvm::append_range(ops, next);
    level = std::move(next);
  }
  llvm::erase_if(
      ops, [](Operation *op) { return op->hasTrait<OpTrait::IsTerminator>(); });
  return ops;
}

struct Shrink : PassWrapper<Shrink, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Shrink)

  Shrink() = default;
  Shrink(const Shrink &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "shrink"; }
  StringRef getDescription() const override {
    return "Take ops away as long as a script ends with 1";
  }

  void runOnOperation() override {
    if (!llvm::sys::fs::can_execute(script)) {
      emitError(getOperation().getLoc())
          << "--shrink: expected test=PROGRAM, not '" << script << "'";
      return signalPassFailure();
    }
    Tester tester(script, {});
    if (!isInteresting(tester, getOperation())) {
      emitError(getOperation().getLoc())
          << "--shrink: '" << script
          << "' does not end with 1 for the whole of it";
      return signalPassFailure();
    }
    while (shrink(tester)) {
    }
  }

private:
  static bool isInteresting(const Tester &tester, ModuleOp module) {
    return tester.isInteresting(module).first == Tester::Interestingness::True;
  }

  /// Tries every op once. Whether one went.
  bool shrink(const Tester &tester) {
    bool smaller = false;
    for (size_t i = 0; i < listOps(getOperation()).size();) {
      OwningOpRef<ModuleOp> copy = getOperation().clone();
      if (drop(listOps(*copy)[i]) && isValid(*copy) &&
          isInteresting(tester, *copy)) {
        getOperation().getBodyRegion().takeBody(copy->getBodyRegion());
        smaller = true; // the next one has this number now
      } else {
        ++i;
      }
    }
    return smaller;
  }

  Option<std::string> script{
      *this, "test",
      llvm::cl::desc("A program that is called with a file and ends with 1 if "
                     "it is still interesting, else with 0")};
};

} // namespace

void dt::registerShrink() { PassRegistration<Shrink>(); }
