//===- PlanMemory.cpp - A place in scratch for each local -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/rt/RTStreams.h"
#include "passes/lower/OffsetAllocator.h"
#include "passes/lower/Passes.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace dt::lower {
#define GEN_PASS_DEF_PLANMEMORY
#include "passes/lower/Passes.h.inc"

namespace {

/// The locals of one function.
class FunctionPlan {
public:
  FunctionPlan(rt::FuncOp function, const SymbolBounds &bounds)
      : function(function), bounds(bounds), bytes(function), order(function) {}

  LogicalResult run() {
    for (auto alloc : function.getBody().getOps<rt::AllocOp>())
      if (failed(addLocal(alloc)))
        return failure();
    for (auto kernel : function.getBody().getOps<rt::KernelOp>())
      reuseDying(kernel);
    OffsetAllocator allocator;
    for (unsigned i = 0; i < locals.size(); ++i)
      if (locals[i].owner == i)
        locals[i].block =
            allocator.add(locals[i].bytes, locals[i].first, locals[i].last);
    allocator.place();
    OpBuilder b(function.getContext());
    for (Local &local : locals) {
      unsigned owner = ownerOf(index[local.alloc]);
      local.alloc.setOffsetAttr(
          b.getI64IntegerAttr(allocator.offset(locals[owner].block)));
    }
    function.setScratchBytesAttr(b.getI64IntegerAttr(allocator.bytes()));
    return success();
  }

private:
  struct Local {
    rt::AllocOp alloc;
    int64_t bytes;
    int64_t first, last; ///< between which ops use it (StreamOrder::getSpan)
    unsigned owner;      ///< itself, or the local whose place it takes
    unsigned block = 0;
  };

  LogicalResult addLocal(rt::AllocOp alloc) {
    FailureOr<int64_t> bytes =
        bounds.evaluate(alloc, alloc.getType().getNumBytes());
    if (failed(bytes))
      return failure();
    int64_t place = order.getPosition(alloc);
    Local local{alloc, *bytes, INT64_MAX, place, unsigned(locals.size())};
    SmallVector<Value> work{alloc.getResult()};
    while (!work.empty())
      for (Operation *user : work.pop_back_val().getUsers()) {
        if (auto view = dyn_cast<rt::ViewOp>(user)) {
          work.push_back(view.getResult());
          continue;
        }
        auto [first, last] = order.getSpan(user);
        local.first = std::min(local.first, first);
        local.last = std::max(local.last, last);
      }
    local.first = std::min(local.first, local.last);
    index[alloc] = locals.size();
    locals.push_back(local);
    return success();
  }

  unsigned ownerOf(unsigned i) {
    while (locals[i].owner != i)
      i = locals[i].owner;
    return i;
  }

  /// The local that an operand of the kernel is (a part of).
  std::optional<unsigned> localOf(rt::KernelOp kernel, unsigned i) {
    auto alloc = rt::getViewedBuffer(kernel.getBuffers()[i])
                     .getDefiningOp<rt::AllocOp>();
    return alloc ? std::optional<unsigned>(index[alloc]) : std::nullopt;
  }

  /// Whether the kernel makes all of the local, which nothing else touches up
  /// to here.
  bool isNew(rt::KernelOp kernel, unsigned o) {
    std::optional<unsigned> out = localOf(kernel, o);
    if (!out || kernel.reads(o) || !kernel.writes(o) ||
        locals[*out].first != order.getPosition(kernel) ||
        ownerOf(*out) != *out ||
        !bytes.areEqual(kernel.getBuffers()[o], locals[*out].alloc))
      return false;
    for (unsigned j = 0; j < kernel.getBuffers().size(); ++j)
      if (j != o && localOf(kernel, j) == out)
        return false;
    return true;
  }

  /// Whether the kernel may write its operand `o` where the locals of `owner`
  /// stand: they die here, and all that it reads of them, through whatever
  /// view, is the element that it writes, before it does.
  bool mayReplace(rt::KernelOp kernel, unsigned owner, unsigned o) {
    if (locals[owner].last != order.getPosition(kernel))
      return false;
    for (unsigned j = 0; j < kernel.getBuffers().size(); ++j) {
      std::optional<unsigned> read = localOf(kernel, j);
      if (!read || ownerOf(*read) != owner)
        continue;
      if (!bytes.areEqual(kernel.getBuffers()[j], locals[*read].alloc) ||
          !rt::readsBeforeWriting(kernel, j, o))
        return false;
    }
    return true;
  }

  void reuseDying(rt::KernelOp kernel) {
    for (unsigned o = 0; o < kernel.getBuffers().size(); ++o) {
      if (!isNew(kernel, o))
        continue;
      unsigned out = *localOf(kernel, o);
      for (unsigned i = 0; i < kernel.getBuffers().size(); ++i) {
        std::optional<unsigned> in = localOf(kernel, i);
        if (!in || i == o)
          continue;
        unsigned owner = ownerOf(*in);
        if (owner == out || !mayReplace(kernel, owner, o))
          continue;
        locals[out].owner = owner;
        locals[owner].last = std::max(locals[owner].last, locals[out].last);
        break;
      }
    }
  }

  rt::FuncOp function;
  const SymbolBounds &bounds;
  rt::BufferBytes bytes;
  rt::StreamOrder order;
  llvm::DenseMap<Operation *, unsigned> index;
  SmallVector<Local> locals;
};

struct PlanMemory : impl::PlanMemoryBase<PlanMemory> {
  void runOnOperation() override {
    SymbolTableCollection tables;
    llvm::DenseSet<Operation *> done, active;
    SmallVector<rt::FuncOp> functions;
    getOperation().walk([&](rt::FuncOp f) { functions.push_back(f); });
    for (rt::FuncOp f : functions)
      if (failed(plan(f, tables, done, active)))
        return signalPassFailure();
  }

  /// Callees first: a call's scratch is a local of the caller.
  LogicalResult plan(rt::FuncOp function, SymbolTableCollection &tables,
                     llvm::DenseSet<Operation *> &done,
                     llvm::DenseSet<Operation *> &active) {
    if (done.contains(function))
      return success();
    if (!active.insert(function).second)
      return function.emitOpError("calls itself");
    OpBuilder b(function.getContext());
    for (auto call :
         llvm::make_early_inc_range(function.getBody().getOps<rt::CallOp>())) {
      auto callee = tables.lookupNearestSymbolFrom<rt::FuncOp>(
          call, call.getCalleeAttr());
      if (!callee)
        return call.emitOpError()
               << "calls no rt.func: " << call.getCalleeAttr();
      if (failed(plan(callee, tables, done, active)))
        return failure();
      int64_t bytes = callee.getScratchBytes().value_or(0);
      if (!bytes || call.getScratch())
        continue;
      b.setInsertionPoint(call);
      auto type = rt::BufferType::get(
          b.getI8Type(), ArrayRef<nn::DimExpr>{nn::DimExpr(bytes)});
      auto scratch = rt::AllocOp::create(
          b, call.getLoc(), type,
          b.getStringAttr(call.getCallee() + ".scratch"), IntegerAttr());
      call.getScratchMutable().assign(scratch.getResult());
    }
    active.erase(function);
    done.insert(function);
    return FunctionPlan(function, SymbolBounds(function)).run();
  }
};

} // namespace
} // namespace dt::lower
