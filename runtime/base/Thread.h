//===- Thread.h - threads that say what becomes of them ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The system may have no thread to give, and memory may run out in any of them.
// An exception that leaves a thread would end the process by a signal, without
// a word.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_BASE_THREAD_H
#define DT_RUNTIME_BASE_THREAD_H

#include "runtime/base/Files.h"
#include "runtime/base/Stop.h"

#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace dt::rt {

/// Starts a thread for `what` ("reading samples"), a literal. Throws
/// SystemError if the system has none. What leaves `body` ends the process with
/// one line.
template <typename Body> std::thread startThread(const char *what, Body body) {
  try {
    return std::thread([what, body = std::move(body)]() mutable {
      try {
        body();
      } catch (const std::bad_alloc &) {
        endWithoutMemory(what);
      } catch (const std::exception &e) {
        endAtOnce(std::string(what) + ": " + e.what());
      }
    });
  } catch (const std::system_error &e) {
    throw SystemError(std::string("cannot start a thread for ") + what + ": " +
                          std::strerror(e.code().value()),
                      e.code().value());
  }
}

} // namespace dt::rt

#endif // DT_RUNTIME_BASE_THREAD_H
