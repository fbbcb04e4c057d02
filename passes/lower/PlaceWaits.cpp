//===- PlaceWaits.cpp - Which messages each row waits for -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/rt/RTStep.h"
#include "passes/lower/Passes.h"

#include <map>

using namespace mlir;

namespace dt::lower {
#define GEN_PASS_DEF_PLACEWAITS
#include "passes/lower/Passes.h.inc"

namespace {

struct PlaceWaits : impl::PlaceWaitsBase<PlaceWaits> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<rt::ProgramOp>()) {
      rt::StepBytes bytes(program);
      std::map<std::vector<int64_t>, Waits> found; // replicas do the same
      for (auto rank : program.getBody().getOps<rt::RankOp>()) {
        SmallVector<rt::TaskOp> rows(rank.getBody().getOps<rt::TaskOp>());
        auto [waits, isNew] = found.try_emplace(bytes.listTouched(rank));
        if (isNew)
          waits->second = find(rank, rows, bytes);
        for (auto [row, waited] : llvm::zip_equal(rows, waits->second))
          if (!waited.empty())
            row.setWaits(waited);
      }
    }
  }

private:
  /// By row: the rows that it waits for.
  using Waits = std::vector<SmallVector<int32_t>>;

  static Waits find(rt::RankOp rank, ArrayRef<rt::TaskOp> rows,
                    rt::StepBytes &bytes) {
    Waits all(rows.size());
    bytes.walk(rank, [&](int32_t index, ArrayRef<int32_t> open) {
      // Sums are waited for at the step's end only.
      for (int32_t other : open)
        if (rt::TaskOp(rows[other]).getKind() != rt::TaskKind::Reduce)
          all[index].push_back(other);
      return all[index];
    });
    return all;
  }
};

} // namespace
} // namespace dt::lower
