//===- Engine.cpp - A step, event by event --------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/step/Engine.h"
#include "passes/planner/step/Reduce.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <queue>

using namespace llvm;

namespace dt::planner {

namespace {

using scheduler::Kind;
using scheduler::Solution;
using scheduler::Task;
using scheduler::TaskGraph;
using Node = TaskGraph::Node;

/// Ranks that share cores. All that run go on at the same rate, so a clock of
/// work done by each says when the next one ends: a task that starts at clock c
/// ends at c + its duration. A task of several ranks needs a core for each.
class CoreGroup {
public:
  explicit CoreGroup(int cores) : cores(cores) {}

  void start(Time now, Time duration, Node node, int width) {
    advance(now);
    running.push({clock + double(duration), node, width});
    wanted += width;
  }
  struct Next {
    Time time;
    Node node;
  };
  /// The task that ends next, if nothing changes; none where none runs.
  std::optional<Next> next(Time now) const {
    if (running.empty())
      return std::nullopt;
    double left = running.top().end - (clock + double(now - last) * rate());
    return Next{now + std::max<Time>(0, Time(std::ceil(left / rate() - 1e-6))),
                running.top().node};
  }
  void finish(Time now) {
    advance(now);
    wanted -= running.top().width;
    running.pop();
  }

private:
  struct Entry {
    double end;
    Node node;
    int width;
    bool operator>(const Entry &other) const {
      return std::tie(end, node) > std::tie(other.end, other.node);
    }
  };
  double rate() const {
    return std::min(1.0, double(cores) / double(std::max(1, wanted)));
  }
  void advance(Time now) {
    clock += double(now - last) * rate();
    last = now;
  }
  int cores, wanted = 0;
  double clock = 0;
  Time last = 0;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> running;
};

class Engine {
public:
  Engine(const TaskGraph &graph, const Solution &solution,
         const EngineOptions &options)
      : graph(graph), solution(solution), options(options),
        problem(graph.getProblem()) {}

  Expected<Simulation> run();

private:
  enum What : uint32_t { TaskEnds, Arrives, GroupEnds };
  /// When something happens; ties: in the order in which it was foreseen.
  struct Moment {
    Time time = 0;
    uint32_t order = 0;
    bool operator<(const Moment &other) const {
      return time != other.time ? time < other.time : order < other.order;
    }
  };
  /// What a task waits for: so many others, and the last message that was sent
  /// to it so far. Side by side, since whoever looks at one looks at both.
  struct Inbox {
    Time time = 0;
    uint32_t order = 0;
    int waiting = 0;
    Moment last() const { return {time, order}; }
  };
  /// Where the first rank of a place is.
  struct Site {
    int nic = -1, node = -1;
  };
  struct Event {
    Time time;
    uint32_t order;
    uint32_t what : 2, id : 30; ///< of a task, or of a group of ranks
    Moment when() const { return {time, order}; }
    bool operator>(const Event &other) const { return other.when() < when(); }
  };

  void prepare();
  void runFree();
  void runEvents();
  void post(Time time, What what, int id) {
    events.push({time, made++, what, uint32_t(id)});
  }
  void tryStart(int rank, Time now);
  void tryStartFirst(Node node, Time now);
  bool isReady(Node node) const;
  void begin(Node node, Time now);
  void taskEnded(Node node, Time now);
  Time take(int link, Time from, Time time);
  Time send(Node node, const TaskGraph::Dependence &to, Time now);
  void watch(int group, Time now);
  void finish();
  void optimize();
  Time durationOf(Node node) const {
    return graph.getTime(node, /*split=*/!merged[node]);
  }
  int widthOf(int rank) const {
    return options.width.empty() ? 1 : options.width[rank];
  }
  Node weightOf(Node node) const {
    return node - graph.getSlotOf(node) + TaskGraph::kWeight;
  }

