//===- Safetensors.cpp - reading and writing safetensors
//-------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Safetensors.h"
#include "runtime/Activity.h"
#include "runtime/Error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dt::rt {

namespace {

struct TypeName {
  const char *name;
  DType type;
};
constexpr TypeName kTypes[] = {
    {"F32", DType::F32},   {"F64", DType::F64}, {"F16", DType::F16},
    {"BF16", DType::BF16}, {"I64", DType::I64}, {"I32", DType::I32},
    {"I8", DType::I8},     {"U8", DType::U8},   {"BOOL", DType::Bool}};

constexpr uint64_t kMaxHeader = 100u << 20; // as the reference implementation

/// Parses and refuses a name given twice, which plain parsing would silently
/// merge.
nlohmann::json parseHeader(const char *begin, const char *end,
                           const std::string &file) {
  std::set<std::string> names;
  std::string duplicate;
  auto callback = [&](int depth, nlohmann::json::parse_event_t event,
                      nlohmann::json &value) {
    if (depth > 4)
      throw Error(file + ": header is nested too deeply");
    if (event == nlohmann::json::parse_event_t::key && depth == 1 &&
        !names.insert(value.get<std::string>()).second)
      duplicate = value.get<std::string>();
    return true;
  };
  nlohmann::json header;
  try {
    header = nlohmann::json::parse(begin, end, callback);
  } catch (const nlohmann::json::exception &) {
    throw Error(file + ": header is not valid JSON");
  }
  if (!duplicate.empty())
    throw Error(file + ": tensor '" + duplicate + "' appears twice");
  if (!header.is_object())
    throw Error(file + ": header is not a JSON object");
  return header;
}

/// A list of non-negative numbers.
bool readNumbers(const nlohmann::json &value, std::vector<int64_t> &numbers) {
  if (!value.is_array() || value.size() > 32)
    return false;
  for (const nlohmann::json &v : value) {
    if (!v.is_number_unsigned() || v.get<uint64_t>() > uint64_t(INT64_MAX))
      return false;
    numbers.push_back(v.get<int64_t>());
  }
  return true;
}

TensorView readEntry(const nlohmann::json &entry, const std::byte *data,
                     size_t dataSize, const std::string &where) {
  if (!entry.is_object() || !entry.contains("dtype") ||
      !entry.contains("shape") || !entry.contains("data_offsets"))
    throw Error(where +
                ": expected an object with dtype, shape and data_offsets");
  TensorView view;
  const nlohmann::json &type = entry["dtype"];
  auto known = std::find_if(
      std::begin(kTypes), std::end(kTypes), [&](const TypeName &t) {
        return type.is_string() &&
               type.get_ref<const std::string &>() == t.name;
      });
  if (known == std::end(kTypes))
    throw Error(
        where + ": dtype " +
        type.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) +
        " is not supported");
  view.type = known->type;
  std::vector<int64_t> offsets;
  if (!readNumbers(entry["shape"], view.shape))
    throw Error(where + ": shape is not a list of non-negative integers");
  if (!readNumbers(entry["data_offsets"], offsets) || offsets.size() != 2)
    throw Error(where +
                ": data_offsets is not a pair of non-negative integers");
  if (offsets[0] > offsets[1] || uint64_t(offsets[1]) > dataSize)
    throw Error(where + ": data_offsets lie outside of the file");
  int64_t count = elementCount(view.shape);
  if (count < 0 || count > INT64_MAX / 8 ||
      count * int64_t(sizeOf(view.type)) != offsets[1] - offsets[0])
    throw Error(where + ": data_offsets do not fit shape " +
                shapeText(view.shape) + " of " + known->name);
  view.data = data + offsets[0];
  view.size = offsets[1] - offsets[0];
  return view;
}

/// Every byte belongs to exactly one tensor, as the format demands.
void checkLayout(const std::map<std::string, TensorView> &table,
                 const std::byte *data, size_t size, const std::string &file) {
  std::vector<std::pair<const TensorView *, const std::string *>> order;
  for (const auto &[name, view] : table)
    if (view.size)
      order.push_back({&view, &name});
  std::sort(order.begin(), order.end(),
            [](auto &a, auto &b) { return a.first->data < b.first->data; });
  const std::byte *at = data;
  for (auto &[view, name] : order) {
    if (view->data != at)
      throw Error(file + ": tensor '" + *name +
                  (view->data < at ? "' overlaps another"
                                   : "' leaves a gap before it"));
    at += view->size;
  }
  if (at != data + size)
    throw Error(file + ": " + std::to_string(data + size - at) +
                " bytes at the end belong to no tensor");
}

/// Writes a file piece by piece, so that a slow disk is seen to move on.
class PieceByPiece {
public:
  PieceByPiece(int fd, const std::string &path)
      : fd(fd), path(path), activity("writing", path) {}
  void write(const void *data, size_t size) {
    const char *p = static_cast<const char *>(data);
    while (size) {
      ssize_t n = ::write(fd, p, std::min(size, kMostAtOnce));
      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        throw Error(path + ": cannot write: " + std::strerror(errno));
      activity.moved();
      p += n, size -= size_t(n), unsynced += size_t(n);
      if (unsynced >= kMostUnsynced)
        sync();
    }
  }
  void sync() {
    if (::fsync(fd) < 0)
      throw Error(path + ": cannot write: " + std::strerror(errno));
    activity.moved();
    unsynced = 0;
  }

private:
  int fd;
  const std::string &path;
  Activity activity;
  size_t unsynced = 0;
};

/// Closes on every way out.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0)
      ::close(fd);
  }
};

} // namespace

const char *dtypeName(DType type) {
  for (const TypeName &t : kTypes)
    if (t.type == type)
      return t.name;
  return "?";
}

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

