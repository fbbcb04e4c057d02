//===- Pool.h - device memory that is used again ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_POOL_H
#define DT_RUNTIME_DEVICE_POOL_H

#include "runtime/base/Error.h"
#include "runtime/device/Device.h"

#include <cstdlib>
#include <map>
#include <memory>
#include <string>

namespace dt::rt::device {

/// Memory that is taken and given back in every step. What is needed at once is
/// reserved beforehand; what was not is allocated when it is taken, and kept.
/// Who gives back device memory has queued, on stream(), all that uses it; host
/// memory is not in use any more then.
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

  enum Kind { Device, Pinned, Host };
  explicit Pool(Kind kind = Device) : kind(kind) {}
  Pool(const Pool &) = delete;
  Pool &operator=(const Pool &) = delete;
  ~Pool() {
    for (auto &[bytes, memory] : free)
      give(memory);
  }

  /// Has so many blocks of each size (bytes) from now on, and no more but those
  /// that are taken. Throws Error where there is no room.
  void reserve(const std::map<size_t, size_t> &counts) {
    for (auto it = free.begin(); it != free.end();) {
      auto planned = counts.find(it->first);
      size_t &have = sizes[it->first];
      if (planned != counts.end() && have <= planned->second) {
        ++it;
        continue;
      }
      give(it->second);
      --have;
      it = free.erase(it);
    }
    for (auto [bytes, count] : counts)
      while (bytes && sizes[bytes] < count)
        add(bytes);
  }

  /// At least so many bytes, with what was left there; null: of 0. The pool
  /// outlives it.
  Block take(size_t bytes) {
    if (!bytes)
      return Block(nullptr, {this, 0});
    if (free.lower_bound(bytes) == free.end())
      add((bytes / kLeast + 1) * kLeast);
    auto it = free.lower_bound(bytes);
    Block block(it->second, {this, it->first});
    free.erase(it);
    return block;
  }

  /// All that it has allocated.
  size_t bytes() const {
    size_t sum = 0;
    for (auto [bytes, count] : sizes)
      sum += bytes * count;
    return sum;
  }

private:
  void add(size_t bytes) {
    free.emplace(bytes, static_cast<std::byte *>(get(bytes)));
    ++sizes[bytes];
  }
  void *get(size_t bytes) const {
    if (kind != Host)
      return kind == Device ? allocate(bytes, "messages")
                            : allocatePinned(bytes, "messages");
    if (void *memory = std::malloc(bytes))
      return memory;
    throw Error("not enough memory: " + std::to_string(bytes) +
                " bytes for messages");
  }
  void give(void *memory) const {
    kind == Device   ? release(memory)
    : kind == Pinned ? releasePinned(memory)
                     : std::free(memory);
  }

  static constexpr size_t kLeast = 4096;
  Kind kind;
  std::multimap<size_t, std::byte *> free; ///< by size
  std::map<size_t, size_t> sizes;          ///< blocks of each
};

} // namespace dt::rt::device

#endif // DT_RUNTIME_DEVICE_POOL_H
