//===- VerifyLowered.cpp - What code generation relies on -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"
#include "dialects/rt/RTStep.h"
#include "dialects/rt/RTStreams.h"
#include "passes/lower/Passes.h"

using namespace mlir;

namespace dt::lower {
#define GEN_PASS_DEF_VERIFYLOWERED
#include "passes/lower/Passes.h.inc"

namespace {

/// A local, where it stands in the scratch and the ops between which it lives.
struct Life {
  rt::AllocOp alloc;
  int64_t begin, end; ///< bytes of the scratch
  Operation *first, *last;
};

/// Its place is inside the scratch at the largest sizes.
FailureOr<Life> verifyPlace(rt::AllocOp alloc, const rt::BufferBytes &bytes) {
  auto function = alloc->getParentOfType<rt::FuncOp>();
  if (!alloc.getOffset())
    return alloc.emitOpError("has no place in its function's scratch");
  std::optional<int64_t> size = bytes.getMax(alloc.getType().getNumBytes());
  if (!size)
    return alloc.emitOpError("has a size without a bound");
  int64_t begin = *alloc.getOffset();
  if (begin < 0)
    return alloc.emitOpError() << "begins at byte " << begin;
  int64_t scratch = function.getScratchBytes().value_or(0);
  if (begin + *size > scratch)
    return alloc.emitOpError() << "ends at byte " << begin + *size
                               << " of a scratch of " << scratch;
  Life life{alloc, begin, begin + *size, alloc, alloc};
  bool unused = true;
  SmallVector<Value> work{alloc.getResult()};
  while (!work.empty())
    for (Operation *user : work.pop_back_val().getUsers()) {
      if (auto view = dyn_cast<rt::ViewOp>(user)) {
        work.push_back(view.getResult());
        continue;
      }
      if (unused || user->isBeforeInBlock(life.first))
        life.first = user;
      if (unused || life.last->isBeforeInBlock(user))
        life.last = user;
      unused = false;
    }
  return life;
}

/// Locals that live at once stand apart. Where one dies in the op that makes
/// the other, verifySharedBytes says whether that op may write in its place.
LogicalResult verifyLives(rt::FuncOp function, const rt::BufferBytes &bytes) {
  SmallVector<Life> lives;
  for (auto alloc : function.getBody().getOps<rt::AllocOp>()) {
    FailureOr<Life> life = verifyPlace(alloc, bytes);
    if (failed(life))
      return failure();
    if (life->begin < life->end)
      lives.push_back(*life);
  }
  llvm::stable_sort(lives, [](const Life &a, const Life &b) {
    return a.first->isBeforeInBlock(b.first);
  });
  SmallVector<Life *> living;
  for (Life &life : lives) {
    llvm::erase_if(living, [&](Life *other) {
      return other->last->isBeforeInBlock(life.first);
    });
    for (Life *other : living) {
      if (life.end <= other->begin || other->end <= life.begin ||
          (other->last == life.first && other->first != life.first))
        continue;
      InFlightDiagnostic diagnostic =
          life.alloc.emitOpError()
          << "has bytes " << life.begin << " to " << life.end
          << " of the scratch, of which some are another local's that lives "
             "at the same time";
      diagnostic.attachNote(other->alloc.getLoc()) << "which is this";
      return diagnostic;
    }
    living.push_back(&life);
  }
  return success();
}

LogicalResult verifyFunction(rt::FuncOp function) {
  rt::BufferBytes bytes(function);
  if (failed(verifyLives(function, bytes)))
    return failure();
  for (Operation &op : function.getBody().front())
    if (!isa<rt::ViewOp>(op) && failed(rt::verifySharedBytes(&op, bytes)))
      return failure();
  return rt::verifyStreams(function, bytes);
}

/// What a task's function writes is in no other buffer that the task gives it.
LogicalResult verifyEntry(rt::EntryOp entry, SymbolTableCollection &tables) {
  auto function =
      tables.lookupNearestSymbolFrom<rt::FuncOp>(entry, entry.getCalleeAttr());
  if (!function)
    return success(); // an error of its own
  rt::BufferBytes bytes(function);
  SmallVector<rt::BufferDeclOp> decls;
  for (auto name : entry.getBuffers().getAsRange<FlatSymbolRefAttr>())
    decls.push_back(
        tables.lookupNearestSymbolFrom<rt::BufferDeclOp>(entry, name));
  auto shares = [&](rt::BufferDeclOp a, rt::BufferDeclOp b) {
    // Slots of one tensor stand beside each other, so the first ones tell.
    auto end = [&](rt::BufferDeclOp decl) {
      auto type = cast<rt::BufferType>(decl.getType());
      return int64_t(decl.getOffset()) +
             bytes.getMax(type.getNumBytes()).value_or(INT32_MAX);
    };
    return a == b ||
           (int64_t(a.getOffset()) < end(b) && int64_t(b.getOffset()) < end(a));
  };
  for (unsigned w = 0; w < decls.size(); ++w)
    for (unsigned i = 0; i < decls.size(); ++i) {
      if (i == w || function.getAccess(w) == "in" ||
          !shares(decls[w], decls[i]))
        continue;
      InFlightDiagnostic diagnostic = entry.emitOpError()
                                      << "writes @" << decls[w].getSymName()
                                      << ", which shares bytes with argument "
                                      << i << ", @" << decls[i].getSymName();
      diagnostic.attachNote(function.getLoc()) << "in this function";
      return diagnostic;
    }
  return success();
}

LogicalResult verifyCall(rt::CallOp call, SymbolTableCollection &tables) {
  // That what it gives is large enough, the op verifies.
  auto callee =
      tables.lookupNearestSymbolFrom<rt::FuncOp>(call, call.getCalleeAttr());
  if (callee && callee.getScratchBytes().value_or(0) > 0 && !call.getScratch())
    return call.emitOpError()
           << "gives no scratch to " << call.getCalleeAttr() << ", which needs "
           << *callee.getScratchBytes() << " bytes";
  return success();
}

LogicalResult verifyOp(Operation *op, SymbolTableCollection &tables) {
  StringRef dialect = op->getName().getDialectNamespace();
  bool facts = isa<dist::ItemOp, dist::MeasureOp, dist::DimsOp, dist::InputOp,
                   dist::DataOp>(op);
  if (!facts &&
      !llvm::is_contained(
          ArrayRef<StringRef>{"rt", "arith", "math", "scf", "builtin"},
          dialect) &&
      !isa<nn::DimOp, nn::ParameterOp>(op))
    return op->emitOpError("is left after lowering to rt");
  SmallVector<Type> types(op->getOperandTypes());
  llvm::append_range(types, op->getResultTypes());
  for (Region &region : op->getRegions())
    for (Block &block : region)
      llvm::append_range(types, block.getArgumentTypes());
  for (Type t : types)
    if (isa<TensorType>(t))
      return op->emitOpError() << "still has a value of type " << t;
  if (auto function = dyn_cast<rt::FuncOp>(op))
    return verifyFunction(function);
  if (auto entry = dyn_cast<rt::EntryOp>(op))
    return verifyEntry(entry, tables);
  if (auto call = dyn_cast<rt::CallOp>(op))
    return verifyCall(call, tables);
  if (auto program = dyn_cast<rt::ProgramOp>(op))
    return rt::verifyStep(program);
  return success();
}

struct VerifyLowered : impl::VerifyLoweredBase<VerifyLowered> {
  void runOnOperation() override {
    SymbolTableCollection tables;
    WalkResult walk = getOperation().walk([&](Operation *op) {
      return failed(verifyOp(op, tables)) ? WalkResult::interrupt()
                                          : WalkResult::advance();
    });
    if (walk.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
} // namespace dt::lower
