//===- EventFileTest.cpp - records, checksums, messages ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// test/e2e/going_on.py reads a program's file with protobuf's own decoder.
//
//===----------------------------------------------------------------------===//

#include "runtime/observe/EventFile.h"
#include "test/runtime/TestSupport.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace dt::rt;

namespace {

TEST(EventFile, Checksum) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu); // RFC 3720
}

std::vector<std::string> recordsOf(const std::string &bytes) {
  std::vector<std::string> records;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t size;
    uint32_t check;
    std::memcpy(&size, bytes.data() + at, 8);
    std::memcpy(&check, bytes.data() + at + 8, 4);
    uint32_t crc = crc32c(bytes.substr(at, 8));
    EXPECT_EQ(check, (crc >> 15 | crc << 17) + 0xA282EAD8u);
    records.push_back(bytes.substr(at + 12, size));
    at += 16 + size;
  }
  return records;
}

TEST(EventFile, Records) {
  TemporaryFolder folder;
  EventFile file;
  file.write(1, {{"loss", 1}}); // nobody asked for a file
  file.open(folder / "a/b", 300);
  file.write(301, {{"loss", 1.5f}, {"lr", 0.25f}});
  EXPECT_EQ(file.failure(), "");
  std::vector<std::string> names;
  for (auto &entry : std::filesystem::directory_iterator(folder / "a/b"))
    names.push_back(entry.path().filename());
  ASSERT_EQ(names.size(), 1u);
  EXPECT_BEGINS(names[0], "events.out.tfevents.");
  std::vector<std::string> records =
      recordsOf(readFile(folder / "a/b/" + names[0]));
  ASSERT_EQ(records.size(), 3u);
  // After 9 bytes of time: version; step 301 and START; step 301 and two
  // values.
  EXPECT_EQ(records[0].substr(9), "\x1a\x0d"
                                  "brain.Event:2");
  EXPECT_EQ(records[1].substr(9), "\x10\xad\x02\x3a\x02\x08\x01");
  EXPECT_EQ(records[2].substr(9),
            std::string("\x10\xad\x02\x2a\x18"
                        "\x0a\x0b\x0a\x04loss\x15\x00\x00\xc0\x3f"
                        "\x0a\x09\x0a\x02lr\x15\x00\x00\x80\x3e",
                        29));
}

} // namespace
