//===- Files.cpp - files that are whole or not there ----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Files.h"
#include "runtime/base/FileActivity.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace dt::rt {

namespace fs = std::filesystem;

namespace {

constexpr size_t kBuffer = 1 << 16;

int openFile(const std::string &path, int flags) {
  int file;
  do
    file = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  while (file < 0 && errno == EINTR);
  return file;
}

std::string reason(const std::string &path, const char *operation, int code) {
  return path + ": cannot " + operation + ": " + std::strerror(code);
}

bool isLink(const std::string &path) {
  struct stat info;
  return ::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
}

/// The system has links for these, and means them to be opened.
bool isOwnStream(const std::string &path) {
  return path == "/dev/stdout" || path == "/dev/stderr" ||
         path.rfind("/dev/fd/", 0) == 0 || path.rfind("/proc/self/fd/", 0) == 0;
}

[[noreturn]] void refuseLink(const std::string &path, const char *expected) {
  throw Error(path + ": is a link, expected " + expected);
}

/// A folder that was made, opened without going through a link.
Descriptor openFolder(const std::string &path) {
  Descriptor folder(
      ::open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder && isLink(path))
    refuseLink(path, "a folder");
  return folder;
}

std::string folderOf(const std::string &path) {
  std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string nameOf(const std::string &path) {
  return fs::path(path).filename().string();
}

} // namespace

Descriptor openToWrite(const std::string &path, int flags, Folder folder) {
  flags |= O_CLOEXEC | (isOwnStream(path) ? 0 : O_NOFOLLOW);
  Descriptor inside;
  if (folder == Folder::Made && !(inside = openFolder(folderOf(path))))
    failedCall(path, flags & O_CREAT ? "create" : "open");
  int file;
  do
    file = inside ? ::openat(inside.get(), nameOf(path).c_str(), flags, 0666)
                  : ::open(path.c_str(), flags, 0666);
  while (file < 0 && errno == EINTR);
  if (file < 0 && errno == ELOOP && isLink(path))
    refuseLink(path, "a file");
  if (file < 0)
    failedCall(path, flags & O_CREAT ? "create" : "open");
  return Descriptor(file);
}

void failedCall(const std::string &path, const char *operation, int code) {
  throw SystemError(reason(path, operation, code), code);
}

Descriptor::~Descriptor() {
  if (number >= 0)
    ::close(number);
}

Descriptor &Descriptor::operator=(Descriptor &&other) {
  if (this != &other) {
    if (number >= 0)
      ::close(number);
    number = other.release();
  }
  return *this;
}

int Descriptor::release() {
  int was = number;
  number = -1;
  return was;
}

void writeAll(int descriptor, const void *data, size_t size,
              const std::string &path) {
  const char *p = static_cast<const char *>(data);
  FileActivity activity("writing", path);
  for (size_t unsynced = 0; size;) {
    ssize_t n = ::write(descriptor, p, std::min(size, kMostAtOnce));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      failedCall(path, "write", n < 0 ? errno : ENOSPC);
    p += n, size -= size_t(n), unsynced += size_t(n);
    activity.moved();
    // Best effort: pipes cannot, and whoever needs it durable syncs at the end.
    if (unsynced >= kMostUnsynced) {
      (void)::fdatasync(descriptor);
      activity.moved();
      unsynced = 0;
    }
  }
}

void readAll(int descriptor, void *data, size_t size, uint64_t offset,
             const std::string &path) {
  char *p = static_cast<char *>(data);
  FileActivity activity("reading", path);
  while (size) {
    ssize_t n =
        ::pread(descriptor, p, std::min(size, kMostAtOnce), off_t(offset));
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      failedCall(path, ("read at byte " + std::to_string(offset)).c_str());
    if (n == 0)
      throw SystemError(path +
                        ": became shorter while it was in use (nothing "
                        "at byte " +
                        std::to_string(offset) + ")");
    p += n, size -= size_t(n), offset += uint64_t(n);
    activity.moved();
  }
}

std::string readText(const std::string &path, size_t most) {
  FileActivity activity("opening", path);
  // A pipe would wait for who writes it.
  Descriptor file(openFile(path, O_RDONLY | O_NONBLOCK));
  struct stat info;
  if (!file || ::fstat(file.get(), &info) < 0)
    failedCall(path, "open");
  if (!S_ISREG(info.st_mode))
    throw Error(path + ": not a regular file");
  if (uint64_t(info.st_size) > most)
    throw Error(path + ": has " + std::to_string(info.st_size) +
                " bytes, at most " + std::to_string(most) + " are expected");
  std::string text(size_t(info.st_size), '\0');
  readAll(file.get(), text.data(), text.size(), 0, path);
  return text;
}

void syncPath(const std::string &path) {
  FileActivity activity("writing", path);
  Descriptor file(openFile(path, O_RDONLY));
  // Some file systems have no fsync of folders: nothing can be done there.
  if (!file || (::fsync(file.get()) < 0 && errno != EINVAL))
    failedCall(path, "sync");
}

void renamePath(const std::string &from, const std::string &to) {
  FileActivity activity("writing", to);
  if (::rename(from.c_str(), to.c_str()) != 0)
    failedCall(to, "rename its temporary file to it");
}

void makeFolders(const std::string &path) {
  FileActivity activity("writing", path);
  std::error_code error;
  fs::create_directories(path, error);
  if (!error && !fs::is_directory(path, error) && !error)
    error = std::make_error_code(std::errc::not_a_directory);
  if (error)
    throw SystemError(path + ": cannot create: " + error.message());
}

void makeFoldersIn(const std::string &folder, const std::string &path) {
  std::string at = folder;
  for (const fs::path &part : fs::path(path)) {
    if (part.empty() || part == ".")
      continue;
    at += "/" + part.string();
    struct stat info;
    if (::mkdir(at.c_str(), 0777) != 0 && errno != EEXIST)
      failedCall(at, "create");
    if (isLink(at))
      refuseLink(at, "a folder");
    if (::lstat(at.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
      throw Error(at + ": is a file, expected a folder");
  }
}

int swapFolders(const std::string &fresh, const std::string &place,
                const std::string &aside) {
  if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, place.c_str(),
                  RENAME_EXCHANGE) == 0)
    return 0;
  // Nothing is there yet, or a file system that cannot.
  if (errno != ENOENT && errno != EINVAL && errno != ENOSYS &&
      errno != EOPNOTSUPP)
    return errno;
  bool replaces = ::rename(place.c_str(), aside.c_str()) == 0;
  if (!replaces && errno != ENOENT)
    return errno;
  if (::rename(fresh.c_str(), place.c_str()) != 0) {
    int code = errno;
    if (replaces)
      ::rename(aside.c_str(), place.c_str());
    return code;
  }
  if (replaces && ::rename(aside.c_str(), fresh.c_str()) != 0)
    return errno;
  return 0;
}

bool restoreFolder(const std::string &place, const std::string &aside) {
  struct stat info;
  return ::lstat(place.c_str(), &info) != 0 && errno == ENOENT &&
         ::rename(aside.c_str(), place.c_str()) == 0;
}

//===----------------------------------------------------------------------===//
// FileWriter
//===----------------------------------------------------------------------===//

FileWriter::FileWriter(const std::string &path, bool append, Folder folder) {
  open(path, append, folder);
}

FileWriter::~FileWriter() {
  if (isOpen())
    flush();
}

void FileWriter::open(const std::string &name, bool append, Folder folder) {
  path = name;
  FileActivity activity("writing", path);
  file = openToWrite(path, O_WRONLY | O_CREAT | (append ? O_APPEND : O_TRUNC),
                     folder);
}

void FileWriter::write(const void *data, size_t size) {
  if (!wrong.empty())
    return;
  buffer.append(static_cast<const char *>(data), size);
  if (buffer.size() >= kBuffer)
    flush();
}

void FileWriter::flush() {
  if (!wrong.empty())
    return;
  try {
    writeAll(file.get(), buffer.data(), buffer.size(), path);
  } catch (const SystemError &e) {
    wrong = e.what();
  }
  buffer.clear();
}

void FileWriter::close(bool durable) {
  flush();
  FileActivity activity("writing", path);
  // Pipes and devices cannot be synced, and need not be.
  if (wrong.empty() && durable && ::fsync(file.get()) < 0 && errno != EINVAL &&
      errno != EROFS)
    wrong = reason(path, "sync", errno);
  if (::close(file.release()) < 0 && wrong.empty() && errno != EINTR)
    wrong = reason(path, "write", errno);
  if (!wrong.empty())
    throw SystemError(wrong);
}

//===----------------------------------------------------------------------===//
// Replacement
//===----------------------------------------------------------------------===//

Replacement::Replacement(const std::string &path, Folder folder)
    : target(path) {
  if (isLink(target) && !isOwnStream(target))
    refuseLink(target, "a file");
  std::error_code error;
  fs::file_status status = fs::status(target, error);
  bool there = fs::exists(status), plain = fs::is_regular_file(status);
  written = target + ".tmp";
  if (there && !plain) {
    written = target;
    return;
  }
  // What is left of a process that was killed.
  ::unlink(written.c_str());
  try {
    openToWrite(written, O_WRONLY | O_CREAT | O_EXCL, folder);
  } catch (const SystemError &e) {
    // A folder may take no new file though what is in it may be written.
    if (!there || (e.code != EACCES && e.code != EPERM))
      failedCall(target, "create", e.code);
    written = target;
  }
}

Replacement::Replacement(Replacement &&other)
    : target(std::move(other.target)), written(std::move(other.written)),
      pending(other.pending) {
  other.pending = false;
}

Replacement::~Replacement() {
  if (pending && written != target)
    ::unlink(written.c_str());
}

void Replacement::commit() {
  if (written != target)
    renamePath(written, target);
  pending = false;
}

void writeWhole(const std::string &path, const std::string &text,
                Folder folder) {
  Replacement replacement(path, folder);
  FileWriter file(replacement.temporary(), /*append=*/false, folder);
  file.write(text);
  file.close(true);
  replacement.commit();
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

void expectWritable(const std::string &flag, const std::string &path) {
  std::string where = flag + " " + path;
  struct stat info;
  if (isLink(path) && !isOwnStream(path))
    refuseLink(where, "a file");
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode))
      throw Error(where + ": is a folder, expected a file");
    if (::access(path.c_str(), W_OK) != 0)
      throw Error(reason(where, "write", errno));
    // Opening a pipe would wait for its reader.
    if (!S_ISREG(info.st_mode))
      return;
  }
  std::string folder = folderOf(path);
  if (::stat(folder.c_str(), &info) != 0)
    throw Error(where + ": folder " + folder + ": " + std::strerror(errno));
  if (!S_ISDIR(info.st_mode))
    throw Error(where + ": " + folder + " is no folder");
  bool fresh = ::access(path.c_str(), F_OK) != 0;
  try {
    openToWrite(path, O_WRONLY | O_CREAT);
  } catch (const SystemError &e) {
    throw Error(reason(where, "create", e.code));
  }
  if (fresh)
    ::unlink(path.c_str());
}

