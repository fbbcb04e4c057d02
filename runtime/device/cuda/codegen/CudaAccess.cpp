//===- CudaAccess.cpp - which accesses of a kernel reach memory -----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A lane that has an element of a row in all loops over it reads it once; what
// it stores and reads again stays with it. Neighbours in memory that one thread
// has are read and written together, where their address is known to allow it.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/codegen/CudaPlan.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace dt::codegen {

namespace {

/// Registers that a lane may have for what it keeps.
constexpr int64_t kKept = 32;
/// Shared memory that a block may have for more of it: every GPU from compute
/// capability 8.0 on gives a block 99 KiB, of which sums of lanes take some.
constexpr int64_t kMostShared = 96 << 10;
constexpr int64_t kPackBytes = 16;

class AccessPlanner {
public:
  AccessPlanner(CudaPlan &plan, rt::KernelOp kernel,
                const rt::BufferBytes &bytes, rt::BufferAlignment &alignment)
      : plan(plan), kernel(kernel), bytes(bytes), alignment(alignment),
        all(getAccesses(kernel)) {}

  void planRows(ArrayRef<rt::LaneNest> nests);
  void planAll(rt::LaneNest nest);
  void planColumns(rt::ColumnSum sum);
  void planPoints();

private:
  Value operandOf(const Access &access) {
    unsigned argument = cast<BlockArgument>(access.buffer).getArgNumber();
    return kernel.getBuffers()[argument - kernel.getBounds().size()];
  }
  bool mayShare(const Access &a, const Access &b) {
    return bytes.mayShare(operandOf(a), operandOf(b));
  }
  /// The loop over a row of which the access is a statement, or null.
  scf::ForOp rowOf(const Access &access) {
    auto loop = dyn_cast<scf::ForOp>(access.op->getParentOp());
    return loop && rows.contains(loop) ? loop : scf::ForOp();
  }

  bool isOneRow(ArrayRef<rt::LaneNest> nests);
  const Access *findSource(size_t load);
  bool isOverwritten(size_t store);
  void reset();
  bool reserve(Operation *access, int64_t mostShared);
  bool keepLoad(size_t load, const Access &source, int64_t mostShared);
  bool keep(unsigned steps, int64_t mostShared);
  bool planOnline(ArrayRef<rt::LaneNest> nests);
  void planKept(ArrayRef<rt::LaneNest> nests, unsigned steps);
  unsigned chooseVector(const nn::DimExpr &size,
                        llvm::function_ref<Value(const Access &)> variable);
  void planVectors(llvm::function_ref<Value(const Access &)> variable);
  void dropIdleVector();
  bool canPack(const Access &access, Value variable, unsigned elements);
  /// What divides an index of which the variable is a multiple of `step`.
  int64_t getAlignment(Value index, Value variable, int64_t step);
  bool staysInOrder(size_t access);
  bool planTile();

  CudaPlan &plan;
  rt::KernelOp kernel;
  const rt::BufferBytes &bytes;
  rt::BufferAlignment &alignment;
  SmallVector<Access> all;
  llvm::SmallPtrSet<Operation *, 8> rows; ///< loops over the row
  int64_t room = kKept;                   ///< registers that are left
};

/// The size that a loop runs to, if it is one.
std::optional<nn::DimExpr> getSize(Value bound) {
  if (APInt c; matchPattern(bound, m_ConstantInt(&c)))
    return nn::DimExpr(c.getSExtValue());
  if (auto size = bound.getDefiningOp<rt::SizeOp>())
    return size.getSize();
  return std::nullopt;
}

} // namespace

//===----------------------------------------------------------------------===//
// Registers
//===----------------------------------------------------------------------===//

/// All loops run over the same elements, and once a point.
bool AccessPlanner::isOneRow(ArrayRef<rt::LaneNest> nests) {
  if (nests.empty())
    return false;
  scf::ForOp one = const_cast<rt::LaneNest &>(nests.front()).inner();
  return llvm::all_of(nests, [&](rt::LaneNest nest) {
    return nest.loops.size() == 1 &&
           !nest.inner()->getParentOfType<scf::ForOp>() &&
           rt::isSameIndex(one.getUpperBound(), Value(),
                           nest.inner().getUpperBound(), Value());
  });
}

/// The last access ahead of a load that had the same element, if nothing may
/// have changed it since.
const Access *AccessPlanner::findSource(size_t load) {
  scf::ForOp row = rowOf(all[load]);
  for (size_t i = load; row && i-- > 0;) {
    scf::ForOp other = rowOf(all[i]);
    if (other && isSamePlace(all[i], all[load]) &&
        other->getBlock()->findAncestorOpInBlock(*all[load].op))
      return &all[i];
    if (all[i].isStore && mayShare(all[i], all[load]))
      return nullptr;
  }
  return nullptr;
}

