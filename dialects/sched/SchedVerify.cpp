//===- SchedVerify.cpp - What makes problems and solutions well-formed ----===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Here only what the library cannot see: symbols, lists of lists, numbers that
// do not fit. All else is asked of the library, which then can rely on it.
//
//===----------------------------------------------------------------------===//

#include "dialects/sched/SchedOps.h"

#include "passes/scheduler/core/Slots.h"
#include "passes/scheduler/messages/Communicate.h"

#include "llvm/ADT/SmallSet.h"

#include <map>

using namespace mlir;

namespace dt::sched {

namespace {

/// Numbers that stand for counts fit into 20 bits: nothing real is larger, and
/// products of two do not overflow.
constexpr int64_t kMaxCount = int64_t(1) << 20;

LogicalResult checkCount(Operation *op, StringRef what, int64_t value,
                         int64_t least) {
  if (value < least || value > kMaxCount)
    return op->emitOpError() << "has " << what << " " << value << "; expected "
                             << least << " to " << kMaxCount;
  return success();
}

/// A list of lists of integers in [least, 2^44), `width` each (0: any).
LogicalResult checkLists(Operation *op, StringRef what, ArrayAttr lists,
                         unsigned width, int64_t least) {
  for (Attribute list : lists) {
    auto values = dyn_cast<ArrayAttr>(list);
    if (!values || (width && values.size() != width))
      return op->emitOpError()
             << "has " << what << " that are not lists of "
             << (width ? std::to_string(width) + " " : "") << "integers";
    for (auto [i, value] : llvm::enumerate(values)) {
      auto number = dyn_cast<IntegerAttr>(value);
      // The last of a route is a time.
      int64_t most = width && i + 1 == width ? int64_t(1) << 44 : kMaxCount;
      if (!number || !number.getType().isSignlessInteger(64) ||
          number.getInt() < least || number.getInt() > most)
        return op->emitOpError()
               << "has " << what << " with something else than an integer from "
               << least << " to " << most;
    }
  }
  return success();
}

template <typename OpT>
LogicalResult checkSymbol(Operation *op, ProblemOp problem, StringRef name,
                          StringRef kind) {
  if (!isa_and_present<OpT>(SymbolTable::lookupSymbolIn(problem, name)))
    return op->emitOpError()
           << "names the " << kind << " '" << name << "', which does not exist";
  return success();
}

LogicalResult verifyStage(StageOp stage, ProblemOp problem) {
  if (failed(checkSymbol<UnitOp>(stage, problem, stage.getUnit(), "unit")) ||
      failed(checkLists(stage, "replicas", stage.getReplicas(), 0, 0)) ||
      failed(checkCount(stage, "slots", stage.getSlots().value_or(0), 0)))
    return failure();
  return success();
}

LogicalResult verifyEdge(EdgeOp edge, ProblemOp problem) {
  if (failed(checkSymbol<StageOp>(edge, problem, edge.getSource(), "stage")) ||
      failed(checkSymbol<StageOp>(edge, problem, edge.getTarget(), "stage")) ||
      failed(checkCount(edge, "depth", edge.getDepth().value_or(0), 0)))
    return failure();
  return edge.getRoutes() ? checkLists(edge, "routes", *edge.getRoutes(), 4, -1)
                          : success();
}

} // namespace

LogicalResult ProblemOp::verifyRegions() {
  if (failed(checkCount(*this, "ranks", getRanks(), 1)) ||
      failed(checkCount(*this, "microbatches", getMicrobatches(), 1)) ||
      failed(checkCount(*this, "sync_group", getSyncGroup().value_or(0), 0)))
    return failure();
  for (Operation &op : *getBody().begin()) {
    if (auto stage = dyn_cast<StageOp>(op)) {
      if (failed(verifyStage(stage, *this)))
        return failure();
    } else if (auto edge = dyn_cast<EdgeOp>(op)) {
      if (failed(verifyEdge(edge, *this)))
        return failure();
    } else if (auto unit = dyn_cast<UnitOp>(op)) {
      if (failed(checkCount(unit, "run_ahead", unit.getRunAhead().value_or(0),
                            0)) ||
          failed(checkCount(unit, "span", unit.getSpan().value_or(1), 1)))
        return failure();
    } else {
      return op.emitOpError("is not part of a problem");
    }
  }
  if (llvm::Error error = getProblem().check())
    return emitOpError() << "cannot be: " << toString(std::move(error));
  return success();
}

namespace {

LogicalResult verifyRun(RunOp run, ProblemOp problem) {
  if (failed(checkSymbol<StageOp>(run, problem, run.getStage(), "stage")) ||
      failed(checkCount(run, "microbatch", run.getMicrobatch(), 0)) ||
      failed(checkCount(run, "replica", run.getReplica(), 0)))
    return failure();
  return checkCount(run, "slot", run.getSlot().value_or(0), 0);
}

/// What both ends of a message must agree on beside its key.
using RowsOfMessage =
    std::map<scheduler::Message, std::pair<StringAttr, Operation *>>;

template <typename OpT> LogicalResult verifyMessage(OpT op, ProblemOp problem) {
  if (failed(checkSymbol<StageOp>(op, problem, op.getSource(), "stage")) ||
      failed(checkSymbol<StageOp>(op, problem, op.getTarget(), "stage")) ||
      failed(checkCount(op, "microbatch", op.getMicrobatch(), 0)) ||
      failed(checkCount(op, "from", op.getFrom(), 0)) ||
      failed(checkCount(op, "into", op.getInto(), 0)))
    return failure();
  return checkCount(op, "edge", op.getEdge(), 0);
}

LogicalResult verifyStep(Operation &op, ProblemOp problem) {
  if (auto run = dyn_cast<RunOp>(op))
    return verifyRun(run, problem);
  if (auto send = dyn_cast<SendOp>(op))
    return verifyMessage(send, problem);
  if (auto receive = dyn_cast<ReceiveOp>(op))
    return verifyMessage(receive, problem);
  if (auto exchange = dyn_cast<ExchangeOp>(op))
    return verifyMessage(exchange, problem);
  return op.emitOpError("is not part of a rank's list");
}

/// The row expressions of a message are equal on both ends (V7), and slots
/// hold.
LogicalResult verifyAttributes(
    SolutionOp solution, const scheduler::TaskGraph &graph,
    const std::vector<std::vector<scheduler::Instruction>> &programs) {
  RowsOfMessage rows;
  for (auto list : solution.getOps<RankOp>()) {
    int64_t rank = list.getRanks()[0];
    const std::vector<scheduler::Instruction> &program = programs[rank];
    std::vector<int> slots;
    for (auto [step, op] : llvm::zip(program, *list.getBody().begin())) {
      auto slot = op.getAttrOfType<IntegerAttr>("slot");
      slots.push_back(slot ? int(slot.getInt()) : -1);
      if (step.action == scheduler::Instruction::Run)
        continue;
      auto text = op.getAttrOfType<StringAttr>("rows");
      auto [it, first] = rows.insert({step.message, {text, &op}});
      if (!first && it->second.first != text) {
        InFlightDiagnostic error = op.emitOpError(
            "V7: the two ends of a message have different rows: ");
        error << (text ? text.getValue() : "none") << " here";
        error.attachNote(it->second.second->getLoc())
            << (it->second.first ? it->second.first.getValue() : "none")
            << " there";
        return failure();
      }
    }
    if (llvm::Error error = scheduler::checkSlots(graph, program, slots))
      return list.emitOpError() << rank << ": " << toString(std::move(error));
  }
  return success();
}

} // namespace

LogicalResult SolutionOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto problemOp =
      tables.lookupNearestSymbolFrom<ProblemOp>(*this, getProblemAttr());
  if (!problemOp)
    return emitOpError("names the problem ")
           << getProblemAttr() << ", which does not exist";
  llvm::SmallSet<int64_t, 16> seen;
  for (Operation &op : *getBody().begin()) {
    auto list = dyn_cast<RankOp>(op);
    if (!list)
      return op.emitOpError("is not part of a solution");
    if (list.getRanks().empty())
      return list.emitOpError("is of no rank");
    for (int64_t rank : list.getRanks()) {
      if (uint64_t(rank) >= problemOp.getRanks())
        return list.emitOpError() << rank << " is not one of the problem's "
                                  << problemOp.getRanks();
      if (!seen.insert(rank).second)
        return list.emitOpError() << rank << " stands twice";
    }
    for (Operation &step : *list.getBody().begin())
      if (failed(verifyStep(step, problemOp)))
        return failure();
  }
  scheduler::Problem problem = problemOp.getProblem();
  scheduler::TaskGraph graph(problem);
  std::vector<std::vector<scheduler::Instruction>> programs =
      getPrograms(problemOp);
  if (llvm::Error error = scheduler::verify(graph, programs))
    return emitOpError() << "is refused: " << toString(std::move(error));
  return verifyAttributes(*this, graph, programs);
}

} // namespace dt::sched
