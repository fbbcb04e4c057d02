//===- StepOrder.cpp - Which rank runs what in which order ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/sched/SchedOps.h"
#include "passes/lower/RankRows.h"
#include "passes/scheduler/core/TaskGraph.h"

using namespace mlir;
using namespace dt;
using namespace dt::lower;
using scheduler::Instruction;
using scheduler::Kind;

//===----------------------------------------------------------------------===//
// Without a schedule
//===----------------------------------------------------------------------===//

namespace {

/// One rank: a microbatch goes forward and back before the next begins. What a
/// whole-batch module needs comes first, for all microbatches.
class OneRank {
public:
  explicit OneRank(const StepPlan &plan)
      : plan(plan), isTower(plan.modules.size()) {}

  std::vector<Instruction> run() {
    bool anyHead = false;
    for (unsigned i = plan.modules.size(); i-- > 0;) {
      anyHead |= plan.modules[i].wholeBatch;
      if (plan.modules[i].wholeBatch || isTower[i])
        for (unsigned e : plan.modules[i].in)
          isTower[plan.edges[e].from] = true;
    }
    auto head = [&](unsigned i) { return plan.modules[i].wholeBatch; };
    auto tower = [&](unsigned i) { return !head(i) && isTower[i]; };
    auto other = [&](unsigned i) { return !head(i) && !isTower[i]; };
    for (int64_t mb = 0; anyHead && mb < plan.microbatches; ++mb)
      forward(mb, tower);
    forward(0, head);
    backward(0, head);
    for (int64_t mb = 0; mb < plan.microbatches; ++mb) {
      forward(mb, other);
      backward(mb, [&](unsigned i) { return !head(i); });
    }
    return std::move(steps);
  }

private:
  void add(Kind kind, unsigned module, int64_t mb) {
    Instruction step;
    step.task = {kind, int(module), int(mb), 0};
    steps.push_back(step);
  }
  void forward(int64_t mb, function_ref<bool(unsigned)> which) {
    for (unsigned i = 0; i < plan.modules.size(); ++i)
      if (which(i))
        add(Kind::Forward, i, mb);
  }
  void backward(int64_t mb, function_ref<bool(unsigned)> which) {
    for (unsigned i = plan.modules.size(); i-- > 0;)
      if (which(i) && plan.modules[i].hasBackward())
        add(Kind::Backward, i, mb);
  }

  const StepPlan &plan;
  std::vector<bool> isTower; ///< a whole-batch module depends on it
  std::vector<Instruction> steps;
};

//===----------------------------------------------------------------------===//
// From a solution
//===----------------------------------------------------------------------===//

/// Every replica's ranks; of a whole-batch module one list.
std::vector<std::vector<int>> getReplicas(const PlannedModule &m) {
  std::vector<std::vector<int>> replicas;
  for (auto [i, rank] : llvm::enumerate(m.place.ranks)) {
    if (i == 0 || (!m.wholeBatch && int64_t(i) % m.place.group == 0))
      replicas.emplace_back();
    replicas.back().push_back(int(rank));
  }
  return replicas;
}

class SolutionReader {
public:
  SolutionReader(const StepPlan &plan, sched::SolutionOp solution,
                 sched::ProblemOp op)
      : plan(plan), solution(solution), op(op), problem(op.getProblem()) {}

