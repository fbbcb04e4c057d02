//===- Socket.cpp - connections between ranks -----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/tcp/Socket.h"
#include "runtime/base/Clock.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#ifdef __linux__
#include <linux/sockios.h>
#endif

namespace dt::rt::tcp {

namespace {

/// A connection that is quiet is asked for an answer after so many seconds,
/// then so often, so many times.
constexpr int kQuiet = 5, kBetween = 2, kTimes = 5;
/// What was sent is sent again at growing distances: this often in 10 seconds.
constexpr unsigned kUnansweredMs = 10000, kSentAgain = 4;

using Name = int (*)(int, sockaddr *, socklen_t *);

sockaddr_storage endOf(int fd, Name name) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (name(fd, reinterpret_cast<sockaddr *>(&address), &size))
    address.ss_family = AF_UNSPEC;
  return address;
}

std::string numericOf(const sockaddr_storage &address) {
  char text[NI_MAXHOST];
  socklen_t size = address.ss_family == AF_INET6 ? sizeof(sockaddr_in6)
                                                 : sizeof(sockaddr_in);
  if (address.ss_family == AF_UNSPEC ||
      ::getnameinfo(reinterpret_cast<const sockaddr *>(&address), size, text,
                    sizeof text, nullptr, 0, NI_NUMERICHOST))
    return "";
  std::string numeric = text, mapped = "::ffff:";
  return numeric.rfind(mapped, 0) == 0 && numeric.find('.') != std::string::npos
             ? numeric.substr(mapped.size())
             : numeric;
}

int portOf(const sockaddr_storage &address) {
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6 &>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in &>(address).sin_port);
}

void set(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

/// Whether something has happened by `deadline`.
bool awaits(int fd, short events, double deadline) {
  while (true) {
    double left = deadline - now();
    pollfd entry{fd, events, 0};
    int ready = ::poll(&entry, 1, std::max(0, int(left * 1000)));
    if (ready > 0)
      return true;
    if (left <= 0 || (ready < 0 && errno != EINTR))
      return false;
  }
}

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo *)>;

Addresses resolve(const std::string &host, int port, std::string &why) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  int code =
      ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code)
    why = code == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(code);
  return {code ? nullptr : found, ::freeaddrinfo};
}

/// A port of this machine that nobody listens on may become both ends of one
/// connection.
bool meetsItself(const Socket &socket) {
  sockaddr_storage own = endOf(socket.get(), ::getsockname),
                   peer = endOf(socket.get(), ::getpeername);
  return portOf(own) == portOf(peer) && numericOf(own) == numericOf(peer);
}

Socket connectTo(const addrinfo &to, double deadline, std::string &why) {
  Socket socket(::socket(to.ai_family, to.ai_socktype, to.ai_protocol));
  int problem = socket ? 0 : errno;
  socklen_t size = sizeof problem;
  if (problem == EMFILE || problem == ENFILE) // no use in trying again
    throw Error(std::string("no connection to another rank can be made: ") +
                std::strerror(problem) + " (ulimit -n)");
  if (socket && ::connect(socket.get(), to.ai_addr, to.ai_addrlen)) {
    problem = errno;
    if (problem == EINPROGRESS && !awaits(socket.get(), POLLOUT, deadline))
      problem = ETIMEDOUT;
    else if (problem == EINPROGRESS)
      ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &problem, &size);
  }
  if (!problem && meetsItself(socket))
    problem = ECONNREFUSED;
  if (!problem)
    return socket;
  why = std::strerror(problem);
  return {};
}

} // namespace

Socket::Socket(int descriptor) : fd(descriptor) {
  if (fd < 0)
    return;
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

void Socket::close() {
  if (fd >= 0)
    ::close(std::exchange(fd, -1));
}

std::string Socket::ownAddress() const {
  return numericOf(endOf(fd, ::getsockname));
}
std::string Socket::peerAddress() const {
  return numericOf(endOf(fd, ::getpeername));
}
int Socket::ownPort() const { return portOf(endOf(fd, ::getsockname)); }

void Socket::prepare() {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
#ifdef __linux__
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, kQuiet);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, kBetween);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, kTimes);
#endif
}