  const TaskGraph &graph;
  const Solution &solution;
  const EngineOptions &options;
  const scheduler::Problem &problem;
  Simulation result;
  std::priority_queue<Event, std::vector<Event>, std::greater<Event>> events;
  Moment current; ///< of the event at hand
  uint32_t made = 0;
  std::vector<Inbox> inbox; ///< by task
  std::vector<Site> sites;  ///< by place, where NICs are shared
  std::vector<int> cursor, coreGroup;
  std::vector<uint32_t> watched; ///< by core group: the answer that counts
  std::vector<std::vector<Node>> lists;
  std::vector<uint8_t> merged; ///< a backward that does weights too
  std::vector<uint8_t> idle;
  std::vector<CoreGroup> groups;
  std::vector<Time> linkFree;
  std::vector<Taken> taken;    ///< links that sums of gradients go over
  std::vector<uint8_t> summed; ///< which ones those are
  size_t left = 0;
};

void Engine::prepare() {
  int nodes = graph.getNumNodes(), ranks = problem.ranks;
  result.start.assign(nodes, -1);
  result.end.assign(nodes, -1);
  result.busy.assign(ranks, 0);
  inbox.assign(nodes, {});
  merged.assign(nodes, 0);
  cursor.assign(ranks, 0);
  idle.assign(ranks, 1);
  coreGroup.assign(ranks, -1);
  lists.resize(ranks);
  for (const EngineOptions::Cores &cores : options.cores) {
    for (int rank : cores.ranks)
      coreGroup[rank] = int(groups.size());
    groups.emplace_back(cores.cores);
  }
  watched.assign(groups.size(), 0);
  linkFree.assign(options.links, 0);
  taken.resize(options.links);
  summed.assign(options.links, 0);
  for (const GradientReduction &reduction : options.reductions)
    for (auto [link, time] : reduction.takes)
      summed[link] = 1;
  for (int place = 0; !options.nic.empty() && place < graph.getNumPlaces();
       ++place) {
    sites.emplace_back();
    if (ArrayRef<int> own = graph.getRanks(place); !own.empty())
      sites.back() = {options.nic[own[0]],
                      options.node.empty() ? -1 : options.node[own[0]]};
  }
  std::vector<uint8_t> seen(nodes, 0);
  for (int rank = 0; rank < ranks; ++rank) {
    lists[rank].reserve(solution.ranks[rank].size());
    for (const Task &task : solution.ranks[rank]) {
      Node node = graph.getNode(task);
      lists[rank].push_back(node);
      if (task.kind == Kind::Backward && problem.stages[task.stage].hasWeight)
        merged[node] = 1;
      if (seen[node]++)
        continue;
      ++left;
      if (graph.getSlotOf(node) == TaskGraph::kWeight)
        ++inbox[node].waiting; // for its input gradient
      else
        inbox[node].waiting += int(graph.getPredecessors(node).size());
      // The backward of a stage waits for its own forward by the rank's order.
    }
  }
}

/// Where nothing is shared: a longest path, over tasks in any order.
void Engine::runFree() {
  std::vector<Node> ready;
  auto release = [&](Node node, Time time) {
    Inbox &own = inbox[node];
    own.time = std::max(own.time, time);
    if (--own.waiting == 0)
      ready.push_back(node);
  };
  for (const std::vector<Node> &list : lists)
    for (Node node : list)
      ++inbox[node].waiting; // for the rank
  for (const std::vector<Node> &list : lists)
    if (!list.empty())
      release(list.front(), 0);
  while (!ready.empty()) {
    Node node = ready.back();
    ready.pop_back();
    Time duration = durationOf(node), end = inbox[node].time + duration;
    result.start[node] = inbox[node].time;
    result.end[node] = end;
    --left;
    for (const TaskGraph::Dependence &to : graph.getSuccessors(node))
      release(to.node, end + to.latency);
    if (graph.getSlotOf(node) == TaskGraph::kGradient && !merged[node])
      release(weightOf(node), end);
    for (int rank : graph.getRanks(graph.getPlaceOf(node))) {
      result.busy[rank] += duration;
      if (++cursor[rank] < int(lists[rank].size()))
        release(lists[rank][cursor[rank]], end);
    }
  }
}

bool Engine::isReady(Node node) const {
  if (inbox[node].waiting > 0)
    return false;
  for (int rank : graph.getRanks(graph.getPlaceOf(node)))
    if (!idle[rank] || cursor[rank] >= int(lists[rank].size()) ||
        lists[rank][cursor[rank]] != node)
      return false;
  return true;
}

void Engine::tryStart(int rank, Time now) {
  if (cursor[rank] < int(lists[rank].size()) &&
      isReady(lists[rank][cursor[rank]]))
    begin(lists[rank][cursor[rank]], now);
}

/// A task that waits for nothing more begins if its ranks have come to it.
void Engine::tryStartFirst(Node node, Time now) {
  for (int rank : graph.getRanks(graph.getPlaceOf(node)))
    if (idle[rank])
      return tryStart(rank, now);
}

void Engine::begin(Node node, Time now) {
  result.start[node] = now;
  ArrayRef<int> ranks = graph.getRanks(graph.getPlaceOf(node));
  for (int rank : ranks) {
    idle[rank] = 0;
    ++cursor[rank];
  }
  int group = ranks.empty() ? -1 : coreGroup[ranks[0]];
  if (group < 0)
    return post(now + durationOf(node), TaskEnds, node);
  int width = 0;
  for (int rank : ranks)
    width += widthOf(rank);
  groups[group].start(now, durationOf(node), node, width);
  watch(group, now);
}

/// Asks again when the next task of a core group ends; older answers are void.
void Engine::watch(int group, Time now) {
  watched[group] = made;
  if (auto next = groups[group].next(now))
    post(next->time, GroupEnds, group);
}

Time Engine::take(int link, Time from, Time time) {
  from = std::max(from, linkFree[link]);
  if (summed[link])
    taken[link].add(from, from + time);
  return linkFree[link] = from + time;
}

/// When what a task sends arrives; its links are taken.
Time Engine::send(Node node, const TaskGraph::Dependence &to, Time now) {
  Time overhead = to.edge >= 0 && size_t(to.edge) < options.overhead.size()
                      ? options.overhead[to.edge]
                      : 0;
  Time occupied = to.latency - overhead;
  if (sites.empty() || to.edge < 0 || occupied <= 0)
    return now + to.latency;
  Site from = sites[graph.getPlaceOf(node)],
       other = sites[graph.getPlaceOf(to.node)];
  if (!options.node.empty() && from.node == other.node)
    return now + to.latency;
  for (int nic : {from.nic, other.nic})
    if (nic >= 0)
      now = std::max(now, linkFree[nic]);
  Time end = now + occupied;
  for (int nic : {from.nic, other.nic})
    if (nic >= 0)
      take(nic, now, occupied);
  for (const EngineOptions::Level &level : options.levels) {
    if (from.nic < 0 || other.nic < 0 ||
        level.uplink[from.nic] == level.uplink[other.nic])
      continue;
    double lanes = options.lanes.empty() ? 1 : options.lanes[to.edge];
    // Switches pass on at once: others on the way are a delay only where all of
    // them are more than an uplink carries in that time.
    for (int nic : {from.nic, other.nic})
      end = std::max(
          end, take(level.uplink[nic], now,
                    Time(std::llround(double(occupied) * level.share[nic] *
                                      std::max(1.0, lanes / level.rails)))));
  }
  return end + overhead;
}

void Engine::taskEnded(Node node, Time now) {
  result.end[node] = now;
  --left;
  ArrayRef<int> ranks = graph.getRanks(graph.getPlaceOf(node));
  for (int rank : ranks) {
    idle[rank] = 1;
    result.busy[rank] += now - result.start[node];
  }
  if (graph.getSlotOf(node) == TaskGraph::kGradient && !merged[node])
    --inbox[weightOf(node)].waiting;
  for (const TaskGraph::Dependence &to : graph.getSuccessors(node)) {
    // Only the last arrival matters: the others are no events.
    Inbox &own = inbox[to.node];
    if (Time arrives = send(node, to, now); arrives > now)
      if (Moment sent{arrives, made++}; own.last() < sent) {
        own.time = sent.time;
        own.order = sent.order;
      }
    if (own.waiting == 1 && current < own.last())
      events.push({own.time, own.order, Arrives, uint32_t(to.node)});
    else if (--own.waiting == 0)
      tryStartFirst(to.node, now);
  }
  for (int rank : ranks)
    if (idle[rank])
      tryStart(rank, now);
}

/// What comes after the tasks: gradients, optimizer, barrier.
void Engine::finish() {
  int ranks = problem.ranks;
  result.reduced.assign(ranks, 0);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<Node> &list = lists[rank];
    Time &last = result.reduced[rank];
    for (Node node : list)
      last = std::max(last, result.end[node]);
    result.span.push_back(list.empty() ? 0 : last - result.start[list.front()]);
    result.tasks = std::max(result.tasks, last);
  }
  sumGradients(graph, lists, options.reductions, taken, result);
  optimize();
  for (Time done : result.done)
    result.step = std::max(result.step, done);
  result.step += options.barrier;
}

/// Every rank updates its share; ranks of one machine on the same cores.
void Engine::optimize() {
  result.done = result.reduced;
  std::vector<std::vector<std::pair<Time, int>>> queues(groups.size());
  for (size_t rank = 0; rank < options.optimizer.size(); ++rank)
    if (int group = coreGroup[rank]; group < 0)
      result.done[rank] += options.optimizer[rank];
    else
      queues[group].emplace_back(result.reduced[rank], int(rank));
  for (size_t group = 0; group < queues.size(); ++group) {
    auto &queue = queues[group];
    llvm::sort(queue);
    CoreGroup cores(options.cores[group].cores);
    size_t begun = 0;
    Time now = 0;
    while (true) {
      auto next = cores.next(now);
      if (begun < queue.size() && (!next || queue[begun].first <= next->time)) {
        int rank = queue[begun].second;
        now = queue[begun++].first;
        cores.start(now, options.optimizer[rank], rank, widthOf(rank));
      } else if (next) {
        now = next->time;
        cores.finish(now);
        result.done[next->node] = now;
      } else {
        break;
      }
    }
  }
}

void Engine::runEvents() {
  for (int rank = 0; rank < problem.ranks; ++rank)
    if (idle[rank])
      tryStart(rank, 0);
  while (!events.empty()) {
    Event event = events.top();
    events.pop();
    // Most likely the next: what it reads comes while this one is handled.
    if (!events.empty() && events.top().what == TaskEnds)
      __builtin_prefetch(graph.getSuccessors(events.top().id).data());
    current = event.when();
    Time now = current.time;
    if (event.what == TaskEnds) {
      taskEnded(event.id, now);
    } else if (event.what == Arrives) {
      inbox[event.id].waiting = 0;
      tryStartFirst(event.id, now);
    } else if (current.order == watched[event.id]) {
      Node node = groups[event.id].next(now)->node;
      groups[event.id].finish(now);
      watch(event.id, now);
      taskEnded(node, now);
    }
  }
}

Expected<Simulation> Engine::run() {
  prepare();
  if (groups.empty() && options.nic.empty())
    runFree();
  else
    runEvents();
  if (left > 0)
    for (int rank = 0; rank < problem.ranks; ++rank)
      if (cursor[rank] < int(lists[rank].size()))
        return createStringError(
            "the schedule never comes to '" +
            scheduler::getName(problem, solution.ranks[rank][cursor[rank]]) +
            "' on rank " + std::to_string(rank));
  finish();
  return std::move(result);
}

} // namespace

double Simulation::getSpanBubble() const {
  auto longest = llvm::max_element(span);
  if (longest == span.end() || *longest == 0)
    return 0;
  return 1 - double(busy[longest - span.begin()]) / double(*longest);
}

Expected<Simulation> simulate(const TaskGraph &graph, const Solution &solution,
                              const EngineOptions &options) {
  return Engine(graph, solution, options).run();
}

} // namespace dt::planner
