//===- Losses.cpp - Numerators and denominators of losses -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A loss is the sum of numerators over the sum of denominators of all parts of
// the global batch, so that it does not depend on how the batch is cut.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/losses/LossBuilder.h"
#include "models/frontend/recipe/losses/LossRule.h"

#include "dialects/nn/NNNames.h"
#include "models/frontend/json/JsonReader.h"

#include "llvm/ADT/SetVector.h"

#include <numeric>

using namespace mlir;

namespace dt::models {

// Every file of losses/ adds its kinds.
#include "models/frontend/recipe/Losses.inc"

LossRules &getLossRules() {
  static LossRules rules = [] {
    LossRules all;
    addAll(all);
    return all;
  }();
  return rules;
}

LossBuilder::LossBuilder(Location loc, dist::ModuleOp module,
                         const LossEntry &loss)
    : b(module.getForward().getBody().front().getTerminator()), loc(loc),
      loss(loss), module(module), forward(module.getForward()) {}

Value LossBuilder::getTarget(RankedTensorType type) {
  return getOrAddInput(loc, module, loss.target, type);
}

Value LossBuilder::getChooser(RankedTensorType type) {
  return getOrAddInput(loc, module, loss.where, type);
}

Value LossBuilder::splat(OpBuilder &at, Type like, double value) {
  auto type =
      RankedTensorType::get({}, cast<RankedTensorType>(like).getElementType());
  Attribute element =
      isa<FloatType>(type.getElementType())
          ? TypedAttr(at.getFloatAttr(type.getElementType(), value))
          : TypedAttr(at.getIntegerAttr(type.getElementType(), int64_t(value)));
  return nn::ConstantOp::create(at, loc, type,
                                DenseElementsAttr::get(type, element));
}

Value LossBuilder::sum(OpBuilder &at, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  if (!type.getElementType().isF32())
    value = nn::CastOp::create(
        at, loc, nn::withElementType(type, at.getF32Type()), value);
  SmallVector<int64_t> axes(type.getRank());
  std::iota(axes.begin(), axes.end(), 0);
  if (axes.empty())
    return value;
  return nn::ReduceOp::create(at, loc, nn::ReduceKind::sum, value, axes, false);
}

OpBuilder LossBuilder::startDenominator(TypeRange inputs,
                                        ArrayRef<StringRef> names) {
  OpBuilder at(module.getContext());
  at.setInsertionPointToEnd(&module.getBody().front());
  auto type =
      at.getFunctionType(inputs, RankedTensorType::get({}, at.getF32Type()));
  denominator = func::FuncOp::create(at, loc, loss.name + ".denominator", type);
  for (auto [i, name] : llvm::enumerate(names))
    denominator.setArgAttr(i, nn::kNameAttr, at.getStringAttr(name));
  return OpBuilder::atBlockBegin(denominator.addEntryBlock());
}

void LossBuilder::countElements(Type type) {
  OpBuilder at = startDenominator({}, {});
  func::ReturnOp::create(
      at, loc,
      dist::buildElementCount(at, loc, nn::getNumElements(nn::getShape(type))));
}

void LossBuilder::countTargets(
    Value target, Value chooser,
    function_ref<Value(OpBuilder &, ValueRange)> count) {
  SmallVector<Type> types = {target.getType()};
  SmallVector<StringRef> names = {loss.target};
  if (chooser) {
    types.push_back(chooser.getType());
    names.push_back(loss.where);
  }
  OpBuilder at = startDenominator(types, names);
  Value counted = count(at, denominator.getArguments());
  func::ReturnOp::create(at, loc, counted);
}

Value LossBuilder::diagonal(Type type, double onDiagonal, double elsewhere) {
  auto op = nn::GenerateOp::create(b, loc, type);
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
  auto type = nn::makeTensorType({rows}, b.getI64Type());
  auto op = nn::GenerateOp::create(b, loc, type);
  Block &body = op.getBody().emplaceBlock();
  OpBuilder inner = OpBuilder::atBlockBegin(&body);
  Value i = body.addArgument(inner.getIndexType(), loc);
  Value number = arith::IndexCastOp::create(inner, loc, inner.getI64Type(), i);
  nn::YieldOp::create(inner, loc, number);
  return op.getResult();
}

/// Rows of parts may be rounded up.
static bool hasMeasures(dist::ModuleOp module) {
  return llvm::any_of(module.getOps<nn::DimOp>(), [](nn::DimOp dim) {
    return dim.getMeasure().has_value();
  });
}

void LossBuilder::padTarget(int64_t value) {
  if (!hasMeasures(module))
    return;
  ignoresPadding = true;
  StringRef input = loss.target;
  input.consume_front((module.getSymName() + ".").str());
  OpBuilder top = OpBuilder::atBlockEnd(module->getBlock());
  dist::PaddingOp::create(top, loc, module.getExternalName(), input, value);
}

/// "module.input" is an input that the loss's own module has; a plain name may
/// be a new one.
static LogicalResult checkTarget(Location loc, dist::ModuleOp module,
                                 const LossEntry &loss) {
  auto [prefix, input] = StringRef(loss.target).split('.');
  func::FuncOp forward = module.getForward();
  if (input.empty() || dist::ModuleOp::findArgument(forward, loss.target))
    return success();
  auto error = [&] {
    std::string key = loss.rule->target.str();
    if (auto name = dyn_cast<NameLoc>(loc))
      key = (name.getName().getValue() + "." + key).str();
    return emitError(NameLoc::get(StringAttr::get(module.getContext(), key)));
  };
  if (prefix == module.getSymName()) {
    if (dist::ModuleOp::findArgument(forward, input))
      return success();
    return error() << "module '" << prefix << "' has no input '" << input << "'"
                   << describeInputs(forward, input)
                   << "; a name without a module makes an input of the loss";
  }
  std::vector<StringRef> modules;
  for (auto other :
       module->getParentOfType<mlir::ModuleOp>().getOps<dist::ModuleOp>())
    modules.push_back(other.getSymName());
  if (!llvm::is_contained(modules, prefix))
    return error() << "there is no module '" << prefix << "'"
                   << didYouMean(prefix, modules);
  return error() << "is of module '" << prefix << "', but the loss of module '"
                 << module.getSymName() << "'; expected an input of '"
                 << module.getSymName() << "', or a name without a module";
}

LogicalResult LossBuilder::build() {
  if (failed(checkTarget(loc, module, loss)))
    return failure();

  auto result = dist::ModuleOp::findResult(forward, loss.value.tensor);
  if (!result)
    return emitError(loc) << "module '" << module.getSymName()
                          << "' has no output '" << loss.value.tensor << "'"
                          << describeOutputs(forward, loss.value.tensor);
  Value value = forward.getBody().front().getTerminator()->getOperand(*result);
  if (!isa<FloatType>(getElementTypeOrSelf(value)))
    return emitError(loc) << "output '" << loss.value.tensor << "' of '"
                          << module.getSymName() << "' is not of floats";
  Value numerator = loss.rule->build(*this, value);
  if (!numerator)
    return failure();
  std::string name = "loss." + loss.name;
  addOutput(forward, numerator, name);
  OpBuilder top = OpBuilder::atBlockEnd(module->getBlock());
  auto symbol = denominator
                    ? FlatSymbolRefAttr::get(denominator.getSymNameAttr())
                    : FlatSymbolRefAttr();
  auto op = dist::LossOp::create(
      top, loc, top.getStringAttr(loss.name),
      FlatSymbolRefAttr::get(module.getSymNameAttr()), top.getStringAttr(name),
      symbol, top.getF64FloatAttr(loss.weight));
  op.setIgnoresPadding(ignoresPadding);
  return success();
}

LogicalResult buildLoss(Location location, dist::ModuleOp module,
                        const LossEntry &loss) {
  auto program = module->getParentOfType<mlir::ModuleOp>();
  if (program.lookupSymbol<dist::ModuleOp>(loss.name))
    return emitError(location)
           << "is named '" << loss.name << "', as a module is"
           << (loss.name == "loss" ? " (the name of a loss that says none)"
                                   : "")
           << "; give it another \"name\"";
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
