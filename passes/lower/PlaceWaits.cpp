//===- PlaceWaits.cpp - Which messages each row waits for -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/rt/RTStep.h"
#include "passes/lower/Passes.h"

using namespace mlir;

namespace dt::lower {
#define GEN_PASS_DEF_PLACEWAITS
#include "passes/lower/Passes.h.inc"

namespace {

struct PlaceWaits : impl::PlaceWaitsBase<PlaceWaits> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<rt::ProgramOp>()) {
      rt::StepBytes bytes(program);
      for (auto rank : program.getBody().getOps<rt::RankOp>())
        place(rank, bytes);
    }
  }

  void place(rt::RankOp rank, rt::StepBytes &bytes) {
    SmallVector<rt::TaskOp> rows(rank.getBody().getOps<rt::TaskOp>());
    bytes.walk(rank, [&](int32_t index, ArrayRef<int32_t> open) {
      // Sums are waited for at the step's end only.
      SmallVector<int32_t> waits;
      for (int32_t other : open)
        if (rows[other].getKind() != rt::TaskKind::Reduce)
          waits.push_back(other);
      if (!waits.empty())
        rows[index].setWaits(waits);
      return waits;
    });
  }
};

} // namespace
} // namespace dt::lower
