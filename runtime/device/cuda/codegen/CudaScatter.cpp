//===- CudaScatter.cpp - sums into rows that data says --------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The gradient of an embedding: rows with equal keys add into the same cells. A
// warp has a row. If one ahead of it has the same key there is nothing to do;
// else it adds up all rows with its key, in their order, and then adds the sums
// to the cells. So no two warps touch the same cells, and bits do not depend on
// who comes first.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/codegen/CudaBody.h"

using namespace mlir;

namespace dt::codegen {

/// The key of a row, named at the builder's place.
FailureOr<std::string> CudaBody::keyOf(rt::ColumnSum &sum, StringRef row) {
  auto before = std::tuple(texts, values, waiting);
  texts[sum.rows.front().getInductionVar()] = row.str();
  if (failed(nameSlice(sum.key)))
    return failure();
  FailureOr<std::string> key = text(sum.key);
  std::tie(texts, values, waiting) = std::move(before);
  return key;
}

LogicalResult
CudaBody::visitColumns(rt::ColumnSum &sum,
                       llvm::function_ref<LogicalResult(StringRef)> body) {
  Location loc = kernel.getLoc();
  scf::ForOp columns = sum.columns.inner();
  FailureOr<std::string> n = text(columns.getUpperBound(), "bound");
  if (failed(n))
    return failure();
  OpBuilder::InsertionGuard guard(b);
  std::string k = openUnrolled(loc, columnsOfLane(), "k"),
              column = names.unique("column");
  line(loc, cpp::constant(indexType(), column,
                          cpp::sum(cpp::product(k, kWarp), lane)));
  texts[columns.getInductionVar()] = column;
  return visitUnder(loc, cpp::compare(column, "<", *n),
                    [&] { return body(k); });
}

/// Bits of the warp's lanes of which the condition holds.
static std::string lanesWith(const cpp::Code &condition) {
  return cpp::call("dt::rt::cuda::lanesWith", {condition});
}

/// Adds up all rows with the key, from `row` on: 32 keys are looked at
/// together.
LogicalResult CudaBody::addRows(rt::ColumnSum &sum, StringRef row,
                                StringRef key, StringRef totals) {
  Location loc = kernel.getLoc();
  scf::ForOp rows = sum.rows.front(), columns = sum.columns.inner();
  std::string n = *text(rows.getUpperBound(), "bound"),
              own = names.unique("own"), bits = names.unique("bits"),
              same = names.unique("same");
  OpBuilder::InsertionGuard guard(b);
  std::string first = nameLoopVariable(openLoop(loc, row, n, kWarp), "r"),
              mine = cpp::sum(first, lane), inside = cpp::compare(mine, "<", n);
  line(loc, cpp::constant(indexType(), own, cpp::select(inside, mine, row)));
  FailureOr<std::string> others = keyOf(sum, own);
  if (failed(others))
    return failure();
  line(loc, cpp::declare("unsigned", bits,
                         lanesWith(cpp::both(
                             inside, cpp::compare(*others, "==", key)))));
  line(loc, cpp::openBits(bits));
  line(loc, cpp::constant(
                indexType(), same,
                cpp::sum(first, cpp::call("dt::rt::cuda::lowestBit", {bits}))));
  texts[rows.getInductionVar()] = same;
  // What columns need of the row.
  WalkResult needed = columns.getBody()->walk([&](Operation *op) {
    bool cell = op == sum.load || op == sum.store;
    for (Value value : op->getOperands())
      if (!cell && value.getParentBlock() == rows.getBody() &&
          failed(nameSlice(value)))
        return WalkResult::interrupt();
    return WalkResult::advance();
  });
  if (needed.wasInterrupted() ||
      failed(visitColumns(sum, [&](StringRef k) -> LogicalResult {
        for (Operation &op : columns.getBody()->without_terminator())
          if (&op != sum.load && &op != sum.store && &op != sum.combiner &&
              failed(visit(&op)))
            return failure();
        FailureOr<Value> added = expression(sum.added, /*noInline=*/true);
        if (failed(added))
          return failure();
        std::string total = cpp::element(totals, k);
        line(loc,
             cpp::assign(total,
                         combined(sum.combiner, cTypeName(sum.added.getType()),
                                  total, "{}")),
             *added);
        return success();
      })))
    return failure();
  line(loc, cpp::close());
  return success();
}

LogicalResult CudaBody::addTotals(rt::ColumnSum &sum, StringRef key,
                                  StringRef totals) {
  texts[sum.key] = key.str();
  inNest = true; // all lanes store
  LogicalResult done = visitColumns(sum, [&](StringRef k) -> LogicalResult {
    for (Value index : sum.store.getIndices())
      if (failed(nameSlice(index)))
        return failure();
    texts[sum.added] = cpp::element(totals, k);
    for (Operation *op :
         {sum.load.getOperation(), sum.combiner, sum.store.getOperation()})
      if (failed(visit(op)))
        return failure();
    return success();
  });
  inNest = false;
  return done;
}

LogicalResult CudaBody::runScattered() {
  Location loc = kernel.getLoc();
  rt::ColumnSum sum = *rt::getScatterSum(kernel);
  std::string item = names.unique("item"), point = names.unique("point"),
              row = names.unique("row"), totals = names.unique("totals"),
              again = names.unique("again");
  lane = names.unique("lane");
  line(loc,
       cpp::constants(indexType(),
                      {{item, cpp::sum(cpp::product(kBlock, index(plan.points)),
                                       cpp::quotient(kThread, kWarp))},
                       {lane, cpp::remainder(kThread, kWarp)}}));
  auto isSize = [](Operation &op) {
    return isa<arith::ConstantOp, rt::SizeOp>(op);
  };
  Block &body = kernel.getBody().front();
  for (Operation &op : body)
    if (isSize(op) && failed(visit(&op)))
      return failure();
  FailureOr<std::string> n = text(sum.rows.front().getUpperBound(), "bound");
  if (failed(n))
    return failure();
  returnIf(loc, cpp::compare(item, ">=",
                             cpp::product(dimText(kernel.getNumPoints()), *n)));
  line(loc, cpp::constants(indexType(), {{point, cpp::quotient(item, *n)},
                                         {row, cpp::remainder(item, *n)}}));
  namePoint(point);
  for (Operation &op : body)
    if (!isSize(op) && !isa<scf::ForOp>(op) && failed(visit(&op)))
      return failure();
  FailureOr<std::string> key = keyOf(sum, row);
  if (failed(key) || failed(flushLoads()))
    return failure();
  line(loc, cpp::declare("bool", again, "false"));
  {
    OpBuilder::InsertionGuard guard(b);
    std::string other = nameLoopVariable(openLoop(loc, lane, row, kWarp), "r");
    FailureOr<std::string> others = keyOf(sum, other);
    if (failed(others))
      return failure();
    line(loc, cpp::assign(again, cpp::either(again, cpp::compare(*others,
                                                                 "==", *key))));
  }
  returnIf(loc, lanesWith(again));
  line(loc, cpp::declare(cTypeName(sum.added.getType()),
                         cpp::element(totals, columnsOfLane())));
  {
    OpBuilder::InsertionGuard guard(b);
    std::string k = nameLoopVariable(openLoop(loc, 0, columnsOfLane(), 1), "k");
    line(loc, cpp::assign(cpp::element(totals, k), identityText(sum.combiner)));
  }
  auto before = std::tuple(texts, values, waiting);
  if (failed(addRows(sum, row, *key, totals)))
    return failure();
  std::tie(texts, values, waiting) = std::move(before);
  return addTotals(sum, *key, totals);
}

} // namespace dt::codegen
