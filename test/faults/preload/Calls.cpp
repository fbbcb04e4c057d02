//===- Calls.cpp - the wrapped calls --------------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// One wrapper for each function of the C library that programs reach a system
// call by, some of MPI's, and operator new. What the C library calls inside
// itself is not seen (fread after fopen, for instance).
//
//===----------------------------------------------------------------------===//

#include "Rules.h"

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <new>
#include <pthread.h>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

using faults::concerns;
using faults::judge;
using faults::Verdict;

namespace {

/// The function that this one stands before.
template <typename F> F next(F, const char *name) {
  return reinterpret_cast<F>(::dlsym(RTLD_NEXT, name));
}

/// -1 and errno if the call is to fail.
bool fails(const char *call, const char *path, int fd, size_t bytes = 0) {
  if (!concerns(call))
    return false;
  Verdict verdict = judge(call, path, fd, bytes);
  if (verdict.error)
    errno = verdict.error;
  return verdict.error;
}

/// As above of a call that moves bytes; makes `bytes` smaller.
bool failsMoving(const char *call, int fd, size_t &bytes) {
  if (!concerns(call))
    return false;
  Verdict verdict = judge(call, nullptr, fd, bytes);
  bytes = std::min(bytes, verdict.most);
  if (verdict.error)
    errno = verdict.error;
  return verdict.error;
}

/// What is opened in a folder, by its whole path.
std::string inFolder(int at, const char *path) {
  char folder[4096];
  std::string link = "/proc/self/fd/" + std::to_string(at);
  ssize_t n = path[0] == '/' || at < 0
                  ? -1
                  : ::readlink(link.c_str(), folder, sizeof folder);
  return n < 0 ? path : std::string(folder, size_t(n)) + "/" + path;
}

mode_t modeOf(int flags, va_list &list) {
  return flags & (O_CREAT | O_TMPFILE) ? mode_t(va_arg(list, int)) : 0;
}

} // namespace

#define NEXT(name) static auto real = next(&::name, #name)

#define OPEN(name)                                                             \
  int name(const char *path, int flags, ...) {                                 \
    NEXT(name);                                                                \
    va_list list;                                                              \
    va_start(list, flags);                                                     \
    mode_t mode = modeOf(flags, list);                                         \
    va_end(list);                                                              \
    return fails("open", path, -1) ? -1 : real(path, flags, mode);             \
  }
#define OPENAT(name)                                                           \
  int name(int at, const char *path, int flags, ...) {                         \
    NEXT(name);                                                                \
    va_list list;                                                              \
    va_start(list, flags);                                                     \
    mode_t mode = modeOf(flags, list);                                         \
    va_end(list);                                                              \
    return concerns("open") && fails("open", inFolder(at, path).c_str(), -1)   \
               ? -1                                                            \
               : real(at, path, flags, mode);                                  \
  }
#define FOPEN(name)                                                            \
  FILE *name(const char *path, const char *mode) {                             \
    NEXT(name);                                                                \
    return fails("open", path, -1) ? nullptr : real(path, mode);               \
  }
/// Result, name, rule's call, parameters, arguments; on a descriptor or a path.
#define ON_FD(name, call, parameters, arguments)                               \
  int name parameters {                                                        \
    NEXT(name);                                                                \
    return fails(call, nullptr, fd) ? -1 : real arguments;                     \
  }
#define ON_PATH(name, call, parameters, arguments)                             \
  int name parameters {                                                        \
    NEXT(name);                                                                \
    return fails(call, path, -1) ? -1 : real arguments;                        \
  }
#define MOVES(name, call, buffer)                                              \
  ssize_t name(int fd, buffer data, size_t bytes) {                            \
    NEXT(name);                                                                \
    return failsMoving(call, fd, bytes) ? -1 : real(fd, data, bytes);          \
  }
#define MOVES_AT(name, call, buffer)                                           \
  ssize_t name(int fd, buffer data, size_t bytes, off_t at) {                  \
    NEXT(name);                                                                \
    return failsMoving(call, fd, bytes) ? -1 : real(fd, data, bytes, at);      \
  }
/// Of a vector only the first part moves if the call is shortened.
#define MOVES_VECTOR(name, call)                                               \
  ssize_t name(int fd, const iovec *parts, int n) {                            \
    NEXT(name);                                                                \
    size_t bytes = 0;                                                          \
    for (int i = 0; i < n; ++i)                                                \
      bytes += parts[i].iov_len;                                               \
    size_t most = bytes;                                                       \
    if (failsMoving(call, fd, most))                                           \
      return -1;                                                               \
    if (most == bytes || n == 0)                                               \
      return real(fd, parts, n);                                               \
    iovec first{parts[0].iov_base, std::min(parts[0].iov_len, most)};          \
    return real(fd, &first, 1);                                                \
  }
#define MAPS(name)                                                             \
  void *name(void *at, size_t bytes, int protection, int flags, int fd,        \
             off_t offset) noexcept {                                          \
    NEXT(name);                                                                \
    if (fd >= 0 && fails("mmap", nullptr, fd, bytes))                          \
      return MAP_FAILED;                                                       \
    return real(at, bytes, protection, flags, fd, offset);                     \
  }
