//===- Pool.h - device memory that is used again ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_POOL_H
#define DT_RUNTIME_DEVICE_POOL_H

#include "runtime/device/Device.h"

#include <map>
#include <memory>

namespace dt::rt::device {

/// Memory that is taken and given back in every step: after the first ones
/// nothing is allocated any more. Who gives back device memory has queued, on
/// stream(), all that uses it; pinned host memory is not in use any more then.
class Pool {
public:
  struct Return {
    Pool *pool = nullptr;
    size_t bytes = 0;
    void operator()(std::byte *memory) const {
      pool->free.emplace(bytes, memory);
    }
  };
  using Block = std::unique_ptr<std::byte, Return>;

  enum Kind { Device, Pinned };
  explicit Pool(Kind kind = Device) : kind(kind) {}
  Pool(const Pool &) = delete;
  Pool &operator=(const Pool &) = delete;
  ~Pool() {
    for (auto &[bytes, memory] : free)
      kind == Device ? release(memory) : releasePinned(memory);
  }

  /// At least so many bytes, with what was left there. The pool outlives it.
  Block take(size_t bytes) {
    auto it = free.lower_bound(bytes);
    if (it == free.end() || it->first > 2 * bytes + kLeast) {
      size_t size = (bytes / kLeast + 1) * kLeast;
      void *memory = kind == Device ? allocate(size, "messages")
                                    : allocatePinned(size, "messages");
      it = free.emplace(size, static_cast<std::byte *>(memory));
    }
    Block block(it->second, {this, it->first});
    free.erase(it);
    return block;
  }

private:
  static constexpr size_t kLeast = 4096;
  Kind kind;
  std::multimap<size_t, std::byte *> free; ///< by size
};

} // namespace dt::rt::device

#endif // DT_RUNTIME_DEVICE_POOL_H
