//===- Communicate.cpp - The one order of communication -------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/messages/Communicate.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <queue>

using namespace llvm;

namespace dt::scheduler {

MessageTable::MessageTable(const TaskGraph &graph) {
  const Problem &problem = graph.getProblem();
  for (TaskGraph::Node node = 0; node < graph.getNumNodes(); ++node) {
    int place = graph.getPlaceOf(node);
    if (problem.stages[graph.getPlaceInfo(place).stage].batchSync)
      continue;
    for (const TaskGraph::Dependence &dependence :
         graph.getPredecessors(node)) {
      int other = graph.getPlaceOf(dependence.node);
      if (dependence.edge < 0 ||
          problem.stages[graph.getPlaceInfo(other).stage].batchSync ||
          graph.getRanks(place) == graph.getRanks(other))
        continue;
      Message message{
          dependence.edge, graph.getSlotOf(node) == TaskGraph::kGradient,
          std::max(graph.getMicrobatchOf(node),
                   graph.getMicrobatchOf(dependence.node)),
          graph.getPlaceInfo(other).replica, graph.getPlaceInfo(place).replica};
      entries.push_back({message, dependence.node, node});
    }
  }
  auto less = [](const Entry &a, const Entry &b) {
    return a.message < b.message;
  };
  llvm::sort(entries, less);
  // A route written twice is one message.
  entries.erase(std::unique(entries.begin(), entries.end(),
                            [](const Entry &a, const Entry &b) {
                              return a.message == b.message;
                            }),
                entries.end());
}

int MessageTable::find(const Message &message) const {
  auto it = llvm::lower_bound(entries, message,
                              [](const Entry &entry, const Message &value) {
                                return entry.message < value;
                              });
  return it == entries.end() || !(it->message == message)
             ? -1
             : int(it - entries.begin());
}

bool isWellFormed(const Problem &problem, const Message &message) {
  if (message.edge < 0 || message.edge >= int(problem.edges.size()) ||
      message.microbatch < 0 || message.microbatch >= problem.microbatches)
    return false;
  const Edge &edge = problem.edges[message.edge];
  const Stage *from = &problem.stages[edge.from],
              *to = &problem.stages[edge.to];
  if (message.gradient)
    std::swap(from, to);
  return message.from >= 0 && message.from < int(from->replicas.size()) &&
         message.to >= 0 && message.to < int(to->replicas.size());
}

SmallVector<int> getRanks(const TaskGraph &graph,
                          const MessageTable::Entry &entry) {
  SmallVector<int> ranks(graph.getRanks(graph.getPlaceOf(entry.producer)));
  for (int rank : graph.getRanks(graph.getPlaceOf(entry.consumer)))
    if (!is_contained(ranks, rank))
      ranks.push_back(rank);
  return ranks;
}

std::optional<Instruction::Action>
getAction(const TaskGraph &graph, const MessageTable::Entry &entry, int rank) {
  bool sends =
      is_contained(graph.getRanks(graph.getPlaceOf(entry.producer)), rank);
  bool receives =
      is_contained(graph.getRanks(graph.getPlaceOf(entry.consumer)), rank);
  if (sends && receives)
    return Instruction::Exchange;
  if (sends)
    return Instruction::Send;
  if (receives)
    return Instruction::Receive;
  return std::nullopt;
}

namespace {

/// Orders tasks and messages by time, as far as they do not wait for one
/// another; see communicate().
class Sorter {
public:
  Sorter(const TaskGraph &graph, Solution &solution, const Timeline &timeline)
      : graph(graph), solution(solution), timeline(timeline), table(graph),
        tasks(graph.getNumNodes()) {}

  void run();

private:
  // Vertices: tasks by node, then messages by index.
  void addEdge(int from, int to) {
    next[from].push_back(to);
    ++waiting[to];
  }
  void build();
  void emit(int vertex);
  Time getTime(int vertex) const {
    return vertex < tasks
               ? timeline.start[vertex]
               : timeline.end[table.getEntries()[vertex - tasks].producer];
  }

