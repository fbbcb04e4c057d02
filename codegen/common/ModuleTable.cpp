//===- ModuleTable.cpp - modules, edges and losses as rows ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/common/KernelBody.h"
#include "codegen/common/SlowCalls.h"
#include "codegen/common/Tables.h"
#include "dialects/dist/DistOps.h"

using namespace mlir;

namespace dt::codegen {

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

static std::string symbols(TableWriter &writer, rt::ModuleOp module,
                           const ModuleNames &name) {
  SmallVector<std::string> table;
  for (auto symbol : module.getBody().getOps<rt::SymbolOp>()) {
    rows::SymbolInfo row;
    row.name = quoted(symbol.getSymName());
    row.item = symbol.getItem() ? quoted(*symbol.getItem()) : "nullptr";
    row.max = int64_t(symbol.getMax()) * int64_t(symbol.getMultiple());
    if (!symbol.getCost().isZero())
      row.cost = symbol.getCost().convertToDouble();
    if (symbol.getMultiple() > 1)
      row.multiple = int64_t(symbol.getMultiple());
    if (symbol.getMeasure()) {
      row.measure = quoted(*symbol.getMeasure());
      row.largest = int64_t(symbol.getLargest().value_or(1));
      row.squareCost = symbol.getSquareCost().convertToDouble();
    }
    table.push_back(listText(row));
  }
  return writer.array<rows::SymbolInfo>(snake("kSymbols", name.module), table);
}

/// The buffer_decl that an input or output of a module names.
static FailureOr<rt::BufferDeclOp> bufferOf(Operation *op,
                                            FlatSymbolRefAttr name) {
  auto module = op->getParentOfType<rt::ModuleOp>();
  if (auto decl = module.lookupSymbol<rt::BufferDeclOp>(name.getAttr()))
    return decl;
  return op->emitOpError() << "names no rt.buffer_decl: " << name;
}

static FailureOr<SmallVector<std::string>>
inputs(TableWriter &writer, rt::ModuleOp module, const ModuleSymbols &symbols) {
  SmallVector<std::string> table;
  for (auto input : module.getBody().getOps<rt::InputOp>()) {
    auto decl = bufferOf(input, input.getBufferAttr());
    if (failed(decl))
      return failure();
    int64_t from = input.getFrom() ? writer.moduleIndex(*input.getFrom()) : -1;
    if (input.getFrom() && from < 0)
      return input.emitOpError()
             << "comes from no rt.module: " << *input.getFrom();
    rows::InputInfo row;
    row.buffer = writer.buffer(input.getName(), *decl, symbols);
    row.fromModule = from;
    row.fromOutput = int64_t(input.getOutput());
    if (input.getApart())
      row.apart = quoted(*input.getApart());
    if (input.getPadding())
      row.padding = int64_t(input.getPadding());
    table.push_back(fieldsText(row));
  }
  return table;
}

static FailureOr<SmallVector<std::string>>
outputs(TableWriter &writer, rt::ModuleOp module,
        const ModuleSymbols &symbols) {
  SmallVector<std::string> table;
  for (auto output : module.getBody().getOps<rt::OutputOp>()) {
    auto decl = bufferOf(output, output.getBufferAttr());
    if (failed(decl))
      return failure();
    table.push_back(writer.buffer(output.getName(), *decl, symbols));
  }
  return table;
}

static void setFunctions(rt::ModuleOp module, const ModuleNames &name,
                         rows::ModuleInfo &row) {
  for (Cell *cell :
       {&row.forward, &row.backward, &row.backwardInput, &row.backwardWeight})
    *cell = "nullptr";
  for (auto entry : module.getBody().getOps<rt::EntryOp>())
    if (Cell *cell = functionOf(row, entry.getKind()))
      *cell = name.getFunction(entry.getKind(), entry.getCallee());
}

/// FLOPs of the model in a part.
static LogicalResult setWork(TableWriter &writer, rt::ModuleOp module,
                             const ModuleSymbols &symbols,
                             const ModuleNames &name, rows::ModuleInfo &row) {
  auto work = cast_or_null<dist::WorkAttr>(module.getWorkAttr());
  if (!work)
    return success();
  auto terms = writer.terms("kWork", work.getSize().getSize(), symbols);
  if (!terms)
    return module.emitOpError("has work of a symbol that it does not have");
  if (!work.getSize().getSize().terms().empty())
    row.work = *terms;
  SmallVector<std::string> table;
  for (dist::PairsAttr pairs : work.getPairs()) {
    rows::PairTerm term;
    term.flops = pairs.getFlops();
    term.rows = extentText(pairs.getRows().getSize(), symbols);
    term.columns = extentText(pairs.getColumns().getSize(), symbols);
    if (pairs.getCausal())
      term.causal = true;
    if (pairs.getWindow())
      term.window = pairs.getWindow();
    table.push_back(fieldsText(term));
  }
  if (!table.empty())
    row.pairs =
        writer.array<rows::PairTerm>(snake("kPairs", name.module), table);
  return success();
}

static FailureOr<std::string>
moduleRow(TableWriter &writer, rt::ModuleOp module, const ModuleNames &name) {
  ModuleSymbols symbolNames = symbolsOf(module);
  auto in = inputs(writer, module, symbolNames);
  auto out = succeeded(in) ? outputs(writer, module, symbolNames) : in;
  if (failed(out))
    return failure();
  rows::ModuleInfo row;
  row.name = quoted(module.getSymName());
  row.origin = quoted(module.getExternalName());
  row.unit = quoted(module.getUnitName());
  row.stage = int64_t(module.getStage());
  row.item = quoted(module.getItem());
  row.symbols = symbols(writer, module, name);
  row.inputs =
      writer.array<rows::InputInfo>(snake("kInputs", name.module), *in);
  row.outputs =
      writer.array<rows::BufferInfo>(snake("kOutputs", name.module), *out);
  setFunctions(module, name, row);
  if (failed(setWork(writer, module, symbolNames, name, row)))
    return failure();
  row.wholeBatch = module.getWholeBatch();
  row.arenaBytes = int64_t(module.getArena());
  row.scratchBytes = int64_t(module.getScratch());
  row.parameterBytes = int64_t(module.getParameters());
  row.trainableBytes = int64_t(module.getTrainable());
  row.tp = int64_t(module.getTp());
  row.dp = int64_t(module.getDp());
  row.ranks = writer.array("int32_t", snake("kRanks", name.module),
                           numberTexts(module.getRanks()));
  row.zero = int64_t(module.getZero());
  if (module.getSub() > 1)
    row.sub = int64_t(module.getSub());
  if (module.getSpan() > 1)
    row.span = int64_t(module.getSpan());
  if (std::string slow = describeSlowCalls(module, writer.target);
      !slow.empty())
    row.slow = quoted(slow);
  if (auto speeds = module.getSpeeds())
    row.speeds = writer.array("int32_t", snake("kSpeeds", name.module),
                              numberTexts(*speeds));
  return fieldsText(row);
}

FailureOr<std::string> writeModules(TableWriter &writer) {
  SmallVector<std::string> table;
  for (auto [module, name] : llvm::zip(
           writer.program.getBody().getOps<rt::ModuleOp>(), writer.names)) {
    FailureOr<std::string> row = moduleRow(writer, module, name);
    if (failed(row))
      return failure();
    table.push_back(*row);
  }
  return writer.array<rows::ModuleInfo>("kModules", table);
}

//===----------------------------------------------------------------------===//
// Edges
//===----------------------------------------------------------------------===//

std::string writeEdges(TableWriter &writer) {
  auto buffer = [&](StringRef module, FlatSymbolRefAttr name) -> std::string {
    if (!name)
      return "{}";
    auto op = writer.program.lookupSymbol<rt::ModuleOp>(module);
    auto decl = op.lookupSymbol<rt::BufferDeclOp>(name.getAttr());
    return writer.buffer(decl.getSymName(), decl, symbolsOf(op));
  };
  SmallVector<std::string> table;
  for (auto edge : writer.program.getBody().getOps<rt::EdgeOp>()) {
    rows::EdgeInfo row;
    row.from = writer.moduleIndex(edge.getSource());
    row.fromOutput = edge.getOutput();
    row.to = writer.moduleIndex(edge.getTarget());
    row.toInput = edge.getInput();
    row.gradient = bool(edge.getProducedAttr());
    row.produced = buffer(edge.getTarget(), edge.getProducedAttr());
    row.consumed = buffer(edge.getSource(), edge.getConsumedAttr());
    if (edge.getCut())
      row.cut = true;
    table.push_back(fieldsText(row));
  }
  return writer.array<rows::EdgeInfo>("kEdges", table);
}

//===----------------------------------------------------------------------===//
// Losses
//===----------------------------------------------------------------------===//

/// Who computes the denominator of a part, and where it is left.
static LogicalResult setDenominator(TableWriter &writer, rt::LossOp loss,
                                    rt::ModuleOp module,
                                    const ModuleNames &name,
                                    rows::LossInfo &row) {
  row.denominator = "nullptr";
  row.denominatorOut = "{}";
  if (!loss.getDenominator())
    return success();
  std::string function =
      name.getFunction(rt::TaskKind::Denominator, *loss.getDenominator());
  auto decl =
      loss.getDenominatorOut()
          ? module.lookupSymbol<rt::BufferDeclOp>(*loss.getDenominatorOut())
          : rt::BufferDeclOp();
  if (function.empty() || !decl)
    return loss.emitOpError(
        "needs an rt.entry and an rt.buffer_decl for its denominator");
  row.denominator = function;
  row.denominatorOut = writer.buffer(dotted(loss.getSymName(), "denominator"),
                                     decl, symbolsOf(module));
  return success();
}

static FailureOr<std::string> lossRow(TableWriter &writer, rt::LossOp loss) {
  int64_t index = writer.moduleIndex(loss.getModule());
  if (index < 0)
    return loss.emitOpError() << "is of no rt.module: " << loss.getModule();
  auto module = writer.program.lookupSymbol<rt::ModuleOp>(loss.getModule());
  auto numerator = module.lookupSymbol<rt::BufferDeclOp>(loss.getNumerator());
  if (!numerator)
    return loss.emitOpError()
           << "names no rt.buffer_decl of its module: " << loss.getNumerator();
  rows::LossInfo row;
  if (failed(setDenominator(writer, loss, module, writer.names[index], row)))
    return failure();
  row.name = quoted(loss.getSymName());
  row.weight = constantText(
      writer.builder.getF32FloatAttr(loss.getWeight().convertToDouble()));
  row.module = index;
  row.numerator =
      writer.buffer(loss.getSymName(), numerator, symbolsOf(module));
  SmallVector<int64_t> reads(loss.getDenominatorInputs());
  row.denominatorInputs = writer.array(
      "int32_t", snake("kReads", loss.getSymName()), numberTexts(reads));
  if (FloatAttr guard = loss.getAtLeastAttr())
    row.atLeast = constantText(guard);
  if (FloatAttr guard = loss.getPlusAttr())
    row.plus = constantText(guard);
  return fieldsText(row);
}

FailureOr<std::string> writeLosses(TableWriter &writer) {
  SmallVector<std::string> table;
  for (auto loss : writer.program.getBody().getOps<rt::LossOp>()) {
    FailureOr<std::string> row = lossRow(writer, loss);
    if (failed(row))
      return failure();
    table.push_back(*row);
  }
  return writer.array<rows::LossInfo>("kLosses", table);
}

} // namespace dt::codegen
