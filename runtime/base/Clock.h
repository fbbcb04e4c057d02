//===- Clock.h - the two clocks of a rank -----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_BASE_CLOCK_H
#define DT_RUNTIME_BASE_CLOCK_H

#include <chrono>
#include <ctime>

namespace dt::rt {

/// Seconds of a clock that all processes of a machine share.
inline double now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

/// Seconds of processor time that the calling thread has had.
inline double threadSeconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

} // namespace dt::rt

#endif // DT_RUNTIME_BASE_CLOCK_H
