//===- Tar.cpp - members of a tar shard -------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See Tar.h. Offsets are libarchive's position after a header: with no filter
// in between that is the file's.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Tar.h"

#include "runtime/base/Error.h"
#include "runtime/base/FileActivity.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <memory>
#include <new>
#include <sys/stat.h>
#include <unistd.h>

using namespace dt::rt;
using namespace dt::rt::data;

namespace {
struct ReadCloser {
  void operator()(archive *a) const { archive_read_free(a); }
};
using ReadHandle = std::unique_ptr<archive, ReadCloser>;

std::string archiveError(archive *a) {
  const char *text = archive_error_string(a);
  return text ? printable(text) : "unknown error";
}

/// What keeps an entry from being a plain run of bytes in the shard.
std::string entryProblem(archive_entry *entry) {
  if (archive_entry_hardlink(entry) || archive_entry_symlink(entry))
    return "is a link";
  if (archive_entry_sparse_count(entry) > 0)
    return "is a sparse file";
  if (!archive_entry_size_is_set(entry) || archive_entry_size(entry) < 0)
    return "has no size";
  return {};
}
/// libarchive reads through this, so that a failed call is told from damage.
struct ArchiveSource {
  const PositionedFile &file;
  int64_t at = 0;
  std::string block = {};
  std::exception_ptr failure = {};

  static la_ssize_t read(archive *a, void *self, const void **out) {
    auto &in = *static_cast<ArchiveSource *>(self);
    try {
      in.block = in.file.read(
          in.at, std::min<int64_t>(in.file.size() - in.at, 1 << 16));
    } catch (...) {
      in.failure = std::current_exception();
      archive_set_error(a, EIO, "cannot read");
      return -1;
    }
    in.at += int64_t(in.block.size());
    *out = in.block.data();
    return la_ssize_t(in.block.size());
  }
  static la_int64_t skip(archive *, void *self, la_int64_t bytes) {
    auto &in = *static_cast<ArchiveSource *>(self);
    la_int64_t skipped = std::min<la_int64_t>(bytes, in.file.size() - in.at);
    in.at += skipped;
    return skipped;
  }
};

/// Throws what is no property of the file.
void rethrowFailure(const ArchiveSource &source, archive *a) {
  if (source.failure)
    std::rethrow_exception(source.failure);
  if (archive_errno(a) == ENOMEM)
    throw std::bad_alloc();
}
} // namespace

TarListing data::listTar(const std::string &path) {
  PositionedFile file(path);
  ArchiveSource source{file};
  ReadHandle in(archive_read_new());
  if (!in)
    throw std::bad_alloc();
  archive_read_support_format_tar(in.get());
  archive_read_set_options(
      in.get(), "hdrcharset=BINARY"); // names are bytes, whatever the locale
  if (archive_read_open2(in.get(), &source, nullptr, ArchiveSource::read,
                         ArchiveSource::skip, nullptr) != ARCHIVE_OK) {
    rethrowFailure(source, in.get());
    throw Error(path +
                ": not an uncompressed tar file: " + archiveError(in.get()));
  }
  TarListing listing;
  FileActivity activity("reading", path);
  while (true) {
    activity.moved();
    archive_entry *entry = nullptr;
    int rc = archive_read_next_header(in.get(), &entry);
    if (rc == ARCHIVE_EOF)
      return listing;
    if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN) {
      rethrowFailure(source, in.get());
      if (listing.members.empty())
        throw Error(
            path + ": not an uncompressed tar file: " + archiveError(in.get()));
      listing.problem = archiveError(in.get());
      return listing;
    }
    TarMember member;
    const char *name = archive_entry_pathname(entry);
    member.name = name ? name : "";
    member.problem = entryProblem(entry);
    bool regular = archive_entry_filetype(entry) == AE_IFREG;
    if (!regular && member.problem.empty())
      continue;
    member.offset = archive_filter_bytes(in.get(), -1);
    member.size = member.problem.empty() ? archive_entry_size(entry) : 0;
    if (member.size > file.size() - member.offset) {
      member.problem = "is cut off by the end of the shard";
      member.size = 0;
      listing.members.push_back(std::move(member));
      listing.problem = "truncated";
      return listing;
    }
    listing.members.push_back(std::move(member));
    if (archive_read_data_skip(in.get()) < ARCHIVE_WARN) {
      rethrowFailure(source, in.get());
      listing.problem = archiveError(in.get());
      return listing;
    }
  }
}

PositionedFile::PositionedFile(const std::string &path) : path(path) {
  FileActivity activity("opening", path);
  descriptor = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info;
  if (!descriptor || fstat(descriptor.get(), &info) != 0)
    failedCall(path, "open");
  if (!S_ISREG(info.st_mode))
    throw Error(path + ": not a regular file");
  bytes = info.st_size;
  number = info.st_ino;
  mtime = int64_t(info.st_mtim.tv_sec) * 1000000000 + info.st_mtim.tv_nsec;
}

std::string PositionedFile::read(int64_t offset, int64_t size) const {
  if (offset < 0 || size < 0 || offset > bytes || size > bytes - offset)
    throw Error(path + ": no " + std::to_string(size) + " bytes at " +
                std::to_string(offset));
  std::string out(size_t(size), '\0');
  readAll(descriptor.get(), out.data(), out.size(), uint64_t(offset), path);
  return out;
}

TarWriter::TarWriter(const std::string &path)
    : path(path), temporary(path + ".tmp") {
  out = archive_write_new();
  archive_write_set_format_pax_restricted(
      out); // plain ustar unless a name is too long
  archive_write_set_options(
      out, "hdrcharset=BINARY"); // names are bytes, whatever the locale
  ::unlink(temporary.c_str());
  try {
    file = openToWrite(temporary, O_WRONLY | O_CREAT | O_EXCL);
  } catch (const Error &) {
    archive_write_free(out);
    throw;
  }
  if (archive_write_open_fd(out, file.get()) != ARCHIVE_OK)
    fail();
}

TarWriter::~TarWriter() {
  if (!out)
    return;
  archive_write_free(out);
  ::unlink(temporary.c_str());
}

void TarWriter::fail() {
  std::string text = path + ": " + archiveError(out);
  archive_write_free(out);
  out = nullptr;
  ::unlink(temporary.c_str());
  throw Error(text);
}

void TarWriter::add(const std::string &name, const std::string &content) {
  std::unique_ptr<archive_entry, void (*)(archive_entry *)> entry(
      archive_entry_new(), archive_entry_free);
  archive_entry_set_pathname(entry.get(), name.c_str());
  archive_entry_set_size(entry.get(), la_int64_t(content.size()));
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), 0644);
  archive_entry_set_mtime(entry.get(), 0, 0);
  if (archive_write_header(out, entry.get()) != ARCHIVE_OK ||
      archive_write_data(out, content.data(), content.size()) !=
          la_ssize_t(content.size()))
    fail();
}

void TarWriter::close() {
  if (archive_write_close(out) != ARCHIVE_OK)
    fail();
  archive_write_free(out);
  out = nullptr;
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    throw Error(path + ": " + std::strerror(errno));
}
