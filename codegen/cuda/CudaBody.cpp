//===- CudaBody.cpp - the body of a kernel, shared by threads -------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/CudaBody.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace dt::codegen {

namespace {

/// The runtime's name of how an op combines two values.
std::string combineName(Operation *op) {
  StringRef name = llvm::StringSwitch<StringRef>(op->getName().stripDialect())
                       .Cases({"addf", "addi"}, "Add")
                       .Cases({"mulf", "muli"}, "Mul")
                       .Case("ori", "Or")
                       .Case("andi", "And")
                       .Case("maxsi", "Max")
                       .Case("minsi", "Min")
                       .Case("maxui", "MaxUnsigned")
                       .Case("minui", "MinUnsigned")
                       .Case("maximumf", "Maximum")
                       .Case("minimumf", "Minimum")
                       .Case("maxnumf", "MaxNum")
                       .Case("minnumf", "MinNum");
  return ("dt::rt::cuda::" + name).str();
}

std::string identityText(Operation *op) {
  return constantText(*arith::getNeutralElement(op));
}

/// Indices of a load or a store of scalar code.
ValueRange indicesOf(Operation *access) {
  if (auto load = dyn_cast<rt::LoadOp>(access))
    return load.getIndices();
  return cast<rt::StoreOp>(access).getIndices();
}

/// The lane nest around an op, or none.
rt::LaneNest nestAround(Operation *op) {
  rt::LaneNest found;
  for (Operation *at = op->getParentOp(); !isa<rt::KernelOp>(at);
       at = at->getParentOp())
    if (auto loop = dyn_cast<scf::ForOp>(at))
      if (rt::LaneNest nest = rt::getLaneNest(loop))
        found = nest;
  return found;
}

} // namespace

//===----------------------------------------------------------------------===//
// Points
//===----------------------------------------------------------------------===//

void CudaBody::namePoint(StringRef point) {
  nn::Shape bounds = kernel.getBoundExprs();
  std::string inner = "1";
  SmallVector<std::string> lines;
  for (unsigned i = bounds.size(); i-- > 0;) {
    std::string name = names.unique(std::string(1, "ijklmnop"[i % 8]));
    bind(kernel.getIndices()[i], name);
    std::string at =
        inner == "1" ? point.str() : point.str() + " / " + atom(inner);
    if (i > 0)
      at += " % " + atom(dimText(bounds[i]));
    lines.push_back("const " + indexType() + " " + name + " = " + at + ";");
    inner = inner == "1" ? dimText(bounds[i])
                         : atom(inner) + " * " + atom(dimText(bounds[i]));
  }
  for (const std::string &text : llvm::reverse(lines))
    line(kernel.getLoc(), text);
}

void CudaBody::leaveBeyond(StringRef point) {
  line(kernel.getLoc(),
       ("if (" + point + " >= " + dimText(kernel.getNumPoints()) + ") return;")
           .str());
}

LogicalResult CudaBody::run() {
  if (plan.shape == rt::KernelShape::column)
    return runColumns();
  Location loc = kernel.getLoc();
  std::string point = pointName = names.unique("point");
  if (plan.shape == rt::KernelShape::point) {
    line(loc, "const " + indexType() + " " + point + " = blockIdx.x * " +
                  indexType() + "(blockDim.x) + threadIdx.x;");
    leaveBeyond(point);
    namePoint(point);
    return emit(kernel.getBody().front());
  }
  lane = names.unique("lane");
  stride = std::to_string(plan.lanes);
  first = lane;
  if (plan.points > 1) {
    line(loc, "const " + indexType() + " " + point + " = blockIdx.x * " +
                  indexType() + "(" + std::to_string(plan.points) +
                  ") + threadIdx.x / " + stride + ", " + lane +
                  " = threadIdx.x % " + stride + ";");
  } else if (plan.shape == rt::KernelShape::all) {
    std::string part = names.unique("part");
    first = names.unique("first");
    line(loc, "const " + indexType() + " " + point +
                  " = blockIdx.x % parts.blocks, " + part +
                  " = blockIdx.x / parts.blocks, " + lane + " = threadIdx.x, " +
                  first + " = " + part + " * " + stride + " + " + lane + ";");
    stride += " * " + indexType() + "(parts.parts)";
  } else {
    line(loc, "const " + indexType() + " " + point + " = blockIdx.x, " + lane +
                  " = threadIdx.x;");
  }
  leaveBeyond(point);
  namePoint(point);
  return emit(kernel.getBody().front());
}

