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
  return cpp::scoped("dt::rt::cuda", name);
}

std::string identityText(Operation *op) {
  return constantText(*arith::getNeutralElement(op));
}

std::string combined(Operation *op, StringRef type, const cpp::Code &a,
                     const cpp::Code &b) {
  return cpp::call(cpp::templated(cpp::scoped(combineName(op), "of"), {type}),
                   {a, b});
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
    std::string at = cpp::quotient(point, inner), bound = dimText(bounds[i]);
    lines.push_back(cpp::constant(indexType(), name,
                                  i > 0 ? cpp::remainder(at, bound) : at));
    inner = cpp::product(inner, bound);
  }
  for (const std::string &text : llvm::reverse(lines))
    line(kernel.getLoc(), text);
}

void CudaBody::leaveBeyond(StringRef point) {
  returnIf(kernel.getLoc(),
           cpp::compare(point, ">=", dimText(kernel.getNumPoints())));
}

void CudaBody::unroll(Location loc, unsigned times) {
  SmallVector<cpp::Code> words{"unroll"};
  if (times)
    words.push_back(times);
  line(loc, cpp::pragma(words));
}

std::string CudaBody::openUnrolled(Location loc, int64_t count,
                                   StringRef wanted, int64_t step) {
  unroll(loc);
  return nameLoopVariable(openLoop(loc, 0, count, step), wanted);
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
    line(loc,
         cpp::constant(
             indexType(), point,
             cpp::product(
                 cpp::sum(cpp::product(kBlock, index("blockDim.x")), kThread),
                 plan.vector)));
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
    line(loc, cpp::constants(
                  indexType(),
                  {{point, cpp::sum(cpp::product(kBlock, index(plan.points)),
                                    cpp::quotient(kThread, stride))},
                   {lane, cpp::remainder(kThread, stride)}}));
  } else if (plan.shape == rt::KernelShape::all) {
    std::string part = names.unique("part");
    first = names.unique("first");
    line(loc,
         cpp::constants(indexType(),
                        {{point, cpp::remainder(kBlock, "parts.blocks")},
                         {part, cpp::quotient(kBlock, "parts.blocks")},
                         {lane, kThread},
                         {first, cpp::sum(cpp::product(part, stride), lane)}}));
    stride = cpp::product(stride, index("parts.parts"));
  } else {
    line(loc, cpp::constants(indexType(), {{point, kBlock}, {lane, kThread}}));
  }
  leaveBeyond(point);
  namePoint(point);
  if (plan.shared > 0) {
    sharedName = names.unique("shared");
    line(loc,
         cpp::statement(cpp::call("DT_DYNAMIC_SHARED", {"char", sharedName})));
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
      line(load.getLoc(),
           cpp::assign(name, place(load.getBuffer(), load.getIndices())));
    }
    Type stored =
        cast<rt::BufferType>(load.getBuffer().getType()).getElementType();
    return elementType(stored) == scalarType(load.getType())
               ? name
               : cpp::call(cTypeName(load.getType()), {name});
  }
  if (how.kind != CudaAccess::Register)
    return "";
  // The variable may get another value before this one is used.
  std::string name = names.unique("before");
  line(load.getLoc(), cpp::constant(cTypeName(load.getType()), name, cell));
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
      line(store.getLoc(), cpp::assign(name, "{}"), *value);
    if (how.kind == CudaAccess::Memory && how.vector == 1) {
      for (Value index : store.getIndices())
        if (failed(text(index)))
          return failure();
      line(store.getLoc(),
           cpp::assign(place(store.getBuffer(), store.getIndices()), name));
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
  if (failed(visitUnder(loc, cpp::compare(lane, "==", 0),
                        [&] { return KernelBody::visitStore(store); })))
    return failure();
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
  std::string trips = "1";
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
    trips = cpp::product(trips, *n);
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
                n = texts.lookup(loop.getUpperBound());
    line(loop.getLoc(),
         cpp::constant(indexType(), name,
                       outermost ? rest : cpp::remainder(rest, n)));
    texts[loop.getInductionVar()] = name;
    rest = cpp::quotient(rest, n);
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
  SmallVector<cpp::Code> templates{combineName(rt::getCombiner(loop, i))};
  if (plan.lanes != kWarp)
    templates.push_back(plan.lanes);
  assignCall(loop.getLoc(), variable,
             plan.lanes == kWarp ? "dt::rt::cuda::reduceWarp"
                                 : "dt::rt::cuda::reduceBlock",
             variable, templates);
}

void CudaBody::leavePart(Location loc, llvm::function_ref<void()> leave) {
  under(loc,
        cpp::both(cpp::negation("parts.last"),
                  cpp::compare("parts.parts", ">", 1)),
        [&] {
          leave();
          line(loc, "return;");
        });
}

std::string CudaBody::partialOf(const cpp::Code &part) const {
  return cpp::element(
      cpp::castTo("static_cast", cTypeName(plan.partial), "parts.values"),
      cpp::sum(cpp::product(part, "parts.places"), pointName));
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
    Type type = scalarType(init.getType());
    variables.push_back(variable(loc, type, *start ? "" : texts[init]));
    if (*start)
      emitc::AssignOp::create(b, loc, variables.back(), *start);
    bool isPart = plan.shape == rt::KernelShape::all;
    std::string later = cpp::compare(first, "!=", 0),
                identity = identityText(rt::getCombiner(inner, i));
    under(loc, isPart ? cpp::either(later, "parts.last") : later, [&] {
      emitc::AssignOp::create(b, loc, variables.back(),
                              literal(loc, type, identity));
    });
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
        loc, first, isPart ? cpp::select("parts.last", 0, *trips) : *trips,
        stride);
    nameIterations(nest.loops, nameLoopVariable(cLoop, "r"));
    done = visitNestBody(nest, *variables);
  }
  inNest = false;
  if (failed(done))
    return failure();
  if (isPart) {
    OpBuilder::InsertionGuard guard(b);
    std::string k = nameLoopVariable(
        openLoop(loc, kThread,
                 cpp::select("parts.last", index("parts.parts"), 0),
                 plan.lanes),
        "k");
    line(loc,
         cpp::assign("{}",
                     combined(rt::getCombiner(inner, 0),
                              cTypeName(plan.partial), "{}", partialOf(k))),
         {variables->front(), variables->front()});
  }
  for (auto [i, variable] : llvm::enumerate(*variables))
    combineLanes(inner, i, variable);
  if (isPart)
    leavePart(loc, [&] {
      under(loc, cpp::compare(lane, "==", 0), [&] {
        line(
            loc,
            cpp::assign(partialOf(cpp::quotient(kBlock, "parts.blocks")), "{}"),
            variables->front());
      });
    });
  if (shared)
    barrier(loc);
  return success();
}

} // namespace dt::codegen
