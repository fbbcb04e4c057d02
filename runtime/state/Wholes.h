//===- Wholes.h - parameters that are updated as a whole --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Under an optimizer of matrices (docs/optimizers.md). A rank may have a part
// of such a parameter only: its cut of a tensor-parallel group, its share of
// ZeRO's blocks. What the update needs of the rest, ranks add up. From the
// tables alone: which sums these are, and the memory that they take.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STATE_WHOLES_H
#define DT_RUNTIME_STATE_WHOLES_H

#include "runtime/state/Ownership.h"

#include <string>
#include <vector>

namespace dt::rt {

/// Floats that ranks of a module add up: those of a group that share out what
/// the optimizer keeps (Ownership::groups), then the ranks of each axis (by
/// over and stride, Collectives.h).
struct SharedSum {
  size_t module;
  size_t group; ///< Ownership::kNoGroup: none
  Axes axes;
  size_t begin, count; ///< in the floats of scratch

  bool overGroup() const { return group != Ownership::kNoGroup; }
  bool isShared() const { return overGroup() || !axes.empty(); }
  bool sameRanks(const SharedSum &o) const {
    return module == o.module && group == o.group && axes == o.axes;
  }
};

/// One parameter. Places are in the floats of scratch.
struct WholeTensor {
  size_t parameter;
  bool matrix;
  /// Of the part; what is no matrix is one row.
  PartMatrix part;
  /// Of Adafactor: sums of squares of gradients by row and column, of
  /// parameters and directions by row and in all, means of rows' means.
  size_t rowSums = 0, columnSums = 0, squares = 0, steps = 0, totalSquares = 0,
         totalSteps = 0, means = 0;
  /// Of Muon: the whole, with padding, and what adds it up.
  PartMatrix whole{};
  SharedSum sum{};
};

struct WholePlan {
  std::vector<WholeTensor> tensors; ///< of this rank, in the table's order
  /// Of Adafactor, in order: of rows, columns and parameters; of means; of
  /// directions.
  std::vector<SharedSum> sums[3];
  size_t floats = 0; ///< of scratch, before what one matrix takes
  /// Of Muon: the largest parameter's floats, matrix's elements and its shorter
  /// side, as they are taken (OrthogonalScratch).
  size_t wholeFloats = 0, elements = 0, side = 0;
  size_t scratchBytes = 0;
};

WholePlan planWholes(const ProgramInfo &program, const Placement &placement,
                     const Ownership &ownership);

/// Every sum of a step, of those that ranks have.
std::vector<SharedSum> allSums(const WholePlan &plan);

/// Whether the program's optimizer sees all of it at once, if it trains.
bool mayBeWhole(const ProgramInfo &program, const ParameterInfo &parameter);

/// By which sums over groups are counted (Comm::traffic).
inline std::string optimizerLabel(const std::string &module) {
  return "optimizer " + module;
}

} // namespace dt::rt

#endif // DT_RUNTIME_STATE_WHOLES_H
