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
    return addColumn(sum, plan.vector > 1 ? total.str() + "[" + neighbour + "]"
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
       (total + " = " + combineName(sum.combiner) + "::of<" +
        cTypeName(sum.added.getType()) + ">(" + total + ", {});")
           .str(),
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
         (cTypeName(buffer.getElementType()) + " " + cell + ";").str());
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
  std::string identity = identityText(sum.combiner),
              width = std::to_string(plan.width), place = names.unique("place"),
              column = names.unique("column"), tile = names.unique("tile"),
              part = names.unique("part"), inside = names.unique("inside"),
              total = names.unique("total"), point = names.unique("point"),
              type = cTypeName(plan.partial).str(),
              combine = combineName(sum.combiner),
              size = std::to_string(plan.vector);
  bool several = plan.vector > 1;
  // A statement for each column of the thread: its sum, its number.
  auto forEach =
      [&](llvm::function_ref<std::string(std::string, std::string)> statement) {
        if (!several)
          return line(loc, statement(total, "0"));
        line(loc, kUnroll);
        line(loc, "for (int c = 0; c < " + size + "; ++c) " +
                      statement(total + "[c]", "c"));
      };
  line(loc, "if (parts.places == 0) return;");
  line(loc, "const " + indexType() + " " + place +
                " = blockIdx.x % parts.blocks * " + indexType() + "(" +
                std::to_string(kWarp * plan.vector) + ") + threadIdx.x % 32" +
                (several ? " * " + size : "") + ", " + tile +
                " = threadIdx.x / 32, " + part +
                " = blockIdx.x / parts.blocks;");
  line(loc, "const " + indexType() + " " + point + " = " + place +
                " < parts.places ? " + place + " / " + width + " : 0, " +
                column + " = " + place + " % " + width + ";");
  namePoint(point);
  for (Operation &op : kernel.getBody().front())
    if (!isa<scf::ForOp>(op) && failed(visit(&op)))
      return failure();
  FailureOr<std::string> n = text(columns.getUpperBound(), "bound"),
                         trips = countTrips(sum.rows);
  if (failed(n) || failed(trips) || failed(flushLoads()))
    return failure();
  line(loc, "const bool " + inside + " = " + place + " < parts.places && " +
                column + " < " + *n + ";");
  line(loc, type + " " + total + (several ? "[" + size + "];" : ";"));
  forEach([&](std::string sum, std::string) {
    return sum + " = " + identity + ";";
  });
  texts[columns.getInductionVar()] = column;
  // Where the cell is, rows do not say: named here, it is known behind them.
  for (Value index : sum.store.getIndices())
    if (!several && failed(nameSlice(index)))
      return failure();
  {
    OpBuilder::InsertionGuard guard(b);
    emitc::ForOp loop =
        openLoop(loc, part + " * 8 + " + tile,
                 inside + " && !parts.last ? " + *trips + " : 0",
                 "8 * " + indexType() + "(parts.parts)");
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
  auto values = [&](llvm::StringRef part) {
    return ("static_cast<" + type + " *>(parts.values) + " + part +
            " * parts.places + " + place)
        .str();
  };
  std::string packs = "<" + size + ", " + std::to_string(pack) + ">(";
  line(loc, "#pragma unroll 4"); // several loads are on their way
  line(loc, "for (int k = " + tile + "; k < (" + inside +
                " && parts.last ? int(parts.parts) : 0); k += 8) {");
  line(loc, type + " other[" + size + "];");
  line(loc, "dt::rt::cuda::loadPacks" + packs + "other, " + values("k") + ");");
  forEach([&](std::string sum, std::string other) {
    return sum + " = " + combine + "::of<" + type + ">(" + sum + ", other[" +
           other + "]);";
  });
  line(loc, "}");
  forEach([&](std::string sum, std::string) {
    return sum + " = dt::rt::cuda::reduceTiles<" + combine + ">(" + sum + ");";
  });
  line(loc, "if (!" + inside + " || " + tile + " != 0) return;");
  line(loc, "if (!parts.last && parts.parts > 1) {");
  line(loc, "dt::rt::cuda::storePacks" + packs + values(part) + ", " +
                (several ? "" : "&") + total + ");");
  line(loc, "return; }");
  if (!several)
    return finishColumns(sum, total, column);
  OpBuilder::InsertionGuard guard(b);
  line(loc, kUnroll);
  std::string number = nameLoopVariable(openLoop(loc, "0", size, "1"), "c"),
              own = names.unique("own");
  line(loc, "const " + indexType() + " " + own + " = " + column + " + " +
                number + ";");
  for (Value index : sum.store.getIndices()) {
    forgetSlice(index, columns.getInductionVar());
    texts[columns.getInductionVar()] = own;
    if (failed(nameSlice(index)))
      return failure();
  }
  return finishColumns(sum, total + "[" + number + "]", own);
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
