//===- TaskGraph.h - Tasks of a problem and what they wait for --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The problem with every task numbered and its dependences in arrays, made once
// and used by schedules, searches and the evaluator, which then cost a few
// nanoseconds a task. A backward is one node, whether split or not; its weight
// gradient, if split off, is another.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULER_CORE_TASKGRAPH_H
#define PASSES_SCHEDULER_CORE_TASKGRAPH_H

#include "passes/scheduler/core/Problem.h"

#include "llvm/ADT/ArrayRef.h"

namespace dt::scheduler {

class TaskGraph {
public:
  using Node = int;
  enum Slot { kForward = 0, kGradient = 1, kWeight = 2 };

  /// A dependence on another stage's task through an edge or, with edge -1, on
  /// the task that frees the buffer that the same stage's message arrives in,
  /// or that a forward may run ahead of no further.
  struct Dependence {
    Node node;
    Time latency;
    int edge;
  };

  /// `problem` must have passed check() and outlive the graph.
  explicit TaskGraph(const Problem &problem);

  const Problem &getProblem() const { return problem; }
  int getNumNodes() const { return numNodes; }
  int getNumMicrobatches() const { return problem.microbatches; }

  /// A stage's replica: what has an order of its own.
  int getPlace(int stage, int replica) const {
    return placeBase[stage] + replica;
  }
  int getNumPlaces() const { return int(places.size()); }
  struct Place {
    int stage, replica;
  };
  Place getPlaceInfo(int place) const { return places[place]; }
  llvm::ArrayRef<int> getRanks(int place) const { return ranksOf[place]; }
  /// Places that a rank runs.
  llvm::ArrayRef<int> getPlacesOfRank(int rank) const {
    return placesOfRank[rank];
  }

  Node getNode(int place, Slot slot, int microbatch) const {
    return nodeBase[place] + microbatch * 3 + slot;
  }
  Node getNode(const Task &task) const {
    return getNode(getPlace(task.stage, task.replica), getSlot(task.kind),
                   task.microbatch);
  }
  static Slot getSlot(Kind kind) {
    return kind == Kind::Weight                            ? kWeight
           : kind == Kind::Backward || kind == Kind::Input ? kGradient
                                                           : kForward;
  }
  int getPlaceOf(Node node) const { return placeOf[node / 3]; }
  Slot getSlotOf(Node node) const { return Slot(node % 3); }
  int getMicrobatchOf(Node node) const {
    return (node - nodeBase[placeOf[node / 3]]) / 3;
  }
  /// The task of a node; a gradient is Kind::Input if `split`.
  Task getTask(Node node, bool split) const;

  /// Whether the node is a task at all: weight gradients exist where the stage
  /// has one, a batch-sync has forwards only, one a group; what serves several
  /// microbatches is a task of the first.
  bool exists(Node node) const { return flags[node] & 1; }
  /// Whether a stage's backward can be split.
  bool canSplit(int stage) const {
    return problem.stages[stage].hasBackward && problem.stages[stage].hasWeight;
  }

  /// Dependences on other places: of forwards and gradients only.
  llvm::ArrayRef<Dependence> getPredecessors(Node node) const {
    return {predecessors.data() + predBegin[node],
            predecessors.data() + predBegin[node + 1]};
  }
  llvm::ArrayRef<Dependence> getSuccessors(Node node) const {
    return {successors.data() + succBegin[node],
            successors.data() + succBegin[node + 1]};
  }

  /// When the last of what a node waits for has come, by the ends of tasks; -1
  /// if one has no end yet. `back`: time runs backwards.
  Time getArrival(Node node, const std::vector<Time> &end,
                  bool back = false) const {
    Time arrival = 0;
    for (const Dependence &d :
         back ? getSuccessors(node) : getPredecessors(node)) {
      if (end[d.node] < 0)
        return -1;
      arrival = std::max(arrival, end[d.node] + d.latency);
    }
    // Inside a microbatch: gradient after forward, weight after gradient.
    Slot slot = getSlotOf(node);
    if (back ? slot == kWeight || !exists(node + 1) : slot == kForward)
      return arrival;
    Time own = end[back ? node + 1 : node - 1];
    return own < 0 ? -1 : std::max(arrival, own);
  }

