//===- CudaPlan.cpp - how many threads a kernel has -----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/codegen/CudaPlan.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace dt::codegen {

namespace {

/// Iterations that a lane should have before more lanes are taken.
constexpr int64_t kLaneTrips = 8;
constexpr unsigned kMostLanes = 1024;
/// A warp's sums stay in registers.
constexpr int64_t kMostColumns = 16 * kWarp;

/// Whether all indices of a kernel fit an int, those apart that come from data
/// or are picked from several: these are wide whatever the kernel's are.
class NarrowIndices {
public:
  NarrowIndices(rt::KernelOp kernel, const rt::BufferBytes &bytes,
                rt::SizeBound bound)
      : kernel(kernel), bytes(bytes), bound(bound) {}

  bool run() {
    auto fits = [&](const nn::DimExpr &size) {
      std::optional<int64_t> most = getMost(size);
      return most && *most <= kMost;
    };
    if (!fits(kernel.getNumPoints()))
      return false;
    for (Value buffer : kernel.getBufferArgs())
      if (!fits(cast<rt::BufferType>(buffer.getType()).getNumElements()))
        return false;
    for (rt::LaneNest &nest : rt::getLaneNests(kernel))
      if (!isSmall(rt::getMaxTrips(nest, bound)))
        return false;
    if (auto sum = rt::getScatterSum(kernel); sum && !isSmall(getItems(*sum)))
      return false;
    if (auto sum = rt::getColumnSum(kernel)) {
      rt::LaneNest rows;
      rows.loops = sum->rows;
      if (!isSmall(rt::getMaxTrips(rows, bound)))
        return false;
    }
    WalkResult walk = kernel.getBody().walk([&](Operation *op) {
      bool index = op->getNumResults() == 1 && op->getNumRegions() == 0 &&
                   op->getResult(0).getType().isIndex();
      if (auto loop = dyn_cast<scf::ForOp>(op); loop && !countsFew(loop))
        return WalkResult::interrupt();
      return index && !isWide(op->getResult(0)) &&
                     !isSmall(getMost(op->getResult(0)))
                 ? WalkResult::interrupt()
                 : WalkResult::advance();
    });
    return !walk.wasInterrupted();
  }

private:
  /// A thread may step beyond its last iteration once.
  static constexpr int64_t kMost = int64_t(1) << 30;
  static bool isSmall(std::optional<int64_t> n) { return n && *n <= kMost; }
  bool countsFew(scf::ForOp loop) {
    return isSmall(rt::getMaxTrips(loop, bound));
  }

  /// Points times rows.
  std::optional<int64_t> getItems(rt::ColumnSum &sum) {
    std::optional<int64_t> rows = rt::getMaxTrips(sum.rows.front(), bound),
                           points = bytes.getMax(kernel.getNumPoints());
    return isSmall(rows) && isSmall(points) ? std::optional(*rows * *points)
                                            : std::nullopt;
  }

  /// The largest magnitude of a size and of what is computed on the way.
  std::optional<int64_t> getMost(const nn::DimExpr &size) {
    std::optional<int64_t> up = bytes.getMax(size),
                           down = bytes.getMax(nn::DimExpr(0) - size);
    if (!up || !down)
      return std::nullopt;
    return std::max(*up, *down);
  }

  bool isWide(Value v) {
    if (auto argument = dyn_cast<BlockArgument>(v)) {
      auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
      return loop && v != loop.getInductionVar();
    }
    Operation *op = v.getDefiningOp();
    if (isa<arith::ConstantOp, rt::SizeOp>(op))
      return false;
    bool plain =
        isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::DivSIOp,
            arith::DivUIOp, arith::RemSIOp, arith::RemUIOp>(op);
    return !plain ||
           llvm::any_of(op->getOperands(), [&](Value x) { return isWide(x); });
  }

  /// The largest magnitude of an index that is not wide.
  std::optional<int64_t> getMost(Value v) {
    if (auto argument = dyn_cast<BlockArgument>(v)) {
      if (auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp()))
        return rt::getMaxTrips(loop, bound);
      return getMost(kernel.getBounds()[argument.getArgNumber()]);
    }
    Operation *op = v.getDefiningOp();
    if (APInt c; matchPattern(v, m_ConstantInt(&c)))
      return std::abs(c.getSExtValue());
    if (auto size = dyn_cast<rt::SizeOp>(op))
      return getMost(size.getSize());
    std::optional<int64_t> x = getMost(op->getOperand(0)),
                           y = getMost(op->getOperand(1));
    if (!isSmall(x) || !isSmall(y))
      return std::nullopt;
    if (isa<arith::MulIOp>(op))
      return *x * *y;
    return isa<arith::AddIOp, arith::SubIOp>(op) ? *x + *y : *x;
  }

