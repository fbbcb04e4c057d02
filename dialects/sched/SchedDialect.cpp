//===- SchedDialect.cpp - sched IR to and from the scheduling library -----===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/sched/SchedOps.h"

#include "passes/scheduler/core/Slots.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;

#include "dialects/sched/SchedDialect.cpp.inc"
#include "dialects/sched/SchedEnums.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/sched/SchedOps.cpp.inc"

namespace dt::sched {

void SchedDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/sched/SchedOps.cpp.inc"
      >();
}

namespace {

// The kinds of the IR are those of the library, by number.
static_assert(unsigned(TaskKind::F) == unsigned(scheduler::Kind::Forward));
static_assert(unsigned(TaskKind::B) == unsigned(scheduler::Kind::Backward));
static_assert(unsigned(TaskKind::I) == unsigned(scheduler::Kind::Input));
static_assert(unsigned(TaskKind::W) == unsigned(scheduler::Kind::Weight));
static_assert(unsigned(TaskKind::S) == unsigned(scheduler::Kind::Sync));

scheduler::Table getTable(std::optional<ArrayRef<int64_t>> values) {
  return values ? scheduler::Table(
                      std::vector<int64_t>(values->begin(), values->end()))
                : scheduler::Table(0);
}

int at(Attribute list, unsigned index) {
  return int(cast<IntegerAttr>(cast<ArrayAttr>(list)[index]).getInt());
}

/// Index by symbol name.
template <typename OpT> llvm::StringMap<int> number(ProblemOp problem) {
  llvm::StringMap<int> numbers;
  for (auto op : problem.getOps<OpT>())
    numbers.insert({op.getSymName(), int(numbers.size())});
  return numbers;
}

scheduler::Stage getStage(StageOp op, const llvm::StringMap<int> &units) {
  scheduler::Stage stage;
  stage.name = op.getSymName().str();
  stage.unit = units.lookup(op.getUnit());
  for (Attribute replica : op.getReplicas()) {
    stage.replicas.emplace_back();
    for (unsigned i = 0; i < cast<ArrayAttr>(replica).size(); ++i)
      stage.replicas.back().push_back(at(replica, i));
  }
  stage.forward = getTable(op.getForward());
  stage.input = getTable(op.getInput());
  stage.weight = getTable(op.getWeight());
  stage.activation = getTable(op.getKeeps());
  stage.weightActivation = getTable(op.getWeightKeeps());
  if (op.getLateKeeps())
    stage.late = getTable(op.getLateKeeps());
  stage.hasBackward = !op.getNoBackward() && !op.getBatchSync();
  stage.hasWeight = stage.hasBackward && !op.getFrozen();
  stage.batchSync = op.getBatchSync();
  stage.slots = int(op.getSlots().value_or(0));
  return stage;
}

template <typename OpT>
scheduler::Instruction getMessage(OpT op, scheduler::Instruction::Action action,
                                  const scheduler::Problem &problem,
                                  const llvm::StringMap<int> &stages) {
  scheduler::Instruction step;
  step.action = action;
  int from = stages.lookup(op.getSource()), to = stages.lookup(op.getTarget());
  if (op.getGradient())
    std::swap(from, to);
  step.message = {-1, op.getGradient(), int(op.getMicrobatch()),
                  int(op.getFrom()), int(op.getInto())};
  int64_t skip = op.getEdge();
  for (size_t e = 0; e < problem.edges.size(); ++e)
    if (problem.edges[e].from == from && problem.edges[e].to == to &&
        skip-- == 0)
      step.message.edge = int(e);
  return step;
}

} // namespace

scheduler::Problem ProblemOp::getProblem() {
  scheduler::Problem problem;
  problem.ranks = int(getRanks());
  problem.microbatches = int(getMicrobatches());
  if (auto memory = getMemory())
    problem.memory.assign(memory->begin(), memory->end());
  problem.syncGroup = int(getSyncGroup().value_or(0));
  llvm::StringMap<int> units = number<UnitOp>(*this),
                       stages = number<StageOp>(*this);
  for (auto unit : getOps<UnitOp>())
    problem.units.push_back({unit.getSymName().str(), unit.getRunAhead(),
                             int(unit.getSpan().value_or(1))});
  for (auto stage : getOps<StageOp>())
    problem.stages.push_back(getStage(stage, units));
  for (auto op : getOps<EdgeOp>()) {
    scheduler::Edge edge;
    edge.from = stages.lookup(op.getSource());
    edge.to = stages.lookup(op.getTarget());
    edge.latency = op.getLatency();
    edge.gradient = !op.getNoGradient();
    edge.receiveDepth = int(op.getDepth().value_or(0));
    if (op.getRoutes())
      for (Attribute route : op.getRoutesAttr())
        edge.routes.push_back(
            {at(route, 0), at(route, 1), at(route, 2),
             cast<IntegerAttr>(cast<ArrayAttr>(route)[3]).getInt()});
    problem.edges.push_back(edge);
  }
  return problem;
}

