//===- Agreement.h - errors that all ranks learn of -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_AGREEMENT_H
#define DT_RUNTIME_COMM_AGREEMENT_H

#include "runtime/comm/Comm.h"

#include <exception>
#include <new>
#include <string>

namespace dt::rt {

/// What `body` throws, as a line; empty: nothing. All kinds of exceptions: a
/// rank that goes its own way leaves the others waiting.
template <typename Body> std::string failureOf(Body body) {
  try {
    body();
  } catch (const std::bad_alloc &) {
    return "out of memory";
  } catch (const std::exception &e) {
    return *e.what() ? e.what() : "unknown error";
  }
  return {};
}

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_AGREEMENT_H
