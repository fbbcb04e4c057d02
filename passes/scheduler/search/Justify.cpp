//===- Justify.cpp - Orders improved by pushing to and fro ----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/search/Justify.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <tuple>

namespace dt::scheduler {

/// Tasks that one is moved past at most: keeps a pass linear.
static constexpr int kLookBack = 64;

Justify::Justify(const Lanes &lanes) : lanes(lanes), graph(*lanes.graph) {
  changes.resize(graph.getNumNodes());
  for (int place : lanes.order)
    for (int k = 0; k < graph.getNumMicrobatches(); ++k)
      for (auto slot :
           {TaskGraph::kForward, TaskGraph::kGradient, TaskGraph::kWeight}) {
        TaskGraph::Node node = graph.getNode(place, slot, k);
        if (!graph.exists(node))
          continue;
        ++count;
        changes[node] = getChange(node, lanes.split[place]);
      }
  lists.resize(lanes.getNumLanes());
}

/// Where bytes add up all are `early`.
Justify::Held Justify::getChange(TaskGraph::Node node, bool split) const {
  if (!graph.hasSlots())
    return {graph.getMemoryChange(node, split), 0, 0};
  auto [change, freed] = graph.getSlotChanges(node, split);
  for (auto kind : TaskGraph::kSlotKinds)
    change.*kind -= freed.*kind;
  return change;
}

template <typename Put>
bool Justify::visit(const Order &order, bool back, Put put) {
  std::fill(end.begin(), end.end(), -1);
  std::vector<size_t> cursor(order.size(), 0);
  size_t left = count;
  auto advance = [&](size_t lane) {
    for (; cursor[lane] < order[lane].size(); ++cursor[lane], --left) {
      TaskGraph::Node node = order[lane][cursor[lane]];
      Time arrival = graph.getArrival(node, end, back);
      if (arrival < 0)
        break;
      if (!put(node, arrival))
        return false;
    }
    return true;
  };
  // To and fro over the lanes, as microbatches go.
  for (size_t before = left + 1; left && left < before;) {
    before = left;
    for (size_t lane = 0; lane < order.size(); ++lane)
      if (!advance(lane))
        return false;
    for (size_t lane = order.size(); lane-- > 0;)
      if (!advance(lane))
        return false;
  }
  return !left;
}

bool Justify::put(TaskGraph::Node node, Time arrival, bool back) {
  Time duration = graph.getTime(node);
  int lane = lanes.laneOf[graph.getPlaceOf(node)];
  std::vector<Entry> &list = lists[lane];
  Held change = changes[node];
  for (auto kind : TaskGraph::kSlotKinds)
    change.*kind *= back ? -1 : 1;
  auto isFull = [&](const Entry &entry) {
    return llvm::any_of(TaskGraph::kSlotKinds, [&](auto kind) {
      return change.*kind > 0 &&
             entry.held.*kind > most[lane].*kind - change.*kind;
    });
  };
  size_t at = list.size();
  Time time = std::max(arrival, at ? list.back().end : 0);
  if (at && isFull(list.back()))
    return false;
  // The earliest gap that is long enough, with memory from then on.
  size_t least = at > kLookBack ? at - kLookBack : 0;
  for (size_t i = at; i-- > least;) {
    // What ends by then may be what it waits for, also if it takes no time.
    if (list[i].start < arrival + duration || list[i].end <= arrival ||
        (i && isFull(list[i - 1])))
      break;
    Time free = std::max(arrival, i ? list[i - 1].end : 0);
    if (free + duration <= list[i].start) {
      at = i;
      time = free;
    }
  }
  list.insert(list.begin() + at,
              {time, time + duration, node, at ? list[at - 1].held : Held()});
  bool any = llvm::any_of(TaskGraph::kSlotKinds,
                          [&](auto kind) { return change.*kind; });
  for (size_t i = at; any && i < list.size(); ++i)
    for (auto kind : TaskGraph::kSlotKinds)
      list[i].held.*kind += change.*kind;
  end[node] = time + duration;
  return true;
}

bool Justify::pass(const Order &order, bool back) {
  for (size_t lane = 0; lane < lists.size(); ++lane) {
    lists[lane].clear();
    lists[lane].reserve(order[lane].size());
  }
  if (!visit(order, back, [&](TaskGraph::Node node, Time arrival) {
        return put(node, arrival, back);
      }))
    return false;
  wall = 0;
  for (const std::vector<Entry> &list : lists)
    if (!list.empty())
      wall = std::max(wall, list.back().end);
  return true;
}

void Justify::shareMemory(const Order &order) {
  most.clear();
  for (size_t lane = 0; lane < order.size(); ++lane) {
    Bytes limit = lanes.limit[lane];
    Held &own = most.emplace_back(Held{limit, limit, limit});
    if (!graph.hasSlots() || limit == kNever)
      continue;
    own = {0, 0, lanes.late[lane]};
    Held held;
    for (TaskGraph::Node node : order[lane])
      for (auto kind : TaskGraph::kSlotKinds)
        own.*kind = std::max(own.*kind, held.*kind += changes[node].*kind);
    // What is left is for more forwards.
    Bytes left = std::max<Bytes>(0, limit - own.total()),
          both = own.early + own.whole;
    if (both > 0) {
      auto early = Bytes(double(left) * double(own.early) / double(both));
      own.early += early;
      own.whole += left - early;
    }
  }
}

bool Justify::take(const Order &order) {
  shareMemory(order);
  end.assign(graph.getNumNodes(), -1);
  // As early as the lanes' orders allow.
  for (std::vector<Entry> &list : lists)
    list.clear();
  return visit(order, false, [&](TaskGraph::Node node, Time arrival) {
    std::vector<Entry> &list = lists[lanes.laneOf[graph.getPlaceOf(node)]];
    if (!list.empty())
      arrival = std::max(arrival, list.back().end);
    end[node] = arrival + graph.getTime(node);
    list.push_back({arrival, end[node], node, {}});
    return true;
  });
}

Justify::Order Justify::getReversed(const Nudge *nudge) const {
  Order order(lists.size());
  std::vector<std::tuple<Time, size_t, TaskGraph::Node>> keys;
  for (int lane = 0; lane < int(lists.size()); ++lane) {
    order[lane].reserve(lists[lane].size());
    if (!nudge || lane < nudge->firstLane || lane > nudge->lastLane) {
      for (const Entry &entry : llvm::reverse(lists[lane]))
        order[lane].push_back(entry.node);
      continue;
    }
    keys.clear();
    for (const Entry &entry : llvm::reverse(lists[lane]))
      keys.push_back({-entry.start, keys.size(), entry.node});
    for (auto &[time, index, node] : keys) {
      int k = graph.getMicrobatchOf(node);
      if (graph.getSlotOf(node) == nudge->slot && k >= nudge->firstMicrobatch &&
          k <= nudge->lastMicrobatch &&
          nudge->round < int(lanes.places[lane].size()) &&
          graph.getPlaceOf(node) == lanes.places[lane][nudge->round])
        time -= nudge->by;
    }
    llvm::sort(keys);
    for (const auto &[time, index, node] : keys)
      order[lane].push_back(node);
  }
  return order;
}

bool Justify::run(const Nudge *late, const Nudge *early) {
  return pass(getReversed(late), true) && pass(getReversed(early), false);
}

LaneResult Justify::getResult() const {
  LaneResult result;
  result.wall = wall;
  for (const std::vector<Entry> &list : lists) {
    result.lists.emplace_back();
    for (const Entry &entry : list)
      result.lists.back().push_back(entry.node);
    if (!list.empty())
      result.longestSpan =
          std::max(result.longestSpan, list.back().end - list.front().start);
  }
  return result;
}

} // namespace dt::scheduler
