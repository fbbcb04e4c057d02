//===- Wholes.cpp - parameters that are updated as a whole ----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/state/Wholes.h"

#include <algorithm>

namespace dt::rt {

namespace {

constexpr size_t kScratchLine = 64; ///< bytes; where places begin

size_t wholeLines(size_t bytes) {
  return (bytes + kScratchLine - 1) / kScratchLine * kScratchLine;
}

/// What a number is a sum over: the axes that cut these dims.
enum class Over { Rows, Columns, All };

class WholePlanner {
public:
  WholePlanner(const ProgramInfo &program, const Placement &placement,
               const Ownership &ownership)
      : program(program), placement(placement), ownership(ownership) {}

  WholePlan run() {
    for (size_t p = 0; p < program.parameters.size; ++p)
      if (ownership.isWhole(p) &&
          placement.at(size_t(program.parameters[p].module)).runs())
        addTensor(p);
    if (plan.tensors.empty())
      return std::move(plan);
    if (describe(program.optimizer.kind).matrices == Matrices::Axes)
      placeSums();
    else
      placeMatrices();
    return std::move(plan);
  }

private:
  void addTensor(size_t p) {
    const ParameterInfo &info = program.parameters[p];
    WholeTensor tensor{p, ownership.isMatrix(p), partMatrix(info)};
    if (!tensor.matrix)
      tensor.part = {1, 1, partElements(info)};
    plan.tensors.push_back(tensor);
  }

  /// Who adds up what of a tensor.
  SharedSum ranksOf(const WholeTensor &tensor, Over over) const {
    const ParameterInfo &info = program.parameters[tensor.parameter];
    SharedSum sum{size_t(info.module),
                  ownership.spread(tensor.parameter)
                      ? ownership.groupOf(tensor.parameter)
                      : Ownership::kNoGroup,
                  {},
                  0,
                  0};
    for (const CutInfo &cut : info.cuts) {
      int64_t fromEnd = info.tensor.rank - cut.dim;
      bool adds = over == Over::All ||
                  (over == Over::Rows ? fromEnd == 1 : fromEnd == 2);
      if (cut.over > 1 && adds)
        sum.axes.insert({cut.over, cut.stride});
    }
    return sum;
  }

  /// What ranks add up together stands side by side.
  struct Wanted {
    SharedSum sum;
    size_t *place;
  };
  void place(std::vector<Wanted> wanted, std::vector<SharedSum> &sums) {
    for (bool taken = true; taken;) {
      taken = false;
      SharedSum *open = nullptr;
      for (Wanted &w : wanted) {
        if (!w.place || (open && !open->sameRanks(w.sum)))
          continue;
        if (!open) {
          sums.push_back(w.sum);
          open = &sums.back();
          open->begin = plan.floats, open->count = 0;
        }
        *std::exchange(w.place, nullptr) = plan.floats;
        plan.floats += w.sum.count, open->count += w.sum.count;
        taken = true;
      }
    }
  }

  void placeSums() {
    std::vector<Wanted> first, means, last;
    for (WholeTensor &t : plan.tensors) {
      auto want = [&](std::vector<Wanted> &list, Over over, size_t count,
                      size_t &place) {
        list.push_back({ranksOf(t, over), &place});
        list.back().sum.count = count;
      };
      size_t rows = t.part.matrices * t.part.rows;
      if (t.matrix) {
        want(first, Over::Rows, rows, t.rowSums);
        want(first, Over::Columns, t.part.matrices * t.part.columns,
             t.columnSums);
        want(means, Over::Columns, t.part.matrices, t.means);
        means.back().sum.group = Ownership::kNoGroup; // has the same rows
      }
      want(first, Over::All, 1, t.totalSquares);
      want(last, Over::All, 1, t.totalSteps);
      t.squares = plan.floats;
      t.steps = plan.floats + rows;
      plan.floats += 2 * rows;
    }
    place(std::move(first), plan.sums[0]);
    place(std::move(means), plan.sums[1]);
    place(std::move(last), plan.sums[2]);
    plan.scratchBytes = wholeLines(plan.floats * sizeof(float));
  }

  void placeMatrices() {
    for (WholeTensor &t : plan.tensors) {
      const ParameterInfo &info = program.parameters[t.parameter];
      t.whole = t.part;
      for (const CutInfo &cut : info.cuts)
        (cut.dim == info.tensor.rank - 1   ? t.whole.columns
         : cut.dim == info.tensor.rank - 2 ? t.whole.rows
                                           : t.whole.matrices) *=
            size_t(cut.over);
      size_t elements = t.whole.rows * t.whole.columns;
      t.sum = ranksOf(t, Over::All);
      t.sum.count = t.whole.matrices * elements;
      plan.wholeFloats = std::max(plan.wholeFloats, t.sum.count);
      plan.elements = std::max(plan.elements, elements);
      plan.side = std::max(plan.side, std::min(t.whole.rows, t.whole.columns));
    }
    // The whole and one matrix in bf16; its products in bf16 and float32.
    plan.scratchBytes = wholeLines(plan.wholeFloats * 4) +
                        wholeLines(plan.elements * 2) +
                        wholeLines(plan.side * plan.side * 2) +
                        wholeLines(plan.side * plan.side * 4) + kScratchLine;
  }

  const ProgramInfo &program;
  const Placement &placement;
  const Ownership &ownership;
  WholePlan plan;
};

} // namespace

WholePlan planWholes(const ProgramInfo &program, const Placement &placement,
                     const Ownership &ownership) {
  return WholePlanner(program, placement, ownership).run();
}

std::vector<SharedSum> allSums(const WholePlan &plan) {
  std::vector<SharedSum> all;
  auto add = [&](const SharedSum &sum) {
    if (sum.isShared() && sum.count)
      all.push_back(sum);
  };
  for (const std::vector<SharedSum> &sums : plan.sums)
    for (const SharedSum &sum : sums)
      add(sum);
  for (const WholeTensor &tensor : plan.tensors)
    add(tensor.sum);
  return all;
}

bool mayBeWhole(const ProgramInfo &program, const ParameterInfo &parameter) {
  // Of a copy as its original says.
  const ParameterInfo *original = &parameter;
  for (size_t hops = 0; original->tied >= 0 && hops < program.parameters.size;
       ++hops)
    original = &program.parameters[size_t(original->tied)];
  return parameter.trainable && original->routingRate < 0 &&
         describe(program.optimizer.kind).isWhole(original->matrix);
}

} // namespace dt::rt
