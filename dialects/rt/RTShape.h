//===- RTShape.h - How a kernel's work may be shared out --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A kernel's points are independent. A target with many more threads than
// points also wants to share out what a point does. What allows that follows
// from the body alone, whatever op it was made from: these are the questions.
// Which shape is best is asked once, by `rt-shape-kernels`; that a kernel has
// what its shape promises, the verifier of rt.kernel checks.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_RT_RTSHAPE_H
#define DIALECTS_RT_RTSHAPE_H

#include "dialects/rt/RTOps.h"

namespace dt::rt {

/// The op that makes carried value `i` of a loop from the value before and
/// something of the iteration, if the order of the iterations matters for
/// rounding at most. Else null.
mlir::Operation *getCombiner(mlir::scf::ForOp loop, unsigned i);

/// Loops whose iterations lanes may share: the innermost is `rt.simd` and all
/// its carried values have combiners, the others do nothing but run it.
struct LaneNest {
  llvm::SmallVector<mlir::scf::ForOp> loops; ///< outermost first

  explicit operator bool() const { return !loops.empty(); }
  mlir::scf::ForOp outer() { return loops.front(); }
  mlir::scf::ForOp inner() { return loops.back(); }
};
/// The nest that begins with `loop`, or none.
LaneNest getLaneNest(mlir::scf::ForOp loop);
/// All nests of a kernel that stand in no other.
llvm::SmallVector<LaneNest> getLaneNests(KernelOp kernel);

/// Every point adds up rows into cells of its own, a cell a column, in memory:
///   for row... { for column { y[column] = combine(y[column], added) } }
struct ColumnSum {
  LaneNest columns;                         ///< one loop
  llvm::SmallVector<mlir::scf::ForOp> rows; ///< around it, outermost first
  LoadOp load;
  StoreOp store;
  mlir::Operation *combiner;
  mlir::Value added;
  /// Loops over the same columns ahead of the rows and behind them.
  llvm::SmallVector<mlir::scf::ForOp> before, after;
  mlir::Value key; ///< of a scattered sum
};
std::optional<ColumnSum> getColumnSum(KernelOp kernel);
/// The same where one index of the cells, the key, is what data says of a row:
/// rows of equal keys add into the same cells.
std::optional<ColumnSum> getScatterSum(KernelOp kernel);

/// The one nest of a kernel whose points do nothing ahead of it that another
/// thread could not do too: parts of it may be computed apart. Or none.
LaneNest getSplitNest(KernelOp kernel);

/// The largest number of iterations, by the largest values of sizes; nothing
/// where that is not known.
using SizeBound =
    llvm::function_ref<std::optional<int64_t>(const nn::DimExpr &)>;
std::optional<int64_t> getMaxTrips(mlir::scf::ForOp loop, SizeBound bound);
std::optional<int64_t> getMaxTrips(const LaneNest &nest, SizeBound bound);

/// What `value` is in addition to the loop's variable, if it is that or the sum
/// of it and something that does not change in the loop: neighbours along the
/// loop are neighbours in memory.
bool isUnitStride(mlir::Value value, mlir::scf::ForOp loop);
/// Whether both are the same function of their loop's variable.
bool isSameIndex(mlir::Value a, mlir::Value ivA, mlir::Value b,
                 mlir::Value ivB);

} // namespace dt::rt

#endif // DIALECTS_RT_RTSHAPE_H
