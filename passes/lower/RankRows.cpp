//===- RankRows.cpp - The rows of every rank's step -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Schedules assume that nothing is buffered: a send ends when its receive is
// issued. Receives are therefore never posted later than where the schedule has
// them, and what is posted earlier only makes room.
//
//===----------------------------------------------------------------------===//

#include "passes/lower/RankRows.h"

#include "dialects/dist/DistOps.h"

#include <map>
#include <set>

using namespace mlir;
using namespace dt;
using namespace dt::lower;
using rt::TaskKind;
using scheduler::Instruction;
using scheduler::Kind;

namespace {

bool runsOn(const PlannedModule &m, int rank) {
  return llvm::is_contained(m.place.ranks, rank);
}

/// Of a module that the rank runs. Each rank of a whole-batch module is one.
int64_t getReplica(const PlannedModule &m, int rank) {
  int64_t place = llvm::find(m.place.ranks, rank) - m.place.ranks.begin();
  return m.wholeBatch ? place : place / m.place.group;
}

bool hasGradients(const PlannedModule &m) {
  dist::ModuleOp module = m.op;
  return llvm::any_of(
      module.getBody().getOps<nn::ParameterOp>(),
      [](nn::ParameterOp p) { return p.getTrainable() && !p.getNoGradient(); });
}

/// Whether parts of two modules with equal shares are equal.
bool hasEqualParts(const PlannedModule &a, const PlannedModule &b) {
  auto itemOf = [](const PlannedModule &m) {
    return dist::ModuleOp(m.op).getItem().value_or(dist::kSample);
  };
  return a.place.sub == b.place.sub && a.span == b.span &&
         a.place.speeds == b.place.speeds &&
         (a.place.sub == 1 || itemOf(a) == itemOf(b));
}

/// Edges between modules with equal replicas and pieces, between which the
/// schedule has no messages.
std::vector<bool> findCopies(const StepPlan &plan, const StepOrder &order) {
  std::vector<bool> copies;
  for (const PlannedEdge &edge : plan.edges) {
    const PlannedModule &from = plan.modules[edge.from],
                        &to = plan.modules[edge.to];
    copies.push_back(from.wholeBatch == to.wholeBatch &&
                     from.place.group == to.place.group &&
                     from.place.ranks == to.place.ranks &&
                     hasEqualParts(from, to));
  }
  for (const std::vector<Instruction> &program : order.programs)
    for (const Instruction &step : program)
      if (step.action != Instruction::Run)
        copies[step.message.edge] = false;
  return copies;
}

/// A module's task: the first microbatch that it serves.
using Part = std::pair<unsigned, int64_t>;

class RankBuilder {
public:
  RankBuilder(StepPlan &plan, const StepOrder &order,
              const std::vector<bool> &copies, int rank)
      : plan(plan), order(order), copies(copies), rank(rank),
        forwardOrder(plan.modules.size()), backwards(plan.modules.size()) {
    for (const PlannedEdge &edge : plan.edges) {
      dist::EdgeOp op = edge.op;
      depths.push_back(op.getDepth().value_or(order.depth));
    }
  }

  FailureOr<std::vector<Row>> run();

private:
  /// A message between a piece on this rank and part `peer` of the other end.
  struct Message {
    unsigned edge;
    int64_t microbatch, piece, peer;
    bool gradient;
    bool operator<(const Message &other) const {
      return std::tie(edge, microbatch, piece, peer, gradient) <
             std::tie(other.edge, other.microbatch, other.piece, other.peer,
                      other.gradient);
    }
  };
  using Messages = std::map<std::pair<Part, bool>, std::vector<Message>>;

  Part partOf(unsigned module, int64_t microbatch) const {
    return {module, plan.modules[module].getFirst(microbatch)};
  }
  void collect();
  void collectLocal();
  void collectBatchEdge(unsigned edge);
  std::vector<int64_t> findFedReplicas(const PlannedModule &source,
                                       const PlannedModule &head) const;
  void begin();
  LogicalResult addTask(const scheduler::Task &task);
  void addForward(unsigned module, int64_t mb);
  LogicalResult addBackward(Kind kind, unsigned module, int64_t mb);
  void reduce();
  void addCopies(unsigned module, int64_t mb, bool gradient);
  void add(TaskKind kind, unsigned module, int64_t mb);
  std::vector<Message> cut(const scheduler::Message &message, bool sends) const;
  void post(const Message &message);
  void postAll(unsigned module, int64_t mb, bool gradient);
  void postAhead(unsigned module, int64_t next);
  void send(const Message &message) {
    rows.push_back({TaskKind::Send, message.edge, message.microbatch,
                    message.gradient, message.piece, message.peer});
  }

