//===- Verify.cpp - Proof that programs finish without buffering ----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Everything that can wait becomes one vertex: a task on all its ranks, a
// message on both its ends. Vertices are joined in the order of every rank's
// list and by what tasks need. If that graph has no cycle, any topological
// order is the one order of communication that Communicate.h asks for; if it
// has one, the ranks on it block one another, and it is the error message.
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/messages/Communicate.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

#include <map>

using namespace llvm;

namespace dt::scheduler {

namespace {

class Verifier {
public:
  Verifier(const TaskGraph &graph,
           const std::vector<std::vector<Instruction>> &programs)
      : graph(graph), problem(graph.getProblem()), programs(programs),
        table(graph), tasks(graph.getNumNodes()) {}

  Error run();

private:
  Error checkSteps();
  Error checkMatching();
  Error checkOrder();
  Error checkBuffers();
  Error reportCycle(const std::vector<SmallVector<int, 4>> &before,
                    const std::vector<bool> &done);

  int getVertex(const Instruction &step) const {
    return step.action == Instruction::Run ? graph.getNode(step.task)
                                           : tasks + table.find(step.message);
  }
  std::string getVertexName(int vertex) const {
    if (vertex >= tasks)
      return getName(problem, table.getEntries()[vertex - tasks].message);
    return getName(problem, graph.getTask(vertex, split[vertex]));
  }

