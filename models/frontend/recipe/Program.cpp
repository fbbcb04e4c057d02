//===- Program.cpp - From recipe to IR --------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/Program.h"
#include "models/frontend/json/JsonReader.h"
#include "models/frontend/recipe/Inputs.h"
#include "models/frontend/recipe/JsonAttr.h"

#include "dialects/nn/NNLimits.h"
#include "dialects/nn/NNOps.h"
#include "models/frontend/import/Import.h"

#include "mlir/IR/Verifier.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <functional>

using namespace mlir;

namespace dt::models {

namespace {

class ProgramBuilder {
public:
  ProgramBuilder(MLIRContext &context, const Recipe &recipe)
      : context(context), recipe(recipe),
        program(mlir::ModuleOp::create(at(""))),
        builder(OpBuilder::atBlockEnd(program->getBody())) {}

  OwningOpRef<mlir::ModuleOp> build();

private:
  LogicalResult items();
  LogicalResult module(const ModuleEntry &entry);
  LogicalResult bindDims(const ModuleEntry &entry, dist::ModuleOp module);
  LogicalResult checkDims(const ModuleEntry &entry);
  LogicalResult checkDims();
  LogicalResult connect(const ConnectionEntry &entry);
  LogicalResult optimizer();
  LogicalResult data();
  void setRoles();
  void reportWeights();
  void remarkBatchNorm();

  /// Dims that hold in a module; its own first.
  std::vector<std::pair<std::string, DimBinding>>
  dimsOf(const ModuleEntry &entry) const;
  void bind(nn::DimOp dim, StringRef quantity) const;
  dist::ModuleOp get(StringRef name) {
    return program->lookupSymbol<dist::ModuleOp>(name);
  }
  /// A location that prints as "recipe.json: key".
  Location at(const Twine &key) {
    return NameLoc::get(StringAttr::get(
        &context, recipe.path + (key.isTriviallyEmpty() ? "" : ": ") + key));
  }

  std::function<Location(const Twine &)> locate = [this](const Twine &key) {
    return at(key);
  };

