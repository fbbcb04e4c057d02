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

std::string CudaBody::declareArray(const Access &access, unsigned size) {
  std::string &name = arrays[access.op];
  name = names.unique(texts.lookup(access.buffer));
  StringRef type = cTypeName(access.type().getElementType());
  CudaAccess how = plan.getAccess(access.op);
  if (how.shared == 0)
    line(access.op->getLoc(),
         (type + " " + name + "[" + Twine(size) + "];").str());
  else
    line(access.op->getLoc(),
         ("dt::rt::cuda::Kept<" + type + ", " + Twine(size - how.shared) +
          ", " + Twine(plan.threads()) + "> " + name + "(" + sharedName +
          " + " + Twine(how.begin) + ");")
             .str());
  return name;
}

std::string CudaBody::elementOf(StringRef array, Operation *source) const {
  const std::string &at = plan.getAccess(source).kept ? kept : neighbour;
  return (array + "[" + at + "]").str();
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
  return *a == "0" ? *b : *b == "0" ? *a : *a + " + " + *b;
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
  return pointer + " + " + atom(place);
}

LogicalResult
CudaBody::visitNeighbours(ArrayRef<Access> accesses, Value variable,
                          StringRef first, StringRef step,
                          llvm::function_ref<LogicalResult()> body) {
  std::string size = std::to_string(plan.vector);
  SmallVector<std::pair<Location, std::string>> stores;
  for (const Access &access : accesses) {
    CudaAccess how = plan.getAccess(access.op);
    if (how.kind != CudaAccess::Memory || how.vector == 1)
      continue;
    std::string array =
        how.kept ? arrays.lookup(access.op) : declareArray(access, plan.vector);
    if (how.kept && steps > 1)
      array += (" + " + step + " * " + size).str();
    FailureOr<std::string> place = placeOf(access, variable, first);
    if (failed(place))
      return failure();
    std::string packs =
        "Packs<" + size + ", " + std::to_string(how.vector) + ">(";
    if (access.isStore)
      stores.emplace_back(access.op->getLoc(), "dt::rt::cuda::store" + packs +
                                                   *place + ", " + array +
                                                   ");");
    else
      line(access.op->getLoc(),
           "dt::rt::cuda::load" + packs + array + ", " + *place + ");");
  }
  kept = steps > 1 ? step.str() : "0";
  texts[variable] = first.str();
  if (plan.vector == 1) {
    if (failed(body()))
      return failure();
  } else {
    Location loc = kernel.getLoc();
    OpBuilder::InsertionGuard guard(b);
    line(loc, kUnroll);
    neighbour = nameLoopVariable(openLoop(loc, "0", size, "1"), "c");
    kept =
        steps > 1 ? step.str() + " * " + size + " + " + neighbour : neighbour;
    std::string name = names.unique("r");
    line(loc, "const " + indexType() + " " + name + " = " + first.str() +
                  " + " + neighbour + ";");
    texts[variable] = name;
    if (failed(body()))
      return failure();
  }
  for (auto &[loc, text] : stores)
    line(loc, text);
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
  std::string size = std::to_string(plan.vector),
              begin = plan.vector > 1 ? lane + " * " + size : lane, step;
  int64_t width = int64_t(plan.lanes) * plan.vector;
  OpBuilder::InsertionGuard guard(b);
  std::string at;
  if (steps == 0) {
    at = nameLoopVariable(openLoop(loc, begin, trips, std::to_string(width)),
                          "r");
  } else {
    if (steps > 1) {
      line(loc, kUnroll);
      step =
          nameLoopVariable(openLoop(loc, "0", std::to_string(steps), "1"), "k");
    }
    at = names.unique("r");
    line(
        loc,
        "const " + indexType() + " " + at + " = " +
            (piece.empty() ? "" : piece + " + ") +
            (step.empty() ? "" : step + " * " + std::to_string(width) + " + ") +
            begin + ";");
  }
  auto visitBody = [&] { return visitNestBody(nest, variables); };
  if (steps == 0 || (piece.empty() && trips == std::to_string(steps * width)))
    return visitNeighbours(accesses, row.getInductionVar(), at, step,
                           visitBody);
  // A branch, since nothing follows a loop's body that could be skipped to.
  Value inside =
      emitc::LiteralOp::create(b, loc, b.getI1Type(), at + " < " + atom(trips));
  auto branch = emitc::IfOp::create(b, loc, inside, /*addThenBlock=*/true,
                                    /*addElseBlock=*/false);
  openBranch(branch.getThenRegion());
  if (failed(visitNeighbours(accesses, row.getInductionVar(), at, step,
                             visitBody)))
    return failure();
  closeBranch(branch.getThenRegion());
  return success();
}

/// A part of a nest of which a lane has neighbours along the innermost loop.
LogicalResult CudaBody::visitPart(rt::LaneNest &nest, ArrayRef<Value> variables,
                                  StringRef trips) {
  scf::ForOp row = nest.inner();
  std::string size = " * " + std::to_string(plan.vector);
  OpBuilder::InsertionGuard guard(b);
  emitc::ForOp loop =
      openLoop(row.getLoc(), first + size, ("parts.last ? 0 : " + trips).str(),
               stride + size);
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
  std::string type = cTypeName(result.getType()).str(),
              before = names.unique("before"), base = names.unique("base");
  inNest = true;
  steps = CudaPlan::kPiece / plan.vector;
  {
    OpBuilder::InsertionGuard guard(b);
    piece = nameLoopVariable(
        openLoop(loc, "0", *trips,
                 std::to_string(plan.lanes * CudaPlan::kPiece)),
        "piece");
    line(loc, "const " + type + " " + before + " = {};", m);
    if (failed(visitSteps(most, *largest, *trips)))
      return failure();
    line(loc, "const " + type + " " + base + " = dt::rt::cuda::finiteOr0({});",
         m);
    line(loc, "{} = dt::rt::cuda::rescale({}, " + before + ", " + base + ");",
         {s, s});
    texts[result] = base;
    if (failed(visitSteps(sum, *total, *trips)))
      return failure();
    texts.erase(result);
  }
  piece.clear();
  steps = plan.steps;
  inNest = false;
  std::string own = names.unique("own");
  line(loc, "const " + type + " " + own + " = {};", m);
  combineLanes(most.inner(), 0, m);
  line(loc, "{} = dt::rt::cuda::rescale({}, " + own + ", {});", {s, s, m});
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
