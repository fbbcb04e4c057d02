//===- KernelBody.cpp - scalar code of rt.kernel as EmitC -----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/common/KernelBody.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace dt::codegen {

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

struct KernelBody::Tree {
  explicit Tree(Location loc) : loc(loc) {}
  Location loc;
  SmallVector<Value> leaves;
  DenseMap<Value, unsigned>
      leafOf; ///< source value (for a load: its result) -> leaf
  Block *body = nullptr;
  OpBuilder *builder = nullptr;
};

bool KernelBody::canInline(Operation *op) {
  if (!op->hasOneUse())
    return false;
  Operation *user = *op->getUsers().begin();
  return user->getBlock() == op->getBlock() && !repeatsOperands(user);
}

static Value castTo(OpBuilder &b, Type type, Value value) {
  return value.getType() == type
             ? value
             : emitc::CastOp::create(b, value.getLoc(), type, value)
                   .getResult();
}

std::pair<std::string, std::string> KernelBody::address(Value buffer,
                                                        ValueRange indices) {
  auto type = cast<rt::BufferType>(buffer.getType());
  nn::Shape shape = type.getShape();
  // Horner's rule over the dims; what is known to be zero does not show.
  std::string at = "0";
  for (auto [dim, index] : llvm::zip(shape, indices)) {
    if (at != "0")
      at = cpp::product(at, dimText(dim));
    at = cpp::sum(at, *text(index));
  }
  return {texts.lookup(buffer), at};
}

std::string KernelBody::place(Value buffer, ValueRange indices) {
  auto [pointer, at] = address(buffer, indices);
  return cpp::element(pointer, at);
}

Value KernelBody::subscript(Value buffer, ValueRange indices) {
  auto [name, at] = address(buffer, indices);
  Location loc = buffer.getLoc();
  Type element =
      elementType(cast<rt::BufferType>(buffer.getType()).getElementType());
  auto pointer =
      emitc::LiteralOp::create(b, loc, emitc::PointerType::get(element), name);
  auto place = emitc::LiteralOp::create(b, loc, b.getI64Type(), at);
  return emitc::SubscriptOp::create(b, loc, emitc::LValueType::get(element),
                                    pointer, ValueRange(place.getResult()));
}

LogicalResult KernelBody::collect(Value value, Tree &tree) {
  if (tree.leafOf.count(value))
    return success();
  auto leaf = [&](Value v) {
    tree.leafOf[value] = tree.leaves.size();
    tree.leaves.push_back(v);
    return success();
  };
  // A place may be asked for ahead of the statements that it is made of.
  if (Operation *made = value.getDefiningOp(); made && !texts.count(value))
    visitConstant(made);
  if (auto known = texts.find(value); known != texts.end())
    return leaf(emitc::LiteralOp::create(
        b, tree.loc, scalarType(value.getType()), cpp::atom(known->second)));
  if (auto known = values.find(value); known != values.end())
    return leaf(known->second);
  Operation *op = value.getDefiningOp();
  assert(op && "values of blocks are bound");
  waiting.remove(op);
  if (auto load = dyn_cast<rt::LoadOp>(op)) {
    for (Value index : load.getIndices())
      if (failed(text(index)))
        return failure();
    return leaf(subscript(load.getBuffer(), load.getIndices()));
  }
  for (Value operand : op->getOperands())
    if (failed(collect(operand, tree)))
      return failure();
  return success();
}

Value KernelBody::make(Value value, Tree &tree) {
  OpBuilder &inner = *tree.builder;
  if (auto known = tree.leafOf.find(value); known != tree.leafOf.end()) {
    Value argument = tree.body->getArgument(known->second);
    auto lvalue = dyn_cast<emitc::LValueType>(argument.getType());
    if (!lvalue)
      return argument;
    Value loaded =
        emitc::LoadOp::create(inner, tree.loc, lvalue.getValueType(), argument);
    return castTo(inner, scalarType(value.getType()), loaded);
  }
  Operation *op = value.getDefiningOp();
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(make(operand, tree));
    if (!operands.back())
      return {};
  }
  // An operation of an expression has one use: what is read twice, such as a
  // variable, is loaded twice.
  if (repeatsOperands(op))
    for (Value operand : op->getOperands())
      operands.push_back(make(operand, tree));
  Value result = convertScalar(inner, op, operands);
  if (!result)
    op->emitOpError("has no C++ form");
  else if (isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op) &&
           result.getType().getIntOrFloatBitWidth() < 32)
    result = emitc::CastOp::create(
        inner, tree.loc, result.getType(),
        result); // C++ computes it as an int, which does not wrap around
  return result;
}