  const TaskGraph &graph;
  const Problem &problem;
  const std::vector<std::vector<Instruction>> &programs;
  MessageTable table;
  int tasks;
  std::vector<bool> split;
};

Error Verifier::checkSteps() {
  split.assign(tasks, false);
  std::vector<int> seen(table.getEntries().size(), 0);
  for (int rank = 0; rank < int(programs.size()); ++rank)
    for (const Instruction &step : programs[rank]) {
      if (step.action == Instruction::Run) {
        if (step.task.kind == Kind::Input)
          split[graph.getNode(step.task)] = true;
        continue;
      }
      if (!isWellFormed(problem, step.message))
        return createStringError(
            "rank " + Twine(rank) +
            ": a message of a stage, microbatch or replica that is not there");
      std::string name = "rank " + std::to_string(rank) + ": " +
                         getName(problem, step.message);
      int index = table.find(step.message);
      if (index < 0)
        return createStringError("V7: " + name + ": there is nothing to send");
      auto action = getAction(graph, table.getEntries()[index], rank);
      if (action != step.action)
        return createStringError("V1: " + name + ": the rank " +
                                 (!action ? "has no part in it"
                                  : *action == Instruction::Send ? "sends it"
                                  : *action == Instruction::Receive
                                      ? "receives it"
                                      : "does both"));
      ++seen[index];
    }
  for (size_t i = 0; i < seen.size(); ++i) {
    const MessageTable::Entry &entry = table.getEntries()[i];
    SmallVector<int> ranks = getRanks(graph, entry);
    if (seen[i] == int(ranks.size()))
      continue;
    std::string name = getName(problem, entry.message);
    for (int rank : ranks) {
      int count = count_if(programs[rank], [&](const Instruction &step) {
        return step.action != Instruction::Run && step.message == entry.message;
      });
      if (count != 1)
        return createStringError(
            "V1: " + name + ": rank " + Twine(rank) +
            (count ? " has it " + Twine(count) + " times"
             : *getAction(graph, entry, rank) == Instruction::Receive
                 ? Twine(" never receives it")
                 : Twine(" never sends it")));
    }
  }
  return Error::success();
}

Error Verifier::checkMatching() {
  // Without tags the order between two ranks is what pairs a send with a
  // receive: the i-th with the i-th.
  std::map<std::pair<int, int>, std::vector<int>> sends, receives;
  for (int rank = 0; rank < int(programs.size()); ++rank)
    for (const Instruction &step : programs[rank]) {
      if (step.action == Instruction::Run)
        continue;
      int index = table.find(step.message);
      const MessageTable::Entry &entry = table.getEntries()[index];
      if (step.action != Instruction::Receive)
        for (int other : graph.getRanks(graph.getPlaceOf(entry.consumer)))
          sends[{rank, other}].push_back(index);
      if (step.action != Instruction::Send)
        for (int other : graph.getRanks(graph.getPlaceOf(entry.producer)))
          receives[{other, rank}].push_back(index);
    }
  for (auto &[pair, list] : sends) {
    const std::vector<int> &other = receives[pair];
    for (size_t i = 0; i < list.size() && i < other.size(); ++i)
      if (list[i] != other[i])
        return createStringError(
            "V1: message " + Twine(i) + " from rank " + Twine(pair.first) +
            " to rank " + Twine(pair.second) + ": sent is " +
            getVertexName(tasks + list[i]) + ", expected is " +
            getVertexName(tasks + other[i]));
  }
  return Error::success();
}

Error Verifier::checkOrder() {
  int count = tasks + int(table.getEntries().size());
  std::vector<SmallVector<int, 4>> before(count), after(count);
  auto add = [&](int first, int then) {
    before[then].push_back(first);
    after[first].push_back(then);
  };
  std::vector<bool> present(count, false), done(count, false);
  for (const std::vector<Instruction> &program : programs)
    for (size_t i = 0; i < program.size(); ++i) {
      present[getVertex(program[i])] = true;
      if (i)
        add(getVertex(program[i - 1]), getVertex(program[i]));
    }
  for (int i = 0; i < int(table.getEntries().size()); ++i) {
    add(table.getEntries()[i].producer, tasks + i);
    add(tasks + i, table.getEntries()[i].consumer);
  }
  for (TaskGraph::Node node = 0; node < tasks; ++node) {
    if (!present[node])
      continue;
    for (const TaskGraph::Dependence &dependence : graph.getPredecessors(node))
      add(dependence.node, node);
    if (graph.getSlotOf(node) != TaskGraph::kForward)
      add(node - 1, node);
  }
  std::vector<int> waiting(count), ready;
  int left = 0;
  for (int vertex = 0; vertex < count; ++vertex) {
    waiting[vertex] = int(before[vertex].size());
    left += present[vertex];
    if (present[vertex] && !waiting[vertex])
      ready.push_back(vertex);
  }
  while (!ready.empty()) {
    int vertex = ready.back();
    ready.pop_back();
    done[vertex] = true;
    --left;
    for (int then : after[vertex])
      if (--waiting[then] == 0)
        ready.push_back(then);
  }
  return left ? reportCycle(before, done) : Error::success();
}

Error Verifier::reportCycle(const std::vector<SmallVector<int, 4>> &before,
                            const std::vector<bool> &done) {
  // Every vertex that is not done waits for another one that is not: walk until
  // one comes again.
  int vertex = 0;
  while (done[vertex] || before[vertex].empty())
    ++vertex;
  std::vector<int> position(before.size(), -1), path;
  while (position[vertex] < 0) {
    position[vertex] = int(path.size());
    path.push_back(vertex);
    vertex = *find_if(before[vertex], [&](int v) { return !done[v]; });
  }
  bool messages = false;
  std::string text;
  for (size_t i = position[vertex]; i < path.size(); ++i) {
    messages |= path[i] >= tasks;
    text += getVertexName(path[i]) + " <- ";
  }
  return createStringError(Twine(messages ? "V2" : "V6") +
                           ": these wait for one another: " + text +
                           getVertexName(vertex));
}

Error Verifier::checkBuffers() {
  for (int rank = 0; rank < int(programs.size()); ++rank) {
    // What the rank has received and not used; how many messages for which
    // task that is, per place, edge and direction.
    std::map<TaskGraph::Node, std::vector<Message>> unused;
    std::map<std::tuple<int, int, bool>, std::map<TaskGraph::Node, int>> users;
    for (const Instruction &step : programs[rank]) {
      if (step.action == Instruction::Run) {
        auto it = unused.find(graph.getNode(step.task));
        if (it == unused.end())
          continue;
        int place = graph.getPlaceOf(it->first);
        for (const Message &message : it->second) {
          auto &held = users[{place, message.edge, message.gradient}];
          if (--held[it->first] == 0)
            held.erase(it->first);
        }
        unused.erase(it);
      } else if (step.action != Instruction::Send) {
        const MessageTable::Entry &entry =
            table.getEntries()[table.find(step.message)];
        int depth = problem.edges[step.message.edge].receiveDepth;
        int place = graph.getPlaceOf(entry.consumer);
        auto &held = users[{place, step.message.edge, step.message.gradient}];
        ++held[entry.consumer];
        unused[entry.consumer].push_back(step.message);
        if (depth && int(held.size()) > depth)
          return createStringError(
              "V4: rank " + Twine(rank) + ": " +
              getName(problem, step.message) + " comes while " + Twine(depth) +
              " microbatches wait, as many as there are buffers for");
      }
    }
  }
  return Error::success();
}

Error Verifier::run() {
  if (Error error = checkSteps())
    return error;
  if (Error error = checkMatching())
    return error;
  if (Error error = checkOrder())
    return error;
  return checkBuffers();
}

} // namespace

Error verify(const TaskGraph &graph,
             const std::vector<std::vector<Instruction>> &programs) {
  Solution tasks = getTasks(programs);
  Expected<Timeline> timeline = evaluate(graph, tasks);
  if (!timeline)
    return createStringError("V6: " + toString(timeline.takeError()));
  if (Error error = Verifier(graph, programs).run())
    return error;
  if (Error error = checkMemory(graph, tasks))
    return createStringError("V5: " + toString(std::move(error)));
  return Error::success();
}

} // namespace dt::scheduler
