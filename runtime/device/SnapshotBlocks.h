//===- SnapshotBlocks.h - how a snapshot is cut -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What is added to a snapshot stands side by side in one row of bytes, which is
// cut into blocks of one size. Host memory holds so many of them as its limit
// allows, so all of them or some at a time.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_SNAPSHOTBLOCKS_H
#define DT_RUNTIME_DEVICE_SNAPSHOTBLOCKS_H

#include <algorithm>
#include <cstddef>
#include <vector>

namespace dt::rt::device {

/// All numbers are bytes or counts of blocks.
class SnapshotBlocks {
public:
  /// Where pieces begin in the row, and blocks.
  static constexpr size_t kAlign = 64;
  /// Of a block: what is written while the next one is copied.
  static constexpr size_t kMost = size_t(16) << 20;

  /// Returns where it begins in the row.
  size_t add(const void *memory, size_t bytes) {
    pieces.push_back({static_cast<const std::byte *>(memory), end, bytes});
    end += (bytes + kAlign - 1) / kAlign * kAlign;
    return pieces.back().place;
  }
  /// All is added: cuts the row so that blocks lie in at most `memory`, which
  /// is at least 2 * kAlign.
  void cut(size_t memory) {
    size = std::max(kAlign, std::min(kMost, end));
    if (end > memory)
      size = std::min(kMost, memory / 2 / kAlign * kAlign);
    slots = end > memory ? memory / size : blocks();
  }

  size_t blocks() const { return (end + size - 1) / size; }
  size_t blockOf(size_t place) const { return place / size; }
  /// Blocks that memory holds at a time.
  size_t held() const { return slots; }
  /// Bytes of memory that these take.
  size_t heldBytes() const { return std::min(slots * size, end); }
  /// Where in that memory a place of the row is, when it is there.
  size_t offsetOf(size_t place) const {
    return blockOf(place) % slots * size + place % size;
  }
  /// Bytes from a place to the end of its block.
  size_t rest(size_t place) const { return size - place % size; }

  /// body(place, memory, bytes) for what of each piece lies in the block.
  template <typename F> void parts(size_t block, F body) const {
    size_t begin = block * size, last = begin + size;
    auto first =
        std::partition_point(pieces.begin(), pieces.end(), [&](const Piece &p) {
          return p.place + p.bytes <= begin;
        });
    for (auto p = first; p != pieces.end() && p->place < last; ++p) {
      size_t from = std::max(begin, p->place),
             to = std::min(last, p->place + p->bytes);
      if (from < to)
        body(from, p->memory + (from - p->place), to - from);
    }
  }
  /// Where the byte at a place of the row was copied from.
  const std::byte *source(size_t place) const {
    auto next =
        std::partition_point(pieces.begin(), pieces.end(),
                             [&](const Piece &p) { return p.place <= place; });
    const Piece &piece = *std::prev(next);
    return piece.memory + (place - piece.place);
  }

private:
  struct Piece {
    const std::byte *memory;
    size_t place, bytes;
  };
  size_t size = kMost, slots = 0, end = 0;
  std::vector<Piece> pieces; ///< in their order
};

} // namespace dt::rt::device

#endif // DT_RUNTIME_DEVICE_SNAPSHOTBLOCKS_H
