//===- PlanMemory.cpp - A place in scratch for each local -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/lower/Layout.h"
#include "passes/lower/Passes.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace dt::lower {
#define GEN_PASS_DEF_PLANMEMORY
#include "passes/lower/Passes.h.inc"

namespace {

Value rootOf(Value buffer) {
  while (auto view = buffer.getDefiningOp<rt::ViewOp>())
    buffer = view.getSource();
  return buffer;
}

/// Whether the kernel touches buffer `i` only at its own indices, all of them
/// in order: one element a point, no other point's.
bool isPointwise(rt::KernelOp kernel, unsigned i) {
  BlockArgument arg = kernel.getBufferArgs()[i];
  auto indices = kernel.getIndices();
  return llvm::all_of(arg.getUsers(), [&](Operation *user) {
    ValueRange at = isa<rt::LoadOp>(user)
                        ? ValueRange(cast<rt::LoadOp>(user).getIndices())
                        : ValueRange(cast<rt::StoreOp>(user).getIndices());
    return user->getBlock() == &kernel.getBody().front() &&
           llvm::equal(at, indices);
  });
}

/// The locals of one function.
class FunctionPlan {
public:
  FunctionPlan(rt::FuncOp function, const SymbolBounds &bounds)
      : function(function), bounds(bounds) {}

  LogicalResult run() {
    for (auto [i, op] : llvm::enumerate(function.getBody().front()))
      position[&op] = i;
    for (auto alloc : function.getBody().getOps<rt::AllocOp>())
      if (failed(addLocal(alloc)))
        return failure();
    for (auto kernel : function.getBody().getOps<rt::KernelOp>())
      reuseDying(kernel);
    Layout layout;
    for (unsigned i = 0; i < locals.size(); ++i)
      if (locals[i].owner == i)
        locals[i].block =
            layout.add(locals[i].bytes, locals[i].first, locals[i].last);
    layout.place();
    OpBuilder b(function.getContext());
    for (Local &local : locals) {
      unsigned owner = ownerOf(index[local.alloc]);
      local.alloc.setOffsetAttr(
          b.getI64IntegerAttr(layout.offset(locals[owner].block)));
    }
    function.setScratchBytesAttr(b.getI64IntegerAttr(layout.bytes()));
    return success();
  }

private:
  struct Local {
    rt::AllocOp alloc;
    int64_t bytes;
    unsigned first, last; ///< positions of the ops that use it
    unsigned owner;       ///< itself, or the local whose place it takes
    unsigned block = 0;
  };

  LogicalResult addLocal(rt::AllocOp alloc) {
    FailureOr<int64_t> bytes =
        bounds.evaluate(alloc, alloc.getType().getNumBytes());
    if (failed(bytes))
      return failure();
    Local local{alloc, *bytes, ~0u, position[alloc], unsigned(locals.size())};
    SmallVector<Value> work{alloc.getResult()};
    while (!work.empty())
      for (Operation *user : work.pop_back_val().getUsers()) {
        if (auto view = dyn_cast<rt::ViewOp>(user)) {
          work.push_back(view.getResult());
          continue;
        }
        local.first = std::min(local.first, position[user]);
        local.last = std::max(local.last, position[user]);
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

  /// The local behind an operand of the kernel when it is touched pointwise.
  std::optional<unsigned> localOf(rt::KernelOp kernel, unsigned i) {
    auto alloc = rootOf(kernel.getBuffers()[i]).getDefiningOp<rt::AllocOp>();
    if (!alloc || !isPointwise(kernel, i))
      return std::nullopt;
    // A part of a local stands elsewhere than its begin.
    auto type = cast<rt::BufferType>(kernel.getBuffers()[i].getType());
    if (type.getNumBytes() != alloc.getType().getNumBytes() ||
        llvm::count(kernel.getBuffers(), kernel.getBuffers()[i]) != 1)
      return std::nullopt;
    return index[alloc];
  }

  void reuseDying(rt::KernelOp kernel) {
    unsigned now = position[kernel];
    llvm::SmallDenseSet<unsigned> taken;
    for (unsigned o = 0; o < kernel.getBuffers().size(); ++o) {
      std::optional<unsigned> out = localOf(kernel, o);
      if (!out || kernel.reads(o) || !kernel.writes(o) ||
          locals[*out].first != now || ownerOf(*out) != *out)
        continue;
      for (unsigned i = 0; i < kernel.getBuffers().size(); ++i) {
        std::optional<unsigned> in = localOf(kernel, i);
        if (!in || kernel.writes(i))
          continue;
        unsigned owner = ownerOf(*in);
        if (owner == *out || locals[owner].last != now ||
            locals[*in].last != now ||
            locals[*in].bytes != locals[*out].bytes ||
            !sameAccess(kernel, i, o) || !taken.insert(owner).second)
          continue;
        locals[*out].owner = owner;
        locals[owner].last = std::max(locals[owner].last, locals[*out].last);
        break;
      }
    }
  }

  static bool sameAccess(rt::KernelOp kernel, unsigned a, unsigned b) {
    auto x = cast<rt::BufferType>(kernel.getBufferArgs()[a].getType()),
         y = cast<rt::BufferType>(kernel.getBufferArgs()[b].getType());
    return x.getDims() == y.getDims() &&
           nn::getElementBytes(x.getElementType()) ==
               nn::getElementBytes(y.getElementType());
  }

  rt::FuncOp function;
  const SymbolBounds &bounds;
  llvm::DenseMap<Operation *, unsigned> position;
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
