//===- Room.cpp - Bytes that ranks need for an order of tasks -------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/Room.h"

namespace dt::scheduler {

using SlotBytes = TaskGraph::SlotBytes;

Room::Room(const TaskGraph &graph) : graph(&graph) {
  if (!graph.hasSlots())
    return;
  places.resize(graph.getNumPlaces());
  for (int place = 0; place < graph.getNumPlaces(); ++place)
    places[place].most = places[place].least = graph.getLargestSlots(place);
}

Bytes Room::begin(llvm::ArrayRef<int> begun) {
  Bytes bytes = 0;
  for (int place : places.empty() ? llvm::ArrayRef<int>() : begun) {
    Slots &own = places[place];
    own.held = {};
    own.most = own.least;
    bytes += own.least.total();
  }
  return bytes;
}

/// What a task takes, and what is free when it has ended.
static std::pair<SlotBytes, SlotBytes>
getChanges(const TaskGraph &graph, TaskGraph::Node node, bool split) {
  SlotBytes slots = graph.getSlotBytes(node), begin, end;
  switch (graph.getSlotOf(node)) {
  case TaskGraph::kForward:
    if (graph.exists(node + TaskGraph::kGradient)) {
      begin.early = slots.early;
      begin.whole = slots.whole;
    }
    break;
  case TaskGraph::kGradient:
    begin.late = slots.late;
    end.early = slots.early;
    if (!split) {
      end.late = slots.late;
      end.whole = slots.whole;
    }
    break;
  case TaskGraph::kWeight:
    end.late = slots.late;
    end.whole = slots.whole;
    break;
  }
  return {begin, end};
}

Bytes Room::peek(TaskGraph::Node node, bool split) const {
  if (places.empty())
    return graph->getMemoryChange(node, split);
  const Slots &place = places[graph->getPlaceOf(node)];
  SlotBytes begin = getChanges(*graph, node, split).first;
  auto grow = [&](Bytes SlotBytes::*kind) {
    return std::max<Bytes>(0,
                           place.held.*kind + begin.*kind - place.most.*kind);
  };
  return grow(&SlotBytes::early) + grow(&SlotBytes::whole) +
         grow(&SlotBytes::late);
}

Bytes Room::run(TaskGraph::Node node, bool split) {
  Bytes grown = peek(node, split);
  if (places.empty())
    return grown;
  Slots &place = places[graph->getPlaceOf(node)];
  auto [begin, end] = getChanges(*graph, node, split);
  for (auto kind : {&SlotBytes::early, &SlotBytes::whole, &SlotBytes::late}) {
    place.held.*kind += begin.*kind;
    place.most.*kind = std::max(place.most.*kind, place.held.*kind);
    place.held.*kind -= end.*kind;
  }
  return grown;
}

} // namespace dt::scheduler
