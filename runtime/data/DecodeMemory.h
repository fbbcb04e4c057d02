//===- DecodeMemory.h - memory that pictures take together ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A small file may be a large picture, and many threads decode at once. Memory
// is one for the process, so this is too: who decodes says before how much it
// takes, and waits until there is room.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_DECODEMEMORY_H
#define DT_RUNTIME_DATA_DECODEMEMORY_H

#include <cstdint>

namespace dt::rt::data {

/// Bytes for all threads together.
constexpr int64_t decodeMemory = int64_t(256) << 20;

/// Holds `bytes` of it, once they are free; all of it if more are asked for,
/// so that every picture comes to its turn. A thread has one at a time.
class DecodeLease {
public:
  explicit DecodeLease(int64_t bytes);
  ~DecodeLease();
  DecodeLease(const DecodeLease &) = delete;
  DecodeLease &operator=(const DecodeLease &) = delete;

  /// Held by all threads now, and the most that was.
  static int64_t held();
  static int64_t most();

private:
  int64_t bytes;
};

} // namespace dt::rt::data

#endif // DT_RUNTIME_DATA_DECODEMEMORY_H
