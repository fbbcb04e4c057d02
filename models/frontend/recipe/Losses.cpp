//===- Losses.cpp - Numerators and denominators of losses -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A loss is the sum of numerators over the sum of denominators of all parts of
// the global batch, so that it does not depend on how the batch is cut.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/Program.h"

#include "dialects/nn/NNNames.h"
#include "dialects/nn/NNOps.h"

#include "llvm/ADT/SetVector.h"

#include <numeric>

using namespace mlir;

namespace dt::models {

namespace {

class LossBuilder {
public:
  LossBuilder(Location loc, dist::ModuleOp module, const LossEntry &loss)
      : loc(loc), module(module), forward(module.getForward()), loss(loss),
        builder(forward.getBody().front().getTerminator()) {}

  LogicalResult build();

private:
  Value crossEntropy(Value logits);
  Value meanSquare(Value output);
  Value contrastive(Value logits);
  Value graphOutput(Value output);

  /// Ends the denominator function, whose body is being built, with `value`.
  void countElements(Type type);
  OpBuilder startDenominator(TypeRange inputs, ArrayRef<StringRef> names);
  Value splat(OpBuilder &b, Type like, double value);
  Value sum(OpBuilder &b, Value value);
  /// Elements (i, j) -> i == j ? onDiagonal : elsewhere.
  Value diagonal(Type type, double onDiagonal, double elsewhere);
  Value rowNumbers(const nn::DimExpr &rows);

