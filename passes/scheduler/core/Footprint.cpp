//===- Footprint.cpp - Bytes that ranks need for an order -----------------===//
//-------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/Footprint.h"

namespace dt::scheduler {

Footprint::Footprint(const TaskGraph &graph) : graph(&graph) {
  if (!graph.hasSlots())
    return;
  places.resize(graph.getNumPlaces());
  for (int place = 0; place < graph.getNumPlaces(); ++place)
    places[place].most = places[place].least = graph.getLargestSlots(place);
}

Bytes Footprint::begin(llvm::ArrayRef<int> begun) {
  Bytes bytes = 0;
  for (int place : places.empty() ? llvm::ArrayRef<int>() : begun) {
    Slots &own = places[place];
    own.held = {};
    own.most = own.least;
    bytes += own.least.total();
  }
  return bytes;
}

Bytes Footprint::peek(TaskGraph::Node node, bool split) const {
  if (places.empty())
    return graph->getMemoryChange(node, split);
  const Slots &place = places[graph->getPlaceOf(node)];
  TaskGraph::SlotBytes taken = graph->getSlotChanges(node, split).taken;
  Bytes grown = 0;
  for (auto kind : TaskGraph::kSlotKinds)
    grown +=
        std::max<Bytes>(0, place.held.*kind + taken.*kind - place.most.*kind);
  return grown;
}

Bytes Footprint::run(TaskGraph::Node node, bool split) {
  Bytes grown = peek(node, split);
  if (places.empty())
    return grown;
  Slots &place = places[graph->getPlaceOf(node)];
  TaskGraph::SlotChanges changes = graph->getSlotChanges(node, split);
  for (auto kind : TaskGraph::kSlotKinds) {
    place.held.*kind += changes.taken.*kind;
    place.most.*kind = std::max(place.most.*kind, place.held.*kind);
    place.held.*kind -= changes.freed.*kind;
  }
  return grown;
}

std::vector<Bytes> getFootprints(const TaskGraph &graph, Footprint &footprint,
                                 int rank, llvm::ArrayRef<Task> tasks) {
  std::vector<Bytes> bytes(graph.getProblem().stages.size(), 0);
  for (int place : graph.getPlacesOfRank(rank))
    bytes[graph.getPlaceInfo(place).stage] += footprint.begin(place);
  for (const Task &task : tasks)
    bytes[task.stage] +=
        footprint.run(graph.getNode(task), task.kind == Kind::Input);
  return bytes;
}

} // namespace dt::scheduler
