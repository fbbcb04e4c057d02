//===- ProgramTable.cpp - rt.program as kProgram ---------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Tables are aggregates of runtime/Program.h with the name of every field, as opaque
// initial values of emitc.global: EmitC has no attribute for structs.
//
//===----------------------------------------------------------------------===//

#include "codegen/common/ProgramTable.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;

namespace dt::codegen {

std::string onnxFileName(StringRef file) {
  SmallVector<std::string> parts;
  for (auto it = llvm::sys::path::begin(file), end = llvm::sys::path::end(file); it != end; ++it)
    if (*it != ".." && *it != "." && *it != "/")
      parts.push_back(it->str());
  return llvm::join(parts, "/");
}

FailureOr<std::vector<ParameterRow>> collectParameters(rt::ProgramOp program) {
  std::vector<ParameterRow> rows;
  for (auto module : program.getBody().getOps<rt::ModuleOp>())
    for (auto decl : module.getBody().getOps<rt::ParameterDeclOp>()) {
      if (decl.getIndex() < 0 || decl.getIndex() > (1 << 24))
        return decl.emitOpError("has an index out of range"), failure();
      if (size_t(decl.getIndex()) >= rows.size())
        rows.resize(decl.getIndex() + 1);
      ParameterRow &row = rows[decl.getIndex()];
      if (row.decl && (row.decl.getOffset() != decl.getOffset() || row.decl.getType() != decl.getType())) {
        InFlightDiagnostic diagnostic = decl.emitOpError("is tied to a parameter of another offset or type");
        diagnostic.attachNote(row.decl.getLoc()) << "this one";
        return failure();
      }
      if (!row.decl) {
        row.decl = decl;
        row.name = (module.getExternalName() + "." + decl.getSymName()).str();
        row.fromFile = !decl.getInit();
      }
      for (auto attribute : decl.getOnnx()) {
        std::pair<std::string, std::string> place;
        if (auto onnx = dyn_cast<nn::OnnxAttr>(attribute))
          place = {onnxFileName(onnx.getFile()), onnx.getInitializer().str()};
        else if (auto init = dyn_cast<nn::InitAttr>(attribute))
          place = {onnxFileName(init.getFile()), init.getInitializer().str()};
        if (!place.second.empty() && !llvm::is_contained(row.onnx, place))
          row.onnx.push_back(place);
      }
    }
  for (auto [i, row] : llvm::enumerate(rows))
    if (!row.decl)
      return program.emitOpError() << "has no parameter with index " << i, failure();
  return rows;
}

namespace {

class TableEmitter {
public:
  TableEmitter(rt::ProgramOp program, ArrayRef<ModuleNames> names, OpBuilder &builder)
      : program(program), names(names), b(builder), loc(program.getLoc()) {}

  LogicalResult emit();

private:
  /// `static const type name[] = {rows}`; gives what refers to it in a Span.
  std::string array(StringRef type, StringRef name, ArrayRef<std::string> rows);
  void global(StringRef type, StringRef name, const std::string &value, bool isStatic);
  std::string dtype(Type element);
  std::string tensorInfo(StringRef label, rt::BufferType type, ArrayRef<std::string> symbols);
  std::string bufferInfo(StringRef label, rt::BufferDeclOp decl, ArrayRef<std::string> symbols);
  LogicalResult parameters();
  LogicalResult module(rt::ModuleOp module, const ModuleNames &name, std::string &row);
  LogicalResult loss(rt::LossOp loss, std::string &row);
  FailureOr<std::string> optimizer();
  int64_t moduleIndex(StringRef name);
  LogicalResult tasks();
  void line(StringRef text) { emitc::VerbatimOp::create(b, loc, b.getStringAttr(text), ValueRange()); }