//===----------------------------------------------------------------------===//
// Barriers
//===----------------------------------------------------------------------===//

bool CudaBody::needsBarrier(Value buffer) {
  rt::BufferBytes bytes(kernel->getParentOfType<rt::FuncOp>());
  Value operand =
      kernel.getBuffers()[cast<BlockArgument>(buffer).getArgNumber() -
                          kernel.getBounds().size()];
  SmallVector<Operation *> accesses;
  bool oneName = true, loads = false, stores = false;
  for (auto [argument, other] :
       llvm::zip(kernel.getBufferArgs(), kernel.getBuffers()))
    if (bytes.mayShare(operand, other)) {
      oneName = oneName && argument == buffer;
      llvm::append_range(accesses, argument.getUsers());
    }
  for (Operation *access : accesses) {
    loads |= isa<rt::LoadOp>(access);
    stores |= isa<rt::StoreOp>(access);
  }
  if (!stores)
    return false;
  // Lane 0 alone stores, in its order.
  bool alone = !loads && llvm::none_of(accesses, [](Operation *access) {
    return bool(nestAround(access));
  });
  if (alone)
    return false;
  // A lane has elements of its own: those of its iterations.
  rt::LaneNest one = nestAround(accesses.front());
  if (!one || !oneName || one.loops.size() != 1)
    return true;
  Value index = indicesOf(accesses.front()).back();
  return !rt::isUnitStride(index, one.inner()) ||
         !llvm::all_of(accesses, [&](Operation *access) {
           rt::LaneNest nest = nestAround(access);
           return nest && nest.loops.size() == 1 &&
                  rt::isSameIndex(index, one.inner().getInductionVar(),
                                  indicesOf(access).back(),
                                  nest.inner().getInductionVar());
         });
}

bool CudaBody::writesShared(Operation *op) {
  WalkResult walk = op->walk([&](rt::StoreOp store) {
    return needsBarrier(store.getBuffer()) ? WalkResult::interrupt()
                                           : WalkResult::advance();
  });
  return walk.wasInterrupted();
}

