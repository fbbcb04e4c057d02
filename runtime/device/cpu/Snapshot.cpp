//===- Snapshot.cpp - state as it was between two steps -------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The last blocks of the row are copied at once, as many as memory has room
// for. What stands before them is read where it is, and the next update waits
// until it was: so that waits for what there is no room for, and no longer.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu/Snapshot.h"
#include "runtime/device/Device.h"

#include <condition_variable>
#include <mutex>
#include <new>
#include <vector>

namespace dt::rt::device {

struct Snapshot::Copies {
  SnapshotBlocks row;
  std::vector<std::byte> memory;
  size_t live = 0; ///< blocks that are read where they are

  std::mutex mutex; ///< guards what follows
  std::condition_variable changed;
  size_t done = 0; ///< blocks that were read
  bool wanted = false;

  void awaitReader() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return !wanted || done >= live; });
  }
};

/// The newest one, if no update has waited for it yet.
static Snapshot *unsettled = nullptr;

void awaitSnapshot() {
  if (unsettled)
    unsettled->settle();
  unsettled = nullptr;
}

Snapshot::Snapshot(size_t most) : most(most), copies(new Copies) {}

Snapshot::~Snapshot() {
  if (unsettled == this)
    unsettled = nullptr;
}

void Snapshot::clear() {
  drop();
  copies->row = {};
}

size_t Snapshot::add(const void *memory, size_t bytes) {
  return copies->row.add(memory, bytes);
}

bool Snapshot::begin() {
  SnapshotBlocks &row = copies->row;
  row.cut(most);
  try {
    copies->memory.resize(row.heldBytes());
  } catch (const std::bad_alloc &) {
    return false;
  }
  mostTaken = std::max(mostTaken, copies->memory.size());
  copies->live = row.blocks() - row.held();
  for (size_t block = copies->live; block < row.blocks(); ++block)
    row.parts(block, [&](size_t place, const std::byte *from, size_t bytes) {
      copy(copies->memory.data() + row.offsetOf(place), from, bytes);
    });
  copies->done = 0; // nobody reads yet
  copies->wanted = true;
  unsettled = this;
  return true;
}

const std::byte *Snapshot::read(size_t place, size_t &bytes) {
  SnapshotBlocks &row = copies->row;
  bytes = std::min(bytes, row.rest(place));
  {
    std::lock_guard<std::mutex> lock(copies->mutex);
    copies->done = row.blockOf(place);
    copies->changed.notify_all();
  }
  return row.blockOf(place) < copies->live
             ? row.source(place)
             : copies->memory.data() + row.offsetOf(place);
}

void Snapshot::settle() { copies->awaitReader(); }

void Snapshot::drop() {
  {
    std::lock_guard<std::mutex> lock(copies->mutex);
    copies->wanted = false;
    copies->changed.notify_all();
  }
  copies->memory = {};
}

} // namespace dt::rt::device
