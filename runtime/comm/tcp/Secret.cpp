//===- Secret.cpp - what only the ranks of a run know ---------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/tcp/Secret.h"
#include "runtime/base/Files.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef DT_RUNTIME_CRYPTO
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#endif

namespace dt::rt::tcp {

namespace {

/// Characters of a secret: fewer can be tried out, more are a wrong file.
constexpr size_t kLeast = 16, kMost = 4096;

/// Throws Error unless nobody but the user (or root) may read or change it.
void expectPrivate(int file, const std::string &path) {
  struct stat status;
  if (::fstat(file, &status))
    failedCall(path, "look at");
  if (!S_ISREG(status.st_mode))
    throw Error("DT_SECRET_FILE=" + path + ": expected a regular file");
  if ((status.st_mode & 077) ||
      (status.st_uid != ::geteuid() && status.st_uid != 0))
    throw Error("DT_SECRET_FILE=" + path +
                ": expected a file that only its owner, who runs this, may "
                "read or write (chmod 600)");
}

std::string readSecretFile(const std::string &path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file)
    failedCall("DT_SECRET_FILE=" + path, "open");
  expectPrivate(file.get(), path);
  std::string text(kMost + 1, '\0');
  ssize_t n = ::read(file.get(), text.data(), text.size());
  if (n < 0)
    failedCall("DT_SECRET_FILE=" + path, "read");
  text.resize(size_t(n));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r'))
    text.pop_back();
  return text;
}

} // namespace

std::string readSecret() {
  const char *own = std::getenv("DT_SECRET"),
             *path = std::getenv("DT_SECRET_FILE");
  bool isSaid = own && *own;
  if (!isSaid && !(path && *path))
    return "";
  std::string text = isSaid ? own : readSecretFile(path);
  if (text.size() < kLeast || text.size() > kMost)
    throw Error((isSaid ? "DT_SECRET" : std::string("DT_SECRET_FILE=") + path) +
                " has " + (text.size() > kMost ? "more than " : "") +
                std::to_string(std::min(text.size(), kMost)) +
                " characters: expected " + std::to_string(kLeast) + " to " +
                std::to_string(kMost) + " (openssl rand -hex 32)");
  return text;
}

Nonce makeNonce() {
  Nonce nonce;
  if (::getentropy(nonce.data(), nonce.size()))
    throw Error(std::string("cannot get random numbers: ") +
                std::strerror(errno));
  return nonce;
}

std::string makeSecret() {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  for (unsigned char byte : makeNonce())
    (text += digits[byte >> 4]) += digits[byte & 15];
  return text;
}

#ifdef DT_RUNTIME_CRYPTO

Proof prove(const std::string &secret, const std::string &message) {
  Proof proof;
  unsigned size = unsigned(proof.size());
  if (!::HMAC(::EVP_sha256(), secret.data(), int(secret.size()),
              reinterpret_cast<const unsigned char *>(message.data()),
              message.size(), proof.data(), &size) ||
      size != proof.size())
    throw Error("libcrypto has no HMAC-SHA256, which ranks over TCP prove "
                "themselves with");
  return proof;
}

bool areEqual(const Proof &a, const Proof &b) {
  return !::CRYPTO_memcmp(a.data(), b.data(), a.size());
}

#else

Proof prove(const std::string &, const std::string &) {
  throw Error("this program was built without libcrypto, which ranks over TCP "
              "prove themselves with (Debian: install libssl-dev and build it "
              "again)");
}

bool areEqual(const Proof &a, const Proof &b) { return a == b; }

#endif

} // namespace dt::rt::tcp