void CudaBody::barrier(Location loc) {
  line(loc, plan.lanes == kWarp ? "__syncwarp();" : "__syncthreads();");
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

LogicalResult CudaBody::visitStore(rt::StoreOp store) {
  if (lane.empty() || inNest)
    return KernelBody::visitStore(store);
  Location loc = store.getLoc();
  // Nothing gets its name inside the branch.
  for (Value index : store.getIndices())
    if (failed(text(index)))
      return failure();
  if (Operation *made = store.getValue().getDefiningOp();
      made && waiting.contains(made) && failed(materialize(made)))
    return failure();
  if (failed(flushLoads()))
    return failure();
  bool shared = writesShared(store);
  if (shared)
    barrier(loc);
  {
    OpBuilder::InsertionGuard guard(b);
    Value isFirst =
        emitc::LiteralOp::create(b, loc, b.getI1Type(), lane + " == 0");
    auto branch = emitc::IfOp::create(b, loc, isFirst, /*addThenBlock=*/true,
                                      /*addElseBlock=*/false);
    Block &block = branch.getThenRegion().front();
    if (block.empty())
      b.setInsertionPointToEnd(&block);
    else
      b.setInsertionPoint(block.getTerminator());
    if (failed(KernelBody::visitStore(store)))
      return failure();
    if (block.empty() || !block.back().hasTrait<OpTrait::IsTerminator>())
      emitc::YieldOp::create(b, loc);
  }
  if (shared)
    barrier(loc);
  return success();
}

LogicalResult CudaBody::visitFor(scf::ForOp loop) {
  if (lane.empty() || inNest)
    return KernelBody::visitFor(loop);
  rt::LaneNest nest = rt::getLaneNest(loop);
  return nest ? visitNest(nest) : KernelBody::visitFor(loop);
}

FailureOr<std::string> CudaBody::countTrips(ArrayRef<scf::ForOp> loops) {
  std::string trips;
  for (scf::ForOp loop : loops) {
    // A constant or a size inside an outer loop has no name yet.
    Value bound = loop.getUpperBound();
    if (Operation *made = bound.getDefiningOp();
        made && loop != loops.front() && !texts.count(bound) &&
        failed(visit(made)))
      return failure();
    FailureOr<std::string> n = text(bound, "bound");
    if (failed(n))
      return failure();
    trips = trips.empty() ? *n : atom(trips) + " * " + atom(*n);
  }
  return trips;
}

void CudaBody::nameIterations(ArrayRef<scf::ForOp> loops, StringRef number) {
  if (loops.size() == 1) {
    scf::ForOp loop = loops.front();
    texts[loop.getInductionVar()] = number.str();
    return;
  }
  std::string rest = number.str();
  for (scf::ForOp loop : llvm::reverse(loops)) {
    bool outermost = loop == loops.front();
    std::string name = names.unique("r"),
                n = atom(texts.lookup(loop.getUpperBound()));
    line(loop.getLoc(), "const " + indexType() + " " + name + " = " +
                            atom(rest) + (outermost ? "" : " % " + n) + ";");
    texts[loop.getInductionVar()] = name;
    rest = atom(rest) + " / " + n;
  }
}

LogicalResult CudaBody::visitNestBody(rt::LaneNest &nest) {
  for (auto [i, loop] : llvm::enumerate(nest.loops)) {
    Operation *end = loop.getBody()->getTerminator();
    for (Operation &op : *loop.getBody()) {
      bool inner = i + 1 < nest.loops.size() && &op == nest.loops[i + 1];
      if (&op != end && !inner &&
          !texts.count(op.getNumResults() == 1 ? op.getResult(0) : Value()) &&
          failed(visit(&op)))
        return failure();
    }
  }
  return success();
}

void CudaBody::combineLanes(scf::ForOp loop, unsigned i, Value variable) {
  std::string combine = combineName(rt::getCombiner(loop, i));
  line(loop.getLoc(),
       "{} = dt::rt::cuda::" +
           (plan.lanes == kWarp ? "reduceWarp<" + combine
                                : "reduceBlock<" + combine + ", " +
                                      std::to_string(plan.lanes)) +
           ">({});",
       {variable, variable});
}

void CudaBody::leavePart(scf::ForOp loop, Value variable) {
  std::string type = cTypeName(plan.partial).str();
  line(loop.getLoc(),
       "if (!parts.last && parts.parts > 1) {{ if (" + lane +
           " == 0) static_cast<" + type +
           " *>(parts.values)[blockIdx.x / parts.blocks * parts.places + " +
           pointName + "] = {}; return; }",
       variable);
}

LogicalResult CudaBody::visitNest(rt::LaneNest &nest) {
  scf::ForOp outer = nest.outer(), inner = nest.inner();
  Location loc = outer.getLoc();
  bool isPart = plan.shape == rt::KernelShape::all;
  FailureOr<std::string> trips = countTrips(nest.loops);
  if (failed(trips))
    return failure();
  SmallVector<Value> variables;
  for (auto [i, init] : llvm::enumerate(outer.getInitArgs())) {
    FailureOr<Value> start =
        texts.count(init) ? FailureOr<Value>(Value()) : expression(init);
    if (failed(start))
      return failure();
    variables.push_back(
        variable(loc, scalarType(init.getType()), *start ? "" : texts[init]));
    if (*start)
      emitc::AssignOp::create(b, loc, variables.back(), *start);
    line(loc,
         "if (" + first + " != 0" + (isPart ? " || parts.last" : "") +
             ") {} = " + identityText(rt::getCombiner(inner, i)) + ";",
         variables.back());
  }
  if (failed(flushLoads()))
    return failure();
  bool shared = writesShared(outer);
  if (shared)
    barrier(loc);
  {
    OpBuilder::InsertionGuard guard(b);
    emitc::ForOp cLoop = openLoop(
        loc, first, isPart ? "parts.last ? 0 : " + *trips : *trips, stride);
    nameIterations(nest.loops, nameLoopVariable(cLoop, "r"));
    for (scf::ForOp loop : nest.loops)
      for (auto [argument, result, variable] :
           llvm::zip(loop.getRegionIterArgs(), loop.getResults(), variables)) {
        values[argument] = variable;
        values[result] = variable;
      }
    inNest = true;
    LogicalResult done = visitNestBody(nest);
    if (succeeded(done))
      done = assignYields(inner.getBody()->getTerminator(), variables);
    inNest = false;
    if (failed(done))
      return failure();
  }
  if (isPart) {
    std::string type = cTypeName(plan.partial).str(),
                combine = combineName(rt::getCombiner(inner, 0));
    line(loc,
         "for (unsigned k = threadIdx.x; parts.last && k < parts.parts; k += " +
             std::to_string(plan.lanes) + ") {} = " + combine + "::of<" + type +
             ">({}, static_cast<const " + type +
             " *>(parts.values)[k * parts.places + " + pointName + "]);",
         {variables[0], variables[0]});
  }
  for (auto [i, variable] : llvm::enumerate(variables))
    combineLanes(inner, i, variable);
  if (isPart)
    leavePart(inner, variables[0]);
  if (shared)
    barrier(loc);
  return success();
}

//===----------------------------------------------------------------------===//
// Columns
//===----------------------------------------------------------------------===//

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
  for (Operation &op : columns.getBody()->without_terminator()) {
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
  std::string width = std::to_string(plan.width), place = names.unique("place"),
              column = names.unique("column"), tile = names.unique("tile"),
              part = names.unique("part"), inside = names.unique("inside"),
              total = names.unique("total"), point = names.unique("point"),
              type = cTypeName(plan.partial).str(),
              combine = combineName(sum.combiner);
  line(loc, "if (parts.places == 0) return;");
  line(loc, "const " + indexType() + " " + place +
                " = blockIdx.x % parts.blocks * " + indexType() +
                "(32) + threadIdx.x % 32, " + tile + " = threadIdx.x / 32, " +
                part + " = blockIdx.x / parts.blocks;");
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
  line(loc, type + " " + total + " = " + identityText(sum.combiner) + ";");
  texts[columns.getInductionVar()] = column;
  // Where the cell is, rows do not say: named here, it is known behind them.
  for (Value index : sum.store.getIndices())
    if (failed(nameSlice(index)))
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
  line(loc, "for (unsigned k = threadIdx.x / 32; parts.last && " + inside +
                " && k < parts.parts; k += 8) " + total + " = " + combine +
                "::of<" + type + ">(" + total + ", static_cast<const " + type +
                " *>(parts.values)[k * parts.places + " + place + "]);");
  line(loc,
       total + " = dt::rt::cuda::reduceTiles<" + combine + ">(" + total + ");");
  line(loc, "if (!" + inside + " || " + tile + " != 0) return;");
  line(loc, "if (!parts.last && parts.parts > 1) { static_cast<" + type +
                " *>(parts.values)[" + part + " * parts.places + " + place +
                "] = " + total + "; return; }");
  return finishColumns(sum, total, column);
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
