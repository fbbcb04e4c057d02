//===- Strips.h - Collectives and products in strips of rows ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What a collective with `strips` is cut into, and with which products
// (docs/sharding.md). The shard phase marks, the planner prices and lowering
// cuts by the same answers.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_DIST_STRIPS_H
#define DIALECTS_DIST_STRIPS_H

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"

namespace dt::dist {

/// A rank's side of a collective as [outer][rows][last dim]; where the other
/// side has all ranks', that is [outer][ranks][rows][last dim]. Rows are all
/// dims but the last, and `rows` = `count` * `unit`, where `count` is the same
/// for all sizes.
struct StripedRows {
  nn::DimExpr outer, rows, unit;
  int64_t count;

  /// Strip i of n begins here; strip n: the end.
  nn::DimExpr begin(int64_t i, int64_t n) const {
    return unit * nn::DimExpr(count * i / n);
  }
};

/// Nothing if the collective does not keep rows whole.
std::optional<StripedRows> getStripedRows(CollectiveOpInterface collective);

/// The products that a collective's strips travel beside: all that multiply
/// what it gathers, or the one that makes what it adds up. None if there are no
/// rows to cut.
llvm::SmallVector<nn::LinearOp>
getProductsBeside(CollectiveOpInterface collective);

/// In how many strips it is done: `strips`, at most `count`.
int64_t getNumStrips(CollectiveOpInterface collective);

} // namespace dt::dist

#endif // DIALECTS_DIST_STRIPS_H
