//===- Refusal.h - refusals of the compiler's readers -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_FUZZ_READERS_REFUSAL_H
#define DT_TEST_FUZZ_READERS_REFUSAL_H

#include "test/fuzz/readers/Fuzz.h"

#include "llvm/Support/Error.h"

namespace dt::fuzz {

/// What a reader has made of the input; nothing if it has refused it.
template <typename T> std::optional<T> accepted(llvm::Expected<T> result) {
  if (result)
    return std::move(*result);
  expectRefusal(llvm::toString(result.takeError()));
  return std::nullopt;
}

} // namespace dt::fuzz

#endif // DT_TEST_FUZZ_READERS_REFUSAL_H
