//===- Bound.cpp - Times that no order goes below -------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/search/Bound.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>

using namespace llvm;

namespace dt::scheduler {

namespace {

class Bound {
public:
  Bound(const TaskGraph &graph, const std::vector<Bytes> &memory,
        Objective objective)
      : graph(graph), problem(graph.getProblem()), memory(memory),
        objective(objective) {}

  Time get() const;

private:
  std::vector<Time> getRoundTrips() const;
  Time getLeastIdle(int place, Time roundTrip) const;
  /// Nothing where messages of the edge stay on their ranks.
  Time getLatency(const Edge &edge) const {
    const Stage &to = problem.stages[edge.to];
    return any_of(problem.stages[edge.from].replicas,
                  [&](const std::vector<int> &ranks) {
                    return is_contained(to.replicas, ranks);
                  })
               ? 0
               : edge.latency;
  }

  const TaskGraph &graph;
  const Problem &problem;
  const std::vector<Bytes> &memory;
  Objective objective;
};

Time Bound::get() const {
  Time bound = 0;
  // A rank's work, and before it the way of the first microbatch to the rank.
  std::vector<Time> busy(problem.ranks, 0),
      head(problem.ranks, std::numeric_limits<Time>::max());
  std::vector<Time> arrival(problem.stages.size(), 0);
  for (int stage : problem.getTopologicalOrder()) {
    const Stage &info = problem.stages[stage];
    int n = info.batchSync ? 1 : problem.microbatches;
    Time least = *std::min_element(info.forward.values.begin(),
                                   info.forward.values.end());
    for (int r = 0; r < int(info.replicas.size()); ++r)
      for (int rank : info.replicas[r]) {
        head[rank] = std::min(head[rank], arrival[stage]);
        for (int k = 0; k < (info.batchSync ? problem.getNumGroups() : n); ++k)
          for (int slot = 0; slot < 3; ++slot) {
            TaskGraph::Node node = graph.getNode(graph.getPlace(stage, r),
                                                 TaskGraph::Slot(slot), k);
            busy[rank] += graph.exists(node) ? graph.getTime(node) : 0;
          }
      }
    // Routes may leave out messages, and ranks may be the same: then nothing is
    // known about the way.
    for (const Edge &edge : problem.edges)
      if (edge.from == stage && edge.routes.empty() &&
          !problem.stages[edge.to].batchSync)
        arrival[edge.to] = std::max(arrival[edge.to],
                                    arrival[stage] + least + getLatency(edge));
  }
  std::vector<Time> roundTrips = getRoundTrips();
  for (int rank = 0; rank < problem.ranks; ++rank) {
    if (!busy[rank])
      continue;
    ArrayRef<int> places = graph.getPlacesOfRank(rank);
    Time time = busy[rank];
    if (objective == Objective::Wall)
      time += head[rank];
    if (places.size() == 1)
      time += getLeastIdle(places[0],
                           roundTrips[graph.getPlaceInfo(places[0]).stage]);
    bound = std::max(bound, time);
  }
  return bound;
}

/// By stage: least time from the start of a forward to the start of its
/// gradient.
std::vector<Time> Bound::getRoundTrips() const {
  auto least = [](const Table &table) {
    return *std::min_element(table.values.begin(), table.values.end());
  };
  std::vector<Time> times(problem.stages.size(), 0);
  std::vector<int> order = problem.getTopologicalOrder();
  for (int stage : reverse(order)) {
    const Stage &from = problem.stages[stage];
    for (const Edge &edge : problem.edges) {
      const Stage &to = problem.stages[edge.to];
      if (edge.from != stage || !edge.gradient || !edge.routes.empty() ||
          to.batchSync)
        continue;
      times[stage] =
          std::max(times[stage],
                   2 * getLatency(edge) + times[edge.to] + least(to.input));
    }
    times[stage] += least(from.forward);
  }
  return times;
}

/// Idle time that memory forces on a rank with one stage. Until the first
/// gradient comes back it has only as many forwards as it may hold; from the
/// start of the last forward until its gradient, only what is in flight then:
/// x microbatches without and y with their input gradients.
Time Bound::getLeastIdle(int place, Time roundTrip) const {
  const Stage &stage = problem.stages[graph.getPlaceInfo(place).stage];
  if (!stage.hasBackward || stage.batchSync)
    return 0;
  Bytes capacity = std::numeric_limits<Bytes>::max(), activation = capacity,
        weights = capacity;
  if (!memory.empty())
    for (int rank : graph.getRanks(place))
      capacity = std::min(capacity, memory[rank]);
  Time forward = 0, input = 0, weight = 0;
  int n = problem.microbatches;
  for (int k = 0; k < n; ++k) {
    TaskGraph::Node node = graph.getNode(place, TaskGraph::kForward, k);
    forward = std::max(forward, graph.getTime(node));
    input = std::max(input, graph.getTime(node + 1));
    if (graph.exists(node + 2))
      weight = std::max(weight, graph.getTime(node + 2));
    activation = std::min(activation, graph.getActivation(node));
    weights = std::min(weights, graph.getWeightActivation(node));
    if (graph.getWeightActivation(node) > graph.getActivation(node))
      return 0;
  }
  int64_t most = activation ? std::min<Bytes>(n, capacity / activation) : n;
  Time before = std::max<Time>(0, roundTrip - most * forward), work = 0;
  for (int64_t x = 1; x <= most; ++x) {
    int64_t y = n - x;
    if (weights)
      y = std::min(y, (capacity - x * activation) / weights);
    work = std::max(work, forward + (x - 1) * (input + weight) + y * weight);
  }
  Time after = std::max<Time>(0, roundTrip - work);
  // With fewer microbatches both may be the same time.
  return most < n ? before + after : std::max(before, after);
}

} // namespace

Time getLowerBound(const TaskGraph &graph, const std::vector<Bytes> &memory,
                   Objective objective) {
  return Bound(graph, memory, objective).get();
}

} // namespace dt::scheduler
