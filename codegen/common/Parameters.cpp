//===- Parameters.cpp - parameters of all modules as rows -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The rows of kProgram's table, of weights.safetensors and of --export: one a
// parameter, with all places that it has in ONNX files.
//
//===----------------------------------------------------------------------===//

#include "codegen/common/ProgramTable.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace dt::codegen {

std::string onnxFileName(StringRef file) {
  SmallVector<std::string> parts;
  for (auto it = llvm::sys::path::begin(file), end = llvm::sys::path::end(file);
       it != end; ++it)
    if (*it != ".." && *it != "." && *it != "/")
      parts.push_back(it->str());
  return llvm::join(parts, "/");
}

SmallVector<int64_t> fileShape(const ParameterRow &row) {
  rt::ParameterDeclOp decl = row.decl;
  if (auto layout = decl.getLayout())
    return SmallVector<int64_t>(layout->getUnpadded().empty()
                                    ? layout->getShape()
                                    : layout->getUnpadded());
  SmallVector<int64_t> shape;
  for (const nn::DimExpr &dim : cast<rt::BufferType>(decl.getType()).getShape())
    shape.push_back(dim.asConstant().value_or(-1));
  return shape;
}

FailureOr<std::vector<ParameterRow>> collectParameters(rt::ProgramOp program) {
  std::vector<ParameterRow> rows;
  for (auto [m, module] :
       llvm::enumerate(program.getBody().getOps<rt::ModuleOp>()))
    for (auto decl : module.getBody().getOps<rt::ParameterDeclOp>()) {
      if (decl.getIndex() < 0 || decl.getIndex() > (1 << 24))
        return decl.emitOpError("has an index out of range"), failure();
      if (size_t(decl.getIndex()) >= rows.size())
        rows.resize(decl.getIndex() + 1);
      ParameterRow &row = rows[decl.getIndex()];
      if (row.decl &&
          (row.decl.getOffset() != decl.getOffset() ||
           row.decl.getGradientPlace() != decl.getGradientPlace() ||
           row.decl.getType() != decl.getType() || row.module != int64_t(m))) {
        InFlightDiagnostic diagnostic = decl.emitOpError(
            "is tied to a parameter of another module, offset or type");
        diagnostic.attachNote(row.decl.getLoc()) << "this one";
        return failure();
      }
      if (!row.decl) {
        row.decl = decl;
        row.module = m;
        row.name = dotted(module.getExternalName(), decl.getSymName());
        row.fromFile = !decl.getInit() && !decl.getTiedAttr();
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
  for (auto [i, row] : llvm::enumerate(rows)) {
    if (!row.decl)
      return program.emitOpError() << "has no parameter with index " << i,
             failure();
    if (i && rows[i - 1].module > row.module)
      return row.decl.emitOpError(
                 "stands before parameters of an earlier module"),
             failure();
  }
  return rows;
}

} // namespace dt::codegen
