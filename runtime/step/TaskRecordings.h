//===- TaskRecordings.h - tasks that come again -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STEP_TASKRECORDINGS_H
#define DT_RUNTIME_STEP_TASKRECORDINGS_H

#include "runtime/Program.h"
#include "runtime/device/Device.h"

#include <array>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

namespace dt::rt {

/// Runs the functions of one trainer's tasks. One that comes again with equal
/// sizes in the same slots is recorded (device::Recording) where the target
/// does such, and replayed from then on. Whatever else a context has stays the
/// same for a module as long as its trainer lives.
class TaskRecordings {
public:
  TaskRecordings(const ProgramInfo &program, int rank)
      : program(program), rank(rank) {}

  /// Queues what `function` of the module does. A function that cannot be
  /// recorded is one line on stderr, and is called every time.
  void run(size_t module, TaskFn function, const TaskContext &context);

private:
  /// Function, slots by kind, whether somebody listens, dims.
  using Key = std::tuple<TaskFn, std::array<int32_t, kCases<SlotKind>>, bool,
                         std::vector<int64_t>>;
  /// Tasks that are known; others are called every time.
  static constexpr size_t kMost = 256;

  bool isKnown(const Key &key);

  const ProgramInfo &program;
  int rank;
  /// Null: it has run.
  std::map<Key, std::unique_ptr<device::Recording>> tasks;
  std::set<TaskFn> refused;
};

} // namespace dt::rt

#endif // DT_RUNTIME_STEP_TASKRECORDINGS_H
