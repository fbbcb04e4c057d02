//===- MessageOrder.h - one order of all messages of a step -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Rows post receives ahead of the messages, which is right where tags tell them
// apart. Where messages have no tags (Fabric::isOrdered) ranks must call for
// them in one order. Every rank finds it by itself from the program's tables:
// all rows are walked as if a send ended only when its receive is posted, a
// task of each rank in turn. Who sends does so at its row; who receives calls
// where the walk found it when the message was sent. So each message, each task
// and each call of a host comes after all that it waits for, and no circle can
// arise. A message without rows is left out on both ends.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STEP_MESSAGEORDER_H
#define DT_RUNTIME_STEP_MESSAGEORDER_H

#include "runtime/Program.h"

#include <vector>

namespace dt::rt {

/// A message to this rank, of the row `row` that receives it; to be called for
/// before row `before`, no earlier than its row.
struct CallPlace {
  size_t before, row;
  int from;
  bool operator==(const CallPlace &o) const {
    return before == o.before && row == o.row && from == o.from;
  }
};

/// Messages to a rank from others, in the order of all messages. Throws Error
/// that names a row if ranks would wait for each other, or a message has one
/// end only.
std::vector<CallPlace> orderMessages(const ProgramInfo &program, int rank);

} // namespace dt::rt

#endif // DT_RUNTIME_STEP_MESSAGEORDER_H
