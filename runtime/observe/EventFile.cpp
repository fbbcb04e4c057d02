//===- EventFile.cpp - scalars for TensorBoard ----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Numbers of fields: tensorflow/core/util/event.proto, summary.proto. Framing:
// tensorflow/core/lib/io/record_writer.h.
//
//===----------------------------------------------------------------------===//

#include "runtime/observe/EventFile.h"
#include "runtime/base/Files.h"
#include "runtime/base/Protobuf.h"

#include <array>
#include <chrono>
#include <cstring>
#include <unistd.h>

namespace dt::rt {

namespace {

using namespace protobuf;

// Numbers of fields of Event, Summary, Summary.Value and SessionLog.
constexpr uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5,
                   kSessionLog = 7, kSummaryValue = 1, kTag = 1,
                   kSimpleValue = 2, kStatus = 1;
constexpr uint64_t kStart = 1; // SessionLog.START

/// Little-endian, as files and messages have numbers.
template <typename T> std::string littleEndian(T value) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  Bits bits;
  std::memcpy(&bits, &value, sizeof bits);
  std::string out;
  for (size_t i = 0; i < sizeof bits; ++i)
    out += char((bits >> (8 * i)) & 255);
  return out;
}

/// What every event begins with.
std::string eventNow() {
  double seconds = std::chrono::duration<double>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  return header(kWallTime, Fixed64) + littleEndian(seconds);
}

std::array<uint32_t, 256> makeTable() {
  std::array<uint32_t, 256> table;
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit)
      value = value >> 1 ^ (value & 1 ? 0x82F63B78u : 0);
    table[i] = value;
  }
  return table;
}

/// A checksum of data that may hold checksums itself.
uint32_t masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xA282EAD8u; }

} // namespace

uint32_t crc32c(const std::string &bytes) {
  static const std::array<uint32_t, 256> table = makeTable();
  uint32_t crc = ~0u;
  for (unsigned char byte : bytes)
    crc = crc >> 8 ^ table[(crc ^ byte) & 255];
  return ~crc;
}

void EventFile::open(const std::string &folder, int64_t first) {
  makeFolders(folder);
  std::string host = hostName();
  int64_t microseconds =
      std::chrono::duration_cast<std::chrono::microseconds>(
          std::chrono::system_clock::now().time_since_epoch())
          .count();
  // TensorBoard reads files in the order of their names: seconds come first.
  file.open(folder + "/events.out.tfevents." +
            std::to_string(microseconds / 1000000) + "." + host + "." +
            std::to_string(::getpid()) + "." +
            std::to_string(microseconds % 1000000));
  record(eventNow() + lengthField(kFileVersion, "brain.Event:2"));
  if (first)
    forgetAfter(first);
  file.flush();
}

void EventFile::forgetAfter(int64_t step) {
  record(eventNow() + varintField(kStep, uint64_t(step) + 1) +
         lengthField(kSessionLog, varintField(kStatus, kStart)));
}

void EventFile::write(int64_t step, const std::vector<Scalar> &scalars) {
  if (!file.isOpen() || scalars.empty())
    return;
  std::string summary;
  for (const Scalar &scalar : scalars)
    summary += lengthField(kSummaryValue, lengthField(kTag, scalar.name) +
                                              header(kSimpleValue, Fixed32) +
                                              littleEndian(scalar.value));
  record(eventNow() + varintField(kStep, uint64_t(step)) +
         lengthField(kSummary, summary));
  file.flush();
}

void EventFile::record(const std::string &event) {
  std::string length = littleEndian(uint64_t(event.size()));
  file.write(length + littleEndian(masked(crc32c(length))) + event +
             littleEndian(masked(crc32c(event))));
}

} // namespace dt::rt
