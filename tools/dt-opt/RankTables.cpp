//===- RankTables.cpp - The runtime's tables of an rt.program ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/RankTables.h"

#include "codegen/common/CollectiveTable.h"
#include "codegen/common/KernelBody.h"
#include "codegen/common/Tables.h"

using namespace mlir;

namespace dt {

template <typename T> rt::Span<T> RankTables::keep(std::vector<T> rows) {
  auto kept = std::make_shared<std::vector<T>>(std::move(rows));
  memory.push_back(kept);
  return {kept->data(), kept->size()};
}

const char *RankTables::keep(StringRef text) {
  auto kept = std::make_shared<std::string>(text);
  memory.push_back(kept);
  return kept->c_str();
}

/// Nobody calls it: the tables say which functions are the same.
rt::TaskFn RankTables::makeFunction() {
  return reinterpret_cast<rt::TaskFn>(++functions);
}

rt::TensorInfo RankTables::tensorOf(Type type,
                                    const codegen::ModuleSymbols &symbols) {
  auto buffer = cast<rt::BufferType>(type);
  std::vector<rt::Extent> extents;
  for (const nn::DimExpr &dim : buffer.getShape()) {
    auto extent = symbols.extentOf(dim);
    extents.push_back(
        {extent.scale, int32_t(extent.symbol), extent.offset, extent.per});
  }
  rt::Span<rt::Extent> shape = keep(std::move(extents));
  return {"",
          codegen::dtypeOf(buffer.getElementType()).value_or(rt::DType::F32),
          int32_t(shape.size), shape.data};
}

rt::BufferInfo RankTables::bufferOf(rt::ModuleOp module,
                                    FlatSymbolRefAttr name) {
  rt::BufferInfo row{};
  auto decl = name ? module.lookupSymbol<rt::BufferDeclOp>(name.getAttr())
                   : rt::BufferDeclOp();
  if (decl)
    row.tensor = tensorOf(decl.getType(), codegen::symbolsOf(module));
  return row;
}

rt::Span<rt::CutInfo> RankTables::cutsOf(ArrayAttr cuts) {
  std::vector<rt::CutInfo> rows;
  for (auto cut : cuts ? cuts.getAsRange<dist::CutAttr>()
                       : ArrayAttr::get(program.getContext(), {})
                             .getAsRange<dist::CutAttr>())
    rows.push_back({int32_t(cut.getDim()), cut.getChunk(), cut.getOver(),
                    cut.getStride()});
  return keep(std::move(rows));
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

void RankTables::addEntries(rt::ModuleOp module, rt::ModuleInfo &row) {
  codegen::CollectiveCounter counter;
  for (auto entry : module.getBody().getOps<rt::EntryOp>()) {
    rt::TaskFn function = makeFunction();
    if (rt::TaskFn *column = codegen::functionOf(row, entry.getKind()))
      *column = function;
    else
      denominators[{row.name, entry.getCallee().str()}] = function;
    auto callee = SymbolTable::lookupNearestSymbolFrom<rt::FuncOp>(
        entry, entry.getCalleeAttr());
    for (auto &[exchange, amount] : counter.of(callee))
      collectives.push_back({function,
                             amount.kind,
                             amount.type,
                             std::get<2>(exchange),
                             std::get<3>(exchange),
                             amount.calls,
                             {},
                             amount.most,
                             amount.packed,
                             amount.beside});
  }
}

rt::ModuleInfo RankTables::moduleRow(rt::ModuleOp module) {
  rt::ModuleInfo row{};
  row.name = keep(module.getSymName());
  row.unit = keep(module.getUnitName());
  row.item = keep(module.getItem());
  row.stage = int32_t(module.getStage());
  row.wholeBatch = module.getWholeBatch();
  row.arenaBytes = module.getArena(), row.scratchBytes = module.getScratch();
  row.parameterBytes = module.getParameters();
  row.trainableBytes = module.getTrainable();
  row.tp = int32_t(module.getTp()), row.dp = int32_t(module.getDp());
  row.zero = int32_t(module.getZero()), row.sub = int32_t(module.getSub());
  row.span = int32_t(module.getSpan());
  if (auto speeds = module.getSpeeds())
    row.speeds = keep(std::vector<int32_t>(speeds->begin(), speeds->end()));
  row.ranks = keep(
      std::vector<int32_t>(module.getRanks().begin(), module.getRanks().end()));
  std::vector<rt::SymbolInfo> symbols;
  std::vector<rt::InputInfo> inputs;
  std::vector<rt::BufferInfo> outputs;
  for (Operation &op : module.getBody().getOps())
    if (auto symbol = dyn_cast<rt::SymbolOp>(op))
      symbols.push_back(
          {keep(symbol.getSymName()),
           symbol.getItem() ? keep(*symbol.getItem()) : nullptr,
           int64_t(symbol.getMax() * symbol.getMultiple()), /*cost=*/0,
           symbol.getMeasure() ? keep(*symbol.getMeasure()) : nullptr,
           int64_t(symbol.getLargest().value_or(1)), /*squareCost=*/0,
           int64_t(symbol.getMultiple())});
    else if (auto input = dyn_cast<rt::InputOp>(op))
      inputs.push_back({bufferOf(module, input.getBufferAttr()),
                        input.getFrom() ? modules.lookup(*input.getFrom()) : -1,
                        int32_t(input.getOutput())});
    else if (auto output = dyn_cast<rt::OutputOp>(op))
      outputs.push_back(bufferOf(module, output.getBufferAttr()));
  row.symbols = keep(std::move(symbols));
  row.inputs = keep(std::move(inputs));
  row.outputs = keep(std::move(outputs));
  addEntries(module, row);
  return row;
}

static double numberOf(std::optional<APFloat> value, double otherwise) {
  return value ? value->convertToDouble() : otherwise;
}

rt::ParameterInfo RankTables::parameterRow(rt::ParameterDeclOp decl,
                                           int32_t module) {
  rt::ParameterInfo row{};
  row.tensor = tensorOf(decl.getType(), {});
  row.module = module;
  row.offset = decl.getOffset(), row.gradient = decl.getGradientPlace();
  row.trainable = decl.getTrainable(), row.hasGradient = decl.getGradient();
  row.decay = decl.getDecay();
  row.lrFactor = numberOf(decl.getLrFactor(), 1);
  row.weightDecay = numberOf(decl.getWeightDecay(), -1);
  row.matrix = decl.getMatrix();
  row.routingRate = numberOf(decl.getRouting(), -1);
  row.gradientType =
      decl.getNarrowGradient() ? row.tensor.type : rt::DType::F32;
  if (auto layout = decl.getLayout()) {
    std::vector<Attribute> cuts(layout->getCuts().begin(),
                                layout->getCuts().end());
    row.cuts = cutsOf(ArrayAttr::get(program.getContext(), cuts));
  }
  row.partial = cutsOf(decl.getPartialAttr());
  if (auto tied = decl.getTiedAttr())
    if (auto owner = dyn_cast_or_null<rt::ParameterDeclOp>(
            SymbolTable::lookupSymbolIn(program, tied)))
      row.tied = int32_t(owner.getIndex());
  return row;
}

/// A row has all names that a module has for a parameter.
std::vector<rt::ParameterInfo> RankTables::parameterRows() {
  std::map<int64_t, rt::ParameterInfo> rows;
  for (auto module : program.getBody().getOps<rt::ModuleOp>())
    for (auto decl : module.getBody().getOps<rt::ParameterDeclOp>())
      rows.insert({int64_t(decl.getIndex()),
                   parameterRow(decl, modules.lookup(module.getSymName()))});
  std::vector<rt::ParameterInfo> table;
  for (auto &[index, row] : rows)
    table.push_back(row);
  return table;
}

/// What it keeps follows from these.
rt::OptimizerInfo RankTables::optimizerRow(rt::OptimizerOp optimizer) {
  rt::OptimizerInfo row{};
  DictionaryAttr fields = optimizer.getFields();
  auto kind = fields.getAs<StringAttr>("kind");
  if (auto known = kind ? rt::fromText<rt::OptimizerKind>(kind.getValue())
                        : std::nullopt)
    row.kind = *known;
  SmallVector<double> settings =
      dist::getAllSettings(row.kind, fields.getAs<DictionaryAttr>("settings"));
  row.settings = keep(std::vector<double>(settings.begin(), settings.end()));
  if (auto decay = fields.getAs<FloatAttr>("averageDecay"))
    row.averageDecay = decay.getValueAsDouble();
  return row;
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

rt::EdgeInfo RankTables::edgeRow(rt::EdgeOp edge) {
  auto module = [&](StringRef name) {
    return program.lookupSymbol<rt::ModuleOp>(name);
  };
  rt::EdgeInfo row{};
  row.from = modules.lookup(edge.getSource());
  row.fromOutput = int32_t(edge.getOutput());
  row.to = modules.lookup(edge.getTarget());
  row.toInput = int32_t(edge.getInput());
  row.gradient = bool(edge.getProducedAttr());
  row.produced = bufferOf(module(edge.getTarget()), edge.getProducedAttr());
  row.consumed = bufferOf(module(edge.getSource()), edge.getConsumedAttr());
  row.cut = edge.getCut();
  return row;
}

rt::LossInfo RankTables::lossRow(rt::LossOp loss) {
  rt::LossInfo row{};
  row.module = modules.lookup(loss.getModule());
  if (loss.getDenominator())
    row.denominator =
        denominators[{loss.getModule().str(), loss.getDenominator()->str()}];
  row.denominatorInputs = keep(std::vector<int32_t>(
      loss.getDenominatorInputs().begin(), loss.getDenominatorInputs().end()));
  return row;
}

rt::TaskRow RankTables::taskRow(rt::TaskOp task) {
  rt::TaskRow row{};
  row.kind = task.getKind();
  row.index = uint16_t(task.getEdge() ? *task.getEdge()
                       : task.getKind() == rt::TaskKind::Denominator
                           ? losses.lookup(*task.getSubject())
                           : modules.lookup(*task.getSubject()));
  row.microbatch = uint32_t(task.getMicrobatch());
  row.piece = int16_t(task.getPiece());
  row.peer = int32_t(task.getPeer()), row.gradient = task.getGradient();
  if (auto waits = task.getWaits())
    row.waits = keep(std::vector<int32_t>(waits->begin(), waits->end()));
  return row;
}

RankTables::RankTables(rt::ProgramOp program) : program(program) {
  for (auto module : program.getBody().getOps<rt::ModuleOp>())
    modules.insert({module.getSymName(), int32_t(modules.size())});
  for (auto loss : program.getBody().getOps<rt::LossOp>())
    losses.insert({loss.getSymName(), int32_t(losses.size())});
  std::vector<rt::ModuleInfo> moduleRows;
  for (auto module : program.getBody().getOps<rt::ModuleOp>())
    moduleRows.push_back(moduleRow(module));
  std::vector<rt::EdgeInfo> edgeRows;
  for (auto edge : program.getBody().getOps<rt::EdgeOp>())
    edgeRows.push_back(edgeRow(edge));
  std::vector<rt::LossInfo> lossRows;
  for (auto loss : program.getBody().getOps<rt::LossOp>())
    lossRows.push_back(lossRow(loss));
  std::vector<rt::RankInfo> rankRows(program.getRanks().size());
  for (auto ranks : program.getBody().getOps<rt::RankOp>()) {
    std::vector<rt::TaskRow> rows;
    for (auto task : ranks.getBody().getOps<rt::TaskOp>())
      rows.push_back(taskRow(task));
    rt::RankInfo info = {keep(std::move(rows))};
    for (int64_t rank : ranks.getRanks())
      rankRows[rank] = info;
  }
  info.parameters = keep(parameterRows());
  info.modules = keep(std::move(moduleRows));
  info.edges = keep(std::move(edgeRows));
  info.losses = keep(std::move(lossRows));
  info.ranks = keep(std::move(rankRows));
  info.collectives = keep(std::move(collectives));
  for (auto optimizer : program.getBody().getOps<rt::OptimizerOp>())
    info.optimizer = optimizerRow(optimizer);
  info.globalBatch = program.getGlobalBatch();
  info.microBatch = program.getMicroBatch();
  info.bucketBytes = size_t(program.getBucket());
  info.narrowSums = program.getNarrowSums();
  info.parts = int64_t(program.getParts().value_or(0));
  info.partTokens = int64_t(program.getPartTokens().value_or(0));
}

} // namespace dt
