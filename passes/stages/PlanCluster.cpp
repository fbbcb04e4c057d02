//===- PlanCluster.cpp - The devices that a plan is for -------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/stages/PlanCluster.h"

#include "passes/planner/describe/Shipped.h"

using namespace mlir;

namespace dt::stages {

/// At the plan, if there is one.
static InFlightDiagnostic emitClusterError(mlir::ModuleOp program) {
  auto plan = dist::getOnly<dist::PlanOp>(program);
  return (plan ? plan.emitError() : program.emitError()) << "cluster: ";
}

FailureOr<planner::Cluster> openPlanCluster(mlir::ModuleOp program) {
  auto plan = dist::getOnly<dist::PlanOp>(program);
  auto name = plan ? plan.getCluster() : std::nullopt;
  auto cluster = planner::openCluster(name.value_or("cpu-2"));
  if (!cluster)
    return emitClusterError(program) << toString(cluster.takeError());
  int64_t ranks = plan ? int64_t(plan.getRanks()) : 1;
  if (cluster->getNumDevices() < ranks)
    cluster->nodes[0].devices = int(ranks);
  return std::move(*cluster);
}

std::string getPrecisionName(dist::ModuleOp module) {
  auto precision = module.getPrecision();
  return precision ? dist::stringifyPrecision(*precision).str() : "f32";
}

LogicalResult checkRate(const planner::Cluster &cluster,
                        dist::ModuleOp module) {
  std::string type = getPrecisionName(module);
  if (cluster.getDevice(0).peak(type) > 0)
    return success();
  return emitClusterError(module->getParentOfType<mlir::ModuleOp>())
         << "'" << cluster.name << "' has no rate for " << type
         << ", which module '" << module.getSymName() << "' computes in";
}

} // namespace dt::stages
