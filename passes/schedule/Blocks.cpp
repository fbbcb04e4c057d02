//===- Blocks.cpp - Orders that repeat a block ----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/schedule/Blocks.h"

#include <algorithm>
#include <tuple>

namespace dt::schedule {

Blocks::Blocks(const Lanes &lanes) : lanes(lanes) {
  const Graph &graph = *lanes.graph;
  int n = graph.getNumMicrobatches();
  roundOf.assign(graph.getNumPlaces(), 0);
  forward.assign(graph.getNumPlaces(), 0);
  gradient.assign(graph.getNumPlaces(), 0);
  weight.assign(graph.getNumPlaces(), 0);
  activation.assign(graph.getNumPlaces(), 0);
  for (const std::vector<int> &places : lanes.places) {
    for (size_t i = 0; i < places.size(); ++i)
      roundOf[places[i]] = int(i);
    rounds = std::max(rounds, int(places.size()));
  }
  for (int place : lanes.order) {
    for (int k = 0; k < n; ++k) {
      activation[place] = std::max(
          activation[place],
          graph.getActivation(graph.getNode(place, Graph::kForward, k)));
      forward[place] += graph.getTime(graph.getNode(place, Graph::kForward, k));
      gradient[place] +=
          graph.getTime(graph.getNode(place, Graph::kGradient, k));
      if (lanes.split[place])
        weight[place] += graph.getTime(graph.getNode(place, Graph::kWeight, k));
    }
    weight[place] /= n;
    forward[place] /= n;
    gradient[place] /= n;
  }
  for (Time time : lanes.busy)
    work = std::max(work, (time + n - 1) / n);
}

namespace {

/// What a lane does in every period: a modulo reservation table (Rau,
/// "Iterative Modulo Scheduling", 1994).
class Reservations {
public:
  Reservations(int lanes, Time period) : taken(lanes), period(period) {}

  /// The first time from `ready` on that is free in every period; if there is
  /// none, `ready`.
  Time reserve(int lane, Time ready, Time duration) {
    Time best = -1;
    auto look = [&](Time time) {
      if ((best < 0 || time < best) && isFree(lane, time, duration))
        best = time;
    };
    look(ready);
    for (auto [begin, length] : taken[lane]) {
      Time end = begin + length;
      look(ready + ((end - ready) % period + period) % period);
    }
    if (best < 0)
      best = ready;
    taken[lane].push_back({best, duration});
    return best;
  }

private:
  bool isFree(int lane, Time time, Time duration) const {
    for (auto [begin, length] : taken[lane]) {
      // From this task's begin to the next begin of that one, and back.
      Time until = ((begin - time) % period + period) % period;
      if (length && duration && (until < duration || period - until < length))
        return false;
    }
    return true;
  }