// Not TCP_USER_TIMEOUT: that also ends connections to a process that does not
// read because it was stopped for a while. What cannot even leave this machine
// is no retransmission, but probed for.
bool Socket::isUnanswered() const {
#ifdef __linux__
  tcp_info info{};
  socklen_t size = sizeof info;
  return !::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) &&
         std::max(info.tcpi_retransmits, info.tcpi_probes) >= kSentAgain &&
         info.tcpi_last_ack_recv >= kUnansweredMs;
#else
  return false;
#endif
}

int Socket::unsentBytes() const {
#ifdef __linux__
  tcp_info info{};
  socklen_t size = sizeof info;
  int bytes = 0;
  if (!::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) &&
      info.tcpi_state != TCP_CLOSE && !::ioctl(fd, SIOCOUTQ, &bytes))
    return bytes;
#endif
  return 0;
}

Socket listenOn(int port, const std::string &address) {
  std::string why;
  // One socket for all addresses of both families where the system has both.
  std::vector<std::string> ends = {address};
  if (address.empty())
    ends = {"::", "0.0.0.0"};
  for (const std::string &end : ends) {
    Addresses at = resolve(end, port, why);
    if (!at)
      continue;
    Socket socket(::socket(at->ai_family, at->ai_socktype, at->ai_protocol));
    if (socket) {
      set(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
      if (at->ai_family == AF_INET6)
        set(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, !address.empty());
    }
    if (socket && !::bind(socket.get(), at->ai_addr, at->ai_addrlen) &&
        !::listen(socket.get(), SOMAXCONN))
      return socket;
    why = std::strerror(errno);
  }
  throw Error("cannot listen on port " + std::to_string(port) + ": " + why);
}

Socket connectTo(const std::string &host, int port, double deadline,
                 std::string &why) {
  Addresses all = resolve(host, port, why);
  for (addrinfo *at = all.get(); at; at = at->ai_next)
    if (Socket socket = connectTo(*at, deadline, why))
      return socket;
  return {};
}

bool sendAll(const Socket &socket, const void *data, size_t bytes,
             double deadline, std::string &why) {
  const char *at = static_cast<const char *>(data);
  while (bytes) {
    ssize_t n = ::send(socket.get(), at, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN) {
      if (!awaits(socket.get(), POLLOUT, deadline))
        return why = "it does not take what is sent", false;
    } else if (n < 0 && errno != EINTR) {
      return why = std::strerror(errno), false;
    } else if (n > 0) {
      at += n;
      bytes -= size_t(n);
    }
  }
  return true;
}

bool receiveAll(const Socket &socket, void *data, size_t bytes, double deadline,
                std::string &why) {
  char *at = static_cast<char *>(data);
  while (bytes) {
    ssize_t n = ::recv(socket.get(), at, bytes, 0);
    if (n == 0)
      return why = "the connection was closed", false;
    if (n < 0 && errno == EAGAIN) {
      if (!awaits(socket.get(), POLLIN, deadline))
        return why = "no answer", false;
    } else if (n < 0 && errno != EINTR) {
      return why = std::strerror(errno), false;
    } else if (n > 0) {
      at += n;
      bytes -= size_t(n);
    }
  }
  return true;
}

bool isThisMachine(const std::string &host) {
  std::string why;
  Addresses all = resolve(host, 0, why);
  for (addrinfo *at = all.get(); at; at = at->ai_next) {
    // Nothing binds to ::1 where IPv6 is off; it is this machine all the same.
    sockaddr_storage address{};
    std::memcpy(&address, at->ai_addr, at->ai_addrlen);
    if (isLoopback(numericOf(address)))
      continue;
    // Only what is this machine's can be one's own end.
    Socket socket(::socket(at->ai_family, SOCK_STREAM, 0));
    if (!socket || ::bind(socket.get(), at->ai_addr, at->ai_addrlen))
      return false;
  }
  return bool(all);
}

bool isLoopback(const std::string &address) {
  return address.rfind("127.", 0) == 0 || address == "::1";
}

} // namespace dt::rt::tcp
