//===- NarrowResidual.cpp - What layers hand on in bf16 ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/precision/Passes.h"

#include "dialects/nn/NNInference.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace dt::precision {
#define GEN_PASS_DEF_NARROWRESIDUAL
#include "passes/precision/Passes.h.inc"

namespace {

/// A parameter or a number, in any shape.
bool isLeaf(Value v) {
  Operation *op = v.getDefiningOp();
  while (isa_and_nonnull<nn::BroadcastOp, nn::ReshapeOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return isa_and_nonnull<nn::ReadOp, nn::ConstantOp, nn::GenerateOp>(op);
}

/// Whether `branch` is made of `x` by some compute-heavy operator. Looks at
/// nothing in front of `x`.
bool leadsTo(Value x, Value branch) {
  Operation *first = x.getDefiningOp();
  using Visit = llvm::PointerIntPair<Operation *, 1, bool>;
  SmallVector<Visit> work;
  llvm::DenseSet<Visit> seen;
  bool found = false;
  auto visit = [&](Value v, bool heavy) {
    found |= v == x && heavy;
    Operation *op = v.getDefiningOp();
    if (op && op != first && (!first || first->isBeforeInBlock(op)) &&
        seen.insert({op, heavy}).second)
      work.push_back({op, heavy});
  };
  visit(branch, false);
  while (!work.empty() && !found) {
    auto [op, heavy] =
        std::pair(work.back().getPointer(), work.back().getInt());
    work.pop_back();
    for (Value operand : op->getOperands())
      visit(operand, heavy || nn::isComputeHeavy(op));
  }
  return found;
}

/// The one activation that `v` is a view of, or scales; or null.
Value unscaled(Value v) {
  Operation *op = v.getDefiningOp();
  if (!op ||
      !(op->hasTrait<nn::MovesElements>() || isa<nn::ScalarOpInterface>(op)))
    return {};
  Value only;
  for (Value operand : op->getOperands())
    if (!isLeaf(operand)) {
      if (only)
        return {};
      only = operand;
    }
  return only;
}

/// What goes past `branch` into an addition of `v`, or null.
Value pastBranch(Value v, Value branch) {
  for (; v && !isLeaf(v); v = unscaled(v))
    if (leadsTo(v, branch))
      return v;
  return {};
}

/// The only op that takes `v`, or null.
Operation *onlyUser(Value v) {
  Operation *user = v.use_empty() ? nullptr : *v.user_begin();
  return llvm::all_of(v.getUsers(), [&](Operation *u) { return u == user; })
             ? user
             : nullptr;
}

/// What one elementwise op takes is never stored.
bool isStored(Value v) {
  return !isa_and_nonnull<nn::ScalarOpInterface>(onlyUser(v));
}

/// The sum with all that is added to it before it is stored.
Value wholeSum(Value sum) {
  while (auto next = dyn_cast_or_null<nn::AddOp>(onlyUser(sum)))
    sum = next;
  return sum;
}

/// The values of a function that layers hand on, as far as they are stored in
/// float32.
llvm::SetVector<Value> findStream(func::FuncOp function) {
  llvm::SetVector<Value> stream;
  auto insert = [&](Value v) {
    if (v.getDefiningOp() && nn::elementOf(v).isF32() && nn::getRank(v) > 0 &&
        isStored(v))
      stream.insert(v);
  };
  for (auto add : function.front().getOps<nn::AddOp>()) {
    Value past = pastBranch(add.getLhs(), add.getRhs());
    if (!past)
      past = pastBranch(add.getRhs(), add.getLhs());
    if (!past)
      continue;
    insert(past);
    insert(wholeSum(add));
  }
  return stream;
}

void narrow(Value wide) {
  OpBuilder b(wide.getContext());
  b.setInsertionPointAfterValue(wide);
  auto narrow = nn::CastOp::create(
      b, wide.getLoc(), nn::withElementType(wide.getType(), b.getBF16Type()),
      wide);
  auto widened =
      nn::CastOp::create(b, wide.getLoc(), wide.getType(), narrow.getResult());
  wide.replaceAllUsesExcept(widened, narrow);
}

struct NarrowResidual : impl::NarrowResidualBase<NarrowResidual> {
  void runOnOperation() override {
    for (auto module : getOperation().getOps<dist::ModuleOp>()) {
      if (!module.getNarrowResidual())
        continue;
      llvm::SetVector<Value> stream = findStream(module.getForward());
      for (Value v : stream)
        narrow(v);
      if (stream.empty())
        module.emitRemark("residual: nothing is narrower: no sum of this "
                          "module has an operand that is made of the other");
    }
  }
};

} // namespace
} // namespace dt::precision
