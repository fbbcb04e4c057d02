//===- Waves.cpp - Zero-bubble orders microbatch by microbatch ------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/search/Waves.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace dt::scheduler {

Waves::Waves(const Lanes &lanes) : lanes(lanes) {
  const TaskGraph &graph = *lanes.graph;
  before.resize(graph.getNumPlaces());
  after.resize(graph.getNumPlaces());
  // Two places are neighbours if any microbatch's message goes between them.
  for (int place : lanes.order)
    for (int k = 0; k < graph.getNumMicrobatches(); ++k)
      for (const TaskGraph::Dependence &d :
           graph.getSuccessors(graph.getNode(place, TaskGraph::kForward, k))) {
        int other = graph.getPlaceOf(d.node);
        auto known = [&](const Neighbour &n) { return n.place == other; };
        if (d.edge < 0 || other == place || llvm::any_of(after[place], known))
          continue;
        bool gradient = graph.getProblem().edges[d.edge].gradient;
        after[place].push_back({other, d.latency, gradient});
        before[other].push_back({place, d.latency, gradient});
      }
}

bool Waves::applies(const Lanes &lanes) {
  return lanes.places.size() == lanes.order.size();
}

/// One construction.
class WaveRun {
public:
  WaveRun(const Waves &waves, const WaveRules &rules)
      : waves(waves), lanes(waves.lanes), graph(*lanes.graph), rules(rules),
        n(graph.getNumMicrobatches()), run(lanes, rules.fill) {}

  std::optional<LaneResult> make();

private:
  static constexpr auto kF = TaskGraph::kForward, kB = TaskGraph::kGradient;

  int countForwards(int place) const { return run.getCount(place, kF); }
  bool isSource(int place) const { return waves.before[place].empty(); }
  int countBefore(int place, Time arrival) const;
  std::vector<int> countWarmups() const;
  bool warmUp();
  bool needsForward(int place) const;
  /// Whether a forward ends before a gradient comes, weight gradients that make
  /// room for it included.
  bool fitsBefore(int place, Time gradient) const;
  void chooseForwards(std::vector<bool> &required) const;
  bool wave(int microbatch, std::vector<bool> &required);

  const Waves &waves;
  const Lanes &lanes;
  const TaskGraph &graph;
  const WaveRules &rules;
  int n;
  LaneRun run;
};

/// Forwards that start (or end) before the first gradient arrives, as far as
/// memory goes.
int WaveRun::countBefore(int place, Time arrival) const {
  int lane = lanes.laneOf[place], count = 0;
  Time time = run.getTime(lane);
  Bytes bytes = run.getHeld(lane);
  Footprint footprint = run.getFootprint();
  for (; countForwards(place) + count < n; ++count) {
    TaskGraph::Node node =
        graph.getNode(place, kF, countForwards(place) + count);
    bytes += footprint.run(node, lanes.split[place]);
    if (bytes > lanes.limit[lane] ||
        (rules.delayFirst ? time >= arrival
                          : time + graph.getTime(node) > arrival))
      break;
    time += graph.getTime(node);
  }
  return count;
}

std::vector<int> WaveRun::countWarmups() const {
  std::vector<int> counts(graph.getNumPlaces(), 0);
  std::vector<Time> back(graph.getNumPlaces(), 0);
  for (int place : llvm::reverse(lanes.order)) {
    if (!lanes.hasBackward[place]) {
      counts[place] = n - 1; // nothing else to do
      continue;
    }
    Time time = run.getTime(lanes.laneOf[place]), arrival = time;
    bool sink = true;
    for (const Waves::Neighbour &other : waves.after[place])
      if (other.gradient) {
        arrival = std::max(arrival, back[other.place] + other.latency);
        sink = false;
      }
    counts[place] = sink ? 0 : countBefore(place, arrival);
    for (int i = 1; i <= counts[place]; ++i)
      time += graph.getTime(graph.getNode(place, kF, i));
    back[place] =
        std::max(time, arrival) + graph.getTime(graph.getNode(place, kB, 0));
  }
  // Fewer than on the stages before, whose forwards they need.
  for (int place : lanes.order) {
    for (const Waves::Neighbour &other : waves.before[place])
      counts[place] = std::min(
          counts[place],
          std::max(0, counts[other.place] - lanes.hasBackward[other.place]));
    counts[place] = std::min(counts[place], n - 1);
  }
  return counts;
}

