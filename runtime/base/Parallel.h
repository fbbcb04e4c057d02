//===- Parallel.h - work that threads share ---------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// For long work of a program's start, on threads of its own: OpenMP's number of
// threads is for steps, and launchers set it to 1.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_BASE_PARALLEL_H
#define DT_RUNTIME_BASE_PARALLEL_H

#include "runtime/base/Thread.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

namespace dt::rt {

/// Threads that have ended when this object has.
class Threads {
public:
  Threads() = default;
  ~Threads() {
    for (std::thread &thread : threads)
      thread.join();
  }
  Threads(const Threads &) = delete;
  Threads &operator=(const Threads &) = delete;
  std::vector<std::thread> threads;
};

/// Calls body(i) once for each i below `count`, in any order, on at most so
/// many threads, the calling one among them, and returns when all have
/// returned. `what`: of startThread. Where the system has no more threads,
/// those there are do the work.
template <typename Body>
void inParallel(int64_t count, int threads, const char *what,
                const Body &body) {
  std::atomic<int64_t> next{0};
  auto work = [&] {
    for (int64_t i; (i = next++) < count;)
      body(i);
  };
  Threads others;
  int64_t more = std::min<int64_t>(threads, count) - 1;
  others.threads.reserve(size_t(std::max<int64_t>(0, more)));
  try {
    for (int64_t i = 0; i < more; ++i)
      others.threads.push_back(startThread(what, work));
  } catch (const SystemError &) {
  } catch (const std::bad_alloc &) {
  }
  work();
}

} // namespace dt::rt

#endif // DT_RUNTIME_BASE_PARALLEL_H
