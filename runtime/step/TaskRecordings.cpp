//===- TaskRecordings.cpp - tasks that come again -------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/step/TaskRecordings.h"
#include "runtime/base/Log.h"

#include <cstdio>
#include <iterator>
#include <string>

namespace dt::rt {

/// Whether it has run; else it is remembered. Where there are too many, those
/// that have not come again make room.
bool TaskRecordings::isKnown(const Key &key) {
  if (tasks.count(key))
    return true;
  if (tasks.size() == kMost)
    for (auto it = tasks.begin(); it != tasks.end();)
      it = it->second ? std::next(it) : tasks.erase(it);
  if (tasks.size() < kMost)
    tasks.try_emplace(key);
  return false;
}

/// Not the first time: in that libraries make their plans, which a recording
/// may not.
void TaskRecordings::run(size_t module, TaskFn function,
                         const TaskContext &context) {
  const ModuleInfo &info = program.modules[module];
  Key key{function,
          {context.slot, context.received, context.early, context.late},
          context.listener != nullptr,
          {context.dims, context.dims + info.symbols.size}};
  if (!device::records() || refused.count(function) || !isKnown(key))
    return function(context);
  std::unique_ptr<device::Recording> &recording = tasks[key];
  if (recording && recording->replay())
    return;
  std::string why;
  recording = device::Recording::make([&] { function(context); }, why);
  if (recording && recording->replay())
    return;
  refused.insert(function);
  printError("warning: rank %d: module '%s': a task is queued kernel by "
             "kernel, as it cannot be recorded: %s\n",
             rank, info.name, why.c_str());
  function(context);
}

} // namespace dt::rt