  FailureOr<StepOrder> run() {
    if (failed(matchStages()) || failed(matchEdges()))
      return failure();
    StepOrder order;
    order.programs = solution.getPrograms(op);
    order.name = solution.getSchedule().value_or("").str();
    for (std::vector<Instruction> &program : order.programs)
      for (Instruction &step : program)
        if (step.action == Instruction::Run)
          step.task.stage = modules[step.task.stage];
    order.local = findLocal();
    return order;
  }

private:
  LogicalResult matchStages() {
    if (problem.microbatches != plan.microbatches)
      return op.emitOpError()
             << "has " << problem.microbatches
             << " microbatches; the program has " << plan.microbatches;
    if (problem.stages.size() != plan.modules.size())
      return op.emitOpError()
             << "has " << problem.stages.size() << " stages; the program has "
             << plan.modules.size() << " modules";
    for (const scheduler::Stage &stage : problem.stages) {
      int index = plan.findModule(stage.name);
      if (index < 0)
        return op.emitOpError()
               << "has a stage '" << stage.name << "', which is no module";
      const PlannedModule &m = plan.modules[index];
      if (stage.batchSync != m.wholeBatch || stage.replicas != getReplicas(m))
        return op.emitOpError() << "places stage '" << stage.name
                                << "' otherwise than the module";
      if (stage.batchSync && problem.getNumGroups() != 1)
        return op.emitOpError()
               << "synchronises groups of microbatches; '" << stage.name
               << "' needs the whole batch at once";
      if (int span = problem.units[stage.unit].span; span != m.span)
        return op.emitOpError()
               << "has tasks of " << span << " microbatches of stage '"
               << stage.name << "', not of " << m.span << " as the module";
      modules.push_back(index);
    }
    return success();
  }

  LogicalResult matchEdges() {
    bool equal = problem.edges.size() == plan.edges.size();
    for (auto [a, b] : llvm::zip(problem.edges, plan.edges))
      equal &= modules[a.from] == int(b.from) && modules[a.to] == int(b.to);
    if (!equal)
      return op.emitOpError("has other edges than the program, or in another "
                            "order");
    for (auto [a, b] : llvm::zip(problem.edges, plan.edges))
      if (a.gradient != b.produced.has_value())
        return dist::EdgeOp(b.op).emitOpError()
               << "brings " << (a.gradient ? "no" : "a")
               << " gradient back; the sched.problem says otherwise";
    return success();
  }

  std::vector<scheduler::Message> findLocal() {
    scheduler::TaskGraph graph(problem);
    std::vector<scheduler::Message> local;
    for (int node = 0; node < graph.getNumNodes(); ++node) {
      int place = graph.getPlaceOf(node);
      for (const auto &dependence : graph.getPredecessors(node)) {
        int other = graph.getPlaceOf(dependence.node);
        auto a = graph.getPlaceInfo(other), b = graph.getPlaceInfo(place);
        if (dependence.edge < 0 || problem.stages[a.stage].batchSync ||
            problem.stages[b.stage].batchSync ||
            graph.getRanks(place) != graph.getRanks(other))
          continue;
        local.push_back(
            {dependence.edge,
             graph.getSlotOf(node) == scheduler::TaskGraph::kGradient,
             std::max(graph.getMicrobatchOf(node),
                      graph.getMicrobatchOf(dependence.node)),
             a.replica, b.replica});
      }
    }
    llvm::sort(local);
    local.erase(std::unique(local.begin(), local.end()), local.end());
    return local;
  }

  const StepPlan &plan;
  sched::SolutionOp solution;
  sched::ProblemOp op;
  scheduler::Problem problem;
  std::vector<int> modules; ///< of stages
};

} // namespace

FailureOr<StepOrder> dt::lower::readOrder(const StepPlan &plan) {
  ModuleOp program = plan.program;
  auto planOp = dist::getOnly<dist::PlanOp>(program);
  auto solutions = program.getOps<sched::SolutionOp>();
  FailureOr<StepOrder> order = failure();
  if (!solutions.empty()) {
    sched::SolutionOp solution = *solutions.begin();
    if (std::next(solutions.begin()) != solutions.end())
      return solution.emitOpError(
          "is not the only one: a program has one step");
    auto problem =
        program.lookupSymbol<sched::ProblemOp>(solution.getProblem());
    if (!problem)
      return solution.emitOpError("is of no sched.problem");
    order = SolutionReader(plan, solution, problem).run();
  } else {
    for (const PlannedModule &m : plan.modules)
      if (m.place.ranks != ArrayRef<int64_t>{0})
        return dist::ModuleOp(m.op).emitOpError(
            "is placed on other ranks than 0, but there is no sched.solution");
    order = StepOrder();
    order->programs.push_back(OneRank(plan).run());
    order->name = "accumulate";
  }
  if (succeeded(order) && planOp)
    order->depth = planOp.getDepth();
  return order;
}
