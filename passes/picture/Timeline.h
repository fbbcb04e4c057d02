//===- Timeline.h - Who does what when, as a picture ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Plain figures in, a picture out: predicted steps (Lanes.h) and measured ones
// are drawn alike.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PICTURE_TIMELINE_H
#define PASSES_PICTURE_TIMELINE_H

#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dt::picture {

enum class BarKind : uint8_t {
  Forward,
  Backward,
  Input,  ///< gradients of inputs only
  Weight, ///< gradients of weights only
  Sync,   ///< of a whole batch
  Message,
  Reduce, ///< sums of gradients over replicas
  Optimizer
};

struct Bar {
  BarKind kind = BarKind::Forward;
  int unit = 0; ///< index into TimelineChart::units
  double start = 0, end = 0;
  int64_t microbatch = -1; ///< written into the bar; -1: nothing is
  std::string hover;       ///< what it is; times are added
};

/// One rank, or ranks that do exactly the same.
struct Lane {
  std::vector<int64_t> ranks; ///< ascending
  std::string runs;           ///< stages, with replicas
  std::vector<Bar> bars;
  /// Bytes of activations held from a time on, ascending; empty: not known.
  std::vector<std::pair<double, int64_t>> memory;
  double busy = 0; ///< time with tasks
  int64_t peak = 0;
};

/// From the end of a task on one lane to its arrival on another.
struct MessageLine {
  size_t fromLane = 0, toLane = 0;
  double start = 0, end = 0;
  std::string hover;
};

struct TimelineChart {
  std::string title;
  /// Lines below the title, in words: what times rest on, the bubble.
  std::vector<std::string> notes;
  std::vector<std::string> units;
  std::vector<Lane> lanes;
  std::vector<MessageLine> messages;
  double end = 0;
  /// Else times are of no known unit.
  bool nanoseconds = true;
};

/// `standalone`: a file of its own, with title and notes.
void drawTimeline(llvm::raw_ostream &os, const TimelineChart &chart,
                  bool standalone);
/// The same in a page, with a table of what every rank does.
void drawTimelinePage(llvm::raw_ostream &os, const TimelineChart &chart);

/// "12.3 ms", or a plain number where the unit is not known.
std::string printTimeOf(const TimelineChart &chart, double time);

} // namespace dt::picture

#endif // PASSES_PICTURE_TIMELINE_H
