//===- RTShape.cpp - How a kernel's work may be shared out ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/rt/RTShape.h"

using namespace mlir;
using namespace dt::rt;
using dt::nn::DimExpr;

/// Whether it does not matter for more than rounding in which order such an op
/// takes many operands.
static bool isCombiner(Operation *op) {
  return isa<arith::AddFOp, arith::AddIOp, arith::MulFOp, arith::MulIOp,
             arith::MaximumFOp, arith::MaxNumFOp, arith::MinimumFOp,
             arith::MinNumFOp, arith::MaxSIOp, arith::MinSIOp, arith::MaxUIOp,
             arith::MinUIOp, arith::OrIOp, arith::AndIOp>(op);
}

/// Neither touches memory nor has a region.
static bool isScalar(Operation &op) {
  return op.getNumRegions() == 0 && isMemoryEffectFree(&op);
}

Operation *dt::rt::getCombiner(scf::ForOp loop, unsigned i) {
  Value yielded = loop.getBody()->getTerminator()->getOperand(i);
  Value carried = loop.getRegionIterArgs()[i];
  Operation *op = yielded.getDefiningOp();
  if (!op || op->getBlock() != loop.getBody() ||
      !llvm::is_contained(op->getOperands(), carried) || !carried.hasOneUse())
    return nullptr;
  return isCombiner(op) ? op : nullptr;
}

//===----------------------------------------------------------------------===//
// Lanes
//===----------------------------------------------------------------------===//

static bool countsUp(scf::ForOp loop) {
  return matchPattern(loop.getLowerBound(), m_Zero()) &&
         matchPattern(loop.getStep(), m_One());
}

static bool isLaneLoop(scf::ForOp loop) {
  if (!loop->hasAttr(RTDialect::kSimd) || !countsUp(loop))
    return false;
  for (unsigned i = 0; i < loop.getInitArgs().size(); ++i)
    if (!getCombiner(loop, i))
      return false;
  return true;
}

/// Whether a loop's number of trips is the same in all iterations of `outer`.
static bool isFixedIn(scf::ForOp outer, scf::ForOp loop) {
  Value trips = loop.getUpperBound();
  return outer.isDefinedOutsideOfLoop(trips) ||
         matchPattern(trips, m_Constant()) || trips.getDefiningOp<SizeOp>();
}

/// The one loop that an outer loop runs, handing carried values on.
static scf::ForOp getOnlyLoop(scf::ForOp outer) {
  scf::ForOp inner;
  for (Operation &op : outer.getBody()->without_terminator())
    if (auto loop = dyn_cast<scf::ForOp>(op); loop && !inner)
      inner = loop;
    else if (!isScalar(op))
      return nullptr;
  bool handsOn = inner && countsUp(outer) && isFixedIn(outer, inner) &&
                 llvm::equal(outer.getRegionIterArgs(), inner.getInitArgs()) &&
                 llvm::equal(outer.getBody()->getTerminator()->getOperands(),
                             inner.getResults());
  return handsOn ? inner : nullptr;
}