  MLIRContext &context;
  const Recipe &recipe;
  OwningOpRef<mlir::ModuleOp> program;
  OpBuilder builder;
  llvm::StringMap<llvm::StringSet<>> dimsIn; ///< of a module's graph
  llvm::StringMap<WeightCount> fixedIn;      ///< as ImportOptions::fixed
};

/// Until a plan says what a part is, it is a microbatch.
void ProgramBuilder::bind(nn::DimOp dim, StringRef quantity) const {
  auto [kind, measure] = quantity.split('.');
  int64_t items = recipe.microBatch;
  for (const ItemEntry &entry : recipe.items)
    if (entry.name == kind)
      items *= entry.max;
  dim.setItem(kind);
  dim.setMax(items);
  for (const MeasureEntry &entry : recipe.measures)
    if (entry.kind == kind && entry.name == measure) {
      dim.setMeasure(measure);
      dim.setLargest(entry.max);
      dim.setBound(entry.part ? std::min(items * entry.max, entry.part)
                              : items * entry.max);
    }
}

std::vector<std::pair<std::string, DimBinding>>
ProgramBuilder::dimsOf(const ModuleEntry &entry) const {
  auto result = entry.dims;
  for (auto &dim : recipe.dims)
    if (llvm::none_of(result,
                      [&](auto &own) { return own.first == dim.first; }))
      result.push_back(dim);
  return result;
}

LogicalResult ProgramBuilder::items() {
  for (const ItemEntry &item : recipe.items)
    dist::ItemOp::create(builder, at("items." + item.name),
                         builder.getStringAttr(item.name),
                         builder.getI64IntegerAttr(item.max));
  for (const MeasureEntry &entry : recipe.measures)
    dist::MeasureOp::create(
        builder, at("items." + entry.kind + ".measures." + entry.name),
        builder.getStringAttr(entry.name), builder.getStringAttr(entry.kind),
        builder.getI64IntegerAttr(entry.max),
        entry.part ? builder.getI64IntegerAttr(entry.part) : IntegerAttr(),
        builder.getI64IntegerAttr(entry.multiple));
  return success();
}

LogicalResult ProgramBuilder::module(const ModuleEntry &entry) {
  ImportOptions options;
  options.moduleName = entry.name;
  options.recordedPath = entry.onnx;
  options.seenDims = &dimsIn[entry.name];
  options.trainable = entry.trainable;
  for (const RoutingEntry &routing : recipe.optimizer.routing)
    options.kept.push_back(routing.match);
  options.fixed = &fixedIn[entry.name];
  // Dims that count one kind of item are one size: they get one symbol.
  llvm::StringMap<std::string> symbols;
  for (auto &[dim, value] : dimsOf(entry)) {
    if (auto *number = std::get_if<int64_t>(&value)) {
      options.dims[dim] = *number;
      continue;
    }
    auto [symbol, isNew] =
        symbols.try_emplace(std::get<std::string>(value), dim);
    if (!isNew)
      options.rename[dim] = symbol->second;
    // A sample may hold none of them; a batch has a sample.
    if (symbol->first() != dist::kSample)
      options.maybeEmpty.insert(symbol->second);
  }
  SmallString<256> path(entry.onnx);
  if (llvm::sys::path::is_relative(entry.onnx)) {
    path = recipe.directory;
    llvm::sys::path::append(path, entry.onnx);
  }
  if (!llvm::sys::fs::exists(path))
    return emitError(at("modules." + entry.name + ".onnx"))
           << "there is no file '" << path << "'";
  std::vector<AbsentFile> absent;
  options.absent = &absent;
  OwningOpRef<mlir::ModuleOp> imported = importOnnx(context, path, options);
  if (!imported)
    return failure();
  auto module = dist::getOnly<dist::ModuleOp>(*imported);
  module->remove();
  builder.insert(module);
  if (entry.split)
    module.setSplit(true);
  if (entry.capacity)
    module.setExpertCapacityAttr(builder.getF64FloatAttr(*entry.capacity));
  module.setShowChoices(entry.choices);
  setPrecision(module, entry);
  if (failed(checkDims(entry)) || failed(bindDims(entry, module)))
    return failure();
  return failure(failed(setWeights(module, entry, absent, locate)) ||
                 failed(addAdapters(module, entry, locate)));
}

LogicalResult ProgramBuilder::bindDims(const ModuleEntry &entry,
                                       dist::ModuleOp module) {
  auto dims = dimsOf(entry);
  for (auto dim : module.getOps<nn::DimOp>()) {
    auto *bound = llvm::find_if(dims, [&](auto &d) {
                    return d.first == dim.getSymName();
                  }).operator->();
    if (bound == dims.data() + dims.size())
      return emitError(at("dims"))
             << "module '" << entry.name << "' has the dim '"
             << dim.getSymName()
             << "', which is not bound; give a number or an item kind";
    bind(dim, std::get<std::string>(bound->second));
    if (failed(nn::verifyLimit(dim, at("dims." + dim.getSymName()))))
      return failure();
  }
  module.setItemOfRows();
  return success();
}

/// A name that no graph has is a slip: what it should say would keep its
/// default.
LogicalResult ProgramBuilder::checkDims(const ModuleEntry &entry) {
  const llvm::StringSet<> &known = dimsIn[entry.name];
  for (auto &dim : entry.dims)
    if (!known.contains(dim.first))
      return emitError(at("modules." + entry.name + ".dims." + dim.first))
             << "no input of '" << entry.onnx << "' has this dim"
             << didYouMean(dim.first, llvm::to_vector(known.keys()));
  return success();
}

/// Those of all modules; the length of texts and the width of an index may be
/// one too.
LogicalResult ProgramBuilder::checkDims() {
  llvm::StringSet<> known;
  for (auto &module : dimsIn)
    known.insert_range(module.second.keys());
  if (recipe.inputs.is_object())
    for (const nlohmann::json &input : recipe.inputs)
      if (input.is_object() && input.contains("width") &&
          input["width"].is_string())
        known.insert(input["width"].get<std::string>());
  if (recipe.data.is_object() && recipe.data.contains("sequence") &&
      recipe.data["sequence"].is_string())
    known.insert(recipe.data["sequence"].get<std::string>());
  for (auto &dim : recipe.dims)
    if (!known.contains(dim.first))
      return emitError(at("dims." + dim.first))
             << "no graph has an input with this dim"
             << didYouMean(dim.first, llvm::to_vector(known.keys()));
  return success();
}

LogicalResult ProgramBuilder::connect(const ConnectionEntry &entry) {
  Location loc =
      at("connections." + entry.input.module + "." + entry.input.tensor);
  dist::ModuleOp source = get(entry.output.module),
                 target = get(entry.input.module);
  func::FuncOp from = source.getForward(), to = target.getForward();
  auto input = dist::ModuleOp::findArgument(to, entry.input.tensor);
  if (!input)
    return emitError(loc) << "module '" << entry.input.module
                          << "' has no input '" << entry.input.tensor << "'"
                          << describeInputs(to, entry.input.tensor);
  auto output = dist::ModuleOp::findResult(from, entry.output.tensor);
  if (!output)
    return emitError(loc) << "module '" << entry.output.module
                          << "' has no output '" << entry.output.tensor << "'"
                          << describeOutputs(from, entry.output.tensor);
  std::string name = entry.output.tensor;
  if (!entry.gather.empty()) {
    nn::Shape rows = nn::getShape(to.getArgumentTypes()[*input]);
    if (!rows.empty())
      rows.pop_back();
    for (nn::DimExpr &row : rows)
      row = row.substitute([&](StringRef symbol) -> std::optional<nn::DimExpr> {
        return nn::DimExpr::symbol(
            getSymbolLike(source, target.lookupSymbol<nn::DimOp>(symbol)));
      });
    auto picked =
        buildGather(loc, source, entry.output.tensor, entry.gather, rows);
    if (failed(picked))
      return failure();
    name = *picked;
  }
  dist::EdgeOp::create(builder, loc, source.getSymName(), name,
                       target.getSymName(), entry.input.tensor);
  return success();
}

LogicalResult ProgramBuilder::optimizer() {
  const OptimizerEntry &o = recipe.optimizer;
  auto f = [&](double value) { return builder.getF64FloatAttr(value); };
  auto n = [&](int64_t value) { return builder.getI64IntegerAttr(value); };
  NamedAttrList settings;
  for (auto &[name, value] : o.settings)
    settings.append(name, f(value));
  dist::OptimizerOp::create(
      builder, at("optimizer"), rt::OptimizerKindAttr::get(&context, o.kind),
      settings.empty() ? DictionaryAttr() : settings.getDictionary(&context),
      f(o.lr), f(o.weightDecay), f(o.clip), n(o.warmup),
      rt::ScheduleKindAttr::get(&context, o.schedule), n(o.totalSteps),
      f(o.decayFrom), f(o.finalFraction), f(o.averageDecay));
  return failure(failed(applyPatterns(*program, o, locate)) ||
                 failed(applyGroups(*program, o, locate)) ||
                 failed(applyRouting(*program, o, locate)));
}

LogicalResult ProgramBuilder::data() {
  auto add = [&](StringRef key, const nlohmann::json &value) -> DictionaryAttr {
    auto attribute =
        dyn_cast_or_null<DictionaryAttr>(jsonToAttr(&context, value));
    if (!attribute)
      emitError(at(key)) << "expected an object without empty keys or numbers "
                            "beyond 64 bits";
    return attribute;
  };
  nlohmann::json dims = nlohmann::json::object();
  auto addDim = [&](const std::string &name, const DimBinding &value) {
    std::visit([&](auto &v) { dims[name] = v; }, value);
  };
  for (auto &[name, value] : recipe.dims)
    addDim(name, value);
  for (const ModuleEntry &entry : recipe.modules)
    for (auto &[name, value] : entry.dims)
      addDim(entry.name + "." + name, value);
  if (!dims.empty()) {
    DictionaryAttr attribute = add("dims", dims);
    if (!attribute)
      return failure();
    dist::DimsOp::create(builder, at("dims"), attribute);
  }
  if (!recipe.data.is_null()) {
    DictionaryAttr attribute = add("data", recipe.data);
    if (!attribute)
      return failure();
    dist::DataOp::create(builder, at("data"), attribute);
  }
  if (recipe.inputs.is_null())
    return success();
  if (!recipe.inputs.is_object())
    return emitError(at("inputs")) << "expected an object";
  for (auto &entry : recipe.inputs.items()) {
    DictionaryAttr attribute = add("inputs." + entry.key(), entry.value());
    if (!attribute)
      return failure();
    dist::InputOp::create(builder, at("inputs." + entry.key()),
                          builder.getStringAttr(entry.key()), attribute);
  }
  return success();
}

/// By the place in the graph of modules, where the recipe does not say.
void ProgramBuilder::setRoles() {
  for (const ModuleEntry &entry : recipe.modules) {
    dist::ModuleOp module = get(entry.name);
    if (!entry.role.empty()) {
      module.setRole(*dist::symbolizeRole(entry.role));
      continue;
    }
    bool receives = false, sends = false;
    for (auto edge : program->getOps<dist::EdgeOp>()) {
      receives |= edge.getTarget() == entry.name;
      sends |= edge.getSource() == entry.name;
    }
    bool computesLoss =
        llvm::any_of(program->getOps<dist::LossOp>(),
                     [&](auto loss) { return loss.getModule() == entry.name; });
    if (sends && !receives && !computesLoss)
      module.setRole(dist::Role::encoder);
    else if (receives && !sends && recipe.modules.size() > 2)
      module.setRole(dist::Role::generator);
    else
      module.setRole(dist::Role::backbone);
  }
}

/// How much of a model trains is not seen in what it computes.
void ProgramBuilder::reportWeights() {
  for (const ModuleEntry &entry : recipe.modules) {
    WeightCount all = fixedIn[entry.name], trained;
    for (auto parameter : get(entry.name).getOps<nn::ParameterOp>()) {
      if (parameter.getBuffer())
        continue;
      int64_t n = cast<RankedTensorType>(parameter.getType()).getNumElements();
      all.add(n);
      if (parameter.getTrainable())
        trained.add(n);
    }
    emitRemark(at("modules." + entry.name))
        << trained.tensors << " of " << all.tensors << " weights train ("
        << trained.numbers << " of " << all.numbers << " numbers)";
  }
}

/// Statistics over the batch are means along its axis.
void ProgramBuilder::remarkBatchNorm() {
  auto takesStatistics = [](nn::ReduceOp op) {
    ArrayRef<int64_t> axes = op.getAxes();
    int64_t rank = cast<RankedTensorType>(op.getInput().getType()).getRank();
    return WalkResult(op.getKind() == nn::ReduceKind::mean &&
                              llvm::is_contained(axes, 0) &&
                              int64_t(axes.size()) < rank
                          ? WalkResult::interrupt()
                          : WalkResult::advance());
  };
  if (!recipe.batchNorm.empty() &&
      !program->walk(takesStatistics).wasInterrupted())
    emitRemark(at("batch_norm"))
        << "does nothing: no module has a BatchNormalization in training form";
}

OwningOpRef<mlir::ModuleOp> ProgramBuilder::build() {
  loadImportDialects(context);
  context.loadDialect<dist::DistDialect>();
  if (failed(items()))
    return {};
  for (const ModuleEntry &entry : recipe.modules)
    if (failed(module(entry)))
      return {};
  if (failed(checkDims()))
    return {};
  for (const ConnectionEntry &entry : recipe.connections)
    if (failed(connect(entry)))
      return {};
  for (auto &[alias, parameter] : recipe.tie)
    if (failed(buildTies(at("tie." + alias.module + "." + alias.tensor),
                         *program, alias, parameter)))
      return {};
  if (failed(checkAdapters(*program, locate)))
    return {};
  for (auto [i, loss] : llvm::enumerate(recipe.losses))
    if (failed(buildLoss(at("losses[" + Twine(i) + "]"), get(loss.value.module),
                         loss)))
      return {};
  if (failed(optimizer()) || failed(data()) ||
      failed(checkInputs(*program, recipe, locate)) ||
      failed(checkReached(*program, recipe, locate)))
    return {};
  markLookups(*program);
  builder.setInsertionPointToEnd(program->getBody());
  auto bound = [&](int64_t most) {
    return most ? builder.getI64IntegerAttr(most) : IntegerAttr();
  };
  dist::BatchOp::create(builder, at("batch"), recipe.globalBatch,
                        recipe.microBatch, recipe.batchNorm == "local",
                        recipe.openMicro, bound(recipe.parts),
                        bound(recipe.partTokens));
  dist::SeedOp::create(builder, at("seed"), recipe.seed);
  setRoles();
  if (failed(verify(*program)))
    return {};
  reportWeights();
  remarkBatchNorm();
  return std::move(program);
}

} // namespace

void setPrecision(dist::ModuleOp module, const ModuleEntry &entry) {
  if (auto precision = dist::symbolizePrecision(entry.precision))
    module.setPrecision(*precision);
  module.setNarrowResidual(entry.narrowResidual);
  module.setNarrowGradients(entry.narrowGradients);
}

static std::string describeNames(StringRef what, StringRef wanted,
                                 ArrayRef<StringRef> names) {
  return ("; its " + what +
          (names.empty() ? " are none" : " are " + llvm::join(names, ", ")) +
          didYouMean(wanted, names))
      .str();
}

std::string describeInputs(func::FuncOp forward, StringRef wanted) {
  SmallVector<StringRef> names;
  for (unsigned i = 0; i < forward.getNumArguments(); ++i)
    names.push_back(dist::ModuleOp::getArgumentName(forward, i));
  return describeNames("inputs", wanted, names);
}

std::string describeOutputs(func::FuncOp forward, StringRef wanted) {
  SmallVector<StringRef> names;
  for (unsigned i = 0; i < forward.getNumResults(); ++i)
    names.push_back(dist::ModuleOp::getResultName(forward, i));
  return describeNames("outputs", wanted, names);
}

OwningOpRef<mlir::ModuleOp> buildProgram(MLIRContext &context,
                                         const Recipe &recipe) {
  return ProgramBuilder(context, recipe).build();
}

} // namespace dt::models
