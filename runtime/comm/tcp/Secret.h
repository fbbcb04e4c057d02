//===- Secret.h - what only the ranks of a run know -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// HMAC-SHA256 (RFC 2104, FIPS 180-4) of OpenSSL's libcrypto.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_TCP_SECRET_H
#define DT_RUNTIME_COMM_TCP_SECRET_H

#include <array>
#include <string>

namespace dt::rt::tcp {

/// A number that nobody has seen before, and what only those who know a secret
/// can say about it.
using Nonce = std::array<unsigned char, 32>;
using Proof = std::array<unsigned char, 32>;

/// Of DT_SECRET (at least 16 characters), else the content, without line ends
/// at its end, of the file that DT_SECRET_FILE names, which only its owner may
/// read; empty if neither is set. Throws Error.
std::string readSecret();

/// For a run of the program's own ranks: 256 random bits, as text.
std::string makeSecret();

/// Throws Error if the system has no random numbers.
Nonce makeNonce();

/// Throws Error in a program that was built without libcrypto.
Proof prove(const std::string &secret, const std::string &message);
/// In a time that says nothing of where they differ.
bool areEqual(const Proof &a, const Proof &b);

} // namespace dt::rt::tcp

#endif // DT_RUNTIME_COMM_TCP_SECRET_H
