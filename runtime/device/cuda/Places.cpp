//===- Places.cpp - how far the device is ---------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Thread.h"
#include "runtime/device/Device.h"
#include "runtime/device/cuda/Cuda.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace dt::rt::device {

namespace {

/// Places in the streams that the device has not passed, as far as is known.
/// Streams go on beside one another, so each is asked for, by a thread that
/// does nothing else: calls may wait for room in the device's queues, and who
/// looks for hangs must not.
class Places {
public:
  void add(cudaStream_t stream) {
    std::call_once(begun, [this] {
      int device = 0;
      cuda::check(cudaGetDevice(&device), "cudaGetDevice");
      startThread("the look at the device", [this, device] {
        cudaSetDevice(device);
        look();
      }).detach();
    });
    cudaEvent_t event = take();
    if (!event)
      return; // those that are there show that it moves on
    cuda::check(cudaEventRecord(event, stream), "cudaEventRecord");
    std::lock_guard<std::mutex> lock(mutex);
    ahead.push_back(event);
  }
  uint64_t count() const { return passed; }

private:
  /// One that is not recorded; null: there are many already.
  cudaEvent_t take() {
    std::lock_guard<std::mutex> lock(mutex);
    if (ahead.size() >= kMost)
      return nullptr;
    if (spare.empty())
      return cuda::makeEvent();
    cudaEvent_t event = spare.back();
    spare.pop_back();
    return event;
  }
  /// As long as the process lives. What a call of the device has gone wrong
  /// with, its next caller says.
  void look() {
    for (std::vector<cudaEvent_t> asked;; asked.clear()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      {
        std::lock_guard<std::mutex> lock(mutex);
        asked.swap(ahead);
      }
      auto reached =
          std::partition(asked.begin(), asked.end(), [](cudaEvent_t event) {
            return cudaEventQuery(event) != cudaSuccess;
          });
      passed += uint64_t(asked.end() - reached);
      std::lock_guard<std::mutex> lock(mutex);
      ahead.insert(ahead.end(), asked.begin(), reached);
      spare.insert(spare.end(), reached, asked.end());
    }
  }

  static constexpr size_t kMost = 4096;
  std::once_flag begun;
  std::mutex mutex;
  std::vector<cudaEvent_t> ahead, spare;
  std::atomic<uint64_t> passed{0};
} &places = *new Places; // outlives its thread

} // namespace

void noteProgress() {
  if (!cuda::rehearsing)
    places.add(static_cast<cudaStream_t>(stream()));
}

uint64_t countProgress() { return places.count(); }

} // namespace dt::rt::device
