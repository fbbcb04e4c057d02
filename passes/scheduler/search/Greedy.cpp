//===- Greedy.cpp - Schedules by simulating what ranks choose -------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/search/Greedy.h"

#include "passes/scheduler/core/Footprint.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <array>
#include <limits>
#include <queue>

namespace dt::scheduler {

namespace {

class Greedy {
public:
  Greedy(const TaskGraph &graph, const std::vector<Bytes> &memory,
         const GreedyRules &rules)
      : graph(graph), problem(graph.getProblem()), rules(rules), limit(memory),
        footprint(graph), bounded(!memory.empty()) {
    if (!bounded)
      limit.assign(problem.ranks, std::numeric_limits<Bytes>::max());
    level = rules.level;
    prepare();
  }

  std::optional<Solution> run();

private:
  bool lowerLevels(Time now);
  void prepare();
  void setFillers();
  void setReserves();
  /// A rank that is busy then is woken when it ends.
  void wake(Time time, int place) {
    for (int rank : graph.getRanks(place))
      if (freeAt[rank] <= time && queued[rank] != time) {
        events.push({time, rank});
        queued[rank] = time;
      }
  }
  void start(TaskGraph::Node node, Time now);
  /// What a rank could do: places, or -1.
  struct Choice {
    int forward = -1, gradient = -1, weight = -1;
    Time soonest = kNever; ///< known arrival of what cannot start yet
    bool blocked = false;  ///< a forward could start but for memory
  };
  Choice look(int rank, Time now, bool filler) const;
  TaskGraph::Node take(int place, TaskGraph::Slot slot) const;
  bool isHeld(int place, int rank, Time now) const;
  /// The task that `rank` starts now, or -1 to wait.
  TaskGraph::Node choose(int rank, Time now) const;
  /// Whether the others of a free rank's group are free too.
  bool isFree(int place, Time now) const {
    for (int rank : graph.getRanks(place))
      if (freeAt[rank] > now)
        return false;
    return true;
  }
  bool fitsMemory(int place) const {
    if (!bounded)
      return true;
    TaskGraph::Node node = take(place, TaskGraph::kForward);
    Bytes need = graph.hasSlots() ? footprint.peek(node, split[place])
                                  : graph.getActivation(node) + reserve[place];
    for (int rank : graph.getRanks(place))
      if (held[rank] > limit[rank] - growth[rank] - need)
        return false;
    return true;
  }
  /// When the next forward (gradient) of a place can start, for all that is
  /// known; kNever if not known, or none is left.
  Time getArrival(int place, TaskGraph::Slot slot) const {
    if (next[place][slot] == counts[place])
      return kNever;
    const Wait &wait = waits[take(place, slot)];
    return wait.missing ? kNever : wait.arrival;
  }
  bool mayForward(int place) const {
    int ahead = next[place][0] - next[place][1];
    if (!rules.inFlight.empty() && ahead >= rules.inFlight[place])
      return false;
    if (rules.inStep)
      for (int other : before[place])
        if (next[other][0] - next[other][1] >= rules.inFlight[other])
          return false;
    if (level.empty() || ahead < level[place])
      return true;
    return !next[place][1] && !rules.warmup.empty() &&
           ahead < rules.warmup[place];
  }
  bool mayGradient(int place) const {
    return level.empty() || next[place][0] == counts[place] ||
           next[place][0] - next[place][1] >= level[place];
  }
  /// Whether an input gradient would keep more for its weight gradient than its
  /// forward kept, and more than there is.
  bool overflows(int place) const {
    if (!split[place])
      return false;
    Bytes more = footprint.peek(take(place, TaskGraph::kGradient), true);
    for (int rank : graph.getRanks(place))
      if (more > 0 && held[rank] > limit[rank] - more)
        return true;
    return false;
  }

  /// What a task waits for: tasks that have not started, then the latest
  /// arrival. One that is not there waits for ever.
  struct Wait {
    Time arrival = 0;
    int missing = 0;
  };

