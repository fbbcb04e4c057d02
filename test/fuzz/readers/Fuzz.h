//===- Fuzz.h - what the readers' fuzz targets share ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A target gives the bytes that libFuzzer makes to one reader. The sanitizers
// and libFuzzer see crashes, hangs and memory; what is said here is what a
// reader owes beyond: a refused input gives one line that says why.
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_FUZZ_READERS_FUZZ_H
#define DT_TEST_FUZZ_READERS_FUZZ_H

#include "runtime/base/Error.h"

#include <cstddef>
#include <cstdint>
#include <string>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace dt::fuzz {

/// Ends the run: libFuzzer keeps the input.
[[noreturn]] void fail(const std::string &what);

inline void expect(bool holds, const char *what) {
  if (!holds)
    fail(what);
}

/// The text of a refusal: not empty, one line, nothing that a terminal would
/// obey. Each new text (but for its quotations and numbers) counts as coverage,
/// which is all the guidance there is where the reader is not instrumented.
void expectRefusal(const std::string &text);

/// The same for something that was seen in an accepted input.
void countAsCoverage(const std::string &text);

/// Runs a reader of the runtime. False: it has refused the input.
template <typename F> bool accepts(F read) {
  try {
    read();
    return true;
  } catch (const rt::Error &error) {
    expectRefusal(error.what());
    return false;
  }
}

/// A folder in memory for readers that take paths; it goes away at the end.
const std::string &folder();
/// Writes `folder()/name`; returns its path.
std::string writeInput(const std::string &name, const void *data, size_t size);
inline std::string writeInput(const std::string &name,
                              const std::string &text) {
  return writeInput(name, text.data(), text.size());
}
std::string readBack(const std::string &path);

/// Every `from` in `text` becomes `to`.
std::string replaced(std::string text, const std::string &from,
                     const std::string &to);

} // namespace dt::fuzz

#endif // DT_TEST_FUZZ_READERS_FUZZ_H
