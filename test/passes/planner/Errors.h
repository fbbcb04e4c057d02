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

#endif // TEST_PASSES_PLANNER_ERRORS_H
