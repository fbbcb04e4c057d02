//===- Errors.h - What the planner's tests share ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TEST_PASSES_PLANNER_ERRORS_H
#define TEST_PASSES_PLANNER_ERRORS_H

#include "test/Contains.h"

#include "llvm/Support/Error.h"

/// The message of an error; empty if there is none.
template <typename T> std::string errorOf(llvm::Expected<T> value) {
  return value ? "" : llvm::toString(value.takeError());
}

/// `text`, which has `from`, with `to` in its place.
inline std::string replaced(std::string text, const std::string &from,
                            const std::string &to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

#endif // TEST_PASSES_PLANNER_ERRORS_H
