//===- CudaPacks.cpp - threads with several elements ----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A thread with `vector` neighbours loads packs into arrays, does the body's
// statements for each element in a loop that is unrolled, and stores packs.
// Subscripts of arrays are then constants, and the arrays registers.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/codegen/CudaBody.h"

using namespace mlir;

namespace dt::codegen {

/// In packs of `pack` elements.
void CudaBody::movePacks(Location loc, StringRef callee, int64_t pack,
                         const cpp::Code &to, const cpp::Code &from) {
  createCall(b, loc, {}, callee, {to, from}, {}, {plan.vector, pack});
}

std::string CudaBody::declareArray(const Access &access, unsigned size) {
  std::string &name = arrays[access.op];
  name = names.unique(texts.lookup(access.buffer));
  StringRef type = cTypeName(access.type().getElementType());
  CudaAccess how = plan.getAccess(access.op);
  if (how.shared == 0)
    line(access.op->getLoc(), cpp::declare(type, cpp::element(name, size)));
  else
    line(access.op->getLoc(),
         cpp::declare(cpp::templated("dt::rt::cuda::Kept",
                                     {type, size - how.shared, plan.threads()}),
                      cpp::call(name, {cpp::sum(sharedName, how.begin)})));
  return name;
}

std::string CudaBody::elementOf(StringRef array, Operation *source) const {
  return cpp::element(array, plan.getAccess(source).kept ? kept : neighbour);
}

FailureOr<std::string> CudaBody::plusText(Value index, Value variable,
                                          StringRef first) {
  if (index == variable)
    return first.str();
  if (!dependsOn(index, variable))
    return text(index);
  FailureOr<std::string> a = plusText(index.getDefiningOp()->getOperand(0),
                                      variable, first),
                         b = plusText(index.getDefiningOp()->getOperand(1),
                                      variable, first);
  if (failed(a) || failed(b))
    return failure();
  return cpp::sum(*a, *b);
}

FailureOr<std::string> CudaBody::placeOf(const Access &access, Value variable,
                                         StringRef first) {
  for (Value index : access.indices.drop_back())
    if (failed(text(index)))
      return failure();
  Value last = access.indices.back();
  FailureOr<std::string> at = plusText(last, variable, first);
  if (failed(at))
    return failure();
  // It is computed again for each element.
  auto known = texts.find(last);
  std::optional<std::string> before;
  if (known != texts.end())
    before = known->second;
  texts[last] = *at;
  auto [pointer, place] = address(access.buffer, access.indices);
  texts.erase(last);
  if (before)
    texts[last] = *before;
  return cpp::sum(pointer, cpp::atom(place));
}

LogicalResult
CudaBody::visitNeighbours(ArrayRef<Access> accesses, Value variable,
                          StringRef first, StringRef step,
                          llvm::function_ref<LogicalResult()> body) {
  struct Store {
    Location loc;
    unsigned pack;
    std::string to, from;
  };
  SmallVector<Store> stores;
  for (const Access &access : accesses) {
    CudaAccess how = plan.getAccess(access.op);
    if (how.kind != CudaAccess::Memory || how.vector == 1)
      continue;
    std::string array =
        how.kept ? arrays.lookup(access.op) : declareArray(access, plan.vector);
    if (how.kept && steps > 1)
      array = cpp::sum(array, cpp::product(step, plan.vector));
    FailureOr<std::string> place = placeOf(access, variable, first);
    if (failed(place))
      return failure();
    Location loc = access.op->getLoc();
    if (access.isStore)
      stores.push_back({loc, how.vector, *place, array});
    else
      movePacks(loc, kLoadPacks, how.vector, array, *place);
  }
  kept = steps > 1 ? step.str() : "0";
  texts[variable] = first.str();
  if (plan.vector == 1) {
    if (failed(body()))
      return failure();
  } else {
    Location loc = kernel.getLoc();
    OpBuilder::InsertionGuard guard(b);
    neighbour = openUnrolled(loc, plan.vector, "c");
    kept = steps > 1 ? cpp::sum(cpp::product(step, plan.vector), neighbour)
                     : neighbour;
    std::string name = names.unique("r");
    line(loc, cpp::constant(indexType(), name, cpp::sum(first, neighbour)));
    texts[variable] = name;
    if (failed(body()))
      return failure();
  }
  for (const Store &store : stores)
    movePacks(store.loc, kStorePacks, store.pack, store.to, store.from);
  return success();
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

LogicalResult CudaBody::visitSteps(rt::LaneNest &nest,
                                   ArrayRef<Value> variables, StringRef trips) {
  scf::ForOp row = nest.inner();
  Location loc = row.getLoc();
  SmallVector<Access> accesses;
  for (Operation &op : *row.getBody())
    if (isa<rt::LoadOp, rt::StoreOp>(op))
      accesses.emplace_back(&op);
  for (const Access &access : accesses)
    if (plan.getAccess(access.op).kept)
      declareArray(access, steps * plan.vector);
  std::string begin = cpp::product(lane, plan.vector), step;
  int64_t width = int64_t(plan.lanes) * plan.vector;
  OpBuilder::InsertionGuard guard(b);
  std::string at;
  if (steps == 0) {
    at = nameLoopVariable(openLoop(loc, begin, trips, width), "r");
  } else {
    at = begin;
    if (steps > 1) {
      step = openUnrolled(loc, steps, "k");
      at = cpp::sum(cpp::product(step, width), begin);
    }
    if (!piece.empty())
      at = cpp::sum(piece, at);
    std::string name = names.unique("r");
    line(loc, cpp::constant(indexType(), name, at));
    at = name;
  }
  auto visitRow = [&] {
    return visitNeighbours(accesses, row.getInductionVar(), at, step,
                           [&] { return visitNestBody(nest, variables); });
  };
  if (steps == 0 || (piece.empty() && trips == std::to_string(steps * width)))
    return visitRow();
  // A branch, since nothing follows a loop's body that could be skipped to.
  return visitUnder(loc, cpp::compare(at, "<", trips), visitRow);
}

/// A part of a nest of which a lane has neighbours along the innermost loop.
LogicalResult CudaBody::visitPart(rt::LaneNest &nest, ArrayRef<Value> variables,
                                  StringRef trips) {
  scf::ForOp row = nest.inner();
  OpBuilder::InsertionGuard guard(b);
  emitc::ForOp loop = openLoop(row.getLoc(), cpp::product(first, plan.vector),
                               cpp::select("parts.last", 0, trips),
                               cpp::product(stride, plan.vector));
  nameIterations(nest.loops, nameLoopVariable(loop, "r"));
  for (size_t i = 1; i < nest.loops.size(); ++i)
    if (failed(visitStatements(nest.loops[i - 1], nest.loops[i])))
      return failure();
  SmallVector<Access> accesses;
  for (Operation &op : *row.getBody())
    if (isa<rt::LoadOp, rt::StoreOp>(op))
      accesses.emplace_back(&op);
  Value variable = row.getInductionVar();
  std::string at = texts.lookup(variable);
  return visitNeighbours(accesses, variable, at, "", [&]() -> LogicalResult {
    if (failed(visitStatements(row)))
      return failure();
    return assignYields(row.getBody()->getTerminator(), variables);
  });
}

/// A lane has a largest value and a sum of its own until the row's end. As long
/// as all that it has seen is -inf (or nothing), the sum is 0.
LogicalResult CudaBody::visitOnline(rt::LaneNest &most, rt::LaneNest &sum) {
  Location loc = most.outer().getLoc();
  // What the second loop needs: constants.
  for (Operation *op = most.outer()->getNextNode(); op != sum.outer();
       op = op->getNextNode())
    if (failed(visit(op)))
      return failure();
  FailureOr<std::string> trips = countTrips(most.loops);
  if (failed(trips))
    return failure();
  FailureOr<SmallVector<Value>> largest = beginNest(most),
                                total = beginNest(sum);
  if (failed(largest) || failed(total) || failed(flushLoads()))
    return failure();
  Value m = largest->front(), s = total->front(),
        result = most.inner()->getResult(0);
  Type scalar = scalarType(result.getType());
  std::string type = cTypeName(scalar).str(), before = names.unique("before"),
              base = names.unique("base");
  inNest = true;
  steps = CudaPlan::kPiece / plan.vector;
  {
    OpBuilder::InsertionGuard guard(b);
    piece = nameLoopVariable(
        openLoop(loc, 0, *trips, plan.lanes * CudaPlan::kPiece), "piece");
    line(loc, cpp::constant(type, before, "{}"), m);
    if (failed(visitSteps(most, *largest, *trips)))
      return failure();
    line(
        loc,
        cpp::constant(type, base, cpp::call("dt::rt::cuda::finiteOr0", {"{}"})),
        m);
    assignCall(loc, s, "dt::rt::cuda::rescale",
               {s, literal(loc, scalar, before), literal(loc, scalar, base)});
    texts[result] = base;
    if (failed(visitSteps(sum, *total, *trips)))
      return failure();
    texts.erase(result);
  }
  piece.clear();
  steps = plan.steps;
  inNest = false;
  std::string own = names.unique("own");
  line(loc, cpp::constant(type, own, "{}"), m);
  combineLanes(most.inner(), 0, m);
  assignCall(loc, s, "dt::rt::cuda::rescale",
             {s, literal(loc, scalar, own), m});
  combineLanes(sum.inner(), 0, s);
  return success();
}

//===----------------------------------------------------------------------===//
// Points
//===----------------------------------------------------------------------===//

LogicalResult CudaBody::runPoints(StringRef point) {
  namePoint(point);
  Block &body = kernel.getBody().front();
  Value last = kernel.getIndices().back();
  std::string first = texts.lookup(last);
  SmallVector<Access> accesses;
  for (Operation &op : body)
    if (isa<rt::LoadOp, rt::StoreOp>(op))
      accesses.emplace_back(&op);
  auto isCommon = [&](Operation &op) {
    return !isa<rt::StoreOp>(op) && op.getNumRegions() == 0 &&
           llvm::none_of(op.getOperands(),
                         [&](Value v) { return dependsOn(v, last); });
  };
  for (Operation &op : body)
    if (isCommon(op) && failed(visit(&op)))
      return failure();
  return visitNeighbours(accesses, last, first, "", [&]() -> LogicalResult {
    for (Operation &op : body)
      if (!isCommon(op) && failed(visit(&op)))
        return failure();
    return success();
  });
}

} // namespace dt::codegen
