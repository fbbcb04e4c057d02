//===- Schedule.h - the schedule that a checkpoint remembers ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A run that is resumed with another length or learning rate trains otherwise
// than the one that was stopped: that is allowed, but said.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_SAVE_SCHEDULE_H
#define DT_RUNTIME_SAVE_SCHEDULE_H

#include "runtime/step/Trainer.h"

#include <nlohmann/json.hpp>

namespace dt::rt {

/// What updates follow from besides gradients: optimizer, learning rate of
/// every step. What has no effect is left out: the length of a constant one.
nlohmann::json scheduleOf(const Trainer &trainer);

/// "lr 0.1 -> 0.2, steps 100 -> 200"; empty: nothing.
std::string changesOf(const nlohmann::json &before,
                      const nlohmann::json &after);

} // namespace dt::rt

#endif // DT_RUNTIME_SAVE_SCHEDULE_H