  StepPlan &plan;
  const StepOrder &order;
  const std::vector<bool> &copies;
  int rank;
  std::vector<Row> rows;
  Messages receives, ///< by the part that reads them
      sends;         ///< that the schedule does not have, by who writes them
  std::set<Message> posted;
  std::vector<int64_t> depths;                    ///< of each edge
  std::vector<std::vector<int64_t>> forwardOrder; ///< of each module
  std::vector<int64_t> backwards; ///< tasks of each module that are left
  std::vector<unsigned> complete; ///< modules to reduce
};

void RankBuilder::collect() {
  for (const Instruction &step : order.programs[rank]) {
    if (step.action == Instruction::Run) {
      unsigned module = step.task.stage;
      if (step.task.kind == Kind::Forward)
        forwardOrder[module].push_back(step.task.microbatch);
      else if (step.task.kind != Kind::Sync ||
               plan.modules[module].hasBackward())
        ++backwards[module];
      continue;
    }
    const scheduler::Message &m = step.message;
    if (step.action == Instruction::Send)
      continue;
    const PlannedEdge &edge = plan.edges[m.edge];
    llvm::append_range(
        receives[{partOf(m.gradient ? edge.from : edge.to, m.microbatch),
                  m.gradient}],
        cut(m, false));
  }
  collectLocal();
  for (unsigned e = 0; e < plan.edges.size(); ++e)
    if (plan.modules[plan.edges[e].to].wholeBatch && !copies[e])
      collectBatchEdge(e);
}

/// Replicas with the same ranks, of modules that are else placed differently.
void RankBuilder::collectLocal() {
  for (const scheduler::Message &m : order.local) {
    unsigned source = plan.edges[m.edge].from, target = plan.edges[m.edge].to;
    if (m.gradient)
      std::swap(source, target);
    if (copies[m.edge] || !runsOn(plan.modules[source], rank) ||
        !runsOn(plan.modules[target], rank) ||
        getReplica(plan.modules[source], rank) != m.from ||
        getReplica(plan.modules[target], rank) != m.to)
      continue;
    llvm::append_range(receives[{partOf(target, m.microbatch), m.gradient}],
                       cut(m, false));
    llvm::append_range(sends[{partOf(source, m.microbatch), m.gradient}],
                       cut(m, true));
  }
}

/// The replica (rank) of a whole-batch module that gives a rank its gradient:
/// itself, if it runs the module.
static int64_t getGradientSource(const PlannedModule &head, int64_t rank) {
  int64_t count = head.place.ranks.size();
  return runsOn(head, rank) ? getReplica(head, rank) : rank % count;
}

/// Everybody who runs a whole-batch module gets all rows, also the own ones,
/// and has the whole gradient.
void RankBuilder::collectBatchEdge(unsigned e) {
  unsigned from = plan.edges[e].from, to = plan.edges[e].to;
  const PlannedModule &source = plan.modules[from], &head = plan.modules[to];
  bool isSource = runsOn(source, rank), isHead = runsOn(head, rank);
  int64_t sub = source.place.sub;
  for (int64_t mb = 0; mb < plan.microbatches; ++mb) {
    for (int64_t q = 0; isHead && q < source.place.getNumParts(); ++q)
      receives[{{to, 0}, false}].push_back({e, mb, 0, q, false});
    for (int64_t p = 0; isSource && p < sub; ++p)
      for (int64_t j = 0; j < int64_t(head.place.ranks.size()); ++j)
        sends[{{from, mb}, false}].push_back({e, mb, p, j, false});
    if (!plan.edges[e].produced)
      continue;
    for (int64_t p = 0; isSource && p < sub; ++p)
      receives[{{from, mb}, true}].push_back(
          {e, mb, p, getGradientSource(head, rank), true});
    if (isHead)
      for (int64_t d : findFedReplicas(source, head))
        for (int64_t p = 0; p < sub; ++p)
          sends[{{to, 0}, true}].push_back({e, mb, 0, d * sub + p, true});
  }
}

/// Replicas of a whole-batch module's source that have a rank which gets its
/// gradient from this one.
std::vector<int64_t>
RankBuilder::findFedReplicas(const PlannedModule &source,
                             const PlannedModule &head) const {
  std::vector<int64_t> found;
  for (auto [i, other] : llvm::enumerate(source.place.ranks)) {
    int64_t replica = int64_t(i) / source.place.group;
    if (getGradientSource(head, other) == getReplica(head, rank) &&
        (found.empty() || found.back() != replica))
      found.push_back(replica);
  }
  return found;
}

/// A message of the schedule as those between the pieces of its ends, with this
/// rank at one of them. Both ends have them in the same order. Over a cut edge
/// equal pieces hand on their blocks.
std::vector<RankBuilder::Message> RankBuilder::cut(const scheduler::Message &m,
                                                   bool sends) const {
  const PlannedEdge &edge = plan.edges[m.edge];
  bool isCut = dist::EdgeOp(edge.op).getCut();
  int64_t from = plan.modules[m.gradient ? edge.to : edge.from].place.sub,
          to = plan.modules[m.gradient ? edge.from : edge.to].place.sub;
  std::vector<Message> messages;
  for (int64_t a = 0; a < from; ++a)
    for (int64_t b = 0; b < to; ++b)
      if (!isCut || a == b)
        messages.push_back({unsigned(m.edge), m.microbatch, sends ? a : b,
                            sends ? m.to * to + b : m.from * from + a,
                            m.gradient});
  return messages;
}

/// A row for every piece.
void RankBuilder::add(TaskKind kind, unsigned module, int64_t mb) {
  for (int64_t p = 0; p < plan.modules[module].place.sub; ++p)
    rows.push_back({kind, module, mb, false, p});
}

void RankBuilder::post(const Message &message) {
  if (posted.insert(message).second)
    rows.push_back({TaskKind::Receive, message.edge, message.microbatch,
                    message.gradient, message.piece, message.peer});
}

void RankBuilder::postAll(unsigned module, int64_t mb, bool gradient) {
  auto it = receives.find({{module, mb}, gradient});
  if (it != receives.end())
    llvm::for_each(it->second, [&](const Message &m) { post(m); });
}

void RankBuilder::begin() {
  for (auto [i, loss] : llvm::enumerate(plan.losses)) {
    const PlannedModule &m = plan.modules[loss.module];
    int64_t microbatches = m.wholeBatch ? 1 : plan.microbatches;
    if (!loss.denominator || !runsOn(m, rank))
      continue;
    for (int64_t mb = 0; mb < microbatches; mb += m.span)
      for (int64_t p = 0; p < m.place.sub; ++p)
        rows.push_back({TaskKind::Denominator, unsigned(i), mb, false, p});
  }
  for (unsigned m = 0; m < plan.modules.size(); ++m) {
    if (plan.modules[m].wholeBatch)
      postAll(m, 0, false);
    postAhead(m, 0);
  }
}

/// Forward messages of the tasks after the first `next` that the module runs:
/// of each edge as many as its depth says.
void RankBuilder::postAhead(unsigned module, int64_t next) {
  const std::vector<int64_t> &mine = forwardOrder[module];
  int64_t deepest = order.depth;
  for (unsigned e : plan.modules[module].in)
    deepest = std::max(deepest, depths[e]);
  int64_t end = std::min(next + deepest, int64_t(mine.size()));
  for (int64_t p = next; p < end; ++p)
    for (const Message &m : receives[{{module, mine[p]}, false}])
      if (p < next + depths[m.edge])
        post(m);
}

/// Rows that follow the task that wrote what they move.
void RankBuilder::addCopies(unsigned module, int64_t mb, bool gradient) {
  const PlannedModule &m = plan.modules[module];
  for (unsigned e : gradient ? m.in : m.out)
    if (copies[e] && (!gradient || plan.edges[e].produced))
      for (int64_t p = 0; p < m.place.sub; ++p)
        rows.push_back({TaskKind::Copy, e, mb, gradient, p});
  auto it = sends.find({{module, mb}, gradient});
  if (it != sends.end())
    llvm::for_each(it->second, [&](const Message &m) { send(m); });
}

void RankBuilder::addForward(unsigned module, int64_t mb) {
  add(TaskKind::Forward, module, mb);
  postAll(module, mb, true);
  std::vector<int64_t> &mine = forwardOrder[module];
  postAhead(module, llvm::find(mine, mb) - mine.begin() + 1);
  addCopies(module, mb, false);
}

LogicalResult RankBuilder::addBackward(Kind kind, unsigned module, int64_t mb) {
  PlannedModule &m = plan.modules[module];
  if (!m.hasBackward())
    return m.op.emitOpError("is scheduled to go back, but has no backward "
                            "function");
  if (kind == Kind::Weight && m.backward)
    return m.op.emitOpError("is scheduled to run W, but its backward function "
                            "is not split");
  // A half that a module does not have is no work: there is no row.
  if (m.backward)
    add(TaskKind::Backward, module, mb);
  else if (m.backwardInput && kind != Kind::Weight)
    add(TaskKind::BackwardInput, module, mb);
  if (kind != Kind::Weight)
    addCopies(module, mb, true);
  if (m.backwardWeight && kind != Kind::Input)
    add(TaskKind::BackwardWeight, module, mb);
  if (--backwards[module] == 0 && hasGradients(m))
    complete.push_back(module);
  return success();
}

/// Behind the messages that follow the last backward.
void RankBuilder::reduce() {
  for (unsigned module : complete)
    rows.push_back({TaskKind::Reduce, module, 0});
  complete.clear();
}

LogicalResult RankBuilder::addTask(const scheduler::Task &task) {
  PlannedModule &m = plan.modules[task.stage];
  if (task.kind != Kind::Forward && task.kind != Kind::Sync)
    return addBackward(task.kind, task.stage, task.microbatch);
  if (task.kind == Kind::Forward && m.hasBackward() && !backwards[task.stage])
    return m.op.emitOpError(
        "has a backward function that the schedule does not run");
  addForward(task.stage, task.microbatch);
  return task.kind == Kind::Sync && m.hasBackward()
             ? addBackward(Kind::Backward, task.stage, 0)
             : success();
}

FailureOr<std::vector<Row>> RankBuilder::run() {
  collect();
  begin();
  for (const Instruction &step : order.programs[rank]) {
    if (step.action == Instruction::Run) {
      reduce();
      if (failed(addTask(step.task)))
        return failure();
      continue;
    }
    if (step.action != Instruction::Send)
      llvm::for_each(cut(step.message, false),
                     [&](const Message &m) { post(m); });
    if (step.action != Instruction::Receive)
      llvm::for_each(cut(step.message, true),
                     [&](const Message &m) { send(m); });
  }
  reduce();
  return std::move(rows);
}

} // namespace

FailureOr<std::vector<RankRows>> dt::lower::makeRows(StepPlan &plan,
                                                     const StepOrder &order) {
  std::vector<bool> copies = findCopies(plan, order);
  std::vector<RankRows> all;
  for (int rank = 0; rank < int(order.programs.size()); ++rank) {
    FailureOr<std::vector<Row>> rows =
        RankBuilder(plan, order, copies, rank).run();
    if (failed(rows))
      return failure();
    auto same = llvm::find_if(
        all, [&](const RankRows &other) { return other.rows == *rows; });
    if (same == all.end())
      same = all.insert(same, {{}, std::move(*rows)});
    same->ranks.push_back(rank);
  }
  for (RankRows &ranks : all)
    assignRowSlots(plan, ranks.rows);
  for (PlannedModule &m : plan.modules)
    if (int64_t most = *llvm::max_element(m.slots); most > INT16_MAX)
      return m.op.emitOpError()
             << "has " << most << " pieces of microbatches in flight; at most "
             << INT16_MAX << " can be";
  return all;
}
