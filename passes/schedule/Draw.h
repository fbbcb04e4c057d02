//===- Draw.h - Pictures of schedules ---------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SCHEDULE_DRAW_H
#define PASSES_SCHEDULE_DRAW_H

#include "passes/schedule/Evaluate.h"

#include "llvm/Support/raw_ostream.h"

namespace dt::schedule {

/// A line of text a rank, at most `columns` wide; a task is its letter, its
/// microbatch as far as there is room, and '-' to its end; idle time is '.'.
void drawText(llvm::raw_ostream &os, const Graph &graph,
              const Solution &solution, const Timeline &timeline,
              unsigned columns = 160);

/// A picture that needs nothing else: a lane a rank, a colour a unit, darker
/// from F to B (I, W between); what a task is, and when, on pointing at it.
/// Under each lane the bytes of activations that the rank holds.
void drawSvg(llvm::raw_ostream &os, const Graph &graph,
             const Solution &solution, const Timeline &timeline,
             llvm::StringRef title);

/// The picture in a page with a table: busy time, bubble and bytes of every
/// rank.
void drawHtml(llvm::raw_ostream &os, const Graph &graph,
              const Solution &solution, const Timeline &timeline,
              llvm::StringRef title);

} // namespace dt::schedule

#endif // PASSES_SCHEDULE_DRAW_H