void expectFolder(const std::string &flag, const std::string &path) {
  std::string where = flag + " " + path;
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_directory(path, error))
    throw Error(where + ": is a file, expected a folder");
  fs::create_directories(path, error);
  if (error)
    throw Error(where + ": cannot create the folder: " + error.message());
  std::string probe = path + "/.write-" + std::to_string(::getpid()) + ".tmp";
  ::unlink(probe.c_str());
  try {
    openToWrite(probe, O_WRONLY | O_CREAT | O_EXCL);
  } catch (const SystemError &e) {
    throw Error(where +
                ": cannot create a file in it: " + std::strerror(e.code));
  }
  ::unlink(probe.c_str());
}

bool endsWith(const std::string &text, const std::string &end) {
  return text.size() >= end.size() &&
         text.compare(text.size() - end.size(), end.size(), end) == 0;
}

std::string printable(const std::string &text) {
  std::string out;
  for (unsigned char c : text.substr(0, 200))
    out += c < 32 || c == 127 ? '?' : char(c);
  return text.size() > 200 ? out + "..." : out;
}

std::string hexText(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(value));
  return text;
}

bool isHex(const std::string &text) {
  return text.size() == 16 &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string listed(const std::vector<std::string> &names) {
  constexpr size_t most = 8;
  std::string text;
  for (size_t i = 0; i < names.size() && i < most; ++i)
    text += (i ? ", " : "") + printable(names[i]);
  if (names.size() > most)
    text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

std::string hostName() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string machineName() {
  std::string start;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> start;
  return hostName() + " " + start;
}

} // namespace dt::rt
