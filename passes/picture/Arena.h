//===- Arena.h - What stands where in memory, as a picture ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PICTURE_ARENA_H
#define PASSES_PICTURE_ARENA_H

#include "passes/picture/Timeline.h"

namespace dt::picture {

enum class BufferRole : uint8_t {
  Passed,   ///< inputs and outputs of modules
  Saved,    ///< from forward to backward
  Gradient, ///< of what is passed
  Scratch   ///< of all modules
};

struct ArenaBlock {
  std::string name, group; ///< group: the layer, or what else it belongs to
  BufferRole role = BufferRole::Passed;
  int unit = 0; ///< index into ArenaChart::units
  int64_t offset = 0, bytes = 0;
  size_t first = 0, last = 0; ///< tasks between which it is in use
};

/// Bytes of a rank's arena upwards, its tasks to the right.
struct ArenaChart {
  std::string title;
  std::vector<std::string> notes, units;
  struct Task {
    BarKind kind;
    int unit; ///< -1: of none
    int64_t microbatch;
    std::string hover;
  };
  std::vector<Task> tasks;
  std::vector<ArenaBlock> blocks; ///< by offset
  int64_t bytes = 0;
};

/// `standalone`: a file of its own, with title and notes.
void drawArena(llvm::raw_ostream &os, const ArenaChart &chart, bool standalone);

} // namespace dt::picture

#endif // PASSES_PICTURE_ARENA_H
