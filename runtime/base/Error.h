//===- Error.h - the runtime's one exception --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Bad input (files, flags, data) ends the program with one line. It is thrown
// where it is found and printed by trainMain only; generated code and kernels
// never throw.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_BASE_ERROR_H
#define DT_RUNTIME_BASE_ERROR_H

#include <stdexcept>
#include <string>
#include <utility>

namespace dt::rt {

/// `what()` is one line: file or flag first, then what is wrong and what was
/// expected.
class Error : public std::runtime_error {
public:
  explicit Error(std::string text)
      : std::runtime_error(oneLine(std::move(text))) {}

private:
  /// Names and texts come from files that anyone may have written: none of them
  /// may end the line or move a terminal's cursor.
  static std::string oneLine(std::string text) {
    for (char &c : text)
      if ((c >= 0 && c < 32) || c == 127)
        c = '?';
    return text;
  }
};

} // namespace dt::rt

#endif // DT_RUNTIME_BASE_ERROR_H
