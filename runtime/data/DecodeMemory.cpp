//===- DecodeMemory.cpp - memory that pictures take together ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/DecodeMemory.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

using namespace dt::rt::data;

namespace {
struct Budget {
  std::mutex mutex;
  std::condition_variable freed;
  int64_t held = 0, most = 0;
};

Budget &budget() {
  static Budget one;
  return one;
}
} // namespace

DecodeLease::DecodeLease(int64_t wanted)
    : bytes(std::clamp<int64_t>(wanted, 0, decodeMemory)) {
  Budget &b = budget();
  std::unique_lock<std::mutex> lock(b.mutex);
  b.freed.wait(lock, [&] { return b.held + bytes <= decodeMemory; });
  b.held += bytes;
  b.most = std::max(b.most, b.held);
}

DecodeLease::~DecodeLease() {
  Budget &b = budget();
  {
    std::lock_guard<std::mutex> lock(b.mutex);
    b.held -= bytes;
  }
  b.freed.notify_all();
}

int64_t DecodeLease::held() {
  std::lock_guard<std::mutex> lock(budget().mutex);
  return budget().held;
}

int64_t DecodeLease::most() {
  std::lock_guard<std::mutex> lock(budget().mutex);
  return budget().most;
}
