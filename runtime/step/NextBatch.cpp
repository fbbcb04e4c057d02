//===- NextBatch.cpp - the data of a step, on all ranks or none -----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Agreement.h"
#include "runtime/comm/Status.h"
#include "runtime/step/Trainer.h"

#include <optional>

namespace dt::rt {

const Batch &nextBatch(Trainer &trainer, BatchSource &source, int64_t step) {
  Waits waits(trainer.comm().board(), {Awaited::Own});
  const Batch *batch = nullptr;
  std::optional<BatchesEnded> ended;
  std::string failure = failureOf([&] {
    try {
      batch = &source.next(step);
    } catch (const BatchesEnded &e) {
      ended = e;
    }
  });
  if (ended)
    throw *ended;
  if (!batch)
    trainer.stepFailed(failure);
  return *batch;
}

} // namespace dt::rt
