//===- Introduction.cpp - what ranks say when they meet -------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/tcp/Introduction.h"

#include <type_traits>

namespace dt::rt::tcp {

namespace {

void add(std::string &message, const void *data, size_t bytes) {
  message.append(static_cast<const char *>(data), bytes);
}

// What is sent, and proved, has no bytes that nobody has set.
static_assert(sizeof(Greeting) == 80 && sizeof(Announcement) == 244 &&
              sizeof(Answer) == 400 && sizeof(Entry) == 132);
static_assert(std::is_trivially_copyable_v<Announcement>);

} // namespace

Greeting makeGreeting() {
  Greeting greeting;
  std::memcpy(greeting.magic, kMagic, sizeof kMagic);
  greeting.nonce = makeNonce();
  return greeting;
}

Answer refusal(const std::string &why, bool common) {
  Answer answer;
  answer.refuses = 1;
  answer.common = common;
  putText(answer.text, why);
  return answer;
}

/// Who proves comes first, so that nobody can send a proof back.
std::string Introduction::begin(const char *who) const {
  std::string message = who;
  add(message, guest.nonce.data(), guest.nonce.size());
  add(message, host.nonce.data(), host.nonce.size());
  return message;
}

Proof Introduction::ofHost(const std::string &secret, int rank) const {
  std::string message = begin("host");
  add(message, &rank, sizeof rank);
  return prove(secret, message);
}

Proof Introduction::ofGuest(const std::string &secret,
                            Announcement said) const {
  std::string message = begin("guest");
  said.proof = {};
  add(message, &said, sizeof said);
  return prove(secret, message);
}

Proof Introduction::ofAnswer(const std::string &secret, int turn, Answer answer,
                             const std::vector<Entry> &table) const {
  std::string message = begin("answer");
  answer.proof = {};
  add(message, &turn, sizeof turn);
  add(message, &answer, sizeof answer);
  add(message, table.data(), table.size() * sizeof(Entry));
  return prove(secret, message);
}

} // namespace dt::rt::tcp
