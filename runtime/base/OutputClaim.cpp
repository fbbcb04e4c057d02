//===- OutputClaim.cpp - one process writes an output ---------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/OutputClaim.h"
#include "runtime/base/Files.h"
#include "runtime/base/Safetensors.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace dt::rt {

namespace {

/// The same for all paths that lead to one entry of one folder; empty if there
/// is no such folder, or the entry is a pipe or a device.
std::string claimName(const std::string &path) {
  namespace fs = std::filesystem;
  fs::path whole = fs::path(path).lexically_normal();
  if (!whole.has_filename()) // "out/"
    whole = whole.parent_path();
  std::string folder = whole.parent_path().string();
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) &&
      !S_ISDIR(info.st_mode))
    return {};
  if (::stat(folder.empty() ? "." : folder.c_str(), &info) != 0)
    return {};
  std::string file = whole.filename().string();
  // A socket's name has 107 bytes.
  return "disttrain-output " + std::to_string(info.st_dev) + " " +
         std::to_string(info.st_ino) + " " +
         hexText(hashBytes(file.data(), file.size()));
}

/// Of the process that listens under this name; 0: unknown.
pid_t holderOf(const sockaddr_un &address, socklen_t size) {
  Descriptor peer(
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (!peer ||
      ::connect(peer.get(), reinterpret_cast<const sockaddr *>(&address),
                size) != 0 ||
      ::getsockopt(peer.get(), SOL_SOCKET, SO_PEERCRED, &credentials,
                   &length) != 0)
    return 0;
  return credentials.pid;
}

} // namespace

OutputClaim::~OutputClaim() {
  if (socket >= 0)
    ::close(socket);
}

std::string OutputClaim::take(const std::string &path) {
  std::string name = claimName(path);
  sockaddr_un address{};
  address.sun_family = AF_UNIX; // a first byte of 0: no file
  if (name.empty() || name.size() + 1 > sizeof address.sun_path)
    return {};
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  socklen_t size = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  Descriptor fresh(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fresh)
    return {};
  if (::bind(fresh.get(), reinterpret_cast<const sockaddr *>(&address), size) !=
      0) {
    if (errno != EADDRINUSE)
      return {};
    pid_t holder = holderOf(address, size);
    return path + ": " +
           (holder ? "process " + std::to_string(holder) : "another process") +
           " writes it";
  }
  // Whoever finds the name taken asks whose it is; nobody is ever answered.
  (void)::listen(fresh.get(), SOMAXCONN);
  if (socket >= 0)
    ::close(socket);
  socket = fresh.release();
  return {};
}

} // namespace dt::rt
