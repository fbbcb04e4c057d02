//===- Statements.cpp - what kernels' statements are made of --------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Ops of EmitC for calls, variables, loops and branches, of which the operands
// are text or variables.
//
//===----------------------------------------------------------------------===//

#include "codegen/common/KernelBody.h"

using namespace mlir;

namespace dt::codegen {

emitc::CallOpaqueOp createCall(OpBuilder &b, Location loc, TypeRange results,
                               StringRef callee, cpp::Codes arguments,
                               ValueRange values, cpp::Codes templates) {
  auto literal = [&](StringRef text) -> Attribute {
    return emitc::OpaqueAttr::get(b.getContext(), text);
  };
  SmallVector<Attribute> args, types;
  unsigned next = 0;
  for (const cpp::Code &argument : arguments)
    args.push_back(argument == "{}" ? b.getIndexAttr(next++)
                                    : literal(argument));
  for (const cpp::Code &type : templates)
    types.push_back(literal(type));
  assert(next == values.size() && "an argument for each value");
  return emitc::CallOpaqueOp::create(
      b, loc, results, callee, values,
      // Without text EmitC needs no list, and prints fewer parentheses.
      next == args.size() ? ArrayAttr() : b.getArrayAttr(args),
      types.empty() ? ArrayAttr() : b.getArrayAttr(types));
}

void KernelBody::line(Location loc, StringRef text, ValueRange args) {
  emitc::VerbatimOp::create(b, loc, b.getStringAttr(text), args);
}

Value KernelBody::literal(Location loc, Type type, const cpp::Code &text) {
  return emitc::LiteralOp::create(b, loc, type, StringRef(text));
}

void KernelBody::assignCall(Location loc, Value variable, StringRef callee,
                            ValueRange arguments, cpp::Codes templates) {
  auto typeOf = [](Value value) {
    auto lvalue = dyn_cast<emitc::LValueType>(value.getType());
    return lvalue ? lvalue.getValueType() : value.getType();
  };
  // So that it stands in the assignment, and no variable before it.
  auto op = emitc::ExpressionOp::create(b, loc, typeOf(variable), arguments,
                                        /*do_not_inline=*/false);
  OpBuilder inner = OpBuilder::atBlockEnd(&op.createBody());
  SmallVector<Value> loaded;
  for (Value argument : inner.getInsertionBlock()->getArguments())
    loaded.push_back(
        isa<emitc::LValueType>(argument.getType())
            ? emitc::LoadOp::create(inner, loc, typeOf(argument), argument)
                  .getResult()
            : argument);
  SmallVector<cpp::Code> places(loaded.size(), "{}");
  auto made = createCall(inner, loc, op.getResult().getType(), callee, places,
                         loaded, templates);
  emitc::YieldOp::create(inner, loc, made.getResult(0));
  emitc::AssignOp::create(b, loc, variable, op.getResult());
}

Value KernelBody::variable(Location loc, Type type, StringRef init) {
  return emitc::VariableOp::create(
      b, loc, emitc::LValueType::get(type),
      emitc::OpaqueAttr::get(b.getContext(), init));
}

emitc::ForOp KernelBody::openLoop(Location loc, const cpp::Code &lower,
                                  const cpp::Code &upper,
                                  const cpp::Code &step) {
  Type type = narrow ? b.getI32Type() : b.getI64Type();
  auto loop = emitc::ForOp::create(b, loc, literal(loc, type, lower),
                                   literal(loc, type, cpp::atom(upper)),
                                   literal(loc, type, step));
  b.setInsertionPointToStart(loop.getBody());
  return loop;
}

std::string KernelBody::nameLoopVariable(emitc::ForOp loop, StringRef wanted) {
  std::string name = names.unique(wanted);
  line(loop.getLoc(), cpp::constant(indexType(), name, "{}"),
       loop.getInductionVar());
  return name;
}

void KernelBody::under(Location loc, const cpp::Code &condition,
                       llvm::function_ref<void()> body) {
  OpBuilder::InsertionGuard guard(b);
  auto branch = emitc::IfOp::create(
      b, loc, literal(loc, b.getI1Type(), condition), /*addThenBlock=*/true,
      /*addElseBlock=*/false);
  openBranch(branch.getThenRegion());
  body();
  closeBranch(branch.getThenRegion());
}

LogicalResult KernelBody::visitUnder(Location loc, const cpp::Code &condition,
                                     llvm::function_ref<LogicalResult()> body) {
  LogicalResult result = success();
  under(loc, condition, [&] { result = body(); });
  return result;
}

void KernelBody::returnIf(Location loc, const cpp::Code &condition) {
  under(loc, condition, [&] { line(loc, "return;"); });
}

void KernelBody::openBranch(Region &branch) {
  if (branch.front().empty())
    b.setInsertionPointToEnd(&branch.front());
  else
    b.setInsertionPoint(branch.front().getTerminator());
}

void KernelBody::closeBranch(Region &branch) {
  if (branch.front().empty() ||
      !branch.front().back().hasTrait<OpTrait::IsTerminator>())
    emitc::YieldOp::create(b, branch.getLoc());
}

} // namespace dt::codegen
