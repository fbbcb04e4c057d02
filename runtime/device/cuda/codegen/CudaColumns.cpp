//===- CudaColumns.cpp - kernels of the shape column ----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/codegen/CudaBody.h"

#include <numeric>

using namespace mlir;

namespace dt::codegen {

/// Adds up the thread's rows.
LogicalResult CudaBody::visitRows(rt::ColumnSum &sum, StringRef total) {
  for (auto [i, loop] : llvm::enumerate(sum.rows)) {
    Operation *next = i + 1 < sum.rows.size()
                          ? sum.rows[i + 1].getOperation()
                          : sum.columns.inner().getOperation();
    for (Operation &op : loop.getBody()->without_terminator())
      if (&op != next && !texts.count(op.getResult(0)) && failed(visit(&op)))
        return failure();
  }
  scf::ForOp columns = sum.columns.inner();
  SmallVector<Access> accesses;
  for (Operation &op : *columns.getBody())
    if (isa<rt::LoadOp>(op) && &op != sum.load)
      accesses.emplace_back(&op);
  Value variable = columns.getInductionVar();
  std::string first = texts.lookup(variable);
  return visitNeighbours(accesses, variable, first, "", [&] {
    return addColumn(sum, plan.vector > 1 ? cpp::element(total, neighbour)
                                          : total.str());
  });
}

LogicalResult CudaBody::addColumn(rt::ColumnSum &sum, StringRef total) {
  for (Operation &op : sum.columns.inner().getBody()->without_terminator()) {
    if (&op == sum.load || &op == sum.store || &op == sum.combiner ||
        (op.getNumResults() && texts.count(op.getResult(0))))
      continue;
    if (failed(visit(&op)))
      return failure();
  }
  FailureOr<Value> added = expression(sum.added, /*noInline=*/true);
  if (failed(added))
    return failure();
  line(sum.combiner->getLoc(),
       cpp::assign(total, combined(sum.combiner, cTypeName(sum.added.getType()),
                                   total, "{}")),
       *added);
  return success();
}

/// Cells of the column get what they would have got row by row.
LogicalResult CudaBody::finishColumns(rt::ColumnSum &sum, StringRef total,
                                      StringRef column) {
  auto visitLoop = [&](scf::ForOp loop) -> LogicalResult {
    texts[loop.getInductionVar()] = column.str();
    for (Operation &op : loop.getBody()->without_terminator())
      if (failed(visit(&op)))
        return failure();
    return success();
  };
  if (!sum.before.empty() || !sum.after.empty()) {
    cell = names.unique("cell");
    auto buffer = cast<rt::BufferType>(sum.store.getBuffer().getType());
    line(sum.store.getLoc(),
         cpp::declare(cTypeName(buffer.getElementType()), cell));
  }
  for (scf::ForOp loop : sum.before)
    if (failed(visitLoop(loop)))
      return failure();
  values.erase(sum.added);
  texts[sum.added] = total.str();
  for (Operation *op :
       {sum.load.getOperation(), sum.combiner, sum.store.getOperation()})
    if (failed(visit(op)))
      return failure();
  for (scf::ForOp loop : sum.after)
    if (failed(visitLoop(loop)))
      return failure();
  return success();
}

LogicalResult CudaBody::runColumns() {
  Location loc = kernel.getLoc();
  rt::ColumnSum sum = *rt::getColumnSum(kernel);
  scf::ForOp columns = sum.columns.inner();
  std::string place = names.unique("place"), column = names.unique("column"),
              tile = names.unique("tile"), part = names.unique("part"),
              inside = names.unique("inside"), total = names.unique("total"),
              point = names.unique("point"),
              type = cTypeName(plan.partial).str();
  bool several = plan.vector > 1;
  // A statement for each column of the thread: its sum becomes what is said of
  // the sum and its number.
  auto forEach =
      [&](llvm::function_ref<std::string(std::string, std::string)> value) {
        OpBuilder::InsertionGuard guard(b);
        std::string own = total, c = "0";
        if (several) {
          c = openUnrolled(loc, plan.vector, "c");
          own = cpp::element(total, c);
        }
        line(loc, cpp::assign(own, value(own, c)));
      };
  returnIf(loc, cpp::compare("parts.places", "==", 0));
  std::string inBlock =
      cpp::sum(cpp::product(cpp::remainder(kBlock, "parts.blocks"),
                            index(kWarp * plan.vector)),
               cpp::product(cpp::remainder(kThread, kWarp), plan.vector));
  line(loc, cpp::constants(indexType(),
                           {{place, inBlock},
                            {tile, cpp::quotient(kThread, kWarp)},
                            {part, cpp::quotient(kBlock, "parts.blocks")}}));
  std::string isPlace = cpp::compare(place, "<", "parts.places");
  line(loc,
       cpp::constants(
           indexType(),
           {{point, cpp::select(isPlace, cpp::quotient(place, plan.width), 0)},
            {column, cpp::remainder(place, plan.width)}}));
  namePoint(point);
  for (Operation &op : kernel.getBody().front())
    if (!isa<scf::ForOp>(op) && failed(visit(&op)))
      return failure();
  FailureOr<std::string> n = text(columns.getUpperBound(), "bound"),
                         trips = countTrips(sum.rows);
  if (failed(n) || failed(trips) || failed(flushLoads()))
    return failure();
  line(loc, cpp::constant("bool", inside,
                          cpp::both(isPlace, cpp::compare(column, "<", *n))));
  line(loc,
       cpp::declare(type, several ? cpp::element(total, plan.vector) : total));
  forEach([&](std::string, std::string) { return identityText(sum.combiner); });
  texts[columns.getInductionVar()] = column;
  // Where the cell is, rows do not say: named here, it is known behind them.
  for (Value index : sum.store.getIndices())
    if (!several && failed(nameSlice(index)))
      return failure();
  {
    OpBuilder::InsertionGuard guard(b);
    emitc::ForOp loop = openLoop(
        loc, cpp::sum(cpp::product(part, kTiles), tile),
        cpp::select(cpp::both(inside, cpp::negation("parts.last")), *trips, 0),
        cpp::product(kTiles, index("parts.parts")));
    nameIterations(sum.rows, nameLoopVariable(loop, "r"));
    if (failed(visitRows(sum, total)))
      return failure();
  }
  // Parts lie in scratch at [part, place], a thread's cells side by side.
  int64_t pack = 1;
  if (several) // of 16 bytes at most, what GPUs load at once
    pack = std::gcd(
        plan.width,
        std::min<int64_t>(
            plan.vector,
            16 / llvm::divideCeil(plan.partial.getIntOrFloatBitWidth(), 8)));
  auto values = [&](StringRef part) {
    return cpp::sum(cpp::sum(cpp::castTo("static_cast", type, "parts.values"),
                             cpp::product(part, "parts.places")),
                    place);
  };
  {
    OpBuilder::InsertionGuard guard(b);
    unroll(loc, 4); // several loads are on their way
    std::string k =
        nameLoopVariable(openLoop(loc, tile,
                                  cpp::select(cpp::both(inside, "parts.last"),
                                              index("parts.parts"), 0),
                                  kTiles),
                         "k");
    std::string other = names.unique("other");
    line(loc, cpp::declare(type, cpp::element(other, plan.vector)));
    movePacks(loc, kLoadPacks, pack, other, values(k));
    forEach([&](std::string own, std::string c) {
      return combined(sum.combiner, type, own, cpp::element(other, c));
    });
  }
  forEach([&](std::string own, std::string) {
    return cpp::call(cpp::templated("dt::rt::cuda::reduceTiles",
                                    {combineName(sum.combiner)}),
                     {own});
  });
  returnIf(loc,
           cpp::either(cpp::negation(inside), cpp::compare(tile, "!=", 0)));
  leavePart(loc, [&] {
    movePacks(loc, kStorePacks, pack, values(part),
              several ? total : cpp::addressOf(total));
  });
  if (!several)
    return finishColumns(sum, total, column);
  OpBuilder::InsertionGuard guard(b);
  std::string number = openUnrolled(loc, plan.vector, "c"),
              own = names.unique("own");
  line(loc, cpp::constant(indexType(), own, cpp::sum(column, number)));
  for (Value index : sum.store.getIndices()) {
    forgetSlice(index, columns.getInductionVar());
    texts[columns.getInductionVar()] = own;
    if (failed(nameSlice(index)))
      return failure();
  }
  return finishColumns(sum, cpp::element(total, number), own);
}

void CudaBody::forgetSlice(Value value, Value variable) {
  if (!dependsOn(value, variable))
    return;
  texts.erase(value);
  values.erase(value);
  if (Operation *op = value.getDefiningOp())
    for (Value operand : op->getOperands())
      forgetSlice(operand, variable);
}

LogicalResult CudaBody::nameSlice(Value value) {
  if (texts.count(value) || values.count(value))
    return success();
  Operation *op = value.getDefiningOp();
  for (Value operand : op->getOperands())
    if (failed(nameSlice(operand)))
      return failure();
  return visit(op);
}

} // namespace dt::codegen
