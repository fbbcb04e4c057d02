//===- ShapeKernels.cpp - How a kernel's work is shared out ---------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/rt/RTBytes.h"
#include "dialects/rt/RTShape.h"
#include "passes/lower/Passes.h"

using namespace mlir;

namespace dt::lower {
#define GEN_PASS_DEF_SHAPEKERNELS
#include "passes/lower/Passes.h.inc"

namespace {

/// Shorter loops are not worth a warp.
constexpr int64_t kLongLoop = 16;
/// With more points than this, or shorter loops, there is no need to cut what a
/// point does.
constexpr int64_t kFewPoints = 64;
constexpr int64_t kCutLoop = 1024;

class Shaper {
public:
  Shaper(rt::KernelOp kernel, const rt::BufferBytes &bytes)
      : kernel(kernel), bytes(bytes) {}

  rt::KernelShape run() {
    if (rt::getColumnSum(kernel))
      return rt::KernelShape::column;
    if (rt::LaneNest nest = rt::getSplitNest(kernel);
        nest && hasFewPoints() && isLong(nest, kCutLoop) && isAlongMemory(nest))
      return rt::KernelShape::all;
    SmallVector<rt::LaneNest> nests = rt::getLaneNests(kernel);
    bool row = llvm::any_of(nests, [&](rt::LaneNest &nest) {
      return isLong(nest, kLongLoop) && isAlongMemory(nest);
    });
    for (auto loop : kernel.getBody().front().getOps<scf::ForOp>())
      row = row && isShared(loop, nests);
    return row ? rt::KernelShape::row : rt::KernelShape::point;
  }

private:
  /// An unknown size is a large one.
  static bool atLeast(std::optional<int64_t> size, int64_t least) {
    return !size || *size >= least;
  }
  auto bound() {
    return [&](const nn::DimExpr &size) { return bytes.getMax(size); };
  }
  bool hasFewPoints() {
    return !atLeast(bytes.getMax(kernel.getNumPoints()), kFewPoints + 1);
  }
  bool isLong(const rt::LaneNest &nest, int64_t least) {
    return atLeast(rt::getMaxTrips(nest, bound()), least);
  }
  /// A loop without lanes inside would be run by all of them.
  static bool isShared(scf::ForOp loop, ArrayRef<rt::LaneNest> nests) {
    return llvm::any_of(nests, [&](const rt::LaneNest &nest) {
      return loop->isAncestor(nest.loops.front());
    });
  }

  /// Whether neighbouring iterations touch neighbouring elements.
  bool isAlongMemory(rt::LaneNest &nest) {
    scf::ForOp loop = nest.inner();
    WalkResult walk = loop.getBody()->walk([&](Operation *op) {
      ValueRange at;
      if (auto load = dyn_cast<rt::LoadOp>(op))
        at = load.getIndices();
      if (auto store = dyn_cast<rt::StoreOp>(op))
        at = store.getIndices();
      return !at.empty() && rt::isUnitStride(at.back(), loop)
                 ? WalkResult::interrupt()
                 : WalkResult::advance();
    });
    return walk.wasInterrupted();
  }

  rt::KernelOp kernel;
  const rt::BufferBytes &bytes;
};

struct ShapeKernels : impl::ShapeKernelsBase<ShapeKernels> {
  void runOnOperation() override {
    getOperation().walk([](rt::FuncOp function) {
      rt::BufferBytes bytes(function);
      for (auto kernel : function.getBody().getOps<rt::KernelOp>())
        kernel.setShape(Shaper(kernel, bytes).run());
    });
  }
};

} // namespace
} // namespace dt::lower