FailureOr<Value> KernelBody::expression(Value value, bool noInline) {
  Tree tree(value.getLoc());
  if (failed(collect(value, tree)))
    return failure();
  bool isLeaf = tree.leafOf.count(value);
  if (isLeaf && !isa<emitc::LValueType>(tree.leaves[0].getType()) && !noInline)
    return tree.leaves[0];
  // A leaf printed twice would be an expression evaluated twice: leaves are
  // literals, variables and memory.
  auto op = emitc::ExpressionOp::create(
      b, tree.loc, scalarType(value.getType()), tree.leaves, noInline);
  tree.body = &op.createBody();
  OpBuilder inner = OpBuilder::atBlockEnd(tree.body);
  tree.builder = &inner;
  Value root = make(value, tree);
  if (!root) {
    op.erase();
    return failure();
  }
  // An expression needs an operation: a constant or variable alone is cast to
  // its own type.
  if (isa<BlockArgument>(root))
    root = emitc::CastOp::create(inner, tree.loc, root.getType(), root);
  emitc::YieldOp::create(inner, tree.loc, root);
  return op.getResult();
}

LogicalResult KernelBody::materialize(Operation *op) {
  waiting.remove(op);
  FailureOr<Value> result = expression(op->getResult(0), /*noInline=*/true);
  if (failed(result))
    return failure();
  values[op->getResult(0)] = *result;
  return success();
}

LogicalResult KernelBody::flushLoads() {
  auto readsMemory = [&](Operation *op) {
    std::function<bool(Operation *)> reads = [&](Operation *o) {
      if (!o || values.count(o->getResult(0)) || texts.count(o->getResult(0)))
        return false;
      return isa<rt::LoadOp>(o) || llvm::any_of(o->getOperands(), [&](Value v) {
               return reads(v.getDefiningOp());
             });
    };
    return reads(op);
  };
  SmallVector<Operation *> ops(waiting.begin(), waiting.end());
  for (Operation *op : ops)
    if (waiting.contains(op) && readsMemory(op)) {
      // The outermost of nested ones takes the others along.
      Operation *root = op;
      while (waiting.contains(*root->getUsers().begin()))
        root = *root->getUsers().begin();
      if (failed(materialize(root)))
        return failure();
    }
  return success();
}

FailureOr<std::string> KernelBody::text(Value value, StringRef wanted) {
  if (auto known = texts.find(value); known != texts.end())
    return known->second;
  if (Operation *op = value.getDefiningOp(); op && visitConstant(op))
    return texts.lookup(value);
  FailureOr<Value> result = expression(value);
  if (failed(result))
    return failure();
  std::string name = names.unique(wanted);
  line(value.getLoc(), cpp::constant(cTypeName(value.getType()), name, "{}"),
       *result);
  texts[value] = name;
  return name;
}

//===----------------------------------------------------------------------===//
// Statements
//===----------------------------------------------------------------------===//

LogicalResult KernelBody::emit(Block &block) {
  Operation *end =
      block.mightHaveTerminator() ? block.getTerminator() : nullptr;
  for (Operation &op : block)
    if (&op != end && failed(visit(&op)))
      return failure();
  return success();
}

/// Constants and sizes stay text.
bool KernelBody::visitConstant(Operation *op) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    texts[constant.getResult()] = constantText(constant.getValue());
  else if (auto size = dyn_cast<rt::SizeOp>(op))
    texts[size.getResult()] = dimText(size.getSize());
  else
    return false;
  return true;
}

