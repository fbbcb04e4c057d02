//===- Weights.cpp - initial values as safetensors ------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Written parameter by parameter: sizes follow from types, so the header is
// known before any value is read, and only one tensor is in memory beside the
// ONNX file.
//
//===----------------------------------------------------------------------===//

#include "codegen/common/Directory.h"
#include "codegen/common/KernelBody.h"
#include "codegen/common/ProgramTable.h"
#include "models/frontend/onnx/Model.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"

#include <map>

using namespace mlir;

namespace dt::codegen {

namespace {

/// Reads initializers from the models themselves; a file is parsed once.
class OnnxSource {
public:
  explicit OnnxSource(std::string directory)
      : directory(std::move(directory)) {}

  llvm::Expected<std::string> operator()(StringRef file,
                                         StringRef initializer) {
    llvm::SmallString<256> path(file);
    if (llvm::sys::path::is_relative(file)) {
      path = directory;
      llvm::sys::path::append(path, file);
    }
    auto it = models.find(path.str().str());
    if (it == models.end()) {
      auto model = onnx::loadOnnx(path);
      if (!model)
        return model.takeError();
      it =
          models.emplace(path.str().str(), Loaded{std::move(*model), {}}).first;
      for (const onnx::Tensor &tensor : it->second.model.graph.initializers)
        it->second.byName[tensor.name] = &tensor;
    }
    const onnx::Tensor *tensor = it->second.byName.lookup(initializer);
    if (!tensor)
      return llvm::createStringError(path + ": has no initializer '" +
                                     initializer + "'");
    auto value = tensor->read();
    if (!value)
      return llvm::createStringError(path + ": " +
                                     llvm::toString(value.takeError()));
    return value;
  }

private:
  struct Loaded {
    onnx::Model model;
    llvm::StringMap<const onnx::Tensor *> byName;
  };
  std::string directory;
  std::map<std::string, Loaded> models;
};

/// Where the value of a row comes from.
nn::OnnxAttr originOf(const ParameterRow &row) {
  for (Attribute attribute : rt::ParameterDeclOp(row.decl).getOnnx())
    if (auto onnx = dyn_cast<nn::OnnxAttr>(attribute))
      return onnx;
  return {};
}

/// What the file has: values in full, whatever the program stores of them.
Type elementOf(const ParameterRow &row) {
  Type stored = cast<rt::BufferType>(rt::ParameterDeclOp(row.decl).getType())
                    .getElementType();
  return isa<FloatType>(stored) ? rt::getScalarType(stored) : stored;
}

int64_t bytesOf(const ParameterRow &row) {
  Type element = elementOf(row);
  int64_t bytes = nn::getElementBytes(element);
  for (int64_t dim : fileShape(row))
    bytes = dim < 0 || bytes < 0 ? -1 : bytes * dim;
  return bytes;
}

llvm::Expected<std::string> header(ArrayRef<const ParameterRow *> rows) {
  llvm::json::Object object;
  int64_t at = 0;
  for (const ParameterRow *row : rows) {
    int64_t bytes = bytesOf(*row);
    if (bytes < 0)
      return llvm::createStringError("parameter '" + row->name +
                                     "' has no constant shape");
    llvm::json::Array shape;
    for (int64_t dim : fileShape(*row))
      shape.push_back(dim);
    object[row->name] =
        llvm::json::Object{{"dtype", rt::textOf(*dtypeOf(elementOf(*row)))},
                           {"shape", std::move(shape)},
                           {"data_offsets", llvm::json::Array{at, at + bytes}}};
    at += bytes;
  }
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(object));
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

llvm::Error writeValue(const ParameterRow &row, const WeightSource &source,
                       llvm::raw_ostream &os) {
  nn::OnnxAttr origin = originOf(row);
  auto bytes = source(origin.getFile(), origin.getInitializer());
  if (!bytes)
    return bytes.takeError();
  if (int64_t(bytes->size()) != bytesOf(row))
    return llvm::createStringError(
        origin.getFile() + ": initializer '" + origin.getInitializer() +
        "' has " + llvm::Twine(bytes->size()) + " bytes, expected " +
        llvm::Twine(bytesOf(row)));
  os << *bytes;
  return llvm::Error::success();
}

} // namespace

llvm::Error writeWeights(rt::ProgramOp program, StringRef path,
                         const EmitOptions &options) {
  auto rows = collectParameters(program);
  if (failed(rows))
    return llvm::createStringError("the parameter table is not valid");
  SmallVector<const ParameterRow *> wanted;
  for (const ParameterRow &row : *rows) {
    if (!row.fromFile)
      continue;
    if (!originOf(row))
      return llvm::createStringError(
          "parameter '" + row.name +
          "' has neither a rule nor a place in an ONNX file");
    wanted.push_back(&row);
  }
  auto text = header(wanted);
  if (!text)
    return text.takeError();
  WeightSource source = options.weights;
  OnnxSource files(options.modelDirectory);
  if (!source)
    source = [&](StringRef file, StringRef name) { return files(file, name); };

  return writeFile(path, [&](llvm::raw_ostream &os) -> llvm::Error {
    uint64_t length = text->size();
    for (int i = 0; i < 8; ++i)
      os << char(length >> (8 * i) & 0xFF);
    os << *text;
    for (const ParameterRow *row : wanted)
      if (llvm::Error failure = writeValue(*row, source, os))
        return failure;
    return llvm::Error::success();
  });
}

} // namespace dt::codegen
