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

/// Memory of either kind that is taken and given back in every step: after the
/// first ones nothing is allocated any more. Who gives back has queued, on
/// stream(), all that uses it.
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

  Pool() = default;
  Pool(const Pool &) = delete;
  Pool &operator=(const Pool &) = delete;
  ~Pool() {
    for (auto &[bytes, memory] : free)
      release(memory);
  }

  /// At least so many bytes, with what was left there. The pool outlives it.
  Block take(size_t bytes) {
    auto it = free.lower_bound(bytes);
    if (it == free.end() || it->first > 2 * bytes + kLeast) {
      size_t size = (bytes + kLeast - 1) / kLeast * kLeast;
      it = free.emplace(size,
                        static_cast<std::byte *>(allocate(size, "messages")));
    }
    Block block(it->second, {this, it->first});
    free.erase(it);
    return block;
  }

private:
  static constexpr size_t kLeast = 4096;
  std::multimap<size_t, std::byte *> free; ///< by size
};

} // namespace dt::rt::device

#endif // DT_RUNTIME_DEVICE_POOL_H
