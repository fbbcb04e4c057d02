//===- Peaks.h - What ranks' devices can do at most -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULE_PEAKS_H
#define PASSES_SCHEDULE_PEAKS_H

#include "dialects/dist/DistOps.h"

namespace dt::schedule {

/// Sets the plan's `peaks` by the cluster that it names: of each rank the rate
/// of its device for the fastest of the types that its modules multiply in; of
/// cores that the ranks of a node share, its share of all of them. Nothing
/// where the plan names no cluster, one that is not there, that has fewer
/// devices, or whose figures are nobody's (planner::Cluster::assumed).
void setPeaks(mlir::ModuleOp program, dist::PlanOp plan);

} // namespace dt::schedule

#endif // PASSES_SCHEDULE_PEAKS_H