/// Index arithmetic stays text: EmitC would print a variable for each index of
/// a subscript that is an expression.
bool KernelBody::visitIndex(Operation *op) {
  if (op->getNumResults() != 1 || !op->getResult(0).getType().isIndex() ||
      op->getNumOperands() != 2)
    return false;
  SmallVector<std::string> x;
  for (Value operand : op->getOperands()) {
    auto known = texts.find(operand);
    if (known == texts.end() || !operand.getType().isIndex())
      return false;
    x.push_back(known->second);
  }
  using Binary = std::string (*)(const cpp::Code &, const cpp::Code &);
  auto form = llvm::StringSwitch<Binary>(op->getName().getStringRef())
                  .Case("arith.addi", cpp::sum)
                  .Case("arith.subi", cpp::difference)
                  .Case("arith.muli", cpp::product)
                  .Cases({"arith.divsi", "arith.divui"}, cpp::quotient)
                  .Cases({"arith.remsi", "arith.remui"}, cpp::remainder)
                  .Default(nullptr);
  if (!form)
    return false;
  std::string result = form(x[0], x[1]);
  texts[op->getResult(0)] = result;
  // A value in many places is computed once.
  if (!op->getResult(0).hasOneUse() && cpp::atom(result) != result) {
    std::string name = names.unique("at");
    // Of an index from data and others: as wide as that.
    line(op->getLoc(),
         cpp::constant(narrow ? "auto" : "int64_t", name, result));
    texts[op->getResult(0)] = name;
  }
  return true;
}

LogicalResult KernelBody::visit(Operation *op) {
  if (auto store = dyn_cast<rt::StoreOp>(op))
    return visitStore(store);
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return visitFor(loop);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return visitIf(branch);
  if (op->use_empty())
    return success();
  Value result = op->getResult(0);
  if (!scalarType(result.getType()))
    return op->emitOpError() << "makes a " << result.getType()
                             << ", for which code generation has no C++ type";
  if (visitConstant(op))
    return success();
  if (auto cast = dyn_cast<arith::IndexCastOp>(op);
      cast && texts.count(cast.getIn()) && result.getType().isInteger(64)) {
    std::string index = texts.lookup(cast.getIn());
    texts[result] = narrow ? cpp::call("int64_t", {index}) : index;
    return success();
  }
  if (visitIndex(op))
    return success();
  if (auto load = dyn_cast<rt::LoadOp>(op))
    if (std::string name = nameLoad(load); !name.empty()) {
      texts[result] = name;
      return success();
    }
  if (repeatsOperands(op))
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp();
          def && waiting.contains(def) && failed(materialize(def)))
        return failure();
  if (result.getType().isIndex())
    return success(succeeded(text(result, "row")));
  if (canInline(op)) {
    waiting.insert(op);
    return success();
  }
  return materialize(op);
}

LogicalResult KernelBody::visitStore(rt::StoreOp store) {
  for (Value index : store.getIndices())
    if (failed(text(index)))
      return failure();
  FailureOr<Value> value = expression(store.getValue());
  if (failed(value) || failed(flushLoads()))
    return failure();
  Type element =
      cast<rt::BufferType>(store.getBuffer().getType()).getElementType();
  if (elementType(element) != element) {
    // As text: compilers vectorise what is rounded in the assignment, not what
    // is rounded into a variable before it.
    line(store.getLoc(),
         cpp::assign(place(store.getBuffer(), store.getIndices()), "{}"),
         *value);
    return success();
  }
  Value place = subscript(store.getBuffer(), store.getIndices());
  // Memory of unsigned elements; scalars have no sign.
  *value = castTo(b, cast<emitc::LValueType>(place.getType()).getValueType(),
                  *value);
  emitc::AssignOp::create(b, store.getLoc(), place, *value);
  return success();
}

/// The operator of `reduction(op : variable)` for a carried value, or nothing.
static StringRef reductionOperator(scf::ForOp loop, unsigned i) {
  Value yielded = loop.getBody()->getTerminator()->getOperand(i);
  Operation *op = yielded.getDefiningOp();
  if (!op ||
      !llvm::is_contained(op->getOperands(), loop.getRegionIterArgs()[i]) ||
      !loop.getRegionIterArgs()[i].hasOneUse())
    return "";
  return llvm::StringSwitch<StringRef>(op->getName().getStringRef())
      .Cases({"arith.addf", "arith.addi"}, "+")
      .Cases({"arith.mulf", "arith.muli"}, "*")
      // Not max and min: compilers start those with the largest finite number.
      .Cases({"arith.maximumf", "arith.maxnumf"}, "dt::rt::largest")
      .Cases({"arith.minimumf", "arith.minnumf"}, "dt::rt::smallest")
      .Case("arith.maxsi", "max")
      .Case("arith.minsi", "min")
      .Default("");
}

