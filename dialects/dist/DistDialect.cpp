//===- DistDialect.cpp - Registration and look-ups of the dist dialect ----===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/DistOps.h"

#include "dialects/nn/NNOps.h"

#include <cmath>

using namespace mlir;

#include "dialects/dist/DistDialect.cpp.inc"
#include "dialects/dist/DistEnums.cpp.inc"
#include "dialects/dist/DistInterfaces.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/dist/DistOps.cpp.inc"

namespace dt::dist {

void DistDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "dialects/dist/DistOps.cpp.inc"
      >();
}

void ModuleOp::build(OpBuilder &builder, OperationState &state,
                     StringRef name) {
  state.addAttribute(getSymNameAttrName(state.name),
                     builder.getStringAttr(name));
  state.addRegion()->emplaceBlock();
}

func::FuncOp ModuleOp::getForward() {
  return lookupSymbol<func::FuncOp>("forward");
}

StringRef ModuleOp::getArgumentName(func::FuncOp function, unsigned index) {
  auto name = function.getArgAttrOfType<StringAttr>(index, nn::kNameAttr);
  return name ? name.getValue() : StringRef();
}

StringRef ModuleOp::getResultName(func::FuncOp function, unsigned index) {
  auto name = function.getResultAttrOfType<StringAttr>(index, nn::kNameAttr);
  return name ? name.getValue() : StringRef();
}

std::optional<unsigned> ModuleOp::findArgument(func::FuncOp function,
                                               StringRef name) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (getArgumentName(function, i) == name)
      return i;
  return std::nullopt;
}

std::optional<unsigned> ModuleOp::findResult(func::FuncOp function,
                                             StringRef name) {
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (getResultName(function, i) == name)
      return i;
  return std::nullopt;
}

Placement::Placement(dist::ModuleOp module)
    : unit(module.getUnit().value_or(module.getSymName())),
      stage(module.getStage()), dp(module.getDp()), sub(module.getSub()),
      zero(module.getZero()),
      group(module.getTp() * module.getCp() * module.getJoined()) {
  if (auto list = module.getRanks())
    ranks.assign(list->begin(), list->end());
  if (auto list = module.getSpeeds())
    speeds.assign(list->begin(), list->end());
}

bool areRanks(DenseI64ArrayAttr list) {
  SmallVector<int64_t> sorted(list.asArrayRef());
  llvm::sort(sorted);
  return !sorted.empty() && sorted.front() >= 0 &&
         llvm::adjacent_find(sorted) == sorted.end();
}

ForwardOp getLink(dist::ModuleOp module) {
  for (auto link : module.getOps<ForwardOp>()) {
    auto forward = dyn_cast_or_null<SymbolOpInterface>(
        module.lookupSymbol(link.getForward()));
    if (forward && !forward.isPrivate())
      return link;
  }
  return {};
}

/// All functions that it names.
static SmallVector<FlatSymbolRefAttr> getNames(ForwardOp link) {
  SmallVector<FlatSymbolRefAttr> names;
  for (FlatSymbolRefAttr name :
       {link.getForwardAttr(), link.getBackwardAttr(), link.getInputAttr(),
        link.getWeightAttr(), link.getPlainAttr()})
    if (name)
      names.push_back(name);
  return names;
}

ForwardOp getLink(func::FuncOp function) {
  auto name = FlatSymbolRefAttr::get(function.getSymNameAttr());
  if (auto module = function->getParentOfType<dist::ModuleOp>())
    for (auto link : module.getOps<ForwardOp>())
      if (llvm::is_contained(getNames(link), name))
        return link;
  return {};
}

bool isUnused(func::FuncOp function) {
  auto uses = SymbolTable::getSymbolUses(function, function->getParentOp());
  return uses && llvm::all_of(*uses, [](SymbolTable::SymbolUse use) {
           return isa<ForwardOp>(use.getUser());
         });
}

void unlink(func::FuncOp function) {
  auto name = FlatSymbolRefAttr::get(function.getSymNameAttr());
  // A function may be what several were made of.
  while (ForwardOp link = getLink(function)) {
    if (link.getForwardAttr() == name) {
      link.erase();
      continue;
    }
    if (link.getBackwardAttr() == name)
      link.removeBackwardAttr();
    if (link.getInputAttr() == name)
      link.removeInputAttr();
    if (link.getWeightAttr() == name)
      link.removeWeightAttr();
    if (link.getPlainAttr() == name)
      link.removePlainAttr();
  }
}

/// Of values of these types; the first that have any, "" without one.
static SmallVector<StringRef> getRowItems(ModuleOp module, TypeRange types) {
  SmallVector<StringRef> items;
  for (Type type : types) {
    nn::Shape shape = nn::getShape(type);
    auto axis = size_t(getRowAxis(shape));
    auto symbols = axis == shape.size() ? SmallVector<std::string>()
                                        : shape[axis].symbols();
    if (symbols.empty())
      continue;
    auto dim = module.lookupSymbol<nn::DimOp>(symbols[0]);
    items.push_back(dim ? dim.getItem().value_or("") : "");
  }
  return items;
}

void ModuleOp::setItemOfRows() {
  func::FuncOp forward = getForward();
  SmallVector<StringRef> items = getRowItems(*this, forward.getResultTypes());
  if (items.empty()) {
    items = getRowItems(*this, forward.getArgumentTypes());
    llvm::stable_sort(items, [](StringRef l, StringRef r) {
      return l == kSample && r != kSample;
    });
  }
  if (items.empty() || items[0].empty())
    removeItemAttr();
  else
    setItem(items[0]);
}

std::optional<int64_t> getItemMax(mlir::ModuleOp program, StringRef kind) {
  if (kind == kSample)
    return 1;
  for (auto item : program.getOps<ItemOp>())
    if (item.getName() == kind)
      return item.getMax();
  return std::nullopt;
}