/// Whether a later loop stores the same elements, and nobody reads those of
/// this one from memory before.
bool AccessPlanner::isOverwritten(size_t store) {
  scf::ForOp row = rowOf(all[store]);
  for (size_t i = store + 1; row && i < all.size(); ++i) {
    if (scf::ForOp other = rowOf(all[i]);
        other && all[i].isStore && other->getBlock() == row->getBlock() &&
        isSamePlace(all[i], all[store]))
      return true;
    if (!all[i].isStore && mayShare(all[i], all[store]) &&
        plan.getAccess(all[i].op).kind == CudaAccess::Memory)
      return false;
  }
  return false;
}

void AccessPlanner::reset() {
  plan.accesses.clear();
  plan.online.clear();
  plan.steps = 0;
  plan.shared = 0;
  room = kKept;
}

/// Finds room for what a lane has of an access: so much shared memory at most
/// for all of a kernel's, else registers. These go without spills that way.
bool AccessPlanner::reserve(Operation *access, int64_t mostShared) {
  CudaAccess &how = plan.accesses[access];
  if (how.kept)
    return true;
  int64_t elements = int64_t(plan.steps) * plan.vector,
          bytes = Access(access).bytes() * plan.threads(),
          shared = std::min(elements, (mostShared - plan.shared) / bytes);
  if (elements - shared > room)
    return false;
  how.kept = true;
  how.shared = unsigned(shared);
  how.begin = plan.shared;
  room -= elements - shared;
  plan.shared += shared * bytes;
  return true;
}

/// The load finds what `source` had, if there is room for it.
bool AccessPlanner::keepLoad(size_t load, const Access &source,
                             int64_t mostShared) {
  Operation *before = plan.getAccess(source.op).source,
            *first = before ? before : source.op;
  if (!reserve(first, mostShared))
    return false;
  plan.accesses[all[load].op].kind = CudaAccess::Register;
  plan.accesses[all[load].op].source = first;
  return true;
}

/// Says what stays with a lane that has so many steps; false: not all for which
/// another loop reads memory again.
bool AccessPlanner::keep(unsigned steps, int64_t mostShared) {
  reset();
  plan.steps = steps;
  bool fits = true;
  for (size_t i = 0; i < all.size(); ++i)
    if (const Access *source = all[i].isStore ? nullptr : findSource(i))
      fits &= keepLoad(i, *source, mostShared);
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].isStore && isOverwritten(i))
      plan.accesses[all[i].op].kind = CudaAccess::Nothing;
  return fits;
}

/// Registers, or one pass where two loops are one, or shared memory too. What
/// finds no room is read again.
void AccessPlanner::planKept(ArrayRef<rt::LaneNest> nests, unsigned steps) {
  // More statements than this, unrolled, are worth it for all of a row only.
  bool few = int64_t(steps) * plan.vector <= kKept;
  if ((few && keep(steps, 0)) || planOnline(nests) || keep(steps, kMostShared))
    return;
  bool keepsSome = llvm::any_of(all, [&](const Access &access) {
    return plan.getAccess(access.op).kept;
  });
  if (!few || !keepsSome)
    planOnline(nests);
}

/// Whether the second loop adds up exponentials of differences to the largest
/// value, which the first one finds: sum(exp(x - max)). A sum of differences to
/// another number is that times a factor, so one pass finds both.
static bool isSumOverLargest(rt::LaneNest most, rt::LaneNest sum) {
  scf::ForOp a = most.inner(), b = sum.inner();
  if (a->getBlock() != b->getBlock() || !a->isBeforeInBlock(b) ||
      a.getInitArgs().size() != 1 || b.getInitArgs().size() != 1 ||
      !isa<arith::MaximumFOp, arith::MaxNumFOp>(rt::getCombiner(a, 0)) ||
      !isa<arith::AddFOp>(rt::getCombiner(b, 0)) ||
      !matchPattern(b.getInitArgs().front(), m_AnyZeroFloat()) ||
      !a.getBody()->getOps<rt::StoreOp>().empty() ||
      !b.getBody()->getOps<rt::StoreOp>().empty())
    return false;
  for (Operation *op = a->getNextNode(); op != b; op = op->getNextNode())
    if (!isa<arith::ConstantOp, rt::SizeOp>(op))
      return false;
  return llvm::any_of(rt::getCombiner(b, 0)->getOperands(), [&](Value added) {
    auto exp = added.getDefiningOp<math::ExpOp>();
    auto difference =
        exp ? exp.getOperand().getDefiningOp<arith::SubFOp>() : nullptr;
    return difference && difference.getRhs() == a.getResult(0) &&
           !dependsOn(difference.getLhs(), a.getResult(0));
  });
}