  const TaskGraph &graph;
  Solution &solution;
  const Timeline &timeline;
  MessageTable table;
  int tasks;
  std::vector<SmallVector<int, 4>> next;
  std::vector<int> waiting;
};

void Sorter::build() {
  next.resize(tasks + table.getEntries().size());
  waiting.assign(next.size(), 0);
  for (const std::vector<Task> &list : solution.ranks)
    for (size_t i = 1; i < list.size(); ++i)
      addEdge(graph.getNode(list[i - 1]), graph.getNode(list[i]));
  for (int i = 0; i < int(table.getEntries().size()); ++i) {
    const MessageTable::Entry &entry = table.getEntries()[i];
    addEdge(entry.producer, tasks + i);
    addEdge(tasks + i, entry.consumer);
    // A message waits for a free buffer: for the task that used the message
    // `receiveDepth` tasks before it.
    const Problem &problem = graph.getProblem();
    int64_t depth = problem.edges[entry.message.edge].receiveDepth;
    depth *= problem.getSpan(
        graph.getPlaceInfo(graph.getPlaceOf(entry.consumer)).stage);
    if (depth && graph.getMicrobatchOf(entry.consumer) >= depth)
      addEdge(entry.consumer - 3 * int(depth), tasks + i);
  }
  // What is not a message: collectives of batch-syncs.
  for (TaskGraph::Node node = 0; node < tasks; ++node) {
    if (timeline.start[node] < 0)
      continue;
    for (const TaskGraph::Dependence &dependence : graph.getPredecessors(node))
      addEdge(dependence.node, node);
  }
}

void Sorter::emit(int vertex) {
  if (vertex < tasks) {
    int place = graph.getPlaceOf(vertex);
    bool split = graph.getSlotOf(vertex) == TaskGraph::kGradient &&
                 graph.exists(vertex + 1) && timeline.start[vertex + 1] >= 0;
    for (int rank : graph.getRanks(place))
      solution.programs[rank].push_back(
          {Instruction::Run, graph.getTask(vertex, split), {}});
    return;
  }
  const MessageTable::Entry &entry = table.getEntries()[vertex - tasks];
  for (int rank : getRanks(graph, entry))
    solution.programs[rank].push_back(
        {*getAction(graph, entry, rank), {}, entry.message});
}

void Sorter::run() {
  build();
  solution.programs.assign(solution.ranks.size(), {});
  // Of one time messages go first: what a task starts with at that time has
  // been sent by then. (Tasks that take no time keep them apart by waiting.)
  using Key = std::tuple<Time, bool, int>;
  std::priority_queue<Key, std::vector<Key>, std::greater<Key>> ready;
  auto push = [&](int vertex) {
    ready.push({getTime(vertex), vertex < tasks, vertex});
  };
  for (int vertex = 0; vertex < int(next.size()); ++vertex)
    if (!waiting[vertex] && (vertex >= tasks || timeline.start[vertex] >= 0))
      push(vertex);
  while (!ready.empty()) {
    int vertex = std::get<2>(ready.top());
    ready.pop();
    emit(vertex);
    for (int successor : next[vertex])
      if (--waiting[successor] == 0)
        push(successor);
  }
}

} // namespace

Error communicate(const TaskGraph &graph, Solution &solution) {
  Expected<Timeline> timeline = evaluate(graph, solution);
  if (!timeline)
    return timeline.takeError();
  Sorter(graph, solution, *timeline).run();
  return Error::success();
}

Solution getTasks(const std::vector<std::vector<Instruction>> &programs) {
  Solution solution;
  for (const std::vector<Instruction> &program : programs) {
    solution.ranks.emplace_back();
    for (const Instruction &step : program)
      if (step.action == Instruction::Run)
        solution.ranks.back().push_back(step.task);
  }
  return solution;
}

} // namespace dt::scheduler