int64_t elementCount(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count))
      return -1;
  return count;
}

SafetensorsFile::SafetensorsFile(const std::string &path) : file(path) {
  Activity activity("opening", path);
  Descriptor d{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat info;
  if (d.fd < 0 || ::fstat(d.fd, &info) < 0)
    throw Error(path + ": cannot open: " + std::strerror(errno));
  if (!S_ISREG(info.st_mode) || info.st_size < 8)
    throw Error(path + ": not a safetensors file (shorter than 8 bytes)");
  length = info.st_size;
  void *mapped = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, d.fd, 0);
  if (mapped == MAP_FAILED)
    throw Error(path + ": cannot map: " + std::strerror(errno));
  memory = static_cast<const std::byte *>(mapped);
  try {
    parse();
  } catch (...) {
    ::munmap(const_cast<std::byte *>(memory), length);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() {
  ::munmap(const_cast<std::byte *>(memory), length);
}

void SafetensorsFile::parse() {
  uint64_t headerSize;
  std::memcpy(&headerSize, memory, 8);
  if (headerSize > kMaxHeader || headerSize > length - 8)
    throw Error(file + ": not a safetensors file (header of " +
                std::to_string(headerSize) + " bytes in a file of " +
                std::to_string(length) + ")");
  const char *begin = reinterpret_cast<const char *>(memory) + 8;
  nlohmann::json header = parseHeader(begin, begin + headerSize, file);
  const std::byte *data = memory + 8 + headerSize;
  size_t dataSize = length - 8 - headerSize;
  for (auto &[name, entry] : header.items())
    if (name == "__metadata__") {
      for (auto &[key, text] : entry.items())
        if (text.is_string())
          notes[key] = text.get<std::string>();
    } else {
      table.emplace(name, readEntry(entry, data, dataSize,
                                    file + ": tensor '" + name + "'"));
    }
  checkLayout(table, data, dataSize, file);
}

const TensorView *SafetensorsFile::find(const std::string &name) const {
  auto found = table.find(name);
  return found == table.end() ? nullptr : &found->second;
}

const TensorView &
SafetensorsFile::get(const std::string &name, DType type,
                     const std::vector<int64_t> &shape) const {
  const TensorView *view = find(name);
  if (!view)
    throw Error(file + ": tensor '" + name + "' is missing");
  if (view->type != type || view->shape != shape)
    throw Error(file + ": tensor '" + name + "' is " + dtypeName(view->type) +
                " " + shapeText(view->shape) + ", expected " + dtypeName(type) +
                " " + shapeText(shape));
  return *view;
}

void SafetensorsWriter::addEntry(Entry entry) {
  entry.size = size_t(elementCount(entry.shape)) * sizeOf(entry.type);
  entries.push_back(std::move(entry));
}

void SafetensorsWriter::add(const std::string &name, DType type,
                            const std::vector<int64_t> &shape,
                            const void *data) {
  addEntry({name, type, shape, data, {}, 0});
}

void SafetensorsWriter::add(const std::string &name, DType type,
                            const std::vector<int64_t> &shape,
                            std::vector<std::byte> bytes) {
  addEntry({name, type, shape, nullptr, std::move(bytes), 0});
}

uint64_t SafetensorsWriter::write(const std::string &path) const {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!notes.empty())
    header["__metadata__"] = notes;
  size_t offset = 0;
  for (const Entry &e : entries) {
    header[e.name] = {{"dtype", dtypeName(e.type)},
                      {"shape", e.shape},
                      {"data_offsets", {offset, offset + e.size}}};
    offset += e.size;
  }
  std::string text = header.dump();
  text.resize((text.size() + 8 + 63) / 64 * 64 - 8,
              ' '); // data begin aligned, as the format advises
  Descriptor d{
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
  if (d.fd < 0)
    throw Error(path + ": cannot create: " + std::strerror(errno));
  uint64_t size = text.size();
  PieceByPiece file(d.fd, path);
  file.write(&size, 8);
  file.write(text.data(), text.size());
  uint64_t hash = hashBytes(text.data(), text.size());
  for (const Entry &e : entries) {
    const void *data = e.data ? e.data : e.owned.data();
    file.write(data, e.size);
    hash = hashBytes(data, e.size, hash);
  }
  file.sync();
  return hash;
}

uint64_t hashBytes(const void *data, size_t size, uint64_t hash) {
  const char *p = static_cast<const char *>(data);
  for (; size >= 8; p += 8, size -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    hash = (hash ^ word) * 0x100000001B3ull;
    hash ^= hash >> 29; // words, unlike bytes, need the high bits mixed down
  }
  for (; size; ++p, --size)
    hash = (hash ^ uint8_t(*p)) * 0x100000001B3ull;
  return hash;
}

uint64_t hashSafetensors(const std::string &path) {
  SafetensorsFile file(path);
  std::ifstream stream(path, std::ios::binary);
  uint64_t headerSize = 0;
  stream.read(reinterpret_cast<char *>(&headerSize), 8);
  std::string header(headerSize, '\0');
  stream.read(header.data(), std::streamsize(headerSize));
  uint64_t hash = hashBytes(header.data(), header.size());
  std::vector<const TensorView *> order;
  for (const auto &entry : file.tensors())
    if (entry.second.size)
      order.push_back(&entry.second);
  std::sort(order.begin(), order.end(),
            [](auto *a, auto *b) { return a->data < b->data; });
  Activity activity("reading", path);
  for (const TensorView *view : order)
    for (size_t at = 0; at < view->size; at += kMostAtOnce) {
      hash = hashBytes(view->data + at, std::min(kMostAtOnce, view->size - at),
                       hash);
      activity.moved();
    }
  return hash;
}

} // namespace dt::rt