bool hasPadding(ModuleOp module) {
  return llvm::any_of(module.getOps<nn::DimOp>(), [](nn::DimOp dim) {
    return dim.getMeasure() && dim.getMultiple() > 1;
  });
}

MeasureOp getMeasure(mlir::ModuleOp program, StringRef kind, StringRef name) {
  for (auto measure : program.getOps<MeasureOp>())
    if (measure.getKind() == kind && measure.getName() == name)
      return measure;
  return {};
}

std::optional<int64_t> getMostOfSample(mlir::ModuleOp program, nn::DimOp dim) {
  std::optional<int64_t> items =
      dim.getItem() ? getItemMax(program, *dim.getItem()) : std::nullopt;
  if (items && dim.getLargest())
    *items *= int64_t(*dim.getLargest());
  return items;
}

int64_t getRowAxis(const nn::Shape &shape) {
  const auto *found = llvm::find_if(
      shape, [](const auto &dim) { return dim != nn::DimExpr(1); });
  return found - shape.begin();
}

SmallVector<double> getAllSettings(rt::OptimizerKind kind,
                                   DictionaryAttr given) {
  SmallVector<double> values;
  for (const rt::OptimizerSetting &setting : rt::describe(kind).settings) {
    auto value = given ? given.getAs<FloatAttr>(setting.name) : FloatAttr();
    values.push_back(value ? value.getValueAsDouble() : setting.initial);
  }
  return values;
}

std::string checkSettings(rt::OptimizerKind kind, DictionaryAttr given) {
  const rt::OptimizerDescription &optimizer = rt::describe(kind);
  for (NamedAttribute entry :
       given ? given.getValue() : ArrayRef<NamedAttribute>()) {
    StringRef name = entry.getName().getValue();
    const auto *setting = llvm::find_if(
        optimizer.settings, [&](auto &known) { return known.name == name; });
    if (setting == optimizer.settings.end())
      return ("'" + name + "' is no setting of " + optimizer.name).str();
    auto value = dyn_cast<FloatAttr>(entry.getValue());
    double number =
        value && value.getType().isF64() ? value.getValueAsDouble() : NAN;
    if (!std::isfinite(number) || number < setting->range.low ||
        number > setting->range.high ||
        (setting->range.integral && number != std::floor(number)))
      return (name + " must be " + setting->range.text).str();
  }
  return "";
}

double getStateFloats(mlir::ModuleOp program, nn::ParameterOp parameter) {
  auto optimizer = getOnly<OptimizerOp>(program);
  if (!optimizer || !parameter.getTrainable())
    return 0;
  rt::OptimizerKind kind = optimizer.getKind();
  const rt::OptimizerDescription &description = rt::describe(kind);
  auto type = cast<RankedTensorType>(parameter.getType());
  auto elements = double(type.getNumElements()), floats = 0.;
  auto without = [&](int64_t fromEnd) {
    return elements / double(std::max<int64_t>(
                          1, type.getDimSize(type.getRank() - fromEnd)));
  };
  size_t count = description.countMoments(
      getAllSettings(kind, optimizer.getSettingsAttr()).data());
  for (size_t k = 0; k < count; ++k)
    switch (description.shapeOf(k, parameter.getMatrix())) {
    case rt::MomentShape::None:
      break;
    case rt::MomentShape::Elements:
      floats += elements;
      break;
    case rt::MomentShape::Rows:
      floats += without(1);
      break;
    case rt::MomentShape::Columns:
      floats += without(2);
      break;
    }
  return floats + (optimizer.getAverageDecay().isZero() ? 0 : elements);
}

int64_t getNumMicrobatches(mlir::ModuleOp program) {
  auto batch = getOnly<BatchOp>(program);
  if (!batch)
    return 1;
  return (batch.getGlobal() + batch.getMicro() - 1) / batch.getMicro();
}

SymbolRefAttr getParameterPath(ModuleOp module, StringRef parameter) {
  return SymbolRefAttr::get(
      module.getContext(), module.getSymName(),
      FlatSymbolRefAttr::get(module.getContext(), parameter));
}

Value buildElementCount(OpBuilder &builder, Location loc,
                        const nn::DimExpr &count) {
  auto type = RankedTensorType::get({}, builder.getF32Type());
  if (auto number = count.asConstant())
    return nn::ConstantOp::create(
        builder, loc, type,
        DenseElementsAttr::get(type, APFloat(float(*number))));
  auto op = nn::GenerateOp::create(builder, loc, type);
  OpBuilder inner = OpBuilder::atBlockBegin(&op.getBody().emplaceBlock());
  auto size = [&](const nn::DimExpr &e) -> Value {
    return nn::SizeOp::create(inner, loc, inner.getIndexType(),
                              nn::DimAttr::get(inner.getContext(), e));
  };
  // A run-time size is affine in one symbol; products are made of several.
  Value total;
  if (count.asAffine())
    total = size(count);
  else
    for (const nn::DimExpr::Term &term : count.terms()) {
      Value product =
          arith::ConstantIndexOp::create(inner, loc, term.coefficient);
      for (const std::string &symbol : term.symbols)
        product = arith::MulIOp::create(inner, loc, product,
                                        size(nn::DimExpr::symbol(symbol)));
      total =
          total ? arith::AddIOp::create(inner, loc, total, product) : product;
    }
  Value whole =
      arith::IndexCastOp::create(inner, loc, inner.getI64Type(), total);
  Value number = arith::SIToFPOp::create(inner, loc, inner.getF32Type(), whole);
  nn::YieldOp::create(inner, loc, number);
  return op.getResult();
}

} // namespace dt::dist