  rt::ProgramOp program;
  ArrayRef<ModuleNames> names;
  OpBuilder &b;
  Location loc;
  NameScope scope;
  std::string hashed; ///< text of all tables: what the plan hash is over
  llvm::StringMap<std::string> shapes; ///< extents -> array
};

std::string TableEmitter::array(StringRef type, StringRef name, ArrayRef<std::string> rows) {
  if (rows.empty())
    return "{}";
  std::string unique = scope.unique(name);
  std::string value = "{\n    " + llvm::join(rows, ",\n    ") + "}";
  hashed += unique + value;
  auto element = emitc::OpaqueType::get(b.getContext(), type);
  emitc::GlobalOp::create(b, loc, b.getStringAttr(unique),
                          TypeAttr::get(emitc::ArrayType::get({int64_t(rows.size())}, element)),
                          emitc::OpaqueAttr::get(b.getContext(), value), UnitAttr(), b.getUnitAttr(), b.getUnitAttr());
  return unique;
}

void TableEmitter::global(StringRef type, StringRef name, const std::string &value, bool isStatic) {
  emitc::GlobalOp::create(b, loc, b.getStringAttr(name), TypeAttr::get(emitc::OpaqueType::get(b.getContext(), type)),
                          emitc::OpaqueAttr::get(b.getContext(), value), UnitAttr(),
                          isStatic ? b.getUnitAttr() : UnitAttr(), b.getUnitAttr());
}

std::string TableEmitter::dtype(Type element) { return dtypeText(element); }

std::string TableEmitter::tensorInfo(StringRef label, rt::BufferType type, ArrayRef<std::string> symbols) {
  SmallVector<std::string> extents;
  for (const nn::DimExpr &dim : type.getShape()) {
    auto affine = dim.asAffine().value_or(nn::DimExpr::Affine{0, "", -1});
    auto at = llvm::find(symbols, affine.symbol) - symbols.begin();
    int64_t symbol = affine.symbol.empty() ? -1 : at;
    extents.push_back("{" + std::to_string(affine.symbol.empty() ? 0 : affine.scale) + ", " + std::to_string(symbol) +
                      ", " + std::to_string(affine.offset) + "}");
  }
  std::string head = "{" + quoted(label) + ", " + dtype(type.getElementType()) + ", " + std::to_string(extents.size());
  if (extents.empty())
    return head + ", nullptr}";
  std::string &shape = shapes[llvm::join(extents, ",")];
  if (shape.empty())
    shape = array("dt::rt::Extent", "kShape " + shapeText(type.getShape()), extents);
  return head + ", " + shape + "}";
}

std::string TableEmitter::bufferInfo(StringRef label, rt::BufferDeclOp decl, ArrayRef<std::string> symbols) {
  int64_t rows = -1;
  if (decl.getRows())
    rows = llvm::find(symbols, *decl.getRows()) - symbols.begin();
  return "{" + tensorInfo(label, cast<rt::BufferType>(decl.getType()), symbols) + ", " +
         std::to_string(decl.getOffset()) + ", " + std::to_string(decl.getStride()) + ", " + std::to_string(rows) + "}";
}

static SmallVector<std::string> symbolsOf(rt::ModuleOp module) {
  SmallVector<std::string> result;
  for (auto symbol : module.getBody().getOps<rt::SymbolOp>())
    result.push_back(symbol.getSymName().str());
  return result;
}

LogicalResult TableEmitter::parameters() {
  auto rows = collectParameters(program);
  if (failed(rows))
    return failure();
  auto flag = [](bool value) { return value ? "true" : "false"; };
  SmallVector<std::string> table;
  for (ParameterRow &row : *rows) {
    rt::ParameterDeclOp decl = row.decl;
    SmallVector<std::string> places;
    for (auto &[file, initializer] : row.onnx)
      places.push_back("{" + quoted(file) + ", " + quoted(initializer) + "}");
    std::string onnx = array("dt::rt::OnnxRef", "kOnnx_" + row.name, places);
    table.push_back("{.tensor = " + tensorInfo(row.name, cast<rt::BufferType>(decl.getType()), {}) + ", .offset = " +
                    std::to_string(decl.getOffset()) + ", .trainable = " + flag(decl.getTrainable()) +
                    ", .hasGradient = " + flag(decl.getGradient()) + ", .decay = " + flag(decl.getDecay()) +
                    ", .init = " + (decl.getInit() ? quoted(*decl.getInit()) : "nullptr") + ", .onnx = " + onnx + "}");
  }
  array("dt::rt::ParameterInfo", "kParameters", table);
  return success();
}

int64_t TableEmitter::moduleIndex(StringRef name) {
  int64_t index = 0;
  for (auto module : program.getBody().getOps<rt::ModuleOp>()) {
    if (module.getSymName() == name)
      return index;
    ++index;
  }
  return -1;
}

LogicalResult TableEmitter::module(rt::ModuleOp module, const ModuleNames &name, std::string &row) {
  SmallVector<std::string> symbols = symbolsOf(module), symbolRows, inputs, outputs;
  for (auto symbol : module.getBody().getOps<rt::SymbolOp>())
    symbolRows.push_back("{" + quoted(symbol.getSymName()) + ", " +
                         (symbol.getItem() ? quoted(*symbol.getItem()) : "nullptr") + ", " +
                         std::to_string(symbol.getMax()) + "}");
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
      return input.emitOpError() << "comes from no rt.module: " << *input.getFrom();
    inputs.push_back("{.buffer = " + bufferInfo(input.getName(), decl, symbols) + ", .fromModule = " +
                     std::to_string(from) + ", .fromOutput = " + std::to_string(int64_t(input.getOutput())) + "}");
  }
  for (auto output : module.getBody().getOps<rt::OutputOp>()) {
    auto decl = buffer(output, output.getBufferAttr());
    if (!decl)
      return failure();
    outputs.push_back(bufferInfo(output.getName(), decl, symbols));
  }
  std::string forward = "nullptr", backward = "nullptr";
  for (auto stage : module.getBody().getOps<rt::StageOp>()) {
    std::string function = name.stages.lookup((rt::stringifyStageKind(stage.getKind()) + "@" + stage.getCallee()).str());
    if (stage.getKind() == rt::StageKind::forward)
      forward = function;
    else if (stage.getKind() == rt::StageKind::backward)
      backward = function;
  }
  row = "{.name = " + quoted(module.getSymName()) + ", .origin = " + quoted(module.getExternalName()) +
        ", .symbols = " + array("dt::rt::SymbolInfo", "kSymbols_" + name.module, symbolRows) +
        ", .inputs = " + array("dt::rt::InputInfo", "kInputs_" + name.module, inputs) +
        ", .outputs = " + array("dt::rt::BufferInfo", "kOutputs_" + name.module, outputs) + ", .forward = " + forward +
        ", .backward = " + backward + ", .wholeBatch = " + (module.getWholeBatch() ? "true" : "false") + "}";
  return success();
}

static std::string number(double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.17g", value);
  return text;
}

LogicalResult TableEmitter::loss(rt::LossOp loss, std::string &row) {
  int64_t index = moduleIndex(loss.getModule());
  if (index < 0)
    return loss.emitOpError() << "is of no rt.module: " << loss.getModule();
  rt::ModuleOp module = *std::next(program.getBody().getOps<rt::ModuleOp>().begin(), index);
  SymbolTable table(module);
  SmallVector<std::string> symbols = symbolsOf(module);
  auto numerator = table.lookup<rt::BufferDeclOp>(loss.getNumerator());
  if (!numerator)
    return loss.emitOpError() << "names no rt.buffer_decl of its module: " << loss.getNumerator();
  std::string denominator = "nullptr", out = "{}";
  if (loss.getDenominator()) {
    denominator = names[index].stages.lookup(("denominator@" + *loss.getDenominator()).str());
    auto decl = loss.getDenominatorOut() ? table.lookup<rt::BufferDeclOp>(*loss.getDenominatorOut()) : rt::BufferDeclOp();
    if (denominator.empty() || !decl)
      return loss.emitOpError("needs an rt.stage and an rt.buffer_decl for its denominator");
    out = bufferInfo(loss.getSymName().str() + ".denominator", decl, symbols);
  }
  SmallVector<std::string> reads;
  for (int32_t input : loss.getDenominatorInputs())
    reads.push_back(std::to_string(input));
  row = "{.name = " + quoted(loss.getSymName()) + ", .weight = " +
        constantText(b.getF32FloatAttr(loss.getWeight().convertToDouble())) + ", .module = " + std::to_string(index) +
        ", .numerator = " + bufferInfo(loss.getSymName(), numerator, symbols) + ", .denominator = " + denominator +
        ", .denominatorOut = " + out + ", .denominatorInputs = " +
        array("int32_t", "kReads_" + loss.getSymName().str(), reads) + "}";
  return success();
}

FailureOr<std::string> TableEmitter::optimizer() {
  auto optimizers = program.getBody().getOps<rt::OptimizerOp>();
  if (optimizers.empty())
    return program.emitOpError("has no rt.optimizer"), failure();
  rt::OptimizerOp op = *optimizers.begin();
  SmallVector<std::string> fields;
  // The order of OptimizerInfo: designated initialisers must keep it.
  for (StringRef name : {"kind", "lr", "beta1", "beta2", "eps", "momentum", "weightDecay", "clipNorm", "warmupSteps",
                         "schedule", "totalSteps", "decayFrom", "finalFraction"}) {
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
        return op.emitOpError() << "field '" << name << "' cannot be '" << w << "'", failure();
    } else if (auto real = dyn_cast<FloatAttr>(value)) {
      text = number(real.getValueAsDouble());
    } else if (auto integer = dyn_cast<IntegerAttr>(value)) {
      text = std::to_string(integer.getInt());
    }
    fields.push_back(("." + name + " = " + text).str());
  }
  for (NamedAttribute field : op.getFields())
    if (llvm::none_of(fields, [&](StringRef text) { return text.starts_with(("." + field.getName().getValue() + " ").str()); }))
      return op.emitOpError() << "has an unknown field '" << field.getName().getValue() << "'", failure();
  return "{" + llvm::join(fields, ", ") + "}";
}

