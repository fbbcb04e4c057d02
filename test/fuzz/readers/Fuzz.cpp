//===- Fuzz.cpp - what the readers' fuzz targets share ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/readers/Fuzz.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace dt;

namespace {

constexpr size_t kCounters = 4096;
// Only libFuzzer reads them.
__attribute__((used, section("__libfuzzer_extra_counters"))) volatile uint8_t
    counters[kCounters];

/// Of the letters outside quotation marks.
size_t hashOfKind(const std::string &text) {
  uint64_t hash = 0xCBF29CE484222325ull;
  char quote = 0;
  for (char c : text) {
    if (quote) {
      if (c == quote)
        quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c < '0' || c > '9') {
      hash = (hash ^ uint8_t(c)) * 0x100000001B3ull;
    }
  }
  return size_t(hash >> 20);
}

/// Removed when the process ends by itself; after a crash it stays.
struct Folder {
  Folder() {
    std::error_code error;
    bool memory = std::filesystem::is_directory("/dev/shm", error) &&
                  ::access("/dev/shm", W_OK) == 0;
    std::string pattern =
        (memory ? "/dev/shm" : std::filesystem::temp_directory_path().string());
    pattern += "/dt-fuzz-XXXXXX";
    if (!::mkdtemp(pattern.data()))
      fuzz::fail("cannot make " + pattern);
    path = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

} // namespace

void fuzz::fail(const std::string &what) {
  std::fprintf(stderr, "fuzz target: %s\n", what.c_str());
  std::abort();
}

void fuzz::expectRefusal(const std::string &text) {
  if (text.empty())
    fail("an input is refused without a word");
  for (unsigned char c : text)
    if (c < 32 || c == 127)
      fail("a refusal has control characters: " + text);
  countAsCoverage(text);
}

void fuzz::countAsCoverage(const std::string &text) {
  counters[hashOfKind(text) % kCounters] = 1;
}

const std::string &fuzz::folder() {
  static Folder folder;
  return folder.path;
}

std::string fuzz::writeInput(const std::string &name, const void *data,
                             size_t size) {
  std::string path = folder() + "/" + name;
  std::ofstream out(path, std::ios::binary);
  out.write(static_cast<const char *>(data), std::streamsize(size));
  if (!out.flush())
    fail("cannot write " + path);
  return path;
}

std::string fuzz::readBack(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string fuzz::replaced(std::string text, const std::string &from,
                           const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;
       at += to.size())
    text.replace(at, from.size(), to);
  return text;
}
