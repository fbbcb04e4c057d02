//===- Socket.h - connections between ranks ---------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// POSIX sockets that do not block. IPv4 and IPv6; names are resolved by
// getaddrinfo.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_TCP_SOCKET_H
#define DT_RUNTIME_COMM_TCP_SOCKET_H

#include <cstddef>
#include <string>
#include <utility>

namespace dt::rt::tcp {

/// A descriptor that is closed at the end.
class Socket {
public:
  Socket() = default;
  /// Takes the descriptor over: it blocks no more and is not handed to programs
  /// that this one starts.
  explicit Socket(int descriptor);
  Socket(Socket &&other) noexcept : fd(std::exchange(other.fd, -1)) {}
  Socket &operator=(Socket &&other) noexcept {
    std::swap(fd, other.fd);
    return *this;
  }
  ~Socket() { close(); }
  void close();

  explicit operator bool() const { return fd >= 0; }
  int get() const { return fd; }

  /// Numeric address of either end, without its port; empty if unknown. IPv4
  /// that comes through IPv6 is written as IPv4.
  std::string ownAddress() const;
  std::string peerAddress() const;
  int ownPort() const;

  /// Of a connection: small messages go at once, and a peer whose machine or
  /// cable is gone is found within about 15 seconds.
  void prepare();
  /// Whether what was sent is without answer although it was sent again and
  /// again for 10 seconds. A process that is only stopped still answers.
  bool isUnanswered() const;
  /// Bytes that the peer has not acknowledged, while it may.
  int unsentBytes() const;

private:
  int fd = -1;
};

constexpr const char *kLoopback = "127.0.0.1";

/// On this numeric address, or all that the machine has; port 0: any free one.
/// Throws Error.
Socket listenOn(int port, const std::string &address = "");

/// Once. Without a connection at `deadline` (of now()), or if it is refused:
/// nothing, and `why` says the reason. Throws Error where the system has no
/// descriptors left: who waits for another rank need not try again.
Socket connectTo(const std::string &host, int port, double deadline,
                 std::string &why);

/// All of it by `deadline`; false, and `why`, if not.
bool sendAll(const Socket &socket, const void *data, size_t bytes,
             double deadline, std::string &why);
bool receiveAll(const Socket &socket, void *data, size_t bytes, double deadline,
                std::string &why);

/// Whether this address can only mean the machine itself.
bool isLoopback(const std::string &address);
/// Whether a name has addresses, all of them this machine's.
bool isThisMachine(const std::string &host);

} // namespace dt::rt::tcp

#endif // DT_RUNTIME_COMM_TCP_SOCKET_H
