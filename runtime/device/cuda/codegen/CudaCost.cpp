//===- CudaCost.cpp - what a kernel asks of a GPU -------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Counts accesses, by what their indices are made of. What is counted and what
// is not, docs/cuda-kernels.md says ("Bytes").
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/codegen/CudaCost.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace dt::codegen {

namespace {

/// Memory is read and written in pieces of so many bytes.
constexpr int64_t kSector = 32;

/// The variables of the kernel and its loops that a value is made of.
struct Variables {
  llvm::SmallSetVector<Value, 4> all;
  bool data = false; ///< something of it comes from memory

  void add(Value v) {
    if (auto argument = dyn_cast<BlockArgument>(v)) {
      auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
      data |= loop && v != loop.getInductionVar();
      all.insert(loop ? loop.getInductionVar() : v);
      return;
    }
    Operation *op = v.getDefiningOp();
    data |= isa<rt::LoadOp>(op) || op->getNumRegions() > 0;
    for (Value operand : op->getOperands())
      if (!isa<rt::BufferType>(operand.getType()))
        add(operand);
  }
};

class Counter {
public:
  Counter(rt::KernelOp kernel, const CudaPlan &plan)
      : kernel(kernel), plan(plan),
        bytes(kernel->getParentOfType<rt::FuncOp>()),
        accesses(getAccesses(kernel)) {}

  KernelCost run() {
    KernelCost cost;
    cost.shape = stringifyKernelShape(plan.shape).str();
    cost.threads = plan.threads();
    cost.shared = countShared();
    int64_t parts = countBlocks(cost.blocks);
    cost.phases = parts > 1 ? 2 : 1;
    if (!countsAll())
      return cost;
    KernelBytes all = countAsked(kernel.getBody());
    for (Value buffer : kernel.getBufferArgs())
      all.least += countLeast(buffer);
    if (parts > 1) {
      int64_t left = parts * places * nn::getElementBytes(plan.partial);
      all.read += left;
      all.written += left;
    }
    cost.bytes = all;
    return cost;
  }

private:
  auto bound() {
    return [this](const nn::DimExpr &size) { return bytes.getMax(size); };
  }
  int64_t most(const nn::DimExpr &size) {
    return bytes.getMax(size).value_or(0);
  }
  std::optional<int64_t> trips(Value variable) {
    auto argument = cast<BlockArgument>(variable);
    if (auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp()))
      return rt::getMaxTrips(loop, bound());
    return bytes.getMax(kernel.getBounds()[argument.getArgNumber()]);
  }
  /// The product of the variables' numbers.
  template <typename Range> int64_t space(const Range &variables) {
    int64_t all = 1;
    for (Value v : variables)
      all = llvm::MulOverflow(all, *trips(v), all) ? INT64_MAX : all;
    return all;
  }
  /// Whether all sizes and iterations have bounds.
  bool countsAll() {
    bool all = true;
    for (Value index : kernel.getIndices())
      all = all && trips(index);
    for (Value buffer : kernel.getBufferArgs())
      all = all && bytes.getMax(
                       cast<rt::BufferType>(buffer.getType()).getNumElements());
    kernel.getBody().walk(
        [&](scf::ForOp loop) { all = all && rt::getMaxTrips(loop, bound()); });
    return all;
  }

  /// Blocks of the first launch, and the number of parts.
  int64_t countBlocks(int64_t &blocks) {
    int64_t points = std::max<int64_t>(most(kernel.getNumPoints()), 1);
    places = points;
    if (plan.tile) {
      blocks = 1;
      nn::Shape bounds = kernel.getBounds();
      for (auto [i, bound] : llvm::enumerate(bounds))
        blocks *= i == *plan.tile || i + 1 == bounds.size()
                      ? llvm::divideCeil(most(bound), kWarp)
                      : most(bound);
      return 1;
    }
    if (plan.scattered)
      points *=
          *trips(rt::getScatterSum(kernel)->rows.front().getInductionVar());
    if (!plan.partial) {
      blocks = llvm::divideCeil(points, int64_t(plan.points));
      return 1;
    }
    SmallVector<scf::ForOp> loops;
    if (plan.shape == rt::KernelShape::column) {
      loops = rt::getColumnSum(kernel)->rows;
      places = points * plan.width;
      blocks = llvm::divideCeil(places, int64_t(kWarp) * plan.vector);
    } else {
      loops = rt::getSplitNest(kernel).loops;
      blocks = points;
    }
    int64_t rows = 1;
    for (scf::ForOp loop : loops)
      rows *= rt::getMaxTrips(loop, bound()).value_or(0);
    int64_t parts = plan.getParts(blocks, rows);
    blocks *= parts;
    return parts;
  }

  /// What rows are kept in, and memory of dt::rt::cuda::reduceTiles and
  /// reduceBlock, one a type and op.
  int64_t countShared() {
    if (plan.shape == rt::KernelShape::column)
      return plan.threads() * nn::getElementBytes(plan.partial);
    llvm::SmallDenseSet<std::pair<void *, const void *>> kinds;
    int64_t shared = plan.shared;
    for (const Access &access : accesses)
      if (plan.getAccess(access.op).tiled)
        shared += kWarp * (kWarp + 1) * access.bytes();
    if (plan.lanes > kWarp)
      for (rt::LaneNest &nest : rt::getLaneNests(kernel))
        for (unsigned i = 0; i < nest.inner().getInitArgs().size(); ++i) {
          Operation *combiner = rt::getCombiner(nest.inner(), i);
          Type type = nest.inner().getInitArgs()[i].getType();
          if (kinds
                  .insert({combiner->getName().getAsOpaquePointer(),
                           type.getAsOpaquePointer()})
                  .second)
            shared += plan.lanes / kWarp * nn::getElementBytes(type);
        }
    return shared;
  }

  /// Elements that all threads together touch by the access; of what data says
  /// each iteration's, or with `distinct` no more than there are.
  int64_t countElements(const Access &access, bool distinct) {
    nn::Shape shape = access.type().getShape();
    llvm::SmallSetVector<Value, 4> all;
    int64_t box = 1;
    for (auto [dim, index] : llvm::zip(shape, access.indices)) {
      Variables variables;
      variables.add(index);
      all.insert_range(variables.all);
      int64_t extent = space(variables.all);
      if (!variables.data || distinct)
        extent = std::min(extent, most(dim));
      box = llvm::MulOverflow(box, extent, box) ? INT64_MAX : box;
    }
    return std::min(box, space(all));
  }

  static bool isWritten(const Access &access) {
    return llvm::any_of(access.buffer.getUsers(),
                        [](Operation *user) { return isa<rt::StoreOp>(user); });
  }
  /// How often it touches each: iterations of loops that its place does not
  /// name. What the kernel writes is not in registers or caches meanwhile.
  int64_t countAgain(const Access &access) {
    if (!isWritten(access) || plan.isCell(access.op))
      return 1;
    Variables named;
    for (Value index : access.indices)
      named.add(index);
    SmallVector<Value> others;
    for (auto loop = access.op->getParentOfType<scf::ForOp>(); loop;
         loop = loop->getParentOfType<scf::ForOp>())
      if (!named.all.contains(loop.getInductionVar()))
        others.push_back(loop.getInductionVar());
    return space(others);
  }

  /// Bytes that lie side by side where threads, or the iterations of one, do.
  int64_t countRun(const Access &access) {
    int64_t run = access.bytes();
    nn::Shape shape = access.type().getShape();
    for (unsigned i = shape.size(); i-- > 0;) {
      int64_t dim = most(shape[i]);
      if (dim == 1)
        continue;
      int64_t along = countAlong(access, access.indices[i]);
      run *= std::min(along, dim);
      if (along < dim)
        break;
    }
    return run;
  }
  /// Neighbours that `index` has in a warp or in a thread's loop.
  int64_t countAlong(const Access &access, Value index) {
    for (auto loop = access.op->getParentOfType<scf::ForOp>(); loop;
         loop = loop->getParentOfType<scf::ForOp>())
      if (rt::isUnitStride(index, loop))
        return *trips(loop.getInductionVar());
    int64_t later = 1;
    for (Value variable : llvm::reverse(kernel.getIndices())) {
      if (isPlus(index, variable))
        return later >= kWarp ? 1 : std::max<int64_t>(*trips(variable), 1);
      later *= *trips(variable);
    }
    return 1;
  }
  /// Of two branches the one that asks for more.
  KernelBytes countAsked(Region &region) {
    KernelBytes all;
    auto add = [&](const KernelBytes &more) {
      all.read += more.read;
      all.written += more.written;
      all.wide += more.wide;
    };
    for (Operation &op : region.getOps()) {
      if (isa<rt::LoadOp, rt::StoreOp>(op))
        add(countAsked(Access(&op)));
      KernelBytes most;
      for (Region &inside : op.getRegions())
        if (KernelBytes asked = countAsked(inside);
            asked.total() > most.total())
          most = asked;
      add(most);
    }
    return all;
  }
  KernelBytes countAsked(const Access &access) {
    KernelBytes all;
    CudaAccess how = plan.getAccess(access.op);
    if (how.kind != CudaAccess::Memory)
      return all;
    // Of a scattered sum each cell is read and written once.
    bool once = plan.scattered && isWritten(access);
    int64_t elements =
                countElements(access, once) * (once ? 1 : countAgain(access)),
            asked = elements * access.bytes();
    int64_t run = countRun(access);
    if (run < kSector && !how.tiled)
      asked = asked / run * kSector;
    // One element of a warp or of all.
    if (elements == 1)
      asked = access.bytes();
    (access.isStore ? all.written : all.read) += asked;
    if (how.vector * access.bytes() >= 16)
      all.wide += asked;
    return all;
  }

  int64_t countDistinct(Value buffer, bool stores) {
    SmallVector<const Access *> places;
    int64_t elements = 0;
    for (const Access &access : accesses) {
      if (access.buffer != buffer || access.isStore != stores ||
          llvm::any_of(places, [&](const Access *other) {
            return isSamePlace(*other, access);
          }))
        continue;
      places.push_back(&access);
      elements += countElements(access, /*distinct=*/true);
    }
    auto type = cast<rt::BufferType>(buffer.getType());
    return std::min(elements, most(type.getNumElements())) *
           nn::getElementBytes(type.getElementType());
  }
  /// What comes from outside is read before it is written.
  int64_t countLeast(Value buffer) {
    auto first = llvm::find_if(
        accesses, [&](const Access &a) { return a.buffer == buffer; });
    if (first == accesses.end())
      return 0;
    return (first->isStore ? 0 : countDistinct(buffer, false)) +
           countDistinct(buffer, true);
  }

  rt::KernelOp kernel;
  const CudaPlan &plan;
  rt::BufferBytes bytes;
  SmallVector<Access> accesses;
  int64_t places = 1;
};

} // namespace

KernelCost getCost(rt::KernelOp kernel, const CudaPlan &plan) {
  return Counter(kernel, plan).run();
}

} // namespace dt::codegen
