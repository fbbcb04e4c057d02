//===- ProgramTable.cpp - rt.program as kProgram --------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Tables are aggregates of runtime/Program.h with the name of every field, as
// opaque initial values of emitc.global: EmitC has no attribute for structs.
//
//===----------------------------------------------------------------------===//

#include "codegen/common/ProgramTable.h"
#include "codegen/common/CollectiveTable.h"
#include "dialects/dist/DistMarks.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/xxhash.h"

#include <map>

using namespace mlir;

namespace dt::codegen {

namespace {

class TableEmitter {
public:
  TableEmitter(rt::ProgramOp program, ArrayRef<ModuleNames> names,
               OpBuilder &builder)
      : program(program), names(names), b(builder), loc(program.getLoc()) {}

  LogicalResult emit();

private:
  /// `static const type name[] = {rows}`; gives what refers to it in a Span.
  std::string array(StringRef type, StringRef name, ArrayRef<std::string> rows);
  void global(StringRef type, StringRef name, const std::string &value,
              bool isStatic);
  std::string dtype(Type element);
  std::string tensorInfo(StringRef label, rt::BufferType type,
                         ArrayRef<std::string> symbols);
  std::string bufferInfo(StringRef label, rt::BufferDeclOp decl,
                         ArrayRef<std::string> symbols);
  LogicalResult parameters();
  LogicalResult module(rt::ModuleOp module, const ModuleNames &name,
                       std::string &row);
  LogicalResult loss(rt::LossOp loss, std::string &row);
  FailureOr<std::string> optimizer();
  int64_t moduleIndex(StringRef name);
  LogicalResult edge(rt::EdgeOp edge, std::string &row);
  std::string rankRows(rt::RankOp rank);
  std::string numbers(StringRef name, ArrayRef<int64_t> values);
  std::string cuts(StringRef name, ArrayRef<dist::CutAttr> values);
  void collectIndices();
  void line(StringRef text) {
    emitc::VerbatimOp::create(b, loc, b.getStringAttr(text), ValueRange());
  }