std::vector<std::vector<scheduler::Instruction>>
SolutionOp::getPrograms(ProblemOp problemOp) {
  using scheduler::Instruction;
  scheduler::Problem problem = problemOp.getProblem();
  llvm::StringMap<int> stages = number<StageOp>(problemOp);
  std::vector<std::vector<Instruction>> programs(problem.ranks);
  for (auto list : getOps<RankOp>()) {
    std::vector<Instruction> program;
    for (Operation &op : *list.getBody().begin()) {
      Instruction step;
      if (auto run = dyn_cast<RunOp>(op))
        step.task = {scheduler::Kind(run.getKind()),
                     stages.lookup(run.getStage()), int(run.getMicrobatch()),
                     int(run.getReplica())};
      else if (auto send = dyn_cast<SendOp>(op))
        step = getMessage(send, Instruction::Send, problem, stages);
      else if (auto receive = dyn_cast<ReceiveOp>(op))
        step = getMessage(receive, Instruction::Receive, problem, stages);
      else
        step = getMessage(cast<ExchangeOp>(op), Instruction::Exchange, problem,
                          stages);
      program.push_back(step);
    }
    for (int64_t rank : list.getRanks())
      programs[rank] = program;
  }
  return programs;
}

namespace {

/// The how-manieth of the edges between its two stages an edge is.
int64_t getOrdinal(const scheduler::Problem &problem, int edge) {
  int64_t ordinal = 0;
  for (int e = 0; e < edge; ++e)
    ordinal += problem.edges[e].from == problem.edges[edge].from &&
               problem.edges[e].to == problem.edges[edge].to;
  return ordinal;
}

void buildStep(OpBuilder &builder, Location loc,
               const scheduler::Problem &problem,
               const scheduler::Instruction &step, int slot) {
  MLIRContext *context = builder.getContext();
  auto symbol = [&](int stage) {
    return FlatSymbolRefAttr::get(context, problem.stages[stage].name);
  };
  if (step.action == scheduler::Instruction::Run) {
    RunOp::create(builder, loc,
                  TaskKindAttr::get(context, TaskKind(step.task.kind)),
                  symbol(step.task.stage),
                  builder.getI64IntegerAttr(step.task.microbatch),
                  builder.getI64IntegerAttr(step.task.replica),
                  slot < 0 ? IntegerAttr() : builder.getI64IntegerAttr(slot));
    return;
  }
  const scheduler::Message &message = step.message;
  const scheduler::Edge &edge = problem.edges[message.edge];
  auto from = symbol(message.gradient ? edge.to : edge.from),
       to = symbol(message.gradient ? edge.from : edge.to);
  auto create = [&](auto op) {
    decltype(op)::create(
        builder, loc, from, to, builder.getI64IntegerAttr(message.microbatch),
        message.gradient ? builder.getUnitAttr() : UnitAttr(),
        builder.getI64IntegerAttr(message.from),
        builder.getI64IntegerAttr(message.to),
        builder.getI64IntegerAttr(getOrdinal(problem, message.edge)),
        StringAttr());
  };
  if (step.action == scheduler::Instruction::Send)
    create(SendOp());
  else if (step.action == scheduler::Instruction::Receive)
    create(ReceiveOp());
  else
    create(ExchangeOp());
}

} // namespace

SolutionOp buildSolution(OpBuilder &builder, ProblemOp problemOp,
                         const scheduler::Solution &solution, StringRef name) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfter(problemOp);
  Location loc = problemOp.getLoc();
  scheduler::Problem problem = problemOp.getProblem();
  scheduler::TaskGraph graph(problem);
  auto op = SolutionOp::create(
      builder, loc, FlatSymbolRefAttr::get(problemOp.getSymNameAttr()),
      builder.getStringAttr(name));
  builder.createBlock(&op.getBody());
  const auto &programs = solution.programs;
  std::vector<llvm::SmallVector<int64_t>> lists; // ranks that do the same
  for (int64_t rank = 0; rank < int64_t(programs.size()); ++rank) {
    auto same = llvm::find_if(lists, [&](const auto &ranks) {
      return programs[ranks[0]] == programs[rank];
    });
    if (same == lists.end())
      same = lists.insert(lists.end(), llvm::SmallVector<int64_t>());
    same->push_back(rank);
  }
  for (ArrayRef<int64_t> ranks : lists) {
    const auto &program = programs[ranks[0]];
    auto list = RankOp::create(builder, loc, ranks);
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&list.getBody());
    std::vector<int> slots = scheduler::assignSlots(graph, program);
    for (auto [step, slot] : llvm::zip_equal(program, slots))
      buildStep(builder, loc, problem, step, slot);
  }
  return op;
}

} // namespace dt::sched