bool WaveRun::warmUp() {
  for (int place : lanes.order)
    if (!run.put(place, kF))
      return false;
  std::vector<int> counts = countWarmups();
  for (int place : lanes.order)
    for (int i = 0; i < counts[place] && run.put(place, kF);)
      ++i;
  return true;
}

bool WaveRun::fitsBefore(int place, Time gradient) const {
  int lane = lanes.laneOf[place];
  TaskGraph::Node node = run.getNext(place, kF);
  Footprint footprint = run.getFootprint();
  bool split = lanes.split[place];
  // With slots a weight gradient gives nothing back, but then there is less to
  // take.
  Bytes bytes = run.getHeld(lane);
  Time time = run.getTime(lane) + graph.getTime(node);
  for (TaskGraph::Node weight : run.getPending(lane)) {
    if (bytes + footprint.peek(node, split) <= lanes.limit[lane])
      break;
    bytes += footprint.run(weight, true);
    time += graph.getTime(weight);
  }
  return time <= gradient;
}

bool WaveRun::needsForward(int place) const {
  if (countForwards(place) >= n)
    return false;
  if (!rules.skipForwards)
    return true;
  // The gradient comes when the next stages have run a forward and it.
  Time gradient = -1;
  for (const Waves::Neighbour &other : waves.after[place]) {
    if (!other.gradient || run.getCount(other.place, kB) >= n)
      continue;
    if (countForwards(place) < countForwards(other.place) + 2)
      return true;
    gradient =
        std::max(gradient, run.getTime(lanes.laneOf[other.place]) +
                               graph.getTime(run.getNext(other.place, kF)) +
                               graph.getTime(run.getNext(other.place, kB)) +
                               other.latency);
  }
  if (gradient < 0)
    return true;
  int lane = lanes.laneOf[place];
  if (run.getTime(lane) >= gradient)
    return false;
  return fitsBefore(place, gradient) ||
         gradient - run.getTime(lane) > run.getAllowance(lane);
}

void WaveRun::chooseForwards(std::vector<bool> &required) const {
  for (int place : lanes.order)
    required[place] = needsForward(place);
  // Who has nobody to run for leaves it, too.
  for (int place : llvm::reverse(lanes.order)) {
    bool any = waves.after[place].empty(), must = false;
    for (const Waves::Neighbour &other : waves.after[place]) {
      any |= required[other.place];
      must |= required[other.place] &&
              countForwards(place) <= countForwards(other.place);
    }
    required[place] =
        countForwards(place) < n && (must || (required[place] && any));
  }
}

bool WaveRun::wave(int microbatch, std::vector<bool> &required) {
  if (microbatch) {
    chooseForwards(required);
    for (int place : lanes.order)
      if (required[place] && !run.append(place, kF) &&
          countForwards(place) <= microbatch)
        return false;
  }
  for (int place : llvm::reverse(lanes.order)) {
    if (!lanes.hasBackward[place])
      continue;
    // Nobody waits for the gradients of a first stage: once its forwards have
    // run it has no reason to put anything off.
    if (microbatch && isSource(place) && countForwards(place) == n)
      run.flush(lanes.laneOf[place]);
    if (!run.append(place, kB))
      return false;
  }
  return true;
}

std::optional<LaneResult> WaveRun::make() {
  if (!warmUp())
    return std::nullopt;
  std::vector<bool> required(graph.getNumPlaces());
  for (int k = 0; k < n; ++k)
    if (!wave(k, required))
      return std::nullopt;
  return run.finish();
}

std::optional<LaneResult> Waves::run(const WaveRules &rules) const {
  return WaveRun(*this, rules).make();
}

} // namespace dt::scheduler
