//===- Problem.cpp - Checks and names of a scheduling problem -------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Problems come from plan files and from IR that people write, so everything
// that the other files rely on is checked here, with one error.
//
//===----------------------------------------------------------------------===//

#include "passes/scheduler/core/Problem.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>

using namespace llvm;

namespace dt::scheduler {

namespace {

/// More tasks than this are a mistake in a file, not a training step.
constexpr int64_t kMaxTasks = int64_t(1) << 26;
/// Sums of this many of the largest times must not overflow.
constexpr int64_t kMaxTime = int64_t(1) << 44;

Error fail(const Twine &message) { return createStringError(message); }

Error checkTable(const Table &table, const Stage &stage, StringRef what,
                 int microbatches) {
  size_t pairs = size_t(microbatches) * stage.replicas.size();
  size_t size = table.values.size();
  if (size != 1 && size != size_t(microbatches) && size != pairs)
    return fail("stage " + stage.name + ": " + what + " has " + Twine(size) +
                " values; expected 1, one a microbatch (" +
                Twine(microbatches) + ") or one a microbatch and replica (" +
                Twine(pairs) + ")");
  for (int64_t value : table.values)
    if (value < 0 || value > kMaxTime)
      return fail("stage " + stage.name + ": " + what + " is " + Twine(value) +
                  "; expected 0 to 2^44");
  return Error::success();
}

Error checkStage(const Problem &problem, const Stage &stage) {
  if (stage.unit < 0 || stage.unit >= int(problem.units.size()))
    return fail("stage " + stage.name + ": no unit " + Twine(stage.unit));
  if (stage.replicas.empty())
    return fail("stage " + stage.name + ": no replica");
  for (const std::vector<int> &ranks : stage.replicas) {
    if (ranks.empty())
      return fail("stage " + stage.name + ": a replica without a rank");
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (ranks[i] < 0 || ranks[i] >= problem.ranks)
        return fail("stage " + stage.name + ": rank " + Twine(ranks[i]) +
                    " is not one of " + Twine(problem.ranks));
      if (std::find(ranks.begin(), ranks.begin() + i, ranks[i]) !=
          ranks.begin() + i)
        return fail("stage " + stage.name + ": rank " + Twine(ranks[i]) +
                    " twice in a replica");
    }
  }
  if (stage.slots < 0)
    return fail("stage " + stage.name + ": negative slots");
  for (auto [what, table] : kTables)
    if (Error error =
            checkTable(stage.*table, stage, what, problem.microbatches))
      return error;
  if (stage.late)
    if (Error error =
            checkTable(*stage.late, stage, "late", problem.microbatches))
      return error;
  if (stage.batchSync && (stage.hasBackward || stage.replicas.size() != 1))
    return fail("stage " + stage.name +
                ": a batch-sync has one replica and no backward");
  return Error::success();
}

Error checkEdge(const Problem &problem, const Edge &edge) {
  int count = int(problem.stages.size());
  if (edge.from < 0 || edge.from >= count || edge.to < 0 || edge.to >= count)
    return fail("an edge names a stage that is not there");
  const Stage &from = problem.stages[edge.from], &to = problem.stages[edge.to];
  std::string name = "edge " + from.name + " -> " + to.name;
  if (from.batchSync)
    return fail(name + ": nothing may follow a batch-sync");
  if (edge.gradient && !to.batchSync && (!from.hasBackward || !to.hasBackward))
    return fail(name + ": carries a gradient, but " +
                (from.hasBackward ? to.name : from.name) + " has no backward");
  int span = problem.getSpan(edge.from);
  if (to.batchSync ? span != 1 : span % problem.getSpan(edge.to) != 0)
    return fail(name + ": a task of " + from.name + " serves " + Twine(span) +
                " microbatches, which " +
                (to.batchSync
                     ? Twine("a batch-sync cannot wait for")
                     : "is no multiple of what one of " + to.name + " serves"));
  if (edge.latency < 0 || edge.latency > kMaxTime || edge.receiveDepth < 0)
    return fail(name + ": negative or too large latency or receive depth");
  for (const Route &route : edge.routes)
    if (route.microbatch < -1 || route.microbatch >= problem.microbatches ||
        route.from < 0 || route.from >= int(from.replicas.size()) ||
        route.to < 0 || route.to >= int(to.replicas.size()) ||
        route.latency < 0 || route.latency > kMaxTime)
      return fail(name + ": a message names a microbatch, replica or latency "
                         "that cannot be");
  return Error::success();
}

} // namespace

