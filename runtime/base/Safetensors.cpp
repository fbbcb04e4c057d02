//===- Safetensors.cpp - reading and writing safetensors ------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Safetensors.h"
#include "runtime/EnumTexts.h"
#include "runtime/base/FileActivity.h"
#include "runtime/base/ReadJson.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dt::rt {

namespace {

constexpr uint64_t kMaxHeader = 100'000'000; // as the reference implementation

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

/// `begin`: of the data in the file.
void readEntry(const std::string &name, const nlohmann::json &entry,
               uint64_t begin, uint64_t dataSize, const std::string &where,
               SafetensorsHeader &out) {
  if (!entry.is_object() || !entry.contains("dtype") ||
      !entry.contains("shape") || !entry.contains("data_offsets"))
    throw Error(where +
                ": expected an object with dtype, shape and data_offsets");
  TensorPlace place;
  const nlohmann::json &type = entry["dtype"];
  if (!type.is_string())
    throw Error(
        where + ": dtype " +
        type.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) +
        " is no name of a type");
  std::vector<int64_t> offsets;
  if (!readNumbers(entry["shape"], place.shape))
    throw Error(where + ": shape is not a list of non-negative integers");
  if (!readNumbers(entry["data_offsets"], offsets) || offsets.size() != 2)
    throw Error(where +
                ": data_offsets is not a pair of non-negative integers");
  if (offsets[0] > offsets[1] || uint64_t(offsets[1]) > dataSize)
    throw Error(where + ": data_offsets lie outside of the file");
  place.offset = begin + uint64_t(offsets[0]);
  place.size = size_t(offsets[1] - offsets[0]);
  const std::string &text = type.get_ref<const std::string &>();
  std::optional<DType> known = fromText<DType>(text);
  if (!known) {
    out.others[name] = {text, place.offset, place.size};
    return;
  }
  place.type = *known;
  int64_t count = elementCount(place.shape);
  if (count < 0 || count > INT64_MAX / 8 ||
      count * int64_t(sizeOf(place.type)) != offsets[1] - offsets[0])
    throw Error(where + ": data_offsets do not fit shape " +
                shapeText(place.shape) + " of " + textOf(*known));
  out.table.emplace(name, std::move(place));
}

struct ByteRange {
  uint64_t offset;
  size_t size;
  const std::string *name;
};

/// Of tensors with data, in the order of the file.
std::vector<ByteRange> orderOf(const SafetensorsHeader &header) {
  std::vector<ByteRange> order;
  auto add = [&](const auto &table) {
    for (const auto &[name, place] : table)
      if (place.size)
        order.push_back({place.offset, place.size, &name});
  };
  add(header.table);
  add(header.others);
  std::sort(order.begin(), order.end(),
            [](const ByteRange &a, const ByteRange &b) {
              return a.offset < b.offset;
            });
  return order;
}

/// Every byte from `begin` to `end` belongs to exactly one tensor, as the
/// format demands.
void checkLayout(const SafetensorsHeader &header, uint64_t begin, uint64_t end,
                 const std::string &file) {
  uint64_t at = begin;
  for (const ByteRange &extent : orderOf(header)) {
    if (extent.offset != at)
      throw Error(file + ": tensor '" + *extent.name +
                  (extent.offset < at ? "' overlaps another"
                                      : "' leaves a gap before it"));
    at += extent.size;
  }
  if (at != end)
    throw Error(file + ": " + std::to_string(end - at) +
                " bytes at the end belong to no tensor");
}

/// Throws Error unless a file of `length` bytes can have a header of so many.
void checkHeaderSize(uint64_t size, uint64_t length, const std::string &file) {
  if (size > length - 8)
    throw Error(file + ": not a safetensors file (header of " +
                std::to_string(size) + " bytes in a file of " +
                std::to_string(length) + ")");
  if (size > kMaxHeader)
    throw Error(file + ": its header has " + std::to_string(size) +
                " bytes; safetensors allows " + std::to_string(kMaxHeader));
}

/// Of a file of `length` bytes.
SafetensorsHeader readEntries(const char *text, size_t size, uint64_t length,
                              const std::string &file) {
  SafetensorsHeader out;
  nlohmann::json header =
      readJson(std::string_view(text, size), file + ": header");
  if (!header.is_object())
    throw Error(file + ": header: not a JSON object");
  uint64_t begin = 8 + size;
  for (auto &[name, entry] : header.items())
    if (name == "__metadata__") {
      for (auto &[key, note] : entry.items())
        if (note.is_string())
          out.notes[key] = note.get<std::string>();
    } else {
      readEntry(name, entry, begin, length - begin,
                file + ": tensor '" + name + "'", out);
    }
  return out;
}

SafetensorsHeader readHeader(const char *text, size_t size, uint64_t length,
                             const std::string &file) {
  SafetensorsHeader out = readEntries(text, size, length, file);
  checkLayout(out, 8 + size, length, file);
  return out;
}

/// Opens a regular file that may be one of this format.
Descriptor openFile(const std::string &path, uint64_t &length) {
  FileActivity activity("opening", path);
  // A pipe would wait for who writes it.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!file || ::fstat(file.get(), &info) < 0)
    failedCall(path, "open");
  if (!S_ISREG(info.st_mode) || info.st_size < 8)
    throw Error(path + ": not a safetensors file (shorter than 8 bytes)");
  length = uint64_t(info.st_size);
  return file;
}

} // namespace

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

uint64_t safetensorsHeaderLength(const std::string &first,
                                 const std::string &file) {
  uint64_t size;
  std::memcpy(&size, first.data(), 8);
  if (size > kMaxHeader)
    throw Error(file + ": not a safetensors file (header of " +
                std::to_string(size) + " bytes)");
  return size;
}