/// Loops that keep nothing, but for a piece of two that are one. Whether all is
/// read once.
bool AccessPlanner::planOnline(ArrayRef<rt::LaneNest> nests) {
  reset();
  for (size_t n = 1; n < nests.size(); ++n) {
    rt::LaneNest most = nests[n - 1], sum = nests[n];
    if (!isSumOverLargest(most, sum))
      continue;
    plan.online[most.inner()] = sum;
    for (size_t i = 0; i < all.size(); ++i)
      if (const Access *source = all[i].isStore ? nullptr : findSource(i);
          source && rowOf(all[i]) == sum.inner())
        keepLoad(i, *source, 0);
  }
  for (size_t i = 0; i < all.size(); ++i)
    if (!all[i].isStore && findSource(i) &&
        plan.getAccess(all[i].op).kind == CudaAccess::Memory)
      return false;
  return true;
}

//===----------------------------------------------------------------------===//
// Packs
//===----------------------------------------------------------------------===//

int64_t AccessPlanner::getAlignment(Value index, Value variable, int64_t step) {
  if (index == variable)
    return step;
  if (std::optional<nn::DimExpr> size = getSize(index))
    return rt::getAlignment(*size);
  Operation *op = index.getDefiningOp();
  if (!isa_and_nonnull<arith::AddIOp, arith::MulIOp>(op))
    return 1;
  int64_t a = getAlignment(op->getOperand(0), variable, step),
          b = getAlignment(op->getOperand(1), variable, step);
  return isa<arith::AddIOp>(op) ? std::min(a, b)
                                : std::min(a * b, rt::kMostAlignment);
}

/// Whether so many elements from where `variable` is a multiple of their number
/// lie side by side, at an address that is a multiple of their bytes.
bool AccessPlanner::canPack(const Access &access, Value variable,
                            unsigned elements) {
  if (!variable || access.indices.empty() ||
      !isPlus(access.indices.back(), variable) ||
      alignment.get(operandOf(access)) < elements * access.bytes())
    return false;
  nn::DimExpr stride(1);
  nn::Shape shape = access.type().getShape();
  for (unsigned i = shape.size(); i-- > 0;) {
    Value index = access.indices[i];
    bool last = i + 1 == shape.size();
    if ((!last && dependsOn(index, variable)) ||
        getAlignment(index, variable, elements) * rt::getAlignment(stride) <
            elements)
      return false;
    stride = stride * shape[i];
  }
  return true;
}

/// Whether a load may come ahead of its loop's body, and a store behind it.
bool AccessPlanner::staysInOrder(size_t access) {
  Block *block = all[access].op->getBlock();
  for (size_t i = 0; i < all.size(); ++i) {
    bool between = all[access].isStore ? i > access : i < access;
    if (between && all[i].isStore != all[access].isStore &&
        block->findAncestorOpInBlock(*all[i].op) &&
        plan.getAccess(all[i].op).kind == CudaAccess::Memory &&
        mayShare(all[i], all[access]))
      return false;
  }
  return true;
}

/// So many elements that the smallest of those that lie along the variable fill
/// a pack, if `size` is a multiple.
unsigned AccessPlanner::chooseVector(
    const nn::DimExpr &size,
    llvm::function_ref<Value(const Access &)> variable) {
  int64_t smallest = kPackBytes;
  for (const Access &access : all)
    if (canPack(access, variable(access), 2))
      smallest = std::min(smallest, access.bytes());
  return unsigned(
      std::min({kPackBytes / smallest, rt::getAlignment(size), int64_t(8)}));
}

void AccessPlanner::planVectors(
    llvm::function_ref<Value(const Access &)> variable) {
  for (size_t i = 0; i < all.size(); ++i) {
    CudaAccess &how = plan.accesses[all[i].op];
    unsigned elements =
        std::min<int64_t>(plan.vector, kPackBytes / all[i].bytes());
    if (how.kind == CudaAccess::Memory && elements > 1 &&
        canPack(all[i], variable(all[i]), elements) && staysInOrder(i))
      how.vector = elements;
  }
}

