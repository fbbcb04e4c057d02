//===- Plugin.cpp - The plugin's entry --------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Example.h"

static void addAll(dt::Plugin &plugin) {
  example::addCountCost(plugin);
  example::addCluster(plugin);
  example::addEqualReplicas(plugin);
  example::addFlush(plugin);
  example::addScan(plugin);
  example::addSignum(plugin);
  example::addSmoothL1(plugin);
}

DIST_TRAIN_PLUGIN("Example", addAll)
