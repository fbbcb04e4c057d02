//===- Blocks.cpp - Orders that repeat a block ----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/search/Blocks.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <tuple>

namespace dt::scheduler {

Blocks::Blocks(const Lanes &lanes) : lanes(lanes) {
  const TaskGraph &graph = *lanes.graph;
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
    activation[place] = graph.getMostActivation(place);
    for (int k = 0; k < n; ++k) {
      forward[place] +=
          graph.getTime(graph.getNode(place, TaskGraph::kForward, k));
      gradient[place] +=
          graph.getTime(graph.getNode(place, TaskGraph::kGradient, k));
      if (lanes.split[place])
        weight[place] +=
            graph.getTime(graph.getNode(place, TaskGraph::kWeight, k));
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

  /// The same of the times that are `phase` modulo the period's `parts`; -1 if
  /// none is free.
  Time reserveOnGrid(int lane, Time ready, Time duration, Time phase,
                     int parts) {
    Time best = -1;
    for (int part = 0; part < parts; ++part) {
      Time at = (phase + period * part / parts) % period,
           time = ready + ((at - ready) % period + period) % period;
      if ((best < 0 || time < best) && isFree(lane, time, duration))
        best = time;
    }
    if (best >= 0)
      taken[lane].push_back({best, duration});
    return best;
  }

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

Blocks::Lengths Blocks::getLengths(const BlockRules &rules) const {
  Lengths lengths{forward, gradient, weight, {}};
  if (rules.even) {
    Time unit = std::max<Time>(1, work / (3 * rounds));
    for (std::vector<Time> *times :
         {&lengths.forward, &lengths.gradient, &lengths.weight})
      times->assign(times->size(), unit);
  }
  // On a grid all that goes one way is as long as the longest of it, so that
  // what comes later finds the grid where it gets to.
  lengths.there.assign(lanes.getNumLanes(), 0);
  for (const std::vector<int> &places : lanes.places) {
    Time most[2] = {0, 0};
    for (int place : places) {
      int back = roundOf[place] % 2;
      most[back] = std::max(most[back], lengths.forward[place]);
      most[!back] = std::max(most[!back], lengths.gradient[place]);
    }
    lengths.there[lanes.laneOf[places[0]]] = most[0];
    for (int place : places)
      if (rules.grid) {
        lengths.forward[place] = most[roundOf[place] % 2];
        lengths.gradient[place] = most[roundOf[place] % 2 == 0];
      }
  }
  return lengths;
}

Blocks::Way Blocks::getWay(const BlockRules &rules, Time period) const {
  const TaskGraph &graph = *lanes.graph;
  Way way{std::vector<Time>(graph.getNumPlaces(), 0),
          std::vector<Time>(graph.getNumPlaces(), 0)};
  Reservations reservations(lanes.getNumLanes(), period);
  Lengths lengths = getLengths(rules);
  auto getHop = [&](const TaskGraph::Dependence &d) {
    const std::vector<Time> &times =
        graph.getSlotOf(d.node) == TaskGraph::kForward ? lengths.forward
                                                       : lengths.gradient;
    return times[graph.getPlaceOf(d.node)] + (rules.even ? 0 : d.latency);
  };
  // Where a lane's grid begins: its first forward.
  std::vector<Time> origin(lanes.getNumLanes(), -1);
  auto reserve = [&](int place, Time ready, Time duration, bool back) {
    int lane = lanes.laneOf[place];
    if (rules.grid && origin[lane] >= 0) {
      Time time = reservations.reserveOnGrid(
          lane, ready, duration,
          origin[lane] + (back ? lengths.there[lane] : 0), rules.grid);
      if (time >= 0)
        return time;
    }
    Time time = reservations.reserve(lane, ready, duration);
    if (origin[lane] < 0)
      origin[lane] = time;
    return time;
  };
  for (int place : lanes.order) {
    TaskGraph::Node node = graph.getNode(place, TaskGraph::kForward, 0);
    Time ready = 0;
    for (const TaskGraph::Dependence &d : graph.getPredecessors(node))
      ready =
          std::max(ready, way.forward[graph.getPlaceOf(d.node)] + getHop(d));
    way.forward[place] =
        reserve(place, ready + rules.forward[roundOf[place]] * work / 384,
                lengths.forward[place], roundOf[place] % 2);
  }
  for (int place : llvm::reverse(lanes.order)) {
    if (!lanes.hasBackward[place])
      continue;
    TaskGraph::Node node = graph.getNode(place, TaskGraph::kGradient, 0);
    Time ready = way.forward[place] + lengths.forward[place];
    for (const TaskGraph::Dependence &d : graph.getPredecessors(node))
      ready =
          std::max(ready, way.gradient[graph.getPlaceOf(d.node)] + getHop(d));
    way.gradient[place] = reserve(
        place, ready + rules.gradient[roundOf[place]] * work / 384,
        lengths.gradient[place] + (rules.together ? lengths.weight[place] : 0),
        roundOf[place] % 2 == 0);
  }
  return way;
}

std::vector<Blocks::Reservation> Blocks::getSteps(const Way &way,
                                                  Time period) const {
  std::vector<Reservation> steps;
  auto add = [&](int place, TaskGraph::Slot slot, Time time) {
    steps.push_back({time % period, int(time / period), place, slot});
  };
  for (int place : lanes.order) {
    add(place, TaskGraph::kForward, way.forward[place]);
    if (lanes.hasBackward[place])
      add(place, TaskGraph::kGradient, way.gradient[place]);
  }
  // Of equal times gradients go first.
  std::sort(steps.begin(), steps.end(),
            [](const Reservation &a, const Reservation &b) {
              auto key = [](const Reservation &s) {
                return std::make_tuple(s.offset, s.slot != TaskGraph::kGradient,
                                       s.cycle, s.place);
              };
              return key(a) < key(b);
            });
  return steps;
}

/// Whether memory holds what is between forward and gradient, if weight
/// gradients follow at once.
bool Blocks::fits(const std::vector<Reservation> &steps) const {
  int n = lanes.graph->getNumMicrobatches();
  std::vector<Bytes> held(lanes.getNumLanes(), 0);
  // In a period in the middle: what has gone forward before it and not back.
  for (const Reservation &step : steps) {
    Bytes bytes = activation[step.place];
    if (lanes.hasBackward[step.place])
      held[lanes.laneOf[step.place]] +=
          (step.slot == TaskGraph::kForward ? -1 : 1) * bytes *
          std::min(step.cycle, n);
  }
  for (const Reservation &step : steps) {
    if (!lanes.hasBackward[step.place])
      continue;
    int lane = lanes.laneOf[step.place];
    held[lane] +=
        (step.slot == TaskGraph::kForward ? 1 : -1) * activation[step.place];
    if (held[lane] > lanes.limit[lane] - lanes.late[lane])
      return false;
  }
  return true;
}

int Blocks::getPeriod(const BlockRules &rules, int64_t &left) const {
  auto works = [&](int factor) {
    left -= int64_t(lanes.order.size());
    Time period = std::max<Time>(1, work * factor / 384);
    return fits(getSteps(getWay(rules, period), period));
  };
  int low = rules.period, high = low;
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

std::optional<LaneResult> Blocks::run(const BlockRules &rules) const {
  Time period = work * rules.period / 384;
  if (period <= 0)
    return std::nullopt;
  std::vector<Reservation> steps = getSteps(getWay(rules, period), period);
  int cycles = 0, n = lanes.graph->getNumMicrobatches();
  for (const Reservation &step : steps)
    cycles = std::max(cycles, step.cycle + n);
  LaneRun run(lanes, rules.fill);
  for (int cycle = 0; cycle < cycles; ++cycle)
    for (const Reservation &step : steps)
      if (cycle >= step.cycle && cycle < step.cycle + n &&
          !run.append(step.place, step.slot))
        return std::nullopt;
  return run.finish();
}

} // namespace dt::scheduler