LogicalResult TableEmitter::tasks() {
  SmallVector<std::string> losses, rows;
  for (auto loss : program.getBody().getOps<rt::LossOp>())
    losses.push_back(loss.getSymName().str());
  for (auto task : program.getBody().getOps<rt::TaskOp>()) {
    bool denominator = task.getKind() == rt::StageKind::denominator;
    int64_t index = denominator ? llvm::find(losses, task.getSubject()) - losses.begin() : moduleIndex(task.getSubject());
    if (index < 0 || (denominator && size_t(index) == losses.size()))
      return task.emitOpError() << "is about no " << (denominator ? "rt.loss" : "rt.module") << ": " << task.getSubject();
    StringRef kind = denominator                                   ? "Denominator"
                     : task.getKind() == rt::StageKind::forward ? "Forward"
                                                                    : "Backward";
    rows.push_back(("{dt::rt::TaskKind::" + kind + ", " + Twine(index) + ", " + Twine(task.getMicrobatch()) + ", " +
                    Twine(task.getSlot()) + "}")
                       .str());
  }
  array("dt::rt::TaskRow", "kRows", rows);
  return success();
}

LogicalResult TableEmitter::emit() {
  scope.reserve("kProgram");
  if (failed(parameters()))
    return failure();
  SmallVector<std::string> modules, losses;
  for (auto [op, name] : llvm::zip(program.getBody().getOps<rt::ModuleOp>(), names)) {
    modules.emplace_back();
    if (failed(module(op, name, modules.back())))
      return failure();
  }
  array("dt::rt::ModuleInfo", "kModules", modules);
  for (auto op : program.getBody().getOps<rt::LossOp>()) {
    losses.emplace_back();
    if (failed(loss(op, losses.back())))
      return failure();
  }
  std::string lossTable = array("dt::rt::LossInfo", "kLosses", losses);
  if (failed(tasks()))
    return failure();
  FailureOr<std::string> rule = optimizer();
  if (failed(rule))
    return failure();
  auto parameterTable = program.getBody().walk([](rt::ParameterDeclOp) { return WalkResult::interrupt(); });
  bool anyTask = !program.getBody().getOps<rt::TaskOp>().empty();
  std::string value = std::string("{\n    .name = ") + quoted(program.getSymName()) + ",\n    .planHash = 0x" +
                      llvm::utohexstr(llvm::xxh3_64bits(hashed + *rule)) + "u,\n    .parameters = " +
                      (parameterTable.wasInterrupted() ? "kParameters" : "{}") + ",\n    .modules = kModules,\n    .losses = " +
                      lossTable + ",\n    .rows = " + (anyTask ? "kRows" : "{}") + ",\n    .optimizer = " + *rule +
                      ",\n    .arenaBytes = " + std::to_string(program.getArenaBytes()) + ",\n    .parameterBytes = " +
                      std::to_string(program.getParameterBytes()) + ",\n    .globalBatch = " +
                      std::to_string(program.getGlobalBatch()) + ",\n    .microBatch = " +
                      std::to_string(program.getMicroBatch()) + ",\n    .seed = " +
                      std::to_string(uint64_t(program.getSeed())) + "u}";
  global("dt::rt::ProgramInfo", "kProgram", value, /*isStatic=*/false);
  return success();
}

} // namespace

LogicalResult emitProgramTable(rt::ProgramOp program, ArrayRef<ModuleNames> modules, OpBuilder &b) {
  OpBuilder::InsertionGuard guard(b);
  Location loc = program.getLoc();
  auto file = emitc::FileOp::create(b, loc, "program.cpp");
  b.setInsertionPointToStart(&file.getBodyRegion().front());
  auto line = [&](const Twine &text) { emitc::VerbatimOp::create(b, loc, b.getStringAttr(text), ValueRange()); };
  line("// Tables of the program: parameters, modules, losses, one step of tasks.");
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