/// Iterations of the outer loops touch different memory too: what is stored
/// says all their variables, and what is read of it is read there.
static bool keepsApart(LaneNest &nest) {
  WalkResult walk = nest.inner().getBody()->walk([&](StoreOp store) {
    for (scf::ForOp loop : nest.loops)
      if (!llvm::is_contained(store.getIndices(), loop.getInductionVar()))
        return WalkResult::interrupt();
    for (Operation *user : store.getBuffer().getUsers())
      if (auto load = dyn_cast<LoadOp>(user);
          load && nest.outer()->isAncestor(load) &&
          load.getIndices() != store.getIndices())
        return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return !walk.wasInterrupted();
}

LaneNest dt::rt::getLaneNest(scf::ForOp loop) {
  LaneNest nest;
  for (scf::ForOp at = loop; at; at = getOnlyLoop(at)) {
    nest.loops.push_back(at);
    if (isLaneLoop(at))
      return nest.loops.size() == 1 || keepsApart(nest) ? nest : LaneNest();
  }
  return {};
}

SmallVector<LaneNest> dt::rt::getLaneNests(KernelOp kernel) {
  SmallVector<LaneNest> nests;
  kernel.getBody().walk<WalkOrder::PreOrder>([&](scf::ForOp loop) {
    LaneNest nest = getLaneNest(loop);
    if (!nest)
      return WalkResult::advance();
    nests.push_back(nest);
    return WalkResult::skip();
  });
  return nests;
}

LaneNest dt::rt::getSplitNest(KernelOp kernel) {
  SmallVector<LaneNest> nests = getLaneNests(kernel);
  if (nests.size() != 1 || nests[0].inner().getInitArgs().size() != 1 ||
      nests[0].outer()->getBlock() != &kernel.getBody().front())
    return {};
  Operation *outer = nests[0].outer();
  WalkResult walk = kernel.getBody().walk([&](Operation *op) {
    bool ahead =
        outer->isAncestor(op) ||
        (op->getBlock() == outer->getBlock() && op->isBeforeInBlock(outer));
    bool other = isa<scf::ForOp>(op) && !outer->isAncestor(op);
    return other || (ahead && isa<StoreOp>(op)) ? WalkResult::interrupt()
                                                : WalkResult::advance();
  });
  return walk.wasInterrupted() ? LaneNest() : nests[0];
}

//===----------------------------------------------------------------------===//
// Columns
//===----------------------------------------------------------------------===//

bool dt::rt::isUnitStride(Value value, scf::ForOp loop) {
  if (value == loop.getInductionVar())
    return true;
  auto sum = value.getDefiningOp<arith::AddIOp>();
  if (!sum)
    return false;
  auto outside = [&](Value v) { return loop.isDefinedOutsideOfLoop(v); };
  return (outside(sum.getLhs()) && isUnitStride(sum.getRhs(), loop)) ||
         (outside(sum.getRhs()) && isUnitStride(sum.getLhs(), loop));
}

bool dt::rt::isSameIndex(Value a, Value ivA, Value b, Value ivB) {
  if (a == ivA || b == ivB)
    return a == ivA && b == ivB;
  if (a == b)
    return true;
  Operation *x = a.getDefiningOp(), *y = b.getDefiningOp();
  return x && y && x->getName() == y->getName() && isScalar(*x) &&
         x->getNumOperands() == y->getNumOperands() &&
         x->getNumResults() == 1 &&
         x->getAttrDictionary() == y->getAttrDictionary() &&
         llvm::all_of(llvm::zip(x->getOperands(), y->getOperands()),
                      [&](auto pair) {
                        return isSameIndex(std::get<0>(pair), ivA,
                                           std::get<1>(pair), ivB);
                      });
}

namespace {
/// Looks for a ColumnSum in a kernel, from the outside inwards. With
/// `scattered` rows have cells that data says.
class ColumnMatcher {
public:
  explicit ColumnMatcher(KernelOp kernel, bool scattered = false)
      : kernel(kernel), scattered(scattered) {}

  std::optional<ColumnSum> run() {
    scf::ForOp rows;
    for (auto loop : kernel.getBody().front().getOps<scf::ForOp>()) {
      bool columns = isLaneLoop(loop) && loop.getInitArgs().empty();
      if (columns)
        (rows ? sum.after : sum.before).push_back(loop);
      else if (rows)
        return std::nullopt;
      else
        rows = loop;
    }
    if (!rows || !matchRows(rows) || !matchCell())
      return std::nullopt;
    for (auto *loops : {&sum.before, &sum.after})
      for (scf::ForOp loop : *loops)
        if (!matchOther(loop))
          return std::nullopt;
    return touchesNothingElse() ? std::optional(sum) : std::nullopt;
  }

private:
  bool matchRows(scf::ForOp loop) {
    if (!loop.getInitArgs().empty() || !countsUp(loop))
      return false;
    sum.rows.push_back(loop);
    scf::ForOp inner;
    for (Operation &op : loop.getBody()->without_terminator()) {
      if (auto next = dyn_cast<scf::ForOp>(op); next && !inner)
        inner = next;
      else if (!isScalar(op) && !isa<LoadOp>(op))
        return false;
    }
    if (!inner || !inner.getInitArgs().empty())
      return false;
    if (!isLaneLoop(inner))
      return isFixedIn(sum.rows.front(), inner) && matchRows(inner);
    sum.columns.loops = {inner};
    return sum.rows.front().isDefinedOutsideOfLoop(inner.getUpperBound());
  }

  Value iv() { return sum.columns.inner().getInductionVar(); }

  /// y[at] = combine(y[at], added), and `at` is the same in all rows.
  bool matchCell() {
    for (Operation &op : sum.columns.inner().getBody()->without_terminator())
      if (auto store = dyn_cast<StoreOp>(op)) {
        if (sum.store)
          return false;
        sum.store = store;
      } else if (!isScalar(op) && !isa<LoadOp>(op)) {
        return false;
      }
    if (!sum.store)
      return false;
    sum.combiner = sum.store.getValue().getDefiningOp();
    if (!sum.combiner || sum.combiner->getNumOperands() != 2 ||
        !isCombiner(sum.combiner) || !sum.combiner->hasOneUse())
      return false;
    for (unsigned i = 0; i < 2; ++i) {
      auto load = sum.combiner->getOperand(i).getDefiningOp<LoadOp>();
      if (!load || load.getBuffer() != sum.store.getBuffer() ||
          load.getIndices() != sum.store.getIndices() || !load->hasOneUse())
        continue;
      sum.load = load;
      sum.added = sum.combiner->getOperand(1 - i);
    }
    return sum.load &&
           isUnitStride(sum.store.getIndices().back(), sum.columns.inner()) &&
           (scattered ? matchKey() : isFree(sum.store.getIndices()));
  }

  /// One index is what data says of the row.
  bool matchKey() {
    for (Value index : sum.store.getIndices())
      if (!isFree(index)) {
        if (sum.key)
          return false;
        sum.key = index;
      }
    return sum.key && sum.rows.size() == 1 &&
           sum.key.getParentBlock() == sum.rows.front().getBody() &&
           isData(sum.key);
  }
  /// Whether the number of the row goes into the value through memory only.
  bool isData(Value v) {
    if (sum.rows.front().isDefinedOutsideOfLoop(v))
      return true;
    Operation *op = v.getDefiningOp();
    return op && (isa<LoadOp>(op) ||
                  llvm::all_of(op->getOperands(),
                               [&](Value x) { return isData(x); }));
  }

  /// Whether the indices say nothing of the row.
  bool isFree(ValueRange indices) {
    return llvm::all_of(indices, [&](Value v) { return isFree(v); });
  }
  bool isFree(Value v) {
    if (v == iv() || sum.rows.front().isDefinedOutsideOfLoop(v))
      return true;
    Operation *op = v.getDefiningOp();
    return op && isScalar(*op) && isFree(op->getOperands());
  }

  /// A loop over the same columns that touches the cells only.
  bool matchOther(scf::ForOp loop) {
    if (!isSameIndex(loop.getUpperBound(), Value(),
                     sum.columns.inner().getUpperBound(), Value()))
      return false;
    return llvm::all_of(
        loop.getBody()->without_terminator(), [&](Operation &op) {
          ValueRange at;
          Value buffer;
          if (auto load = dyn_cast<LoadOp>(op)) {
            at = load.getIndices();
            buffer = load.getBuffer();
          } else if (auto store = dyn_cast<StoreOp>(op)) {
            at = store.getIndices();
            buffer = store.getBuffer();
          } else {
            return isScalar(op);
          }
          ValueRange cell = sum.store.getIndices();
          return buffer == sum.store.getBuffer() &&
                 llvm::all_of(llvm::zip(at, cell), [&](auto pair) {
                   return isSameIndex(std::get<0>(pair), loop.getInductionVar(),
                                      std::get<1>(pair), iv());
                 });
        });
  }

  /// The cells are known by one name, and stores stand in the loops.
  bool touchesNothingElse() {
    unsigned argument =
        cast<BlockArgument>(sum.store.getBuffer()).getArgNumber() -
        kernel.getIndices().size();
    for (unsigned i = 0; i < kernel.getBuffers().size(); ++i)
      if (i != argument &&
          kernel.getBuffers()[i] == kernel.getBuffers()[argument])
        return false;
    for (Operation *user : sum.store.getBuffer().getUsers()) {
      bool known = user == sum.load || user == sum.store;
      for (auto *loops : {&sum.before, &sum.after})
        for (scf::ForOp loop : *loops)
          known |= user->getBlock() == loop.getBody();
      if (!known)
        return false;
    }
    return llvm::all_of(kernel.getBody().front(), [](Operation &op) {
      return isa<scf::ForOp, LoadOp>(op) || isScalar(op);
    });
  }

  KernelOp kernel;
  bool scattered;
  ColumnSum sum{};
};
} // namespace

std::optional<ColumnSum> dt::rt::getColumnSum(KernelOp kernel) {
  return ColumnMatcher(kernel).run();
}

std::optional<ColumnSum> dt::rt::getScatterSum(KernelOp kernel) {
  std::optional<ColumnSum> sum =
      ColumnMatcher(kernel, /*scattered=*/true).run();
  bool alone = sum && sum->before.empty() && sum->after.empty();
  return alone ? sum : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

static std::optional<int64_t> getMax(Value v, SizeBound bound) {
  if (APInt c; matchPattern(v, m_ConstantInt(&c)))
    return c.getSExtValue();
  if (auto size = v.getDefiningOp<SizeOp>())
    return bound(size.getSize());
  auto least = v.getDefiningOp<arith::MinSIOp>();
  if (!least)
    return std::nullopt;
  std::optional<int64_t> a = getMax(least.getLhs(), bound),
                         b = getMax(least.getRhs(), bound);
  return a && b ? std::min(*a, *b) : a ? a : b;
}

std::optional<int64_t> dt::rt::getMaxTrips(scf::ForOp loop, SizeBound bound) {
  return countsUp(loop) ? getMax(loop.getUpperBound(), bound) : std::nullopt;
}

std::optional<int64_t> dt::rt::getMaxTrips(const LaneNest &nest,
                                           SizeBound bound) {
  int64_t trips = 1;
  for (scf::ForOp loop : nest.loops) {
    std::optional<int64_t> n = getMaxTrips(loop, bound);
    if (!n || __builtin_mul_overflow(trips, *n, &trips))
      return std::nullopt;
  }
  return trips;
}