/// These return the error.
#define ALLOCATES(name)                                                        \
  int name(int fd, off_t offset, off_t bytes) {                                \
    NEXT(name);                                                                \
    return fails("fallocate", nullptr, fd, size_t(bytes))                      \
               ? errno                                                         \
               : real(fd, offset, bytes);                                      \
  }

extern "C" {

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
FOPEN(fopen)
FOPEN(fopen64)
MOVES(read, "read", void *)
MOVES(write, "write", const void *)
ssize_t recv(int fd, void *data, size_t bytes, int flags) {
  NEXT(recv);
  if (!concerns("recv"))
    return real(fd, data, bytes, flags);
  ssize_t n = real(fd, data, bytes, flags);
  if (n <= 0)
    return n;
  Verdict verdict = judge("recv", nullptr, fd, size_t(n));
  if (verdict.flip >= 0)
    static_cast<char *>(data)[verdict.flip % n] ^= 4;
  return n;
}
MOVES_AT(pread, "pread", void *)
MOVES_AT(pread64, "pread", void *)
MOVES_AT(pwrite, "pwrite", const void *)
MOVES_AT(pwrite64, "pwrite", const void *)
MOVES_VECTOR(readv, "read")
MOVES_VECTOR(writev, "write")
MAPS(mmap)
MAPS(mmap64)
ALLOCATES(posix_fallocate)
ALLOCATES(posix_fallocate64)
ON_FD(fsync, "fsync", (int fd), (fd))
ON_FD(fdatasync, "fdatasync", (int fd), (fd))
ON_FD(close, "close", (int fd), (fd))
ON_FD(ftruncate, "ftruncate", (int fd, off_t size) noexcept, (fd, size))
ON_FD(ftruncate64, "ftruncate", (int fd, off_t size) noexcept, (fd, size))
ON_FD(flock, "flock", (int fd, int operation) noexcept, (fd, operation))
ON_PATH(rename, "rename", (const char *path, const char *to) noexcept,
        (path, to))
ON_PATH(renameat2, "rename",
        (int from, const char *path, int into, const char *to,
         unsigned flags) noexcept,
        (from, path, into, to, flags))
ON_PATH(unlink, "unlink", (const char *path) noexcept, (path))
ON_PATH(rmdir, "unlink", (const char *path) noexcept, (path))
ON_PATH(unlinkat, "unlink", (int at, const char *path, int flags) noexcept,
        (at, path, flags))
ON_PATH(remove, "unlink", (const char *path) noexcept, (path))
ON_PATH(mkdir, "mkdir", (const char *path, mode_t mode) noexcept, (path, mode))
ON_PATH(statfs, "statfs", (const char *path, struct statfs *out) noexcept,
        (path, out))
ON_PATH(statfs64, "statfs", (const char *path, struct statfs64 *out) noexcept,
        (path, out))
ON_PATH(statvfs, "statfs", (const char *path, struct statvfs *out) noexcept,
        (path, out))
ON_PATH(statvfs64, "statfs", (const char *path, struct statvfs64 *out) noexcept,
        (path, out))

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                   void *(*body)(void *), void *argument) noexcept {
  NEXT(pthread_create);
  return fails("thread", "", -1) ? errno
                                 : real(thread, attributes, body, argument);
}

ssize_t getrandom(void *data, size_t bytes, unsigned flags) {
  static auto real = reinterpret_cast<ssize_t (*)(void *, size_t, unsigned)>(
      ::dlsym(RTLD_NEXT, "getrandom"));
  return fails("getrandom", "", -1, bytes) ? -1 : real(data, bytes, flags);
}

// MPI's handles are words here, whatever the library: registers and stack pass
// on as they are. The path of these calls is empty, so their pattern is `*`.
#define MPI(name)                                                              \
  int name(long a, long b, long c, long d, long e, long f, long g, long h) {   \
    static auto real =                                                         \
        reinterpret_cast<decltype(&name)>(::dlsym(RTLD_NEXT, #name));          \
    return fails(#name, "", -1) ? 16 : real(a, b, c, d, e, f, g, h);           \
  }
MPI(MPI_Init_thread)
MPI(MPI_Allreduce)
MPI(MPI_Iallreduce)
MPI(MPI_Allgather)
MPI(MPI_Allgatherv)
MPI(MPI_Reduce_scatter_block)
MPI(MPI_Ireduce_scatter_block)
MPI(MPI_Alltoall)
MPI(MPI_Barrier)
MPI(MPI_Bcast)
MPI(MPI_Isend)
MPI(MPI_Irecv)
MPI(MPI_Waitall)
MPI(MPI_Testall)
MPI(MPI_Comm_create_group)
MPI(MPI_Finalize)

} // extern "C"

/// `new` with `min=BYTES`: no memory for so large a block.
void *operator new(size_t bytes) {
  if (fails("new", "", -1, bytes))
    throw std::bad_alloc();
  if (void *memory = std::malloc(bytes ? bytes : 1))
    return memory;
  throw std::bad_alloc();
}
void *operator new[](size_t bytes) { return operator new(bytes); }
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete[](void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
void operator delete[](void *memory, size_t) noexcept { std::free(memory); }
