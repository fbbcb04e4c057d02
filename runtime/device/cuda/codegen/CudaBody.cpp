//===- CudaBody.cpp - the body of a kernel, shared by threads -------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/codegen/CudaBody.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace dt::codegen {

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

namespace {

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
  nn::Shape bounds = kernel.getBounds();
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
  if (plan.scattered)
    return runScattered();
  if (plan.tile)
    return runTiles();
  if (plan.shape == rt::KernelShape::point) {
    std::string number =
        "blockIdx.x * " + indexType() + "(blockDim.x) + threadIdx.x";
    if (plan.vector > 1)
      number = "(" + number + ") * " + std::to_string(plan.vector);
    line(loc, "const " + indexType() + " " + point + " = " + number + ";");
    leaveBeyond(point);
    if (plan.vector > 1)
      return runPoints(point);
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
  if (plan.shared > 0) {
    sharedName = names.unique("shared");
    line(loc, "DT_DYNAMIC_SHARED(char, " + sharedName + ");");
  }
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

std::string CudaBody::nameLoad(rt::LoadOp load) {
  CudaAccess how = plan.getAccess(load);
  Operation *source = how.source ? how.source : load.getOperation();
  if (auto array = arrays.find(source); array != arrays.end()) {
    std::string name = elementOf(array->second, source);
    if (!how.source && how.vector == 1 && !how.tiled) {
      for (Value index : load.getIndices())
        (void)text(index);
      auto [pointer, at] = address(load.getBuffer(), load.getIndices());
      line(load.getLoc(), name + " = " + pointer + "[" + at + "];");
    }
    Type stored =
        cast<rt::BufferType>(load.getBuffer().getType()).getElementType();
    return elementType(stored) == scalarType(load.getType())
               ? name
               : cTypeName(load.getType()).str() + "(" + name + ")";
  }
  if (how.kind != CudaAccess::Register)
    return "";
  // The variable may get another value before this one is used.
  std::string name = names.unique("before");
  line(load.getLoc(),
       ("const " + cTypeName(load.getType()) + " " + name + " = " + cell + ";")
           .str());
  return name;
}

LogicalResult CudaBody::visitStore(rt::StoreOp store) {
  CudaAccess how = plan.getAccess(store);
  auto array = arrays.find(store);
  if (how.kind == CudaAccess::Nothing || array != arrays.end()) {
    FailureOr<Value> value = expression(store.getValue());
    if (failed(value) || failed(flushLoads()))
      return failure();
    std::string name =
        array == arrays.end() ? cell : elementOf(array->second, store);
    if (!name.empty())
      line(store.getLoc(), name + " = {};", *value);
    if (how.kind == CudaAccess::Memory && how.vector == 1) {
      for (Value index : store.getIndices())
        if (failed(text(index)))
          return failure();
      auto [pointer, at] = address(store.getBuffer(), store.getIndices());
      line(store.getLoc(), pointer + "[" + at + "] = " + name + ";");
    }
    return success();
  }
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
    openBranch(branch.getThenRegion());
    if (failed(KernelBody::visitStore(store)))
      return failure();
    closeBranch(branch.getThenRegion());
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

LogicalResult CudaBody::visitStatements(scf::ForOp loop, scf::ForOp inner) {
  for (Operation &op : loop.getBody()->without_terminator())
    if (&op != inner &&
        !texts.count(op.getNumResults() == 1 ? op.getResult(0) : Value()) &&
        failed(visit(&op)))
      return failure();
  return success();
}

LogicalResult CudaBody::visitNestBody(rt::LaneNest &nest,
                                      ArrayRef<Value> variables) {
  for (size_t i = 1; i < nest.loops.size(); ++i)
    if (failed(visitStatements(nest.loops[i - 1], nest.loops[i])))
      return failure();
  if (failed(visitStatements(nest.inner())))
    return failure();
  return assignYields(nest.inner().getBody()->getTerminator(), variables);
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

FailureOr<SmallVector<Value>> CudaBody::beginNest(rt::LaneNest &nest) {
  scf::ForOp outer = nest.outer(), inner = nest.inner();
  Location loc = outer.getLoc();
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
    bool isPart = plan.shape == rt::KernelShape::all;
    line(loc,
         "if (" + first + " != 0" + (isPart ? " || parts.last" : "") +
             ") {} = " + identityText(rt::getCombiner(inner, i)) + ";",
         variables.back());
  }
  for (scf::ForOp loop : nest.loops)
    for (auto [argument, result, variable] :
         llvm::zip(loop.getRegionIterArgs(), loop.getResults(), variables)) {
      values[argument] = variable;
      values[result] = variable;
    }
  return variables;
}

LogicalResult CudaBody::visitNest(rt::LaneNest &nest) {
  if (rt::LaneNest sum = plan.online.lookup(nest.inner()))
    return visitOnline(nest, sum);
  // The second loop of two that are one.
  if (nest.inner().getNumResults() && values.count(nest.inner().getResult(0)))
    return success();
  scf::ForOp outer = nest.outer(), inner = nest.inner();
  Location loc = outer.getLoc();
  bool isPart = plan.shape == rt::KernelShape::all;
  FailureOr<std::string> trips = countTrips(nest.loops);
  if (failed(trips))
    return failure();
  FailureOr<SmallVector<Value>> variables = beginNest(nest);
  if (failed(variables))
    return failure();
  if (failed(flushLoads()))
    return failure();
  bool shared = writesShared(outer);
  if (shared)
    barrier(loc);
  inNest = true;
  LogicalResult done = success();
  if (isPart && plan.vector > 1) {
    done = visitPart(nest, *variables, *trips);
  } else if (steps > 0 || plan.vector > 1) {
    done = visitSteps(nest, *variables, *trips);
  } else {
    OpBuilder::InsertionGuard guard(b);
    emitc::ForOp cLoop = openLoop(
        loc, first, isPart ? "parts.last ? 0 : " + *trips : *trips, stride);
    nameIterations(nest.loops, nameLoopVariable(cLoop, "r"));
    done = visitNestBody(nest, *variables);
  }
  inNest = false;
  if (failed(done))
    return failure();
  if (isPart) {
    std::string type = cTypeName(plan.partial).str(),
                combine = combineName(rt::getCombiner(inner, 0));
    line(loc,
         "for (unsigned k = threadIdx.x; parts.last && k < parts.parts; k += " +
             std::to_string(plan.lanes) + ") {} = " + combine + "::of<" + type +
             ">({}, static_cast<const " + type +
             " *>(parts.values)[k * parts.places + " + pointName + "]);",
         {variables->front(), variables->front()});
  }
  for (auto [i, variable] : llvm::enumerate(*variables))
    combineLanes(inner, i, variable);
  if (isPart)
    leavePart(inner, variables->front());
  if (shared)
    barrier(loc);
  return success();
}

} // namespace dt::codegen
