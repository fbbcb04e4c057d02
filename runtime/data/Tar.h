//===- Tar.h - members of a tar shard ---------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Where the files of a shard lie, so that samples are read by offset later, and
// how shards are written. libarchive knows the tar dialects (ustar, GNU and pax
// long names); nothing is ever extracted, names are keys only.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_TAR_H
#define DT_RUNTIME_DATA_TAR_H

#include "runtime/base/Files.h"

#include <cstdint>
#include <string>
#include <vector>

struct archive;

namespace dt::rt::data {

/// A regular file in a shard; `size` bytes from byte `offset` of the shard on.
struct TarMember {
  std::string name;
  int64_t offset = 0;
  int64_t size = 0;
  std::string problem; ///< not empty: present, but not readable as a plain file
};

struct TarListing {
  std::vector<TarMember> members;
  std::string
      problem; ///< not empty: the shard ends or breaks after the last member
};

/// Lists the regular files of an uncompressed tar in order. Throws Error if the
/// file is no tar, SystemError if it cannot be read; damage further in is
/// `TarListing::problem`.
TarListing listTar(const std::string &path);

/// A file opened for positioned reads, shareable by threads.
class PositionedFile {
public:
  explicit PositionedFile(const std::string &path); ///< throws SystemError

  /// Exactly `size` bytes from `offset` on; throws Error if the file had fewer
  /// when it was opened, SystemError if it cannot be read.
  std::string read(int64_t offset, int64_t size) const;
  int64_t size() const { return bytes; }
  int64_t modified() const { return mtime; } ///< ns since the epoch
  uint64_t inode() const { return number; }

private:
  std::string path;
  Descriptor descriptor;
  int64_t bytes = 0, mtime = 0;
  uint64_t number = 0;
};

/// Writes a shard with fixed owners and times, so that equal content gives
/// equal bytes. The file appears under its name only when `close` has
/// succeeded.
class TarWriter {
public:
  explicit TarWriter(const std::string &path); ///< throws Error
  ~TarWriter();
  TarWriter(const TarWriter &) = delete;
  TarWriter &operator=(const TarWriter &) = delete;
  void add(const std::string &name,
           const std::string &content); ///< throws Error
  void close();                         ///< throws Error

private:
  [[noreturn]] void fail();
  std::string path, temporary;
  Descriptor file;
  archive *out = nullptr;
};

} // namespace dt::rt::data

#endif // DT_RUNTIME_DATA_TAR_H
