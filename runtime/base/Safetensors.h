//===- Safetensors.h - reading and writing safetensors ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The format of weights, batches, checkpoints and dumps: 8 bytes of header
// length (little endian), a JSON header {name: {dtype, shape, data_offsets}},
// the data. Files are untrusted: everything in the header is checked before
// use.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_BASE_SAFETENSORS_H
#define DT_RUNTIME_BASE_SAFETENSORS_H

#include "runtime/Program.h"
#include "runtime/base/Files.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace dt::rt {

/// "[3, 40]".
std::string shapeText(const std::vector<int64_t> &shape);
/// Product of the extents; -1 if one is negative or the product does not fit.
int64_t elementCount(const std::vector<int64_t> &shape);

struct TensorView {
  DType type = DType::F32;
  std::vector<int64_t> shape;
  const std::byte *data = nullptr; ///< not aligned
  size_t size = 0;                 ///< bytes = elements * sizeOf(type)
};

/// Where a tensor lies in its file.
struct TensorPlace {
  DType type = DType::F32;
  std::vector<int64_t> shape;
  uint64_t offset = 0; ///< of its first byte
  size_t size = 0;     ///< bytes = elements * sizeOf(type)
};

/// A tensor of a type that nothing here reads (F8_E4M3, C64, ...). Only asking
/// for it is an error.
struct OtherTensor {
  std::string type;
  uint64_t offset = 0;
  size_t size = 0;
};

/// What the header of a file says.
struct SafetensorsHeader {
  std::map<std::string, TensorPlace> table;
  std::map<std::string, OtherTensor> others;
  std::map<std::string, std::string> notes; ///< texts of "__metadata__"
};

/// A file of which ranges are read. An error of the disk is an Error, where a
/// mapped page ends the process. Throws Error naming file and tensor.
class SafetensorsReader {
public:
  explicit SafetensorsReader(const std::string &path);

  const std::string &path() const { return file; }
  const std::map<std::string, TensorPlace> &tensors() const {
    return header.table;
  }
  /// Those of types that are not read, by name.
  const std::map<std::string, OtherTensor> &otherTensors() const {
    return header.others;
  }
  const std::map<std::string, std::string> &metadata() const {
    return header.notes;
  }
  /// `bytes` of a tensor from its byte `from` on.
  void read(const TensorPlace &tensor, uint64_t from, size_t bytes,
            void *to) const;
  /// What SafetensorsWriter::write gave; reads all.
  uint64_t hash() const;

private:
  std::string file, text;
  Descriptor descriptor;
  SafetensorsHeader header;
};

/// A mapped file, or what came through a pipe. Views live as long as it does.
/// Throws Error naming file and tensor.
class SafetensorsFile {
public:
  explicit SafetensorsFile(const std::string &path);
  /// `content` of what errors call `name`.
  SafetensorsFile(const std::string &name, std::string content);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile &) = delete;
  SafetensorsFile &operator=(const SafetensorsFile &) = delete;

  const std::string &path() const { return file; }
  const std::map<std::string, TensorView> &tensors() const { return table; }
  /// Those of types that are not read, by name.
  const std::map<std::string, OtherTensor> &otherTensors() const {
    return others;
  }
  /// Null if there is none of that name. Throws if its type is not read.
  const TensorView *find(const std::string &name) const;
  /// Entries of the header's "__metadata__" that are texts.
  const std::map<std::string, std::string> &metadata() const { return notes; }
  /// Throws if it is missing or of another type or shape.
  const TensorView &get(const std::string &name, DType type,
                        const std::vector<int64_t> &shape) const;

private:
  void parse();

  std::string file, content;
  const std::byte *memory = nullptr; ///< of `content`, if there is one
  size_t length = 0;
  std::map<std::string, TensorView> table;
  std::map<std::string, OtherTensor> others;
  std::map<std::string, std::string> notes;
};

/// Of a file whose end is not known yet: the length of the header, of its first
/// 8 bytes. Throws Error naming `file`.
uint64_t safetensorsHeaderLength(const std::string &first,
                                 const std::string &file);
/// What a header says before the data have come.
struct SafetensorsOutline {
  uint64_t dataLength = 0;
  std::map<std::string, std::string> notes; ///< texts of "__metadata__"
};
SafetensorsOutline outlineSafetensors(const std::string &header,
                                      const std::string &file);

/// Whether a path is a regular file that begins as one of this format. False
/// also if it cannot be read.
bool isSafetensors(const std::string &path);

/// Collects tensors, then writes the file in one go.
class SafetensorsWriter {
public:
  /// `data` must live until `write`.
  void add(const std::string &name, DType type,
           const std::vector<int64_t> &shape, const void *data);
  /// Takes the bytes.
  void add(const std::string &name, DType type,
           const std::vector<int64_t> &shape, std::vector<std::byte> bytes);
  /// An entry of "__metadata__".
  void note(const std::string &key, std::string text) {
    notes[key] = std::move(text);
  }

  /// Where bytes of the n-th tensor are, from its byte `from` on; valid until
  /// the next call. May make `bytes` a smaller multiple of 8.
  using Source =
      std::function<const void *(size_t tensor, size_t from, size_t &bytes)>;
  /// Writes and fsyncs; returns the hash of the data (see hashBytes). Throws
  /// Error naming the file. With a source: asks it for what add() was given.
  uint64_t write(const std::string &path, const Source &source = {},
                 Folder folder = Folder::Named) const;

private:
  struct Entry {
    std::string name;
    DType type;
    std::vector<int64_t> shape;
    const void *data;
    std::vector<std::byte> owned;
    size_t size;
  };
  void addEntry(Entry entry);
  std::vector<Entry> entries;
  std::map<std::string, std::string> notes;
};

/// FNV-1a over 8-byte words (and the remaining bytes): finds a damaged file,
/// not an attacker.
uint64_t hashBytes(const void *data, size_t size,
                   uint64_t hash = 0xCBF29CE484222325ull);

} // namespace dt::rt

#endif // DT_RUNTIME_BASE_SAFETENSORS_H