  rt::ProgramOp program;
  ArrayRef<ModuleNames> names;
  OpBuilder &b;
  Location loc;
  NameScope scope;
  std::string hashed; ///< text of all tables: what the plan hash is over
  llvm::StringMap<std::string> shapes, cutTables,
      rowTables; ///< contents -> array
  llvm::StringMap<int64_t> modules, losses;
  llvm::StringMap<int64_t> parameterRows; ///< "module.symbol" in IR -> row
};

std::string TableEmitter::array(StringRef type, StringRef name,
                                ArrayRef<std::string> rows) {
  if (rows.empty())
    return "{}";
  std::string unique = scope.unique(name);
  std::string value = "{\n    " + llvm::join(rows, ",\n    ") + "}";
  hashed += unique + value;
  auto element = emitc::OpaqueType::get(b.getContext(), type);
  emitc::GlobalOp::create(
      b, loc, b.getStringAttr(unique),
      TypeAttr::get(emitc::ArrayType::get({int64_t(rows.size())}, element)),
      emitc::OpaqueAttr::get(b.getContext(), value), UnitAttr(),
      b.getUnitAttr(), b.getUnitAttr());
  return unique;
}

void TableEmitter::global(StringRef type, StringRef name,
                          const std::string &value, bool isStatic) {
  emitc::GlobalOp::create(
      b, loc, b.getStringAttr(name),
      TypeAttr::get(emitc::OpaqueType::get(b.getContext(), type)),
      emitc::OpaqueAttr::get(b.getContext(), value), UnitAttr(),
      isStatic ? b.getUnitAttr() : UnitAttr(), b.getUnitAttr());
}

std::string TableEmitter::dtype(Type element) { return dtypeText(element); }

std::string TableEmitter::tensorInfo(StringRef label, rt::BufferType type,
                                     ArrayRef<std::string> symbols) {
  SmallVector<std::string> extents;
  for (const nn::DimExpr &dim : type.getShape()) {
    auto affine = dim.asAffine().value_or(nn::DimExpr::Affine{0, "", -1});
    auto at = llvm::find(symbols, affine.symbol) - symbols.begin();
    int64_t symbol = affine.symbol.empty() ? -1 : at;
    extents.push_back(
        "{" + std::to_string(affine.symbol.empty() ? 0 : affine.scale) + ", " +
        std::to_string(symbol) + ", " + std::to_string(affine.offset) + "}");
  }
  std::string head = "{" + quoted(label) + ", " + dtype(type.getElementType()) +
                     ", " + std::to_string(extents.size());
  if (extents.empty())
    return head + ", nullptr}";
  std::string &shape = shapes[llvm::join(extents, ",")];
  if (shape.empty())
    shape = array("dt::rt::Extent", "kShape " + shapeText(type.getShape()),
                  extents);
  return head + ", " + shape + "}";
}

std::string TableEmitter::bufferInfo(StringRef label, rt::BufferDeclOp decl,
                                     ArrayRef<std::string> symbols) {
  std::string flags =
      decl.getCut() ? (decl.getReceived() ? ", true, true" : ", false, true")
                    : (decl.getReceived() ? ", true" : "");
  return "{" +
         tensorInfo(label, cast<rt::BufferType>(decl.getType()), symbols) +
         ", " + std::to_string(decl.getOffset()) + ", " +
         std::to_string(decl.getStride()) + flags + "}";
}

static SmallVector<std::string> symbolsOf(rt::ModuleOp module) {
  SmallVector<std::string> result;
  for (auto symbol : module.getBody().getOps<rt::SymbolOp>())
    result.push_back(symbol.getSymName().str());
  return result;
}

std::string TableEmitter::numbers(StringRef name, ArrayRef<int64_t> values) {
  return array("int64_t", name, llvm::map_to_vector(values, [](int64_t v) {
                 return std::to_string(v);
               }));
}

std::string TableEmitter::cuts(StringRef name, ArrayRef<dist::CutAttr> values) {
  SmallVector<std::string> rows;
  for (dist::CutAttr cut : values)
    rows.push_back("{" + std::to_string(cut.getDim()) + ", " +
                   std::to_string(cut.getChunk()) + ", " +
                   std::to_string(cut.getOver()) + ", " +
                   std::to_string(cut.getStride()) + "}");
  if (rows.empty())
    return "{}";
  std::string &table = cutTables[llvm::join(rows, ",")];
  if (table.empty())
    table = array("dt::rt::CutInfo", name, rows);
  return table;
}

static std::string number(double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.17g", value);
  return text;
}

LogicalResult TableEmitter::parameters() {
  auto rows = collectParameters(program);
  if (failed(rows))
    return failure();
  for (auto module : program.getBody().getOps<rt::ModuleOp>())
    for (auto decl : module.getBody().getOps<rt::ParameterDeclOp>())
      parameterRows[(module.getSymName() + "." + decl.getSymName()).str()] =
          decl.getIndex();
  auto flag = [](bool value) { return value ? "true" : "false"; };
  SmallVector<std::string> table;
  for (ParameterRow &row : *rows) {
    rt::ParameterDeclOp decl = row.decl;
    SmallVector<std::string> places;
    for (auto &[file, initializer] : row.onnx)
      places.push_back("{" + quoted(file) + ", " + quoted(initializer) + "}");
    std::string onnx = array("dt::rt::OnnxRef", "kOnnx_" + row.name, places);
    std::string text =
        "{.tensor = " +
        tensorInfo(row.name, cast<rt::BufferType>(decl.getType()), {}) +
        ", .module = " + std::to_string(row.module) +
        ", .offset = " + std::to_string(decl.getOffset()) +
        ", .trainable = " + flag(decl.getTrainable()) +
        ", .hasGradient = " + flag(decl.getGradient()) +
        ", .decay = " + flag(decl.getDecay()) +
        ", .init = " + (decl.getInit() ? quoted(*decl.getInit()) : "nullptr") +
        ", .onnx = " + onnx;
    if (auto tied = decl.getTiedAttr())
      text += ", .tied = " + std::to_string(parameterRows.lookup(
                                 (tied.getRootReference().getValue() + "." +
                                  tied.getLeafReference().getValue())
                                     .str()));
    if (auto layout = decl.getLayout()) {
      text += ", .whole = " + numbers("kWhole_" + row.name, layout->getShape());
      if (!layout->getUnpadded().empty())
        text += ", .unpadded = " +
                numbers("kUnpadded_" + row.name, layout->getUnpadded());
      text += ", .cuts = " + cuts("kCuts_" + row.name, layout->getCuts());
    }
    if (auto partial = decl.getPartialAttr(); partial && !partial.empty())
      text += ", .partial = " +
              cuts("kPartial_" + row.name,
                   llvm::to_vector(partial.getAsRange<dist::CutAttr>()));
    if (auto factor = decl.getLrFactor())
      text += ", .lrFactor = " + number(factor->convertToDouble());
    if (auto decay = decl.getWeightDecay())
      text += ", .weightDecay = " + number(decay->convertToDouble());
    table.push_back(text + "}");
  }
  array("dt::rt::ParameterInfo", "kParameters", table);
  return success();
}

void TableEmitter::collectIndices() {
  for (auto module : program.getBody().getOps<rt::ModuleOp>())
    modules.insert({module.getSymName(), int64_t(modules.size())});
  for (auto loss : program.getBody().getOps<rt::LossOp>())
    losses.insert({loss.getSymName(), int64_t(losses.size())});
}

int64_t TableEmitter::moduleIndex(StringRef name) {
  auto it = modules.find(name);
  return it == modules.end() ? -1 : it->second;
}

LogicalResult TableEmitter::module(rt::ModuleOp module, const ModuleNames &name,
                                   std::string &row) {
  SmallVector<std::string> symbols = symbolsOf(module), symbolRows, inputs,
                           outputs;
  for (auto symbol : module.getBody().getOps<rt::SymbolOp>())
    symbolRows.push_back(
        "{" + quoted(symbol.getSymName()) + ", " +
        (symbol.getItem() ? quoted(*symbol.getItem()) : "nullptr") + ", " +
        std::to_string(symbol.getMax()) +
        (symbol.getCost().isZero()
             ? ""
             : ", " + number(symbol.getCost().convertToDouble())) +
        "}");
  SymbolTable table(module);
  auto buffer = [&](Operation *op, FlatSymbolRefAttr name) {
    auto decl = table.lookup<rt::BufferDeclOp>(name.getValue());
    if (!decl)
      op->emitOpError() << "names no rt.buffer_decl: " << name;
    return decl;
  };
  for (auto input : module.getBody().getOps<rt::InputOp>()) {
    auto decl = buffer(input, input.getBufferAttr());
    if (!decl)
      return failure();
    int64_t from = input.getFrom() ? moduleIndex(*input.getFrom()) : -1;
    if (input.getFrom() && from < 0)
      return input.emitOpError()
             << "comes from no rt.module: " << *input.getFrom();
    inputs.push_back(
        "{.buffer = " + bufferInfo(input.getName(), decl, symbols) +
        ", .fromModule = " + std::to_string(from) +
        ", .fromOutput = " + std::to_string(int64_t(input.getOutput())) + "}");
  }
  for (auto output : module.getBody().getOps<rt::OutputOp>()) {
    auto decl = buffer(output, output.getBufferAttr());
    if (!decl)
      return failure();
    outputs.push_back(bufferInfo(output.getName(), decl, symbols));
  }
  std::map<rt::StageKind, std::string> functions;
  for (auto stage : module.getBody().getOps<rt::StageOp>())
    functions[stage.getKind()] = name.stages.lookup(
        (rt::stringifyStageKind(stage.getKind()) + "@" + stage.getCallee())
            .str());
  auto function = [&](rt::StageKind kind) {
    auto it = functions.find(kind);
    return it == functions.end() ? std::string("nullptr") : it->second;
  };
  auto field = [](StringRef name, uint64_t value) {
    return (", ." + name + " = " + Twine(int64_t(value))).str();
  };
  row =
      "{.name = " + quoted(module.getSymName()) +
      ", .origin = " + quoted(module.getExternalName()) +
      ", .unit = " + quoted(module.getUnitName()) +
      field("stage", module.getStage()) +
      ", .item = " + quoted(module.getItem()) + ", .symbols = " +
      array("dt::rt::SymbolInfo", "kSymbols_" + name.module, symbolRows) +
      ", .inputs = " +
      array("dt::rt::InputInfo", "kInputs_" + name.module, inputs) +
      ", .outputs = " +
      array("dt::rt::BufferInfo", "kOutputs_" + name.module, outputs) +
      ", .forward = " + function(rt::StageKind::forward) +
      ", .backward = " + function(rt::StageKind::backward) +
      ", .backwardInput = " + function(rt::StageKind::backward_input) +
      ", .backwardWeight = " + function(rt::StageKind::backward_weight) +
      ", .wholeBatch = " + (module.getWholeBatch() ? "true" : "false") +
      field("arenaBytes", module.getArena()) +
      field("scratchBytes", module.getScratch()) +
      field("parameterBytes", module.getParameters()) +
      field("trainableBytes", module.getTrainable()) +
      field("tp", module.getTp()) + field("dp", module.getDp()) +
      ", .ranks = " +
      array("int32_t", "kRanks_" + name.module,
            llvm::map_to_vector(module.getRanks(),
                                [](int64_t r) { return std::to_string(r); })) +
      field("zero", module.getZero()) +
      (module.getSub() > 1 ? field("sub", module.getSub()) : std::string()) +
      "}";
  return success();
}

LogicalResult TableEmitter::edge(rt::EdgeOp edge, std::string &row) {
  auto buffer = [&](StringRef module, FlatSymbolRefAttr name) -> std::string {
    if (!name)
      return "{}";
    auto op = program.lookupSymbol<rt::ModuleOp>(module);
    auto decl = op.lookupSymbol<rt::BufferDeclOp>(name.getAttr());
    return bufferInfo(decl.getSymName(), decl, symbolsOf(op));
  };
  bool gradient = bool(edge.getProducedAttr());
  row = ("{.from = " + Twine(moduleIndex(edge.getSource())) +
         ", .fromOutput = " + Twine(edge.getOutput()) +
         ", .to = " + Twine(moduleIndex(edge.getTarget())) +
         ", .toInput = " + Twine(edge.getInput()) +
         ", .gradient = " + (gradient ? "true" : "false") + ", .produced = ")
            .str() +
        buffer(edge.getTarget(), edge.getProducedAttr()) +
        ", .consumed = " + buffer(edge.getSource(), edge.getConsumedAttr()) +
        "}";
  return success();
}

LogicalResult TableEmitter::loss(rt::LossOp loss, std::string &row) {
  int64_t index = moduleIndex(loss.getModule());
  if (index < 0)
    return loss.emitOpError() << "is of no rt.module: " << loss.getModule();
  rt::ModuleOp module =
      *std::next(program.getBody().getOps<rt::ModuleOp>().begin(), index);
  SymbolTable table(module);
  SmallVector<std::string> symbols = symbolsOf(module);
  auto numerator = table.lookup<rt::BufferDeclOp>(loss.getNumerator());
  if (!numerator)
    return loss.emitOpError()
           << "names no rt.buffer_decl of its module: " << loss.getNumerator();
  std::string denominator = "nullptr", out = "{}";
  if (loss.getDenominator()) {
    denominator = names[index].stages.lookup(
        ("denominator@" + *loss.getDenominator()).str());
    auto decl = loss.getDenominatorOut()
                    ? table.lookup<rt::BufferDeclOp>(*loss.getDenominatorOut())
                    : rt::BufferDeclOp();
    if (denominator.empty() || !decl)
      return loss.emitOpError(
          "needs an rt.stage and an rt.buffer_decl for its denominator");
    out = bufferInfo(loss.getSymName().str() + ".denominator", decl, symbols);
  }
  SmallVector<std::string> reads;
  for (int32_t input : loss.getDenominatorInputs())
    reads.push_back(std::to_string(input));
  row = "{.name = " + quoted(loss.getSymName()) + ", .weight = " +
        constantText(b.getF32FloatAttr(loss.getWeight().convertToDouble())) +
        ", .module = " + std::to_string(index) +
        ", .numerator = " + bufferInfo(loss.getSymName(), numerator, symbols) +
        ", .denominator = " + denominator + ", .denominatorOut = " + out +
        ", .denominatorInputs = " +
        array("int32_t", "kReads_" + loss.getSymName().str(), reads);
  if (auto guard = loss->getAttrOfType<FloatAttr>(dist::kAtLeastAttr))
    row += ", .atLeast = " + constantText(guard);
  if (auto guard = loss->getAttrOfType<FloatAttr>(dist::kPlusAttr))
    row += ", .plus = " + constantText(guard);
  row += "}";
  return success();
}

FailureOr<std::string> TableEmitter::optimizer() {
  auto optimizers = program.getBody().getOps<rt::OptimizerOp>();
  if (optimizers.empty())
    return program.emitOpError("has no rt.optimizer"), failure();
  rt::OptimizerOp op = *optimizers.begin();
  SmallVector<std::string> fields;
  // The order of OptimizerInfo: designated initialisers must keep it.
  for (StringRef name : {"kind", "lr", "beta1", "beta2", "eps", "momentum",
                         "weightDecay", "clipNorm", "warmupSteps", "schedule",
                         "totalSteps", "decayFrom", "finalFraction"}) {
    Attribute value = op.getFields().get(name);
    if (!value)
      continue;
    std::string text;
    if (auto word = dyn_cast<StringAttr>(value)) {
      StringRef w = word.getValue();
      text = llvm::StringSwitch<StringRef>(w)
                 .Case("adamw", "dt::rt::OptimizerKind::AdamW")
                 .Case("sgd", "dt::rt::OptimizerKind::SGD")
                 .Case("constant", "dt::rt::ScheduleKind::Constant")
                 .Case("linear", "dt::rt::ScheduleKind::Linear")
                 .Case("cosine", "dt::rt::ScheduleKind::Cosine")
                 .Default("")
                 .str();
      if (text.empty())
        return op.emitOpError()
                   << "field '" << name << "' cannot be '" << w << "'",
               failure();
    } else if (auto real = dyn_cast<FloatAttr>(value)) {
      text = number(real.getValueAsDouble());
    } else if (auto integer = dyn_cast<IntegerAttr>(value)) {
      text = std::to_string(integer.getInt());
    }
    fields.push_back(("." + name + " = " + text).str());
  }
  for (NamedAttribute field : op.getFields())
    if (llvm::none_of(fields, [&](StringRef text) {
          return text.starts_with(
              ("." + field.getName().getValue() + " ").str());
        }))
      return op.emitOpError() << "has an unknown field '"
                              << field.getName().getValue() << "'",
             failure();
  return "{" + llvm::join(fields, ", ") + "}";
}

/// The table of a rank's rows; ranks with equal rows share it.
std::string TableEmitter::rankRows(rt::RankOp rank) {
  static constexpr StringLiteral kinds[] = {
      "Denominator", "Forward", "Backward", "BackwardInput", "BackwardWeight",
      "Receive",     "Send",    "Copy",     "Reduce"};
  SmallVector<std::string> rows;
  for (auto task : rank.getBody().getOps<rt::TaskOp>()) {
    int64_t index = task.getEdge() ? int64_t(*task.getEdge())
                    : task.getKind() == rt::TaskKind::denominator
                        ? losses.lookup(*task.getSubject())
                        : moduleIndex(*task.getSubject());
    std::string row =
        ("{dt::rt::TaskKind::" + kinds[unsigned(task.getKind())] + ", " +
         Twine(index) + ", " + Twine(task.getMicrobatch()) + ", " +
         Twine(task.getSlot()))
            .str();
    bool piece = task.getPiece() != 0;
    if (task.getReceived() || task.getEdge() || piece)
      row += ", " + std::to_string(task.getReceived());
    if (task.getEdge() || piece)
      row += ", " + std::to_string(task.getPeer());
    if (task.getGradient() || piece)
      row += task.getGradient() ? ", true" : ", false";
    if (piece)
      row += ", " + std::to_string(task.getPiece());
    rows.push_back(row + "}");
  }
  if (rows.empty())
    return "{}";
  std::string &table = rowTables[llvm::join(rows, ",")];
  if (table.empty())
    table = array("dt::rt::TaskRow", "kRows" + std::to_string(rank.getRank()),
                  rows);
  return table;
}

LogicalResult TableEmitter::emit() {
  scope.reserve("kProgram");
  collectIndices();
  if (failed(parameters()))
    return failure();
  SmallVector<std::string> modules, edges, losses, ranks;
  for (auto [op, name] :
       llvm::zip(program.getBody().getOps<rt::ModuleOp>(), names)) {
    modules.emplace_back();
    if (failed(module(op, name, modules.back())))
      return failure();
  }
  array("dt::rt::ModuleInfo", "kModules", modules);
  for (auto op : program.getBody().getOps<rt::EdgeOp>()) {
    edges.emplace_back();
    if (failed(edge(op, edges.back())))
      return failure();
  }
  std::string edgeTable = array("dt::rt::EdgeInfo", "kEdges", edges);
  for (auto op : program.getBody().getOps<rt::LossOp>()) {
    losses.emplace_back();
    if (failed(loss(op, losses.back())))
      return failure();
  }
  std::string lossTable = array("dt::rt::LossInfo", "kLosses", losses);
  for (auto op : program.getBody().getOps<rt::RankOp>())
    ranks.push_back("{" + rankRows(op) + "}");
  std::string rankTable = array("dt::rt::RankInfo", "kRanks", ranks);
  auto exchanges = collectiveRows(
      program, names,
      [&](StringRef type, StringRef name, ArrayRef<std::string> rows) {
        return array(type, name, rows);
      });
  if (failed(exchanges))
    return failure();
  std::string collectiveTable =
      array("dt::rt::CollectiveInfo", "kCollectives", *exchanges);
  FailureOr<std::string> rule = optimizer();
  if (failed(rule))
    return failure();
  auto parameterTable = program.getBody().walk(
      [](rt::ParameterDeclOp) { return WalkResult::interrupt(); });
  std::string reorder = program.getReorder().str();
  reorder[0] = llvm::toUpper(reorder[0]);
  std::string rest =
      std::string(",\n    .parameters = ") +
      (parameterTable.wasInterrupted() ? "kParameters" : "{}") +
      ",\n    .modules = kModules" + ",\n    .edges = " + edgeTable +
      ",\n    .losses = " + lossTable + ",\n    .ranks = " + rankTable +
      ",\n    .pace = " + std::to_string(moduleIndex(program.getPace())) +
      ",\n    .schedule = " + quoted(program.getSchedule()) +
      ",\n    .optimizer = " + *rule +
      ",\n    .globalBatch = " + std::to_string(program.getGlobalBatch()) +
      ",\n    .microBatch = " + std::to_string(program.getMicroBatch()) +
      ",\n    .seed = " + std::to_string(uint64_t(program.getSeed())) + "u" +
      ",\n    .reorder = dt::rt::Reorder::" + reorder +
      ",\n    .bucketBytes = " + std::to_string(program.getBucket()) +
      (exchanges->empty() ? "" : ",\n    .collectives = " + collectiveTable) +
      "}";
  std::string value = "{\n    .name = " + quoted(program.getSymName()) +
                      ",\n    .planHash = 0x" +
                      llvm::utohexstr(llvm::xxh3_64bits(hashed + rest)) + "u" +
                      rest;
  global("dt::rt::ProgramInfo", "kProgram", value, /*isStatic=*/false);
  return success();
}

} // namespace

LogicalResult emitProgramTable(rt::ProgramOp program,
                               ArrayRef<ModuleNames> modules, OpBuilder &b) {
  OpBuilder::InsertionGuard guard(b);
  Location loc = program.getLoc();
  auto file = emitc::FileOp::create(b, loc, "program.cpp");
  b.setInsertionPointToStart(&file.getBodyRegion().front());
  auto line = [&](const Twine &text) {
    emitc::VerbatimOp::create(b, loc, b.getStringAttr(text), ValueRange());
  };
  line("// Tables of the program: parameters, modules, edges, losses, what "
       "every rank does in a step.");
  line("// Generated by DistTrain; see README.md in this directory.");
  emitc::IncludeOp::create(b, loc, b.getStringAttr("runtime/Program.h"));
  line("");
  for (const ModuleNames &module : modules) {
    SmallVector<StringRef> functions;
    for (auto &stage : module.stages)
      functions.push_back(stage.getValue());
    llvm::sort(functions);
    for (StringRef function : functions)
      line("void " + function + "(const dt::rt::TaskContext &task);");
  }
  line("");
  return TableEmitter(program, modules, b).emit();
}

} // namespace dt::codegen