SafetensorsOutline outlineSafetensors(const std::string &header,
                                      const std::string &file) {
  SafetensorsOutline out;
  SafetensorsHeader read =
      readEntries(header.data(), header.size(), UINT64_MAX, file);
  for (auto &[name, place] : read.table)
    out.dataLength =
        std::max(out.dataLength, place.offset + place.size - 8 - header.size());
  out.notes = std::move(read.notes);
  return out;
}

bool isSafetensors(const std::string &path) {
  try {
    uint64_t length, size;
    char first;
    Descriptor file = openFile(path, length);
    readAll(file.get(), &size, 8, 0, path);
    if (size > length - 8 || size == 0)
      return false;
    readAll(file.get(), &first, 1, 8, path);
    return first == '{';
  } catch (const Error &) {
    return false;
  }
}

SafetensorsReader::SafetensorsReader(const std::string &path) : file(path) {
  uint64_t length, size;
  descriptor = openFile(path, length);
  readAll(descriptor.get(), &size, 8, 0, path);
  checkHeaderSize(size, length, path);
  text.resize(size);
  readAll(descriptor.get(), text.data(), size, 8, path);
  header = readHeader(text.data(), size, length, path);
}

void SafetensorsReader::read(const TensorPlace &tensor, uint64_t from,
                             size_t bytes, void *to) const {
  readAll(descriptor.get(), to, bytes, tensor.offset + from, file);
}

uint64_t SafetensorsReader::hash() const {
  constexpr size_t block = 1 << 20; // a multiple of the words that are hashed
  std::vector<std::byte> buffer(block);
  uint64_t hash = hashBytes(text.data(), text.size());
  for (const ByteRange &extent : orderOf(header))
    for (uint64_t at = 0; at < extent.size; at += block) {
      size_t bytes = size_t(std::min<uint64_t>(block, extent.size - at));
      readAll(descriptor.get(), buffer.data(), bytes, extent.offset + at, file);
      hash = hashBytes(buffer.data(), bytes, hash);
    }
  return hash;
}

SafetensorsFile::SafetensorsFile(const std::string &path) : file(path) {
  uint64_t bytes;
  Descriptor d = openFile(path, bytes);
  length = bytes;
  void *mapped = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, d.get(), 0);
  if (mapped == MAP_FAILED)
    failedCall(path, "map");
  memory = static_cast<const std::byte *>(mapped);
  try {
    parse();
  } catch (...) {
    ::munmap(const_cast<std::byte *>(memory), length);
    throw;
  }
}

SafetensorsFile::SafetensorsFile(const std::string &name, std::string bytes)
    : file(name), content(std::move(bytes)) {
  memory = reinterpret_cast<const std::byte *>(content.data());
  length = content.size();
  if (length < 8)
    throw Error(name + ": not a safetensors file (shorter than 8 bytes)");
  parse();
}

SafetensorsFile::~SafetensorsFile() {
  if (content.empty())
    ::munmap(const_cast<std::byte *>(memory), length);
}

void SafetensorsFile::parse() {
  uint64_t size;
  std::memcpy(&size, memory, 8);
  checkHeaderSize(size, length, file);
  SafetensorsHeader header = readHeader(
      reinterpret_cast<const char *>(memory) + 8, size, length, file);
  notes = std::move(header.notes);
  others = std::move(header.others);
  for (auto &[name, place] : header.table)
    table.emplace(name, TensorView{place.type, place.shape,
                                   memory + place.offset, place.size});
}

const TensorView *SafetensorsFile::find(const std::string &name) const {
  if (auto other = others.find(name); other != others.end())
    throw Error(file + ": tensor '" + name + "' is " + other->second.type +
                ", a type that is not read");
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
    throw Error(file + ": tensor '" + name + "' is " + textOf(view->type) +
                " " + shapeText(view->shape) + ", expected " + textOf(type) +
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

uint64_t SafetensorsWriter::write(const std::string &path, const Source &source,
                                  Folder folder) const {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!notes.empty())
    header["__metadata__"] = notes;
  size_t offset = 0;
  for (const Entry &e : entries) {
    header[e.name] = {{"dtype", textOf(e.type)},
                      {"shape", e.shape},
                      {"data_offsets", {offset, offset + e.size}}};
    offset += e.size;
  }
  std::string text = header.dump();
  text.resize((text.size() + 8 + 63) / 64 * 64 - 8,
              ' '); // data begin aligned, as the format advises
  Descriptor d = openToWrite(path, O_WRONLY | O_CREAT | O_TRUNC, folder);
  uint64_t size = text.size();
  writeAll(d.get(), &size, 8, path);
  writeAll(d.get(), text.data(), text.size(), path);
  uint64_t hash = hashBytes(text.data(), text.size());
  size_t unsynced = 0; // tensors may be small, and many
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry &e = entries[i];
    const void *all = e.data ? e.data : e.owned.data();
    for (size_t from = 0, n = 0; from < e.size; from += n) {
      n = std::min(e.size - from, kMostUnsynced); // whole words for the hash
      const void *data =
          source ? source(i, from, n) : static_cast<const char *>(all) + from;
      writeAll(d.get(), data, n, path);
      hash = hashBytes(data, n, hash);
      if ((unsynced += n) >= kMostUnsynced) {
        FileActivity activity("writing", path);
        (void)::fdatasync(d.get());
        unsynced = 0;
      }
    }
  }
  FileActivity activity("writing", path);
  if (::fsync(d.get()) < 0)
    failedCall(path, "sync");
  if (::close(d.release()) < 0)
    failedCall(path, "write");
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

} // namespace dt::rt