Error Problem::check() const {
  if (microbatches < 1)
    return fail("expected at least one microbatch, got " + Twine(microbatches));
  if (ranks < 1)
    return fail("expected at least one rank, got " + Twine(ranks));
  if (stages.empty())
    return fail("no stages");
  if (syncGroup < 0)
    return fail("negative number of microbatches in a batch-sync");
  if (!memory.empty() && int(memory.size()) != ranks)
    return fail("memory bounds for " + Twine(memory.size()) + " of " +
                Twine(ranks) + " ranks");
  int64_t tasks = 0;
  for (const Unit &unit : units)
    if (unit.span < 1 || unit.span > microbatches)
      return fail("unit " + unit.name + ": a task serves " + Twine(unit.span) +
                  " of " + Twine(microbatches) + " microbatches");
  for (const Stage &stage : stages) {
    if (Error error = checkStage(*this, stage))
      return error;
    tasks += int64_t(stage.replicas.size()) * microbatches * 3;
  }
  if (tasks > kMaxTasks)
    return fail("more than 2^26 tasks");
  for (const Edge &edge : edges)
    if (Error error = checkEdge(*this, edge))
      return error;
  if (getTopologicalOrder().size() != stages.size())
    return fail("stages depend on one another in a cycle");
  return Error::success();
}

std::vector<int> Problem::getTopologicalOrder() const {
  std::vector<int> waiting(stages.size()), order;
  for (const Edge &edge : edges)
    ++waiting[edge.to];
  std::vector<bool> done(stages.size());
  // Few stages: the smallest index that is ready, again and again.
  for (size_t found = 1; found;) {
    found = 0;
    for (size_t s = 0; s < stages.size(); ++s) {
      if (done[s] || waiting[s])
        continue;
      done[s] = true;
      found = 1;
      order.push_back(int(s));
      for (const Edge &edge : edges)
        if (edge.from == int(s))
          --waiting[edge.to];
    }
  }
  return order;
}

std::vector<int> Problem::getDepths() const {
  std::vector<int> depths(stages.size(), 1), order = getTopologicalOrder();
  for (int stage : reverse(order))
    for (const Edge &edge : edges)
      if (edge.from == stage && !stages[edge.to].batchSync)
        depths[stage] = std::max(depths[stage], depths[edge.to] + 1);
  return depths;
}

char getLetter(Kind kind) { return "FBIWS"[int(kind)]; }

std::string getName(const Problem &problem, const Task &task) {
  const Stage &stage = problem.stages[task.stage];
  std::string name(1, getLetter(task.kind));
  name += " " + stage.name + (task.kind == Kind::Sync ? " group " : " mb ") +
          std::to_string(task.microbatch);
  if (stage.replicas.size() > 1)
    name += " replica " + std::to_string(task.replica);
  return name;
}

std::string getName(const Problem &problem, const Message &message) {
  const Edge &edge = problem.edges[message.edge];
  const Stage *from = &problem.stages[edge.from],
              *to = &problem.stages[edge.to];
  if (message.gradient)
    std::swap(from, to);
  auto end = [](const Stage &stage, int replica) {
    if (stage.replicas.size() == 1)
      return stage.name;
    return stage.name + "[" + std::to_string(replica) + "]";
  };
  return (message.gradient ? "gradient " : "") + end(*from, message.from) +
         " -> " + end(*to, message.to) + " mb " +
         std::to_string(message.microbatch);
}

} // namespace dt::scheduler