  Location loc;
  dist::ModuleOp module;
  func::FuncOp forward, denominator;
  const LossEntry &loss;
  OpBuilder builder;
};

Value LossBuilder::splat(OpBuilder &b, Type like, double value) {
  auto type =
      RankedTensorType::get({}, cast<RankedTensorType>(like).getElementType());
  Attribute element =
      isa<FloatType>(type.getElementType())
          ? TypedAttr(b.getFloatAttr(type.getElementType(), value))
          : TypedAttr(b.getIntegerAttr(type.getElementType(), int64_t(value)));
  return nn::ConstantOp::create(b, loc, type,
                                DenseElementsAttr::get(type, element));
}

Value LossBuilder::sum(OpBuilder &b, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  if (!type.getElementType().isF32())
    value = nn::CastOp::create(
        b, loc, nn::withElementType(type, b.getF32Type()), value);
  SmallVector<int64_t> axes(type.getRank());
  std::iota(axes.begin(), axes.end(), 0);
  if (axes.empty())
    return value;
  return nn::ReduceOp::create(b, loc, nn::ReduceKind::sum, value, axes, false);
}

OpBuilder LossBuilder::startDenominator(TypeRange inputs,
                                        ArrayRef<StringRef> names) {
  OpBuilder b(module.getContext());
  b.setInsertionPointToEnd(&module.getBody().front());
  auto type =
      b.getFunctionType(inputs, RankedTensorType::get({}, b.getF32Type()));
  denominator = func::FuncOp::create(b, loc, loss.name + ".denominator", type);
  for (auto [i, name] : llvm::enumerate(names))
    denominator.setArgAttr(i, nn::kNameAttr, b.getStringAttr(name));
  return OpBuilder::atBlockBegin(denominator.addEntryBlock());
}

void LossBuilder::countElements(Type type) {
  OpBuilder b = startDenominator({}, {});
  func::ReturnOp::create(
      b, loc,
      dist::buildElementCount(b, loc, nn::getNumElements(nn::getShape(type))));
}

Value LossBuilder::crossEntropy(Value logits) {
  nn::Shape shape = nn::getShape(logits);
  if (shape.empty()) {
    emitError(loc) << "cross_entropy needs logits with an axis of classes, not "
                   << logits.getType();
    return {};
  }
  shape.pop_back();
  Value labels = getOrAddInput(loc, module, loss.target,
                               nn::makeTensorType(shape, builder.getI64Type()));
  if (!labels)
    return {};
  Value rows = nn::CrossEntropyOp::create(builder, loc, logits, labels,
                                          loss.ignoreIndex);
  OpBuilder b = startDenominator(labels.getType(), {loss.target});
  Value given = denominator.getArgument(0);
  Value counted =
      nn::CmpOp::create(b, loc, nn::Compare::ne, given,
                        splat(b, given.getType(), double(loss.ignoreIndex)));
  func::ReturnOp::create(b, loc, sum(b, counted));
  return sum(builder, rows);
}

Value LossBuilder::meanSquare(Value output) {
  auto type = cast<RankedTensorType>(output.getType());
  Value target = getOrAddInput(loc, module, loss.target, type);
  if (!target)
    return {};
  Value difference = nn::SubOp::create(builder, loc, output, target);
  Value square = nn::MulOp::create(builder, loc, difference, difference);
  countElements(type);
  return sum(builder, square);
}

Value LossBuilder::diagonal(Type type, double onDiagonal, double elsewhere) {
  auto op = nn::GenerateOp::create(builder, loc, type);
  Block &body = op.getBody().emplaceBlock();
  OpBuilder inner = OpBuilder::atBlockBegin(&body);
  Type index = inner.getIndexType();
  Value i = body.addArgument(index, loc), j = body.addArgument(index, loc);
  Value same =
      arith::CmpIOp::create(inner, loc, arith::CmpIPredicate::eq, i, j);
  auto constant = [&](double value) {
    Type element = cast<RankedTensorType>(type).getElementType();
    return arith::ConstantOp::create(inner, loc,
                                     inner.getFloatAttr(element, value));
  };
  Value element = arith::SelectOp::create(
      inner, loc, same, constant(onDiagonal), constant(elsewhere));
  nn::YieldOp::create(inner, loc, element);
  return op.getResult();
}

Value LossBuilder::rowNumbers(const nn::DimExpr &rows) {
  auto type = nn::makeTensorType({rows}, builder.getI64Type());
  auto op = nn::GenerateOp::create(builder, loc, type);
  Block &body = op.getBody().emplaceBlock();
  OpBuilder inner = OpBuilder::atBlockBegin(&body);
  Value i = body.addArgument(inner.getIndexType(), loc);
  Value number = arith::IndexCastOp::create(inner, loc, inner.getI64Type(), i);
  nn::YieldOp::create(inner, loc, number);
  return op.getResult();
}

Value LossBuilder::contrastive(Value logits) {
  auto type = cast<RankedTensorType>(logits.getType());
  nn::Shape shape = nn::getShape(type);
  if (shape.size() != 2 || shape[0] != shape[1]) {
    emitError(loc) << "a contrastive loss needs logits [batch, batch], not "
                   << type;
    return {};
  }
  OpBuilder b = startDenominator({}, {});
  func::ReturnOp::create(b, loc, dist::buildElementCount(b, loc, shape[0]));
  if (loss.kind == LossKind::SigmoidContrastive) {
    // -log sigmoid(z x) = softplus(-z x) with z = 1 on the diagonal, else -1.
    Value turned =
        nn::MulOp::create(builder, loc, logits, diagonal(type, -1, 1));
    return sum(builder, nn::SoftplusOp::create(builder, loc, turned));
  }
  Value labels = rowNumbers(shape[0]);
  Value columns =
      nn::TransposeOp::create(builder, loc, logits, ArrayRef<int64_t>{1, 0});
  // No label can be the ignored one.
  Value byRow = nn::CrossEntropyOp::create(builder, loc, logits, labels, -100);
  Value byColumn =
      nn::CrossEntropyOp::create(builder, loc, columns, labels, -100);
  Value both = nn::AddOp::create(builder, loc, sum(builder, byRow),
                                 sum(builder, byColumn));
  return nn::MulOp::create(builder, loc, both,
                           splat(builder, both.getType(), 0.5));
}

/// The graph's own loss; the modules phase splits it.
Value LossBuilder::graphOutput(Value output) {
  auto type = cast<RankedTensorType>(output.getType());
  if (nn::getNumElements(nn::getShape(type)) != nn::DimExpr(1)) {
    emitError(loc) << "a graph_output loss is one number, not " << type;
    return {};
  }
  if (!type.getElementType().isF32())
    output = nn::CastOp::create(
        builder, loc, nn::withElementType(type, builder.getF32Type()), output);
  if (type.getRank() != 0)
    output = nn::ReshapeOp::create(
        builder, loc, RankedTensorType::get({}, builder.getF32Type()), output);
  return output;
}

LogicalResult LossBuilder::build() {
  auto result = dist::ModuleOp::findResult(forward, loss.value.tensor);
  if (!result)
    return emitError(loc) << "module '" << module.getSymName()
                          << "' has no output '" << loss.value.tensor << "'"
                          << describeOutputs(forward, loss.value.tensor);
  Value value = forward.getBody().front().getTerminator()->getOperand(*result);
  if (!isa<FloatType>(cast<RankedTensorType>(value.getType()).getElementType()))
    return emitError(loc) << "output '" << loss.value.tensor << "' of '"
                          << module.getSymName() << "' is not of floats";
  Value numerator;
  switch (loss.kind) {
  case LossKind::CrossEntropy:
    numerator = crossEntropy(value);
    break;
  case LossKind::Mse:
    numerator = meanSquare(value);
    break;
  case LossKind::ClipContrastive:
  case LossKind::SigmoidContrastive:
    numerator = contrastive(value);
    break;
  case LossKind::GraphOutput:
    numerator = graphOutput(value);
    break;
  }
  if (!numerator)
    return failure();
  std::string name = "loss." + loss.name;
  addOutput(forward, numerator, name);
  OpBuilder top = OpBuilder::atBlockEnd(module->getBlock());
  auto symbol = denominator
                    ? FlatSymbolRefAttr::get(denominator.getSymNameAttr())
                    : FlatSymbolRefAttr();
  dist::LossOp::create(top, loc, top.getStringAttr(loss.name),
                       FlatSymbolRefAttr::get(module.getSymNameAttr()),
                       top.getStringAttr(name), symbol,
                       top.getF64FloatAttr(loss.weight));
  return success();
}

} // namespace

LogicalResult buildLoss(Location location, dist::ModuleOp module,
                        const LossEntry &loss) {
  return LossBuilder(location, module, loss).build();
}

Value getOrAddInput(Location location, dist::ModuleOp module, StringRef name,
                    RankedTensorType type) {
  func::FuncOp forward = module.getForward();
  // "llm.labels" is the input of llm, "labels" that of whichever module.
  StringRef plain = name;
  if (plain.starts_with((module.getSymName() + ".").str()))
    plain = plain.drop_front(module.getSymName().size() + 1);
  if (auto index = dist::ModuleOp::findArgument(forward, plain)) {
    Value input = forward.getArgument(*index);
    auto has = cast<RankedTensorType>(input.getType());
    bool bothIntegers = isa<IntegerType>(has.getElementType()) &&
                        isa<IntegerType>(type.getElementType());
    if (has == type ||
        (bothIntegers && nn::getShape(has) == nn::getShape(type)))
      return input;
    emitError(location) << "input '" << plain << "' of module '"
                        << module.getSymName() << "' is " << has
                        << ", the loss needs " << type;
    return {};
  }
  Builder b(module.getContext());
  unsigned index = forward.getNumArguments();
  auto attributes =
      b.getDictionaryAttr(b.getNamedAttr(nn::kNameAttr, b.getStringAttr(name)));
  if (failed(forward.insertArgument(index, type, attributes, location)))
    return {};
  return forward.getArgument(index);
}

void addOutput(func::FuncOp forward, Value value, StringRef name) {
  Builder b(forward.getContext());
  auto attributes =
      b.getDictionaryAttr(b.getNamedAttr(nn::kNameAttr, b.getStringAttr(name)));
  (void)forward.insertResult(forward.getNumResults(), value.getType(),
                             attributes);
  Operation *terminator = forward.getBody().front().getTerminator();
  terminator->insertOperands(terminator->getNumOperands(), value);
}

LogicalResult
checkReached(mlir::ModuleOp program, const Recipe &recipe,
             llvm::function_ref<Location(const llvm::Twine &)> locate) {
  if (recipe.losses.empty())
    return success();
  llvm::SetVector<StringRef> reached;
  for (const LossEntry &loss : recipe.losses)
    reached.insert(loss.value.module);
  for (size_t i = 0; i < reached.size(); ++i)
    for (auto edge : program.getOps<dist::EdgeOp>())
      if (edge.getTarget() == reached[i])
        reached.insert(edge.getSource());
  for (const ModuleEntry &entry : recipe.modules) {
    auto parameters = program.lookupSymbol<dist::ModuleOp>(entry.name)
                          .getOps<nn::ParameterOp>();
    if (!reached.contains(entry.name) &&
        llvm::any_of(parameters, [](auto p) { return p.getTrainable(); }))
      return emitError(locate("modules." + entry.name))
             << "no loss depends on this module, so its weights would never "
                "change; connect an output of it, freeze it (\"freeze\": "
                "[\"*\"]) or leave it out";
  }
  return success();
}

} // namespace dt::models
