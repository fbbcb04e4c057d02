//===- ParameterTable.cpp - parameters of a program as rows -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/common/ProgramTable.h"
#include "codegen/common/Tables.h"

using namespace mlir;

namespace dt::codegen {

static std::string onnxRefs(TableWriter &writer,
                            const ParameterRow &parameter) {
  SmallVector<std::string> rows;
  for (auto &[file, initializer] : parameter.onnx) {
    rows::OnnxRef row;
    row.file = quoted(file);
    row.initializer = quoted(initializer);
    rows.push_back(listText(row));
  }
  return writer.array<rows::OnnxRef>(snake("kOnnx", parameter.name), rows);
}

/// How a rank's part lies in the whole.
static void describeParts(TableWriter &writer, const ParameterRow &parameter,
                          rows::ParameterInfo &row) {
  rt::ParameterDeclOp decl = parameter.decl;
  if (auto layout = decl.getLayout()) {
    row.whole = writer.array("int64_t", snake("kWhole", parameter.name),
                             numberTexts(layout->getShape()));
    if (!layout->getUnpadded().empty())
      row.unpadded = writer.array("int64_t", snake("kUnpadded", parameter.name),
                                  numberTexts(layout->getUnpadded()));
    row.cuts = writer.cuts(snake("kCuts", parameter.name), layout->getCuts());
  }
  if (auto partial = decl.getPartialAttr(); partial && !partial.empty())
    row.partial =
        writer.cuts(snake("kPartial", parameter.name),
                    llvm::to_vector(partial.getAsRange<dist::CutAttr>()));
}

/// Index of each declaration's row by its name in the IR, "module.symbol".
static llvm::StringMap<int64_t> indicesOf(rt::ProgramOp program) {
  llvm::StringMap<int64_t> indices;
  for (auto module : program.getBody().getOps<rt::ModuleOp>())
    for (auto decl : module.getBody().getOps<rt::ParameterDeclOp>())
      indices[dotted(module.getSymName(), decl.getSymName())] = decl.getIndex();
  return indices;
}

FailureOr<std::string> writeParameters(TableWriter &writer) {
  auto parameters = collectParameters(writer.program);
  if (failed(parameters))
    return failure();
  llvm::StringMap<int64_t> indices = indicesOf(writer.program);
  SmallVector<std::string> table;
  for (ParameterRow &parameter : *parameters) {
    rt::ParameterDeclOp decl = parameter.decl;
    rows::ParameterInfo row;
    row.onnx = onnxRefs(writer, parameter);
    row.tensor = writer.tensor(parameter.name, decl.getType(), {});
    row.module = parameter.module;
    row.offset = decl.getOffset();
    row.gradient = decl.getTrainable() ? decl.getGradientPlace() : 0;
    row.trainable = decl.getTrainable();
    row.hasGradient = decl.getGradient();
    row.decay = decl.getDecay();
    row.init = decl.getInit() ? quoted(*decl.getInit()) : "nullptr";
    if (auto tied = decl.getTiedAttr())
      row.tied = indices.lookup(dotted(tied.getRootReference().getValue(),
                                       tied.getLeafReference().getValue()));
    describeParts(writer, parameter, row);
    if (auto factor = decl.getLrFactor())
      row.lrFactor = factor->convertToDouble();
    if (auto decay = decl.getWeightDecay())
      row.weightDecay = decay->convertToDouble();
    if (decl.getMatrix())
      row.matrix = true;
    if (auto rate = decl.getRouting())
      row.routingRate = rate->convertToDouble();
    if (decl.getNarrowGradient())
      row.gradientType =
          enumText(dtypeOf(decl.getGradientType().getElementType()));
    table.push_back(fieldsText(row));
  }
  return writer.array<rows::ParameterInfo>("kParameters", table);
}

} // namespace dt::codegen
