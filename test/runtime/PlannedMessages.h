//===- PlannedMessages.h - what messages have, and were to have -*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_RUNTIME_PLANNEDMESSAGES_H
#define DT_TEST_RUNTIME_PLANNEDMESSAGES_H

#include "runtime/step/MessagePlan.h"
#include "runtime/step/Trainer.h"

#include <gtest/gtest.h>

/// After steps: nothing was allocated but what the plan says.
inline void expectPlanned(const dt::rt::Trainer &trainer) {
  dt::rt::Trainer::MessageBytes have = trainer.messageBytes();
  dt::rt::MessageBlocks want =
      dt::rt::planMessages(trainer.program(), trainer.placement(),
                           trainer.ownership(), have.carrier);
  EXPECT_EQ(have.device, want.deviceBytes());
  EXPECT_EQ(have.host, want.hostBytes());
}

#endif // DT_TEST_RUNTIME_PLANNEDMESSAGES_H