  rt::KernelOp kernel;
  const rt::BufferBytes &bytes;
  rt::SizeBound bound;
};

} // namespace

CudaPlan::CudaPlan(rt::KernelOp kernel, rt::BufferAlignment &alignment)
    : shape(kernel.getShape().value_or(rt::KernelShape::point)) {
  rt::BufferBytes bytes(kernel->getParentOfType<rt::FuncOp>());
  auto bound = [&](const nn::DimExpr &size) { return bytes.getMax(size); };
  narrow = NarrowIndices(kernel, bytes, bound).run();
  if (shape == rt::KernelShape::column) {
    rt::ColumnSum sum = *rt::getColumnSum(kernel);
    std::optional<int64_t> most = rt::getMaxTrips(sum.columns.inner(), bound);
    // Cells are numbered by the width: it must be one, whatever the sizes.
    if (!most) {
      shape = rt::KernelShape::row;
    } else {
      width = *most;
      partial = sum.added.getType();
      planCells(sum);
      planAccesses(kernel, bytes, alignment, {});
      return;
    }
  }
  if (shape == rt::KernelShape::point) {
    planAccesses(kernel, bytes, alignment, {});
    return;
  }
  if (auto sum = rt::getScatterSum(kernel);
      sum && shape == rt::KernelShape::row) {
    std::optional<int64_t> most = rt::getMaxTrips(sum->columns.inner(), bound);
    if (most && *most <= kMostColumns) {
      scattered = true;
      width = *most;
      lanes = kWarp;
      points = 4;
      return;
    }
  }
  int64_t trips = 0;
  SmallVector<rt::LaneNest> nests = rt::getLaneNests(kernel);
  for (rt::LaneNest &nest : nests)
    trips = std::max(
        trips, rt::getMaxTrips(nest, bound).value_or(kMostLanes * kLaneTrips));
  lanes = unsigned(std::clamp<int64_t>(
      llvm::PowerOf2Ceil(uint64_t(std::max<int64_t>(trips / kLaneTrips, 1))),
      kWarp, kMostLanes));
  if (shape == rt::KernelShape::all) {
    lanes = 256;
    partial = rt::getSplitNest(kernel).inner().getInitArgs().front().getType();
  }
  points = lanes == kWarp ? 4 : 1;
  planAccesses(kernel, bytes, alignment, nests);
}

void CudaPlan::planCells(rt::ColumnSum &sum) {
  SmallVector<Operation *> order;
  auto add = [&](scf::ForOp loop) {
    for (Operation &op : *loop.getBody())
      if (isa<rt::LoadOp, rt::StoreOp>(op))
        order.push_back(&op);
  };
  llvm::for_each(sum.before, add);
  order.append({sum.load, sum.store});
  llvm::for_each(sum.after, add);
  // Written once, by the last store; what others leave stays in a variable.
  auto last = llvm::find_if(llvm::reverse(order),
                            [](Operation *op) { return isa<rt::StoreOp>(op); });
  bool stored = false;
  for (Operation *op : order) {
    cells.insert(op);
    if (isa<rt::LoadOp>(op) && stored)
      accesses[op].kind = CudaAccess::Register;
    if (isa<rt::StoreOp>(op) && op != *last)
      accesses[op].kind = CudaAccess::Nothing;
    stored |= isa<rt::StoreOp>(op);
  }
}

bool CudaPlan::isSame(rt::KernelOp own, const CudaPlan &other,
                      rt::KernelOp others) const {
  auto decided = [](const CudaPlan &plan, const Access &access) {
    CudaAccess how = plan.getAccess(access.op);
    return std::tuple(how.kind, how.kept, how.shared, how.begin, how.vector,
                      how.tiled);
  };
  return std::tuple(shape, narrow, lanes, points, vector, steps, tile,
                    scattered, online.size()) ==
             std::tuple(other.shape, other.narrow, other.lanes, other.points,
                        other.vector, other.steps, other.tile, other.scattered,
                        other.online.size()) &&
         llvm::all_of(llvm::zip(getAccesses(own), getAccesses(others)),
                      [&](auto pair) {
                        return decided(*this, std::get<0>(pair)) ==
                               decided(other, std::get<1>(pair));
                      });
}

int64_t CudaPlan::getParts(int64_t blocks, int64_t trips) const {
  constexpr int64_t kBlocks = 1024;
  int64_t grain = shape == rt::KernelShape::column ? 32 : 2048;
  return std::max<int64_t>(
      std::min(trips / grain, kBlocks / std::max<int64_t>(blocks, 1)), 1);
}

} // namespace dt::codegen