/// Neighbours that no access takes at once are of no use.
void AccessPlanner::dropIdleVector() {
  if (llvm::none_of(all, [&](const Access &access) {
        return plan.getAccess(access.op).vector > 1;
      }))
    plan.vector = 1;
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

void AccessPlanner::planRows(ArrayRef<rt::LaneNest> nests) {
  if (!isOneRow(nests))
    return;
  for (rt::LaneNest nest : nests)
    rows.insert(nest.inner());
  auto variable = [&](const Access &access) {
    scf::ForOp row = rowOf(access);
    return row ? Value(row.getInductionVar()) : Value();
  };
  scf::ForOp loop = const_cast<rt::LaneNest &>(nests.front()).inner();
  std::optional<int64_t> most = rt::getMaxTrips(
      loop, [&](const nn::DimExpr &size) { return bytes.getMax(size); });
  if (std::optional<nn::DimExpr> size = getSize(loop.getUpperBound()))
    plan.vector = chooseVector(*size, variable);
  // Half of a warp at least has something to do.
  while (most && plan.vector > 1 && *most / plan.vector < kWarp / 2)
    plan.vector /= 2;
  if (most)
    planKept(nests,
             unsigned(llvm::divideCeil(std::max<int64_t>(*most, 1),
                                       int64_t(plan.lanes) * plan.vector)));
  planVectors(variable);
}

/// Neighbours along the innermost loop.
void AccessPlanner::planAll(rt::LaneNest nest) {
  scf::ForOp inner = nest.inner();
  rows.insert(inner);
  auto variable = [&](const Access &access) {
    return rowOf(access) ? Value(inner.getInductionVar()) : Value();
  };
  if (std::optional<nn::DimExpr> size = getSize(inner.getUpperBound()))
    plan.vector = chooseVector(*size, variable);
  planVectors(variable);
  dropIdleVector();
}

/// Neighbours along the columns, as long as there are blocks for all of a GPU.
void AccessPlanner::planColumns(rt::ColumnSum sum) {
  constexpr int64_t kLeastBlocks = 528; ///< four for each of 132 SMs
  scf::ForOp columns = sum.columns.inner();
  rows.insert(columns);
  auto variable = [&](const Access &access) {
    bool adds = rowOf(access) && !plan.isCell(access.op);
    return adds ? Value(columns.getInductionVar()) : Value();
  };
  auto most = [&](const nn::DimExpr &size) { return bytes.getMax(size); };
  rt::LaneNest nest;
  nest.loops = sum.rows;
  std::optional<int64_t> trips = rt::getMaxTrips(nest, most),
                         points = most(kernel.getNumPoints());
  std::optional<nn::DimExpr> size = getSize(columns.getUpperBound());
  if (!size || !trips || !points)
    return;
  plan.vector = chooseVector(*size, variable);
  auto countBlocks = [&] {
    int64_t blocks =
        llvm::divideCeil(*points * plan.width, int64_t(kWarp) * plan.vector);
    return blocks * plan.getParts(blocks, *trips);
  };
  while (plan.vector > 1 && countBlocks() < kLeastBlocks)
    plan.vector /= 2;
  planVectors(variable);
  dropIdleVector();
}

void AccessPlanner::planPoints() {
  Block &body = kernel.getBody().front();
  if (kernel.getIndices().empty() || !body.getOps<scf::ForOp>().empty())
    return;
  Value last = kernel.getIndices().back();
  auto variable = [&](const Access &access) {
    return access.op->getBlock() == &body ? last : Value();
  };
  // Points of one thread read ahead of one another's stores.
  for (size_t i = 0; i < all.size(); ++i)
    if (!all[i].isStore && !staysInOrder(i))
      return;
  if (planTile())
    return;
  plan.vector = chooseVector(kernel.getBounds().back(), variable);
  planVectors(variable);
  dropIdleVector();
  if (plan.vector > 1)
    plan.points = 128 * plan.vector;
}

/// Looks for loads along another bound than the last, by which neighbouring
/// threads would touch memory far apart.
bool AccessPlanner::planTile() {
  constexpr int64_t kLeast = 8; ///< points along both, to be worth it
  auto isLong = [&](unsigned bound) {
    std::optional<int64_t> most = bytes.getMax(kernel.getBounds()[bound]);
    return !most || *most >= kLeast;
  };
  Block &body = kernel.getBody().front();
  unsigned last = kernel.getIndices().size() - 1;
  for (const Access &access : all) {
    if (access.isStore || access.op->getBlock() != &body ||
        access.indices.empty())
      continue;
    for (unsigned i = 0; i < last; ++i) {
      bool across = isPlus(access.indices.back(), kernel.getIndices()[i]) &&
                    llvm::any_of(access.indices.drop_back(), [&](Value index) {
                      return dependsOn(index, kernel.getIndices()[last]);
                    });
      if (!across || !isLong(i) || !isLong(last) || plan.tile.value_or(i) != i)
        continue;
      plan.tile = i;
      plan.accesses[access.op].tiled = true;
    }
  }
  return plan.tile.has_value();
}

void CudaPlan::planAccesses(rt::KernelOp kernel, const rt::BufferBytes &bytes,
                            rt::BufferAlignment &alignment,
                            ArrayRef<rt::LaneNest> nests) {
  AccessPlanner planner(*this, kernel, bytes, alignment);
  if (shape == rt::KernelShape::point)
    planner.planPoints();
  if (shape == rt::KernelShape::row)
    planner.planRows(nests);
  if (shape == rt::KernelShape::all)
    planner.planAll(nests.front());
  if (shape == rt::KernelShape::column)
    planner.planColumns(*rt::getColumnSum(kernel));
}

} // namespace dt::codegen