LogicalResult KernelBody::assignYields(Operation *yield,
                                       ArrayRef<Value> variables) {
  // With several variables one may read another: compute all before assigning
  // any.
  bool several = variables.size() > 1;
  SmallVector<Value> next;
  for (Value operand : yield->getOperands()) {
    FailureOr<Value> value =
        expression(operand, several && !texts.count(operand));
    if (failed(value))
      return failure();
    next.push_back(*value);
  }
  for (auto [variable, value] : llvm::zip(variables, next))
    emitc::AssignOp::create(b, yield->getLoc(), variable, value);
  return success();
}

LogicalResult KernelBody::visitFor(scf::ForOp loop) {
  Location loc = loop.getLoc();
  SmallVector<std::string> bounds;
  for (Value bound :
       {loop.getLowerBound(), loop.getUpperBound(), loop.getStep()}) {
    FailureOr<std::string> boundText = text(bound, "bound");
    if (failed(boundText))
      return failure();
    bounds.push_back(*boundText);
  }
  SmallVector<Value> variables;
  SmallVector<cpp::Code> reductions{"omp simd"};
  bool vectorise = simd && loop->hasAttr(rt::RTDialect::kSimd);
  for (auto [i, init] : llvm::enumerate(loop.getInitArgs())) {
    Type type = scalarType(init.getType());
    if (!type)
      return loop.emitOpError() << "carries a " << init.getType();
    FailureOr<Value> start =
        texts.count(init) ? FailureOr<Value>(Value()) : expression(init);
    if (failed(start))
      return failure();
    variables.push_back(variable(loc, type, *start ? "" : texts[init]));
    if (*start)
      emitc::AssignOp::create(b, loc, variables.back(), *start);
    StringRef op = reductionOperator(loop, i);
    vectorise = vectorise && !op.empty();
    reductions.push_back(cpp::clause("reduction", op, "{}"));
  }
  if (failed(flushLoads()))
    return failure();
  if (vectorise)
    line(loc, cpp::pragma(reductions), variables);
  OpBuilder::InsertionGuard guard(b);
  emitc::ForOp cLoop = openLoop(loc, bounds[0], bounds[1], bounds[2]);
  texts[loop.getInductionVar()] = nameLoopVariable(cLoop, "r");
  for (auto [argument, result, variable] :
       llvm::zip(loop.getRegionIterArgs(), loop.getResults(), variables)) {
    values[argument] = variable;
    values[result] = variable;
  }
  if (failed(emit(*loop.getBody())))
    return failure();
  return assignYields(loop.getBody()->getTerminator(), variables);
}

LogicalResult KernelBody::visitIf(scf::IfOp op) {
  Location loc = op.getLoc();
  FailureOr<Value> condition = expression(op.getCondition());
  if (failed(condition))
    return failure();
  if (failed(flushLoads()))
    return failure();
  SmallVector<Value> variables;
  for (Value result : op.getResults()) {
    variables.push_back(variable(loc, scalarType(result.getType()), ""));
    values[result] = variables.back();
  }
  auto branch =
      emitc::IfOp::create(b, loc, *condition, /*addThenBlock=*/true,
                          /*addElseBlock=*/!op.getElseRegion().empty());
  auto fill = [&](Region &from, Region &to) -> LogicalResult {
    OpBuilder::InsertionGuard guard(b);
    openBranch(to);
    if (failed(emit(from.front())))
      return failure();
    if (failed(assignYields(from.front().getTerminator(), variables)))
      return failure();
    closeBranch(to);
    return success();
  };
  if (failed(fill(op.getThenRegion(), branch.getThenRegion())))
    return failure();
  return op.getElseRegion().empty()
             ? success()
             : fill(op.getElseRegion(), branch.getElseRegion());
}

} // namespace dt::codegen
