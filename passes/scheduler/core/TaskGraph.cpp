//===- TaskGraph.cpp - Tasks of a problem and what they wait for ----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/TaskGraph.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace dt::scheduler {

TaskGraph::TaskGraph(const Problem &problem) : problem(problem) {
  buildNodes();
  buildDependences();
}

static TaskGraph::SlotBytes getSlots(Bytes activation, Bytes weightActivation,
                                     Bytes late) {
  Bytes whole = std::clamp<Bytes>(weightActivation - late, 0, activation);
  return {activation - whole, whole, late};
}

TaskGraph::SlotChanges TaskGraph::getSlotChanges(Node node, bool split) const {
  const SlotBytes &own = getSlotBytes(node);
  switch (getSlotOf(node)) {
  case kForward:
    if (exists(node + kGradient))
      return {{own.early, own.whole, 0}, {}};
    return {};
  case kGradient:
    return {{0, 0, own.late}, split ? SlotBytes{own.early, 0, 0} : own};
  case kWeight:
    return {{}, {0, own.whole, own.late}};
  }
  return {};
}

TaskGraph::SlotBytes TaskGraph::getLargestSlots(int place) const {
  SlotBytes most;
  if (!hasSlots())
    return most;
  int end = place + 1 < getNumPlaces() ? nodeBase[place + 1] : numNodes;
  for (Node node = nodeBase[place]; node < end; node += 3) {
    if (!exists(node + kGradient)) // nothing is kept
      continue;
    const SlotBytes &own = slots[node / 3];
    most.early = std::max(most.early, own.early);
    most.whole = std::max(most.whole, own.whole);
    most.late = std::max(most.late, own.late);
  }
  return most;
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
  bool inSlots = llvm::any_of(problem.stages,
                              [](const Stage &stage) { return stage.late; });
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
        bool runs = stage.batchSync || k % problem.getSpan(s) == 0;
        auto at = [&](const Table &table) -> int64_t {
          if (!runs)
            return 0;
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
        if (inSlots)
          slots.push_back(
              getSlots(activation.back(), weightActivation.back(),
                       stage.hasWeight && stage.late ? at(*stage.late) : 0));
        for (bool there :
             {true, stage.hasBackward, stage.hasBackward && stage.hasWeight})
          flags.push_back(runs && there);
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
    int first = problem.getFirst(edge.from, k);
    if (from.replicas[i] == to.replicas[j])
      latency = 0;
    f(getNode(b, kForward, k), {getNode(a, kForward, first), latency, index});
    if (edge.gradient)
      f(getNode(a, kGradient, first),
        {getNode(b, kGradient, k), latency, index});
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
    int span = problem.getSpan(stage);
    int64_t depth = int64_t(edge.receiveDepth) * span;
    for (int r = 0; r < replicas; ++r)
      for (int64_t k = depth; k < problem.microbatches; k += span) {
        int place = getPlace(stage, r);
        f(getNode(place, slot, int(k)),
          {getNode(place, slot, int(k - depth)), edge.latency, -1});
      }
  };
  add(edge.to, int(to.replicas.size()), kForward);
  if (edge.gradient)
    add(edge.from, int(from.replicas.size()), kGradient);
}

/// What no gradient comes back to is held by the forwards that use it.
template <typename F>
void TaskGraph::forEachAheadDependence(int index, F f) const {
  const Edge &edge = problem.edges[index];
  const Stage &from = problem.stages[edge.from];
  const std::optional<int> &ahead = problem.units[from.unit].runAhead;
  if (!ahead || from.hasBackward || problem.stages[edge.to].batchSync)
    return;
  int span = problem.getSpan(edge.from), other = problem.getSpan(edge.to);
  forEachMessage(problem, edge, [&](int k, int i, int j, Time) {
    // The task, if any, that may begin once all before `next` are used.
    for (int64_t next = int64_t(k) + *ahead + 1, end = next + other;
         next < std::min<int64_t>(end, problem.microbatches); ++next)
      if (next % span == 0)
        f(getNode(getPlace(edge.from, i), kForward, int(next)),
          {getNode(getPlace(edge.to, j), kForward, k), 0, -1});
  });
}

void TaskGraph::buildDependences() {
  // Gone through twice, to count and to place, a list of them is not needed.
  auto forEach = [&](auto f) {
    for (int e = 0; e < int(problem.edges.size()); ++e) {
      forEachDependence(e, f);
      forEachBufferDependence(e, f);
      forEachAheadDependence(e, f);
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