  /// Duration; of a gradient without its weight part.
  Time getTime(Node node) const { return time[node]; }
  /// Of a task: a gradient that is not `split` has its weight part.
  Time getTime(Node node, bool split) const {
    bool both = getSlotOf(node) == kGradient && !split && exists(node + 1);
    return time[node] + (both ? time[node + 1] : 0);
  }
  /// Bytes that the forward of this node's microbatch keeps, and what is left
  /// of them between input and weight gradient.
  Bytes getActivation(Node node) const { return activation[node / 3]; }
  Bytes getWeightActivation(Node node) const {
    return weightActivation[node / 3];
  }
  /// Bytes of a microbatch's slots: from the forward to the gradient of inputs,
  /// from the forward to that of weights, and between the two.
  struct SlotBytes {
    Bytes early = 0, whole = 0, late = 0;
    Bytes total() const { return early + whole + late; }
  };
  /// Whether the problem says of its bytes in which slot they are.
  bool hasSlots() const { return !slots.empty(); }
  const SlotBytes &getSlotBytes(Node node) const { return slots[node / 3]; }
  static constexpr Bytes SlotBytes::*kSlotKinds[] = {
      &SlotBytes::early, &SlotBytes::whole, &SlotBytes::late};
  /// What a task takes, and what it leaves free when it ends; `split`: of a
  /// gradient, weights come later.
  struct SlotChanges {
    SlotBytes taken, freed;
  };
  SlotChanges getSlotChanges(Node node, bool split) const;
  /// The largest of each kind.
  SlotBytes getLargestSlots(int place) const;
  /// The most that a forward of a place keeps.
  Bytes getMostActivation(int place) const {
    Bytes most = 0;
    for (int k = 0; k < problem.microbatches; ++k)
      most = std::max(most, getActivation(getNode(place, kForward, k)));
    return most;
  }
  /// Bytes that running a node adds for good, to be counted from its start if
  /// positive, else from its end. `split`: of a gradient, weights come later.
  Bytes getMemoryChange(Node node, bool split) const {
    switch (getSlotOf(node)) {
    case kForward:
      return exists(node + kGradient) ? getActivation(node) : 0;
    case kGradient:
      return (split ? getWeightActivation(node) : 0) - getActivation(node);
    case kWeight:
      return -getWeightActivation(node);
    }
    return 0;
  }

private:
  void buildNodes();
  void buildDependences();
  /// Calls f(node, dependence) for all that an edge says, always in one order.
  template <typename F> void forEachDependence(int edge, F f) const;
  template <typename F> void forEachBufferDependence(int edge, F f) const;
  template <typename F> void forEachAheadDependence(int edge, F f) const;

  const Problem &problem;
  int numNodes = 0;
  std::vector<Place> places;
  std::vector<int> placeBase, nodeBase, placeOf;
  std::vector<llvm::ArrayRef<int>> ranksOf; ///< the problem's, by place
  std::vector<std::vector<int>> placesOfRank;
  std::vector<uint8_t> flags;
  std::vector<Time> time;
  std::vector<Bytes> activation, weightActivation;
  std::vector<SlotBytes> slots; ///< by place and microbatch
  std::vector<int> predBegin, succBegin;
  std::vector<Dependence> predecessors, successors;
};

/// Calls f(microbatch, from, to, latency) for every message of an edge, in
/// forward direction: one for each task of the stage that it goes to.
template <typename F>
void forEachMessage(const Problem &problem, const Edge &edge, F f) {
  const Stage &from = problem.stages[edge.from], &to = problem.stages[edge.to];
  int n = problem.microbatches, span = problem.getSpan(edge.to);
  int fromCount = int(from.replicas.size()), toCount = int(to.replicas.size());
  if (!edge.routes.empty()) {
    for (const Route &route : edge.routes)
      for (int k = route.microbatch < 0
                       ? 0
                       : problem.getFirst(edge.to, route.microbatch),
               end = route.microbatch < 0 ? n : k + 1;
           k < end; k += span)
        f(k, route.from, route.to, route.latency);
    return;
  }
  for (int k = 0; k < n; k += span)
    for (int i = 0; i < fromCount; ++i)
      for (int j = 0; j < toCount; ++j)
        if (fromCount != toCount || i == j)
          f(k, i, j, edge.latency);
}

} // namespace dt::scheduler

#endif // PASSES_SCHEDULER_CORE_TASKGRAPH_H
