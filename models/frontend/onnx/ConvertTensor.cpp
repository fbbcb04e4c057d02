//===- ConvertTensor.cpp - Tensors of an ONNX file, checked -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// ONNX keeps a tensor's elements in one of seven fields or in another file; all
// become little-endian bytes here. Every count and every path in the file is
// checked, for the file may come from anywhere.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/onnx/Convert.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"

using namespace dt::onnx;
using llvm::createStringError;
using llvm::Error;
using llvm::Expected;

namespace {
/// Appends the field's values, each narrowed to T.
template <typename T, typename Field>
void append(std::string &bytes, const Field &field) {
  bytes.reserve(field.size() * sizeof(T));
  for (auto v : field) {
    T t = static_cast<T>(v);
    bytes.append(reinterpret_cast<const char *>(&t), sizeof t);
  }
}

/// Elements from the typed fields (onnx.proto says which type uses which).
std::string typedData(const ::onnx::TensorProto &p, ElementType type) {
  std::string bytes;
  switch (type) {
  case ElementType::Float:
    append<float>(bytes, p.float_data());
    break;
  case ElementType::Double:
    append<double>(bytes, p.double_data());
    break;
  case ElementType::Int64:
    append<int64_t>(bytes, p.int64_data());
    break;
  case ElementType::UInt32:
    append<uint32_t>(bytes, p.uint64_data());
    break;
  case ElementType::UInt64:
    append<uint64_t>(bytes, p.uint64_data());
    break;
  case ElementType::Int32:
    append<int32_t>(bytes, p.int32_data());
    break;
  case ElementType::UInt16:
  case ElementType::Int16:
  case ElementType::Float16:
  case ElementType::BFloat16:
    append<uint16_t>(bytes, p.int32_data());
    break;
  default:
    append<uint8_t>(bytes, p.int32_data());
  }
  return bytes;
}

Error resolveExternal(const ::onnx::TensorProto &p, Tensor &t,
                      llvm::StringRef folder, uint64_t size) {
  std::string location;
  uint64_t length = size;
  for (const auto &entry : p.external_data()) {
    llvm::StringRef value = entry.value();
    if (entry.key() == "location")
      location = entry.value();
    else if (entry.key() == "offset" &&
             value.getAsInteger(10, t.externalOffset))
      return createStringError("external data offset '" + value +
                               "' is not a number");
    else if (entry.key() == "length" && value.getAsInteger(10, length))
      return createStringError("external data length '" + value +
                               "' is not a number");
  }
  if (location.empty())
    return createStringError("external data without a location");
  namespace path = llvm::sys::path;
  bool inside = !path::is_absolute(location, path::Style::posix) &&
                !path::is_absolute(location, path::Style::windows) &&
                location.find('\0') == std::string::npos &&
                location.find('\\') == std::string::npos;
  for (llvm::StringRef part : llvm::make_range(
           path::begin(location, path::Style::posix), path::end(location)))
    inside &= part != "..";
  if (!inside)
    return createStringError("external data path '" + location +
                             "' leaves the model's folder");
  if (length != size)
    return createStringError("external data of " + llvm::Twine(length) +
                             " bytes where shape and type say " +
                             llvm::Twine(size));
  llvm::SmallString<128> file(folder);
  path::append(file, location);
  t.externalPath = file.str().str();
  uint64_t fileSize;
  std::error_code code = llvm::sys::fs::file_size(file, fileSize);
  if (code == std::errc::no_such_file_or_directory) {
    t.where = Tensor::Where::Absent;
    return Error::success();
  }
  if (code)
    return createStringError("external data '" + location +
                             "' cannot be read: " + code.message());
  if (!llvm::sys::fs::is_regular_file(file))
    return createStringError("external data '" + location + "' is no file");
  if (t.externalOffset > fileSize || fileSize - t.externalOffset < size)
    return createStringError("external data end beyond '" + location + "'");
  t.where = Tensor::Where::External;
  return Error::success();
}

/// Bytes of the whole tensor; fails on negative dims and overflow.
Expected<uint64_t> checkedSize(const Tensor &t) {
  int64_t n = 1;
  for (int64_t d : t.dims)
    if (d < 0 || llvm::MulOverflow(n, d, n))
      return createStringError("impossible dims");
  int64_t size;
  if (llvm::MulOverflow(n, static_cast<int64_t>(elementBytes(t.type)), size))
    return createStringError("impossible dims");
  return static_cast<uint64_t>(size);
}
} // namespace

Expected<Tensor> dt::onnx::convertTensor(::onnx::TensorProto &p,
                                         llvm::StringRef folder) {
  Tensor t;
  t.name = p.name();
  t.type = static_cast<ElementType>(p.data_type());
  t.dims.assign(p.dims().begin(), p.dims().end());
  if (elementBytes(t.type) == 0)
    return createStringError("tensor '" + t.name + "' has element type " +
                             elementName(t.type) + ", which is not handled");
  auto in = [&](Error e) {
    return createStringError("tensor '" + t.name +
                             "': " + llvm::toString(std::move(e)));
  };
  if (p.has_segment())
    return in(createStringError("segments are not handled"));
  Expected<uint64_t> size = checkedSize(t);
  if (!size)
    return in(size.takeError());
  if (p.data_location() == ::onnx::TensorProto::EXTERNAL) {
    if (Error e = resolveExternal(p, t, folder, *size))
      return in(std::move(e));
    return t;
  }
  if (p.has_raw_data())
    t.bytes = std::move(*p.mutable_raw_data());
  else
    t.bytes = typedData(p, t.type);
  if (t.bytes.size() != *size)
    return in(createStringError("holds " + llvm::Twine(t.bytes.size()) +
                                " bytes where shape and type say " +
                                llvm::Twine(*size)));
  return t;
}
