//===- Files.h - files that are whole or not there --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What a run leaves behind is written under a temporary name and renamed, so
// that a full disk or a kill leaves what was there before. A folder may come
// from anybody: what is made in it never goes through a link that stands there.
// Every failed call is an error of one line with file, operation and the
// system's reason.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_BASE_FILES_H
#define DT_RUNTIME_BASE_FILES_H

#include "runtime/base/Error.h"

#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

namespace dt::rt {

/// A call of the system failed (or memory is short): an error of the run, never
/// a property of what a file holds, so it is neither remembered nor taken for
/// damage.
class SystemError : public Error {
public:
  explicit SystemError(const std::string &line, int code = 0)
      : Error(line), code(code) {}
  int code; ///< errno; 0: none
};

/// "F: cannot write: No space left on device", as a SystemError.
[[noreturn]] void failedCall(const std::string &path, const char *operation,
                             int code = errno);

/// Closes on every way out; not copied.
class Descriptor {
public:
  explicit Descriptor(int number = -1) : number(number) {}
  ~Descriptor();
  Descriptor(Descriptor &&other) : number(other.release()) {}
  Descriptor &operator=(Descriptor &&other);
  int get() const { return number; }
  int release();
  explicit operator bool() const { return number >= 0; }

private:
  int number;
};

/// All of `size` bytes; throws SystemError.
void writeAll(int descriptor, const void *data, size_t size,
              const std::string &path);
/// Exactly `size` bytes from `offset` on; throws SystemError, also if the file
/// is shorter.
void readAll(int descriptor, void *data, size_t size, uint64_t offset,
             const std::string &path);

/// Whose a path's folder is: links that lead to a folder which the user names
/// are the user's; a folder that the program has made is no link.
enum class Folder { Named, Made };

/// Opens a file to be written: `flags` are O_RDWR or O_WRONLY and what open()
/// knows besides. A link in its place is an error, but for the names of the
/// process's own streams (/dev/stdout, /dev/fd/3); so is a link in place of a
/// folder that was made. Throws Error, or SystemError.
Descriptor openToWrite(const std::string &path, int flags,
                       Folder folder = Folder::Named);

/// All of a file of at most `most` bytes; throws SystemError, or Error if it is
/// larger.
std::string readText(const std::string &path, size_t most);

/// Makes a new file's content, or the renamings inside a folder, durable.
/// Throws SystemError.
void syncPath(const std::string &path);
/// Throws SystemError.
void renamePath(const std::string &from, const std::string &to);
/// mkdir -p; throws SystemError.
void makeFolders(const std::string &path);
/// The same for a path below a folder that is there; a link on the way down is
/// an Error.
void makeFoldersIn(const std::string &folder, const std::string &path);
/// Puts a folder in the place of another, or where none is: at once where the
/// file system can, so that a kill leaves one of the two there, and what was
/// there under the name of `fresh`; elsewhere by way of the name `aside`.
/// Returns an errno; 0: done.
int swapFolders(const std::string &fresh, const std::string &place,
                const std::string &aside);
/// What a kill amid swapFolders leaves: puts `aside` back in its place if
/// nothing is there; whether it did.
bool restoreFolder(const std::string &place, const std::string &aside);

/// Writes a file through a buffer. The first failed call is remembered; close()
/// throws it.
class FileWriter {
public:
  FileWriter() = default;
  /// Throws SystemError if it cannot be created.
  explicit FileWriter(const std::string &path, bool append = false,
                      Folder folder = Folder::Named);
  ~FileWriter();
  FileWriter(const FileWriter &) = delete;
  FileWriter &operator=(const FileWriter &) = delete;
  void open(const std::string &path, bool append = false,
            Folder folder = Folder::Named);

  bool isOpen() const { return bool(file); }
  void write(const void *data, size_t size);
  void write(const std::string &text) { write(text.data(), text.size()); }
  void flush();
  /// What went wrong so far; empty: nothing.
  const std::string &failure() const { return wrong; }
  /// Throws SystemError if anything went wrong. `durable`: with fsync.
  void close(bool durable = false);

private:
  std::string path, buffer, wrong;
  Descriptor file;
};

/// A file on its way: written under temporary(), then put in place of what is
/// there. Without commit() the temporary file is removed. What is no regular
/// file (a pipe, /dev/stdout), or lies in a folder that takes no new files, is
/// written in place. A link is an Error.
class Replacement {
public:
  explicit Replacement(const std::string &path, Folder folder = Folder::Named);
  ~Replacement();
  Replacement(Replacement &&other);
  Replacement &operator=(Replacement &&) = delete;
  const std::string &temporary() const { return written; }
  const std::string &path() const { return target; }
  /// Throws SystemError.
  void commit();

private:
  std::string target, written;
  bool pending = true;
};

/// Text into a file, whole and durable or not at all. Throws SystemError.
void writeWhole(const std::string &path, const std::string &text,
                Folder folder = Folder::Named);

/// Throws Error, beginning with `flag`, unless the file can be written: it is
/// no folder and no link, and its folder is there and takes it. Changes
/// nothing.
void expectWritable(const std::string &flag, const std::string &path);
/// Makes a folder and throws Error, beginning with `flag`, unless files can be
/// made in it.
void expectFolder(const std::string &flag, const std::string &path);

bool endsWith(const std::string &text, const std::string &end);
/// Anybody's text as it may stand in a line: without control characters, so
/// that a name from a file cannot write to a terminal; cut after 200 bytes.
std::string printable(const std::string &text);
/// The first eight names, printable, and how many more there are.
std::string listed(const std::vector<std::string> &names);

/// Sixteen hexadecimal digits, and back (false: something else).
std::string hexText(uint64_t value);
bool isHex(const std::string &text);

/// Of this machine, for reports.
std::string hostName();
/// What processes of one machine have in common, and of no other: its name and
/// the system's start. Containers of different names are machines.
std::string machineName();

} // namespace dt::rt

#endif // DT_RUNTIME_BASE_FILES_H