  const TaskGraph &graph;
  const Problem &problem;
  const GreedyRules &rules;
  std::vector<Bytes> limit, held, reserve;
  Footprint footprint;
  bool bounded; ///< by memory
  /// By rank: what an input gradient may add, which forwards leave free.
  std::vector<Bytes> growth;
  std::vector<std::array<int, 3>> next;
  std::vector<int> counts, order, depths, level;
  std::vector<uint8_t> split; ///< by place
  /// By rank: its places, fillers apart.
  std::array<std::vector<llvm::SmallVector<int, 4>>, 2> placesOf;
  /// By place, of a filler that keeps in step: places of its ranks that come
  /// before it and are no fillers.
  std::vector<llvm::SmallVector<int, 1>> before;
  std::vector<Wait> waits; ///< by node
  std::vector<Time> freeAt;
  std::vector<Time> queued; ///< by rank: of its last event, until that is here
  /// By rank: idle time so far, and how much it may be.
  std::vector<Time> idle, allowed;
  std::priority_queue<std::pair<Time, int>, std::vector<std::pair<Time, int>>,
                      std::greater<std::pair<Time, int>>>
      events;
  Solution solution;
};

void Greedy::prepare() {
  int places = graph.getNumPlaces();
  for (int rank = 0; rank < problem.ranks; ++rank)
    held.push_back(footprint.begin(graph.getPlacesOfRank(rank)));
  freeAt.assign(problem.ranks, 0);
  queued.assign(problem.ranks, -1);
  next.assign(places, {0, 0, 0});
  waits.resize(graph.getNumNodes());
  solution.ranks.resize(problem.ranks);
  std::vector<int> stageDepths = problem.getDepths();
  for (int place = 0; place < places; ++place) {
    int stage = graph.getPlaceInfo(place).stage;
    counts.push_back(problem.stages[stage].batchSync ? problem.getNumGroups()
                                                     : problem.microbatches);
    split.push_back(rules.split && graph.canSplit(stage));
    depths.push_back(stageDepths[stage]);
    order.push_back(rules.rank.empty() ? depths[place] : rules.rank[place]);
    wake(0, place);
  }
  for (int rank = 0; rank < problem.ranks; ++rank)
    solution.ranks[rank].reserve(graph.getPlacesOfRank(rank).size() *
                                 problem.microbatches * 3);
  for (TaskGraph::Node node = 0; node < graph.getNumNodes(); ++node)
    waits[node].missing =
        graph.exists(node) ? int(graph.getPredecessors(node).size()) +
                                 (graph.getSlotOf(node) != TaskGraph::kForward)
                           : std::numeric_limits<int>::max();
  setFillers();
  setReserves();
  idle.assign(problem.ranks, 0);
  allowed.assign(problem.ranks, rules.target);
  for (TaskGraph::Node node = 0; rules.target && node < graph.getNumNodes();
       ++node)
    if (graph.exists(node))
      for (int rank : graph.getRanks(graph.getPlaceOf(node)))
        allowed[rank] -= graph.getTime(node);
}

void Greedy::setFillers() {
  auto isFiller = [&](int place) {
    return !rules.filler.empty() && rules.filler[place];
  };
  for (bool filler : {false, true})
    placesOf[filler].resize(problem.ranks);
  for (int rank = 0; rank < problem.ranks; ++rank)
    for (int place : graph.getPlacesOfRank(rank))
      placesOf[isFiller(place)][rank].push_back(place);
  before.resize(graph.getNumPlaces());
  for (int place = 0; rules.inStep && place < graph.getNumPlaces(); ++place)
    for (int rank : graph.getRanks(place))
      for (int other : placesOf[false][rank])
        if (isFiller(place) && depths[other] < depths[place])
          before[place].push_back(other);
}

void Greedy::setReserves() {
  growth.assign(problem.ranks, 0);
  reserve.assign(graph.getNumPlaces(), 0);
  // Places have a slot of each kind from the beginning.
  if (!bounded || graph.hasSlots())
    return;
  // Stages after another one, transitively.
  size_t count = problem.stages.size();
  std::vector<std::vector<bool>> after(count, std::vector<bool>(count));
  std::vector<int> topological = problem.getTopologicalOrder();
  for (int stage : llvm::reverse(topological))
    for (const Edge &edge : problem.edges)
      if (edge.from == stage) {
        after[stage][edge.to] = true;
        for (size_t t = 0; t < count; ++t)
          if (after[edge.to][t])
            after[stage][t] = true;
      }
  for (int place = 0; place < graph.getNumPlaces(); ++place)
    for (int k = 0; split[place] && k < counts[place]; ++k)
      for (int rank : graph.getRanks(place))
        growth[rank] =
            std::max(growth[rank],
                     graph.getMemoryChange(
                         graph.getNode(place, TaskGraph::kGradient, k), true));
  for (int place = 0; place < graph.getNumPlaces(); ++place)
    for (int rank : graph.getRanks(place)) {
      Bytes sum = 0;
      for (int other : graph.getPlacesOfRank(rank)) {
        int stage = graph.getPlaceInfo(other).stage;
        if (after[graph.getPlaceInfo(place).stage][stage] &&
            !problem.stages[stage].batchSync)
          sum += graph.getMostActivation(other);
      }
      reserve[place] = std::max(reserve[place], sum);
    }
}

void Greedy::start(TaskGraph::Node node, Time now) {
  int place = graph.getPlaceOf(node);
  TaskGraph::Slot slot = graph.getSlotOf(node);
  Time end = now + graph.getTime(node, split[place]);
  ++next[place][slot];
  Task task = graph.getTask(node, split[place]);
  Bytes change = footprint.run(node, split[place]);
  for (int rank : graph.getRanks(place)) {
    if (rules.wall || !solution.ranks[rank].empty())
      idle[rank] += now - freeAt[rank];
    freeAt[rank] = end;
    held[rank] += change;
    solution.ranks[rank].push_back(task);
  }
  wake(end, place);
  auto release = [&](TaskGraph::Node successor, Time time) {
    Wait &wait = waits[successor];
    wait.arrival = std::max(wait.arrival, time);
    if (--wait.missing == 0)
      wake(std::max(wait.arrival, now), graph.getPlaceOf(successor));
  };
  for (const TaskGraph::Dependence &successor : graph.getSuccessors(node))
    release(successor.node, end + successor.latency);
  if (slot == TaskGraph::kForward && graph.exists(node + 1))
    release(node + 1, end);
}

Greedy::Choice Greedy::look(int rank, Time now, bool filler) const {
  Choice choice;
  auto better = [&](int place, int best, TaskGraph::Slot slot) {
    return best < 0 || std::make_pair(order[place], next[place][slot]) <
                           std::make_pair(order[best], next[best][slot]);
  };
  for (int place : placesOf[filler][rank]) {
    // Most wait for something.
    Time gradient = getArrival(place, TaskGraph::kGradient),
         forward = getArrival(place, TaskGraph::kForward);
    bool late = split[place] && next[place][2] < next[place][1];
    if ((gradient == kNever && forward == kNever && !late) ||
        !isFree(place, now))
      continue;
    Time at = mayGradient(place) ? gradient : kNever;
    if (at > now)
      choice.soonest = std::min(choice.soonest, at);
    else if (better(place, choice.gradient, TaskGraph::kGradient))
      choice.gradient = place;
    at = mayForward(place) ? forward : kNever;
    if (at != kNever && !fitsMemory(place))
      choice.blocked |= at <= now;
    else if (at > now)
      choice.soonest = std::min(choice.soonest, at);
    else if (better(place, choice.forward, TaskGraph::kForward))
      choice.forward = place;
    if (late && (choice.weight < 0 || next[place][2] < next[choice.weight][2]))
      choice.weight = place;
  }
  return choice;
}

bool Greedy::isHeld(int place, int rank, Time now) const {
  if (!rules.hold || next[place][1])
    return false;
  Time time = graph.getTime(take(place, TaskGraph::kForward));
  for (int other : graph.getPlacesOfRank(rank)) {
    if (next[other][1])
      return false;
    if (depths[other] >= depths[place] || !mayForward(other))
      continue;
    Time at = getArrival(other, TaskGraph::kForward);
    if (at != kNever && (at - now) * 16 < time * rules.hold)
      return true;
  }
  return false;
}

TaskGraph::Node Greedy::take(int place, TaskGraph::Slot slot) const {
  return graph.getNode(place, slot, next[place][slot]);
}

TaskGraph::Node Greedy::choose(int rank, Time now) const {
  Choice main = look(rank, now, false);
  // Weight gradients make room first; without any, what forwards left free is
  // enough.
  if (main.gradient >= 0 && main.weight >= 0 && overflows(main.gradient))
    return take(main.weight, TaskGraph::kWeight);
  if (main.gradient >= 0)
    return take(main.gradient, TaskGraph::kGradient);
  if (main.forward >= 0 && !isHeld(main.forward, rank, now))
    return take(main.forward, TaskGraph::kForward);
  // Nothing is due: fill the gap, if the next task that is known to come leaves
  // one.
  auto fits = [&](TaskGraph::Node node, int patience) {
    return main.soonest == kNever ||
           (rules.target && idle[rank] + main.soonest - now > allowed[rank]) ||
           (main.soonest - now) * 16 >= graph.getTime(node) * patience;
  };
  if (main.weight >= 0) {
    bool tail = next[main.weight][0] == counts[main.weight];
    TaskGraph::Node node = take(main.weight, TaskGraph::kWeight);
    if (main.blocked || fits(node, tail ? rules.tailPatience : rules.patience))
      return node;
  }
  if (rules.filler.empty())
    return -1;
  Choice fill = look(rank, now, true);
  for (auto [place, slot] :
       {std::make_pair(fill.gradient, TaskGraph::kGradient),
        std::make_pair(fill.forward, TaskGraph::kForward),
        std::make_pair(fill.weight, TaskGraph::kWeight)})
    if (place >= 0 && fits(take(place, slot), rules.patience))
      return take(place, slot);
  return -1;
}

/// Where memory keeps places from their levels, all wait for gradients that
/// they do not take: what they hold then is their level. False if none waits.
bool Greedy::lowerLevels(Time now) {
  bool any = false;
  for (int place = 0; place < int(level.size()); ++place) {
    Time at = getArrival(place, TaskGraph::kGradient);
    if (at == kNever || mayGradient(place))
      continue;
    level[place] = next[place][0] - next[place][1];
    wake(std::max(at, now), place);
    any = true;
  }
  return any;
}

std::optional<Solution> Greedy::run() {
  Time last = 0;
  while (!events.empty() || lowerLevels(last)) {
    auto [now, rank] = events.top();
    last = std::max(last, now);
    events.pop();
    if (queued[rank] == now)
      queued[rank] = -1;
    if (freeAt[rank] > now)
      continue;
    // Tasks without duration leave the rank free at once.
    while (freeAt[rank] <= now) {
      TaskGraph::Node node = choose(rank, now);
      if (node < 0)
        break;
      start(node, now);
    }
  }
  for (int place = 0; place < graph.getNumPlaces(); ++place) {
    const Stage &stage = problem.stages[graph.getPlaceInfo(place).stage];
    if (next[place][0] < counts[place] ||
        (stage.hasBackward && next[place][1] < counts[place]) ||
        (split[place] && next[place][2] < counts[place]))
      return std::nullopt;
  }
  return std::move(solution);
}

} // namespace

std::optional<Solution> runGreedy(const TaskGraph &graph,
                                  const std::vector<Bytes> &memory,
                                  const GreedyRules &rules) {
  return Greedy(graph, memory, rules).run();
}

} // namespace dt::scheduler
