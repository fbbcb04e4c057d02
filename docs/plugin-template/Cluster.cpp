//===- Cluster.cpp - A cluster by name --------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// --cluster takes any file; one that many plans are made for has a name.
//
//===----------------------------------------------------------------------===//

#include "Example.h"

#include "passes/planner/describe/Shipped.h"

// Its text, by dist_train_embed.
static const char kFile[] = {
#include "cluster.json.inc"
};

void example::addCluster(dt::Plugin &plugin) {
  plugin.clusters.push_back({"example-cluster", kFile});
}
