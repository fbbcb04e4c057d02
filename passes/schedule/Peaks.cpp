//===- Peaks.cpp - What ranks' devices can do at most ---------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/schedule/Peaks.h"
#include "passes/planner/describe/Shipped.h"

#include <algorithm>

using namespace mlir;

namespace dt::schedule {

/// Of one device; 0: nobody knows.
static double getPeak(mlir::ModuleOp program, const planner::Cluster &cluster,
                      int64_t rank) {
  const planner::DeviceKind &device =
      cluster.getDevice(cluster.getNodeKind(rank));
  double peak = 0;
  for (auto module : program.getOps<dist::ModuleOp>()) {
    if (!llvm::is_contained(dist::Placement(module).ranks, rank))
      continue;
    auto precision = module.getPrecision();
    peak = std::max(
        peak, device.peak(precision ? dist::stringifyPrecision(*precision).str()
                                    : "f32"));
  }
  return peak;
}

void setPeaks(mlir::ModuleOp program, dist::PlanOp plan) {
  if (!plan.getCluster())
    return;
  auto cluster = planner::openCluster(*plan.getCluster());
  if (!cluster)
    return llvm::consumeError(cluster.takeError());
  int64_t ranks = plan.getRanks();
  if (!cluster->assumed.empty() || cluster->getNumDevices() < ranks)
    return;
  std::vector<double> peaks;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    peaks.push_back(getPeak(program, *cluster, rank));
    const planner::NodeKind &node = cluster->nodes[cluster->getNodeKind(rank)];
    if (!node.cores)
      continue;
    int64_t first = rank - cluster->getSite(rank).place;
    peaks.back() *= double(node.devices) /
                    double(std::min<int64_t>(node.devices, ranks - first));
  }
  if (!llvm::is_contained(peaks, 0.0))
    plan.setPeaks(peaks);
}

} // namespace dt::schedule
