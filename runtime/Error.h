//===- Error.h - the runtime's one exception --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Bad input (files, flags, data) ends the program with one line. It is thrown
// where it is found and printed by trainMain only; generated code and kernels
// never throw.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_ERROR_H
#define DT_RUNTIME_ERROR_H

#include <stdexcept>
#include <string>

namespace dt::rt {

/// `what()` is one line: file or flag first, then what is wrong and what was
/// expected.
class Error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

} // namespace dt::rt

#endif // DT_RUNTIME_ERROR_H
