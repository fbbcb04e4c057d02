//===- Snapshot.cpp - device memory as it was between two steps -----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Copies to pinned memory run on a stream of their own, beside the next step's
// forward and backward work, which changes no parameter; its update waits for
// them. CUDA itself says when they are there, so that the thread that waits
// calls nothing of CUDA.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/Device.h"
#include "runtime/device/cuda/Cuda.h"

#include <condition_variable>
#include <mutex>

namespace dt::rt {

/// The end of the newest snapshot's copies, if no update has waited for it yet.
static cudaEvent_t unsettled = nullptr;

void cuda::awaitSnapshot() {
  if (unsettled)
    check(cudaStreamWaitEvent(static_cast<cudaStream_t>(device::stream()),
                              unsettled, 0),
          "cudaStreamWaitEvent");
  unsettled = nullptr;
}

namespace device {

struct Snapshot::Copies {
  cudaStream_t stream = nullptr;
  cudaEvent_t state = nullptr, ended = nullptr;
  std::byte *memory = nullptr; ///< pinned, and kept: making it is slow
  size_t room = 0, used = 0;
  std::mutex mutex;
  std::condition_variable changed;
  bool there = true; ///< the copies

  void release() {
    if (memory)
      cuda::check(cudaFreeHost(memory), "cudaFreeHost");
    memory = nullptr;
    room = 0;
  }
  static void arrived(void *copies) {
    auto *self = static_cast<Copies *>(copies);
    std::lock_guard<std::mutex> lock(self->mutex);
    self->there = true;
    self->changed.notify_all();
  }
  bool areThere() {
    std::lock_guard<std::mutex> lock(mutex);
    return there;
  }
};

Snapshot::Snapshot() : copies(new Copies) {}

Snapshot::~Snapshot() {
  if (!copies->stream)
    return;
  settle();
  if (unsettled == copies->ended)
    unsettled = nullptr;
  copies->release();
  cuda::check(cudaEventDestroy(copies->state), "cudaEventDestroy");
  cuda::check(cudaEventDestroy(copies->ended), "cudaEventDestroy");
  cuda::check(cudaStreamDestroy(copies->stream), "cudaStreamDestroy");
}

bool Snapshot::begin(size_t bytes) {
  settle();
  if (bytes > copies->room) {
    copies->release();
    if (cudaHostAlloc(&copies->memory, bytes, cudaHostAllocDefault) !=
        cudaSuccess) {
      (void)cudaGetLastError();
      return false;
    }
    copies->room = bytes;
  }
  if (!copies->stream) {
    copies->stream = cuda::makeStream();
    copies->state = cuda::makeEvent();
    copies->ended = cuda::makeEvent();
  }
  copies->used = 0;
  copies->there = false;
  cuda::check(
      cudaEventRecord(copies->state, static_cast<cudaStream_t>(stream())),
      "cudaEventRecord");
  cuda::check(cudaStreamWaitEvent(copies->stream, copies->state, 0),
              "cudaStreamWaitEvent");
  return true;
}

const std::byte *Snapshot::add(const void *memory, size_t bytes) {
  std::byte *to = copies->memory + copies->used;
  if (bytes)
    cuda::check(cudaMemcpyAsync(to, memory, bytes, cudaMemcpyDeviceToHost,
                                copies->stream),
                "cudaMemcpy of a snapshot");
  copies->used += bytes;
  return to;
}

void Snapshot::end() {
  cuda::check(cudaLaunchHostFunc(copies->stream, Copies::arrived, copies.get()),
              "cudaLaunchHostFunc");
  cuda::check(cudaEventRecord(copies->ended, copies->stream),
              "cudaEventRecord");
  unsettled = copies->ended;
}

void Snapshot::await() {
  std::unique_lock<std::mutex> lock(copies->mutex);
  copies->changed.wait(lock, [this] { return copies->there; });
}

void Snapshot::settle() {
  if (!copies->areThere())
    cuda::check(cudaEventSynchronize(copies->ended), "cudaEventSynchronize");
}

void Snapshot::drop() {}

} // namespace device
} // namespace dt::rt
