//===- Snapshot.cpp - device memory as it was between two steps -----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Copies to pinned memory run on a stream of their own, beside the next step's
// forward and backward work, which changes no parameter; its update waits for
// them. CUDA itself says when a block is there, and waits itself for room for
// the next one, so that the thread that reads calls nothing of CUDA.
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
  size_t reserved = 0;         ///< bytes of it
  SnapshotBlocks row;
  /// What CUDA's calls of the host are given: each is about a block.
  struct Turn {
    Copies *self;
    size_t block;
  };
  std::vector<Turn> turns;

  std::mutex mutex; ///< guards what follows
  std::condition_variable changed;
  size_t arrived = 0, done = 0; ///< blocks that are there, that were read
  bool wanted = false;          ///< somebody reads

  bool reserve(size_t bytes) {
    if (bytes <= reserved)
      return true;
    release();
    if (cudaHostAlloc(&memory, bytes, cudaHostAllocDefault) != cudaSuccess) {
      (void)cudaGetLastError();
      memory = nullptr;
      return false;
    }
    reserved = bytes;
    return true;
  }
  void release() {
    if (memory)
      cuda::check(cudaFreeHost(memory), "cudaFreeHost");
    memory = nullptr;
    reserved = 0;
  }
  void makeStream() {
    if (stream)
      return;
    stream = cuda::makeStream();
    state = cuda::makeEvent();
    ended = cuda::makeEvent();
  }

  /// On the stream: until the block's memory was read.
  static void awaitRoom(void *turn) {
    auto [self, block] = *static_cast<Turn *>(turn);
    std::unique_lock<std::mutex> lock(self->mutex);
    self->changed.wait(lock, [self = self, block = block] {
      return !self->wanted || self->done + self->row.held() > block;
    });
  }
  /// On the stream: the block is there.
  static void arrives(void *turn) {
    auto [self, block] = *static_cast<Turn *>(turn);
    std::lock_guard<std::mutex> lock(self->mutex);
    self->arrived = block + 1;
    self->changed.notify_all();
  }

  void call(void (*function)(void *), size_t block) {
    cuda::check(cudaLaunchHostFunc(stream, function, &turns[block]),
                "cudaLaunchHostFunc");
  }
  void queue(size_t block) {
    if (block >= row.held())
      call(awaitRoom, block);
    row.parts(block, [&](size_t place, const std::byte *from, size_t bytes) {
      cuda::check(cudaMemcpyAsync(memory + row.offsetOf(place), from, bytes,
                                  cudaMemcpyDeviceToHost, stream),
                  "cudaMemcpy of a snapshot");
    });
    call(arrives, block);
  }
  bool areThere() {
    std::lock_guard<std::mutex> lock(mutex);
    return arrived == turns.size();
  }
};

Snapshot::Snapshot(size_t most) : most(most), copies(new Copies) {}

Snapshot::~Snapshot() {
  if (!copies->stream)
    return;
  clear();
  if (unsettled == copies->ended)
    unsettled = nullptr;
  copies->release();
  cuda::check(cudaEventDestroy(copies->state), "cudaEventDestroy");
  cuda::check(cudaEventDestroy(copies->ended), "cudaEventDestroy");
  cuda::check(cudaStreamDestroy(copies->stream), "cudaStreamDestroy");
}

void Snapshot::clear() {
  drop();
  settle();
  copies->row = {};
  copies->turns.clear();
  copies->arrived = 0;
}

size_t Snapshot::add(const void *memory, size_t bytes) {
  return copies->row.add(memory, bytes);
}

bool Snapshot::begin() {
  copies->row.cut(most);
  if (!copies->reserve(copies->row.heldBytes()))
    return false;
  mostTaken = std::max(mostTaken, copies->reserved);
  copies->makeStream();
  for (size_t block = 0; block < copies->row.blocks(); ++block)
    copies->turns.push_back({copies.get(), block});
  copies->done = 0; // nothing is queued that looks at it
  copies->wanted = true;
  cuda::check(
      cudaEventRecord(copies->state, static_cast<cudaStream_t>(stream())),
      "cudaEventRecord");
  cuda::check(cudaStreamWaitEvent(copies->stream, copies->state, 0),
              "cudaStreamWaitEvent");
  for (size_t block = 0; block < copies->row.blocks(); ++block)
    copies->queue(block);
  cuda::check(cudaEventRecord(copies->ended, copies->stream),
              "cudaEventRecord");
  unsettled = copies->ended;
  return true;
}

const std::byte *Snapshot::read(size_t place, size_t &bytes) {
  size_t block = copies->row.blockOf(place);
  std::unique_lock<std::mutex> lock(copies->mutex);
  copies->done = block;
  copies->changed.notify_all();
  copies->changed.wait(lock, [&] { return copies->arrived > block; });
  bytes = std::min(bytes, copies->row.rest(place));
  return copies->memory + copies->row.offsetOf(place);
}

void Snapshot::settle() {
  if (!copies->areThere())
    cuda::check(cudaEventSynchronize(copies->ended), "cudaEventSynchronize");
}

void Snapshot::drop() {
  std::lock_guard<std::mutex> lock(copies->mutex);
  copies->wanted = false;
  copies->changed.notify_all();
}

} // namespace device
} // namespace dt::rt
