//===- Clusters.h - Clusters that the planner's tests plan for --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_PASSES_PLANNER_CLUSTERS_H
#define TEST_PASSES_PLANNER_CLUSTERS_H

#include "passes/planner/describe/Shipped.h"

namespace dt::planner {

/// All of a shipped cluster.
inline Cluster wholeCluster(llvm::StringRef name) {
  return llvm::cantFail(openCluster(name));
}

/// Its first devices.
inline Cluster takeDevices(llvm::StringRef name, int64_t devices) {
  return llvm::cantFail(wholeCluster(name).take(devices));
}

/// So many nodes of each of its two kinds.
inline Cluster takeNodes(llvm::StringRef name, int first, int second) {
  Cluster cluster = wholeCluster(name);
  cluster.nodes[0].count = first;
  cluster.nodes[1].count = second;
  return cluster;
}

} // namespace dt::planner

#endif // TEST_PASSES_PLANNER_CLUSTERS_H
