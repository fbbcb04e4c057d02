//===- Waits.h - waits of rows that are written by hand ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_RUNTIME_WAITS_H
#define DT_TEST_RUNTIME_WAITS_H

#include "runtime/Program.h"

#include <deque>
#include <vector>

namespace dt::test {

/// Fills TaskRow::waits as the compiler does, where buffers share no bytes: a
/// row that computes waits for what brings its inputs and gradients, and for
/// what is sent from the outputs that it writes. Owns the lists.
class RowWaits {
public:
  void add(const rt::ProgramInfo &program, std::vector<rt::TaskRow> &rows) {
    std::vector<char> ended(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      std::vector<int32_t> &list = lists.emplace_back();
      for (size_t j = 0; j < i; ++j)
        if (!ended[j] && meets(program, rows[i], rows[j])) {
          ended[j] = true;
          list.push_back(int32_t(j));
        }
      rows[i].waits = {list.data(), list.size()};
    }
  }

private:
  static bool meets(const rt::ProgramInfo &program, const rt::TaskRow &task,
                    const rt::TaskRow &message) {
    using rt::TaskKind;
    bool comes = message.kind == TaskKind::Receive, back = message.gradient;
    if (!rt::computes(task.kind) || rt::goesBack(task.kind) != back ||
        (!comes && (message.kind != TaskKind::Send ||
                    task.kind == TaskKind::BackwardWeight)))
      return false;
    const rt::EdgeInfo &edge = program.edges[message.index];
    if (task.index != (comes == back ? edge.from : edge.to))
      return false;
    const rt::ModuleInfo &module = program.modules[task.index];
    const rt::BufferInfo &buffer =
        back    ? (comes ? edge.consumed : edge.produced)
        : comes ? module.inputs[size_t(edge.toInput)].buffer
                : module.outputs[size_t(edge.fromOutput)];
    return message.slot == getSlot(task, buffer.slots);
  }

  std::deque<std::vector<int32_t>> lists;
};

} // namespace dt::test

#endif // DT_TEST_RUNTIME_WAITS_H
