//===- SecretTest.cpp - what only the ranks of a run know -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/tcp/Secret.h"
#include "test/runtime/TestSupport.h"

#include <cstdlib>
#include <fstream>
#include <sys/stat.h>

using namespace dt::rt;
using namespace dt::rt::tcp;

namespace {

std::string hexOf(const Proof &proof) {
  std::string text;
  char digits[3];
  for (unsigned char byte : proof) {
    std::snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

/// RFC 4231, cases 2 and 6 (a key longer than a block).
TEST(Secret, ProofsAreHmacSha256) {
  EXPECT_EQ(hexOf(prove("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hexOf(prove(std::string(131, '\xaa'),
                        "Test Using Larger Than Block-Size Key - Hash Key "
                        "First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  // RFC 2104: an empty key is one of zeros.
  EXPECT_EQ(hexOf(prove("", "")),
            "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

TEST(Secret, NothingComesTwice) {
  EXPECT_NE(makeNonce(), makeNonce());
  EXPECT_EQ(makeSecret().size(), 64u);
  EXPECT_NE(makeSecret(), makeSecret());
}

class Said : public ::testing::Test {
protected:
  void SetUp() override { TearDown(); }
  void TearDown() override {
    ::unsetenv("DT_SECRET");
    ::unsetenv("DT_SECRET_FILE");
  }
  /// Names a file with this text and mode.
  void writeFile(const std::string &text, mode_t mode) {
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
    ::setenv("DT_SECRET_FILE", path.c_str(), 1);
  }
  TemporaryFolder folder;
  std::string path = folder / "dt-secret";
};

TEST_F(Said, InTheEnvironment) {
  EXPECT_EQ(readSecret(), "");
  ::setenv("DT_SECRET", "0123456789abcdef", 1);
  EXPECT_EQ(readSecret(), "0123456789abcdef");
  ::setenv("DT_SECRET", "0123456789abcde", 1);
  EXPECT_ERROR(readSecret(), "DT_SECRET has 15 characters: expected 16 to 4096 "
                             "(openssl rand -hex 32)");
}

TEST_F(Said, InAFile) {
  writeFile("0123456789abcdef\r\n", 0600);
  EXPECT_EQ(readSecret(), "0123456789abcdef");
  writeFile("short\n", 0600);
  EXPECT_ERROR(readSecret(), "DT_SECRET_FILE=" + path + " has 5 characters");
  writeFile(std::string(5000, 'x'), 0600);
  EXPECT_ERROR(readSecret(), "has more than 4096 characters");
  for (mode_t mode : {0640, 0604, 0620}) {
    writeFile("0123456789abcdef", mode);
    EXPECT_ERROR(readSecret(), "DT_SECRET_FILE=" + path +
                                   ": expected a file that only its owner, who "
                                   "runs this, may read or write (chmod 600)");
  }
}

TEST_F(Said, InWhatIsNoFile) {
  ::setenv("DT_SECRET_FILE", "/nowhere/at/all", 1);
  EXPECT_ERROR(readSecret(), "DT_SECRET_FILE=/nowhere/at/all: cannot open: No "
                             "such file or directory");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  ::setenv("DT_SECRET_FILE", path.c_str(), 1);
  EXPECT_ERROR(readSecret(), "expected a regular file");
}

} // namespace
