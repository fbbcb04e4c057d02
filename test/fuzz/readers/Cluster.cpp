//===- Cluster.cpp - fuzz target of clusters --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// An accepted cluster answers what planners ask: times are finite and not
// negative.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/hardware/Cluster.h"
#include "test/fuzz/readers/Refusal.h"

#include <algorithm>
#include <cmath>

using namespace dt;
using namespace dt::planner;

static void ask(const Cluster &cluster, int node) {
  for (int64_t size : {int64_t(1), int64_t(2), cluster.getNumDevices(node)})
    for (int64_t stride : {1, 3}) {
      if (size * stride > cluster.getNumDevices(node))
        continue;
      Group group = cluster.getGroup(node, size, stride);
      fuzz::expect(group.size() >= size, "a group lacks ranks");
      for (double time :
           {cluster.allReduce(group, 1e6), cluster.allGather(group, 1e6),
            cluster.allToAll(group, 1e6)})
        fuzz::expect(std::isfinite(time) && time >= 0,
                     "a collective takes no finite time");
    }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  auto cluster = fuzz::accepted(parseCluster(text, "cluster.json"));
  if (!cluster)
    return 0;
  int64_t devices = cluster->getNumDevices();
  fuzz::expect(devices >= 1, "a cluster without devices");
  for (int64_t rank : {int64_t(0), devices / 2, devices - 1}) {
    int kind = cluster->getNodeKind(rank);
    fuzz::expect(kind >= 0 && kind < int(cluster->nodes.size()),
                 "a rank on no node");
    fuzz::expect(cluster->getMemory(kind) > 0, "a device without memory");
    double time = cluster->pointToPoint(kind, 0, false, 1).time(1e6);
    fuzz::expect(std::isfinite(time) && time >= 0,
                 "a message takes no finite time");
    ask(*cluster, kind);
  }
  if (auto half =
          fuzz::accepted(cluster->take(std::max<int64_t>(1, devices / 2))))
    fuzz::expect(half->getNumDevices() == std::max<int64_t>(1, devices / 2),
                 "a part of a cluster has another size");
  return 0;
}
