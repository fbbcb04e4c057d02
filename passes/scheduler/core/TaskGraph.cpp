//===- TaskGraph.cpp - Tasks of a problem and what they wait for ----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/TaskGraph.h"

#include <algorithm>

namespace dt::scheduler {

TaskGraph::TaskGraph(const Problem &problem) : problem(problem) {
  buildNodes();
  buildDependences();
}

void TaskGraph::buildNodes() {
  int n = problem.microbatches;
  placesOfRank.resize(problem.ranks);
  size_t tasks = 0;
  for (const Stage &stage : problem.stages)
    tasks += stage.replicas.size() *
             size_t(stage.batchSync ? problem.getNumGroups() : n);
  placeOf.reserve(tasks);
  activation.reserve(tasks);
  weightActivation.reserve(tasks);
  time.reserve(3 * tasks);
  flags.reserve(3 * tasks);
  for (int s = 0; s < int(problem.stages.size()); ++s) {
    const Stage &stage = problem.stages[s];
    placeBase.push_back(int(places.size()));
    int count = stage.batchSync ? problem.getNumGroups() : n;
    int replicas = int(stage.replicas.size());
    for (int r = 0; r < replicas; ++r) {
      int place = int(places.size());
      places.push_back({s, r});
      nodeBase.push_back(numNodes);
      ranksOf.push_back(stage.replicas[r]);
      for (int rank : stage.replicas[r])
        placesOfRank[rank].push_back(place);
      for (int k = 0; k < count; ++k) {
        auto at = [&](const Table &table) {
          if (stage.batchSync)
            return table.values[std::min<size_t>(k, table.values.size() - 1)];
          return table.at(k, r, n, replicas);
        };
        placeOf.push_back(place);
        for (const Table *table : {&stage.forward, &stage.input, &stage.weight})
          time.push_back(at(*table));
        activation.push_back(at(stage.activation));
        weightActivation.push_back(stage.hasWeight ? at(stage.weightActivation)
                                                   : 0);
        for (bool there :
             {true, stage.hasBackward, stage.hasBackward && stage.hasWeight})
          flags.push_back(there);
        numNodes += 3;
      }
    }
  }
}

template <typename F> void TaskGraph::forEachDependence(int index, F f) const {
  const Edge &edge = problem.edges[index];
  const Stage &from = problem.stages[edge.from], &to = problem.stages[edge.to];
  if (to.batchSync) {
    // The sync waits for the whole group on all replicas; every backward of
    // the group waits for the sync.
    int sync = getPlace(edge.to, 0);
    for (int r = 0; r < int(from.replicas.size()); ++r)
      for (int k = 0; k < problem.microbatches; ++k) {
        int place = getPlace(edge.from, r);
        Node node = getNode(sync, kForward, problem.getGroup(k));
        f(node, {getNode(place, kForward, k), edge.latency, index});
        if (edge.gradient && from.hasBackward)
          f(getNode(place, kGradient, k), {node, edge.latency, index});
      }
    return;
  }
  forEachMessage(problem, edge, [&](int k, int i, int j, Time latency) {
    int a = getPlace(edge.from, i), b = getPlace(edge.to, j);
    if (from.replicas[i] == to.replicas[j])
      latency = 0;
    f(getNode(b, kForward, k), {getNode(a, kForward, k), latency, index});
    if (edge.gradient)
      f(getNode(a, kGradient, k), {getNode(b, kGradient, k), latency, index});
  });
}

template <typename F>
void TaskGraph::forEachBufferDependence(int index, F f) const {
  const Edge &edge = problem.edges[index];
  const Stage &from = problem.stages[edge.from], &to = problem.stages[edge.to];
  if (!edge.receiveDepth || to.batchSync || from.replicas == to.replicas)
    return;
  // The transfer starts when the buffer is free again.
  auto add = [&](int stage, int replicas, Slot slot) {
    for (int r = 0; r < replicas; ++r)
      for (int k = edge.receiveDepth; k < problem.microbatches; ++k) {
        int place = getPlace(stage, r);
        f(getNode(place, slot, k),
          {getNode(place, slot, k - edge.receiveDepth), edge.latency, -1});
      }
  };
  add(edge.to, int(to.replicas.size()), kForward);
  if (edge.gradient)
    add(edge.from, int(from.replicas.size()), kGradient);
}

void TaskGraph::buildDependences() {
  // Gone through twice, to count and to place, a list of them is not needed.
  auto forEach = [&](auto f) {
    for (int e = 0; e < int(problem.edges.size()); ++e) {
      forEachDependence(e, f);
      forEachBufferDependence(e, f);
    }
  };
  // Counting sort by consumer, then by producer: both stable. A node's begin is
  // counted one further along and, as its places fill, moves up to its own end,
  // which is the next one's begin.
  predBegin.assign(numNodes + 2, 0);
  succBegin.assign(numNodes + 2, 0);
  forEach([&](Node node, const Dependence &dependence) {
    ++predBegin[node + 2];
    ++succBegin[dependence.node + 2];
  });
  for (int i = 1; i <= numNodes; ++i) {
    predBegin[i + 1] += predBegin[i];
    succBegin[i + 1] += succBegin[i];
  }
  predecessors.resize(predBegin.back());
  successors.resize(succBegin.back());
  forEach([&](Node node, const Dependence &dependence) {
    predecessors[predBegin[node + 1]++] = dependence;
    successors[succBegin[dependence.node + 1]++] = {node, dependence.latency,
                                                    dependence.edge};
  });
}

Task TaskGraph::getTask(Node node, bool split) const {
  Place place = places[getPlaceOf(node)];
  Kind kind = Kind::Forward;
  if (getSlotOf(node) == kGradient)
    kind = split ? Kind::Input : Kind::Backward;
  else if (getSlotOf(node) == kWeight)
    kind = Kind::Weight;
  else if (problem.stages[place.stage].batchSync)
    kind = Kind::Sync;
  return {kind, place.stage, getMicrobatchOf(node), place.replica};
}

} // namespace dt::scheduler