  std::vector<std::vector<std::pair<Time, Time>>> taken;
  Time period;
};

} // namespace

Blocks::Way Blocks::getWay(const BlockPolicy &policy, Time period) const {
  const Graph &graph = *lanes.graph;
  Way way{std::vector<Time>(graph.getNumPlaces(), 0),
          std::vector<Time>(graph.getNumPlaces(), 0)};
  Reservations reservations(lanes.getNumLanes(), period);
  Time unit = policy.even ? std::max<Time>(1, work / (3 * rounds)) : 0;
  auto length = [&](Time time) { return unit ? unit : time; };
  auto hop = [&](Time time, Time latency) {
    return unit ? unit : time + latency;
  };
  for (int place : lanes.order) {
    Graph::Node node = graph.getNode(place, Graph::kForward, 0);
    Time ready = 0;
    for (const Graph::Dependence &d : graph.getPredecessors(node)) {
      int other = graph.getPlaceOf(d.node);
      ready =
          std::max(ready, way.forward[other] + hop(forward[other], d.latency));
    }
    way.forward[place] = reservations.reserve(
        lanes.laneOf[place],
        ready + policy.forward[roundOf[place]] * work / 384,
        length(forward[place]));
  }
  for (auto p = lanes.order.rbegin(); p != lanes.order.rend(); ++p) {
    int place = *p;
    if (!lanes.hasBackward[place])
      continue;
    Graph::Node node = graph.getNode(place, Graph::kGradient, 0);
    Time ready = way.forward[place] + length(forward[place]);
    for (const Graph::Dependence &d : graph.getPredecessors(node)) {
      int other = graph.getPlaceOf(d.node);
      ready = std::max(ready,
                       way.gradient[other] + hop(gradient[other], d.latency));
    }
    way.gradient[place] = reservations.reserve(
        lanes.laneOf[place],
        ready + policy.gradient[roundOf[place]] * work / 384,
        length(gradient[place]) +
            (policy.together ? length(weight[place]) : 0));
  }
  return way;
}

std::vector<Blocks::Step> Blocks::getSteps(const Way &way, Time period) const {
  std::vector<Step> steps;
  auto add = [&](int place, Graph::Slot slot, Time time) {
    steps.push_back({time % period, int(time / period), place, slot});
  };
  for (int place : lanes.order) {
    add(place, Graph::kForward, way.forward[place]);
    if (lanes.hasBackward[place])
      add(place, Graph::kGradient, way.gradient[place]);
  }
  // Of equal times gradients go first.
  std::sort(steps.begin(), steps.end(), [](const Step &a, const Step &b) {
    auto key = [](const Step &s) {
      return std::make_tuple(s.offset, s.slot != Graph::kGradient, s.cycle,
                             s.place);
    };
    return key(a) < key(b);
  });
  return steps;
}

/// Whether memory holds what is between forward and gradient, if weight
/// gradients follow at once.
bool Blocks::fits(const std::vector<Step> &steps) const {
  int n = lanes.graph->getNumMicrobatches();
  std::vector<Bytes> held(lanes.getNumLanes(), 0);
  // In a period in the middle: what has gone forward before it and not back.
  for (const Step &step : steps) {
    Bytes bytes = activation[step.place];
    if (lanes.hasBackward[step.place])
      held[lanes.laneOf[step.place]] +=
          (step.slot == Graph::kForward ? -1 : 1) * bytes *
          std::min(step.cycle, n);
  }
  for (const Step &step : steps) {
    if (!lanes.hasBackward[step.place])
      continue;
    int lane = lanes.laneOf[step.place];
    held[lane] +=
        (step.slot == Graph::kForward ? 1 : -1) * activation[step.place];
    if (held[lane] > lanes.limit[lane])
      return false;
  }
  return true;
}

int Blocks::getPeriod(const BlockPolicy &policy, int64_t &left) const {
  auto works = [&](int factor) {
    left -= int64_t(lanes.order.size());
    Time period = std::max<Time>(1, work * factor / 384);
    return fits(getSteps(getWay(policy, period), period));
  };
  int low = policy.period, high = low;
  for (; !works(high); high += high / 2) {
    if (high > 384 * 64)
      return 0;
    low = high;
  }
  while (high - low > 4) {
    int middle = (low + high) / 2;
    (works(middle) ? high : low) = middle;
  }
  return high;
}

std::optional<LaneResult> Blocks::run(const BlockPolicy &policy) const {
  Time period = work * policy.period / 384;
  if (period <= 0)
    return std::nullopt;
  std::vector<Step> steps = getSteps(getWay(policy, period), period);
  int cycles = 0, n = lanes.graph->getNumMicrobatches();
  for (const Step &step : steps)
    cycles = std::max(cycles, step.cycle + n);
  LaneRun run(lanes, policy.fill);
  for (int cycle = 0; cycle < cycles; ++cycle)
    for (const Step &step : steps)
      if (cycle >= step.cycle && cycle < step.cycle + n &&
          !run.append(step.place, step.slot))
        return std::nullopt;
  return run.finish();
}

} // namespace dt::schedule
