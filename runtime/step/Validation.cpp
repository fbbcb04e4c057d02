//===- Validation.cpp - losses on data that is not trained on -------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/step/Validation.h"
#include "runtime/base/Clock.h"
#include "runtime/comm/Status.h"

namespace dt::rt {

namespace {

/// Says on the status board where a rank is.
struct Where final : StepObserver {
  Where(StatusBoard *board, int64_t batch) : board(board), batch(batch) {}
  void enters(int32_t row, bool waiting) override {
    if (board && waiting)
      board->begin(batch, row);
  }
  StatusBoard *board;
  int64_t batch;
};

} // namespace

ValidationResult Validation::run() {
  double begin = now();
  LossSums sums;
  sums.batches = 0;
  for (int64_t i = 0; i < source->batches(); ++i) {
    Where where(board, i);
    sums.add(trainer.evaluate(nextBatch(trainer, *source, i), &where));
  }
  ValidationResult result;
  result.loss = sums.terms(trainer.program(), result.terms);
  result.empty = sums.empty(trainer.program());
  result.seconds = now() - begin;
  return result;
}

std::string Validation::summary() const {
  int64_t batches = source->batches();
  return "validation: " + source->summary() +
         (batches == 1 ? "" : ", " + std::to_string(batches) + " batches");
}

} // namespace dt::rt
