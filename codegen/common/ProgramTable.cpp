//===- ProgramTable.cpp - rt.program as kProgram --------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/common/ProgramTable.h"
#include "codegen/common/Tables.h"

#include "llvm/Support/xxhash.h"

using namespace mlir;

namespace dt::codegen {

/// By number: Program.h does not say what optimizers there are.
static std::string optimizerKind(StringRef text) {
  auto kind = rt::fromText<rt::OptimizerKind>(text);
  return kind ? cpp::annotated(
                    cpp::construct("dt::rt::OptimizerKind", {unsigned(*kind)}),
                    text)
              : "";
}

/// The value of a field of rt.optimizer; empty: the field cannot have it.
static std::string optimizerValue(StringRef name, Attribute value) {
  if (auto word = dyn_cast<StringAttr>(value))
    return name == "kind" ? optimizerKind(word.getValue())
           : name == "schedule"
               ? enumText(rt::fromText<rt::ScheduleKind>(word.getValue()))
               : "";
  if (auto real = dyn_cast<FloatAttr>(value))
    return numberText(real.getValueAsDouble());
  if (auto integer = dyn_cast<IntegerAttr>(value))
    return std::to_string(integer.getInt());
  return "";
}

static LogicalResult setField(rt::OptimizerOp op, NamedAttribute field,
                              rows::OptimizerInfo &row) {
  StringRef name = field.getName().getValue();
  Cell *cell = findCell(row, name);
  if (!cell)
    return op.emitOpError() << "has an unknown field '" << name << "'";
  *cell = optimizerValue(name, field.getValue());
  if (!cell->text.empty())
    return success();
  InFlightDiagnostic diagnostic = op.emitOpError()
                                  << "field '" << name << "' cannot be ";
  if (auto word = dyn_cast<StringAttr>(field.getValue()))
    return diagnostic << "'" << word.getValue() << "'";
  return diagnostic << field.getValue();
}

/// The settings of the optimizer, of which the op may say some.
static FailureOr<std::string> settingsArray(TableWriter &writer,
                                            rt::OptimizerOp op) {
  auto word = op.getFields().getAs<StringAttr>("kind");
  if (!word)
    return op.emitOpError("has no field 'kind'"), failure();
  auto kind = *rt::fromText<rt::OptimizerKind>(word.getValue());
  auto given = op.getFields().getAs<DictionaryAttr>("settings");
  if (std::string wrong = dist::checkSettings(kind, given); !wrong.empty())
    return op.emitOpError(wrong), failure();
  SmallVector<std::string> values;
  for (double value : dist::getAllSettings(kind, given))
    values.push_back(numberText(value));
  return writer.array("double", "kOptimizerSettings", values);
}

static FailureOr<std::string> optimizerRow(TableWriter &writer) {
  rt::ProgramOp program = writer.program;
  auto optimizers = program.getBody().getOps<rt::OptimizerOp>();
  if (optimizers.empty())
    return program.emitOpError("has no rt.optimizer"), failure();
  rt::OptimizerOp op = *optimizers.begin();
  rows::OptimizerInfo row;
  for (NamedAttribute field : op.getFields())
    if (field.getName().getValue() != row.settings.column &&
        failed(setField(op, field, row)))
      return failure();
  FailureOr<std::string> settings = settingsArray(writer, op);
  if (failed(settings))
    return failure();
  row.settings = *settings;
  return fieldsText(row);
}

/// The global kProgram, a field a line. The hash is over all tables and all
/// fields but the name.
static void writeProgram(TableWriter &writer, rows::ProgramInfo &row) {
  OpBuilder &b = writer.builder;
  rt::ProgramOp program = writer.program;
  // As they stand behind the two that are not in it.
  std::string rest = cpp::table(fieldTexts(row, {&row.name, &row.planHash}));
  rest.front() = ',';
  row.name = quoted(program.getSymName());
  row.planHash = cpp::hexadecimal(llvm::xxh3_64bits(writer.written + rest));
  std::string value = cpp::table(fieldTexts(row));
  emitc::GlobalOp::create(
      b, program.getLoc(), b.getStringAttr("kProgram"),
      TypeAttr::get(emitc::OpaqueType::get(b.getContext(), row.kType)),
      emitc::OpaqueAttr::get(b.getContext(), value), UnitAttr(), UnitAttr(),
      b.getUnitAttr());
}

static LogicalResult writeTables(TableWriter &writer) {
  rt::ProgramOp program = writer.program;
  rows::ProgramInfo row;
  auto set = [](Cell &cell, FailureOr<std::string> text) {
    if (succeeded(text))
      cell = *text;
    return LogicalResult(text);
  };
  if (failed(set(row.parameters, writeParameters(writer))) ||
      failed(set(row.modules, writeModules(writer))))
    return failure();
  row.edges = writeEdges(writer);
  if (failed(set(row.losses, writeLosses(writer))))
    return failure();
  row.ranks = writeRanks(writer);
  FailureOr<std::string> collectives = writeCollectives(writer);
  if (failed(collectives) || failed(set(row.optimizer, optimizerRow(writer))))
    return failure();
  if (*collectives != "{}")
    row.collectives = *collectives;
  row.pace = writer.moduleIndex(program.getPace());
  row.schedule = quoted(program.getSchedule());
  row.globalBatch = program.getGlobalBatch();
  row.microBatch = program.getMicroBatch();
  row.seed = cpp::unsignedNumber(program.getSeed());
  row.reorder = *rt::fromText<rt::Reorder>(program.getReorder());
  row.bucketBytes = program.getBucket();
  if (program.getNarrowSums())
    row.narrowSums = true;
  if (auto parts = program.getParts()) {
    row.parts = int64_t(*parts);
    row.partTokens = int64_t(*program.getPartTokens());
  }
  writeProgram(writer, row);
  return success();
}

LogicalResult emitProgramTable(rt::ProgramOp program,
                               ArrayRef<ModuleNames> modules,
                               const Target &target, OpBuilder &b) {
  OpBuilder::InsertionGuard guard(b);
  Location loc = program.getLoc();
  openFile(b, loc, "program.cpp",
           "Tables of the program: parameters, modules, edges, losses, what "
           "every rank does in a step.");
  emitc::IncludeOp::create(b, loc, b.getStringAttr("runtime/Program.h"));
  emitc::VerbatimOp::create(b, loc, b.getStringAttr(""), ValueRange());
  for (const ModuleNames &module : modules) {
    SmallVector<StringRef> functions;
    for (auto &[entry, function] : module.entries)
      functions.push_back(function);
    llvm::sort(functions);
    for (StringRef function : functions)
      declareFunction(b, loc, function, entryType(b));
  }
  emitc::VerbatimOp::create(b, loc, b.getStringAttr(""), ValueRange());
  TableWriter writer(program, modules, target, b);
  return writeTables(writer);
}

} // namespace dt::codegen
