//===- WholeUpdates.h - updates that see a whole parameter ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What an optimizer of matrices does beside updates by element: its steps over
// a rank's parts (device/Factored.h, Orthogonal.h), and between them the sums
// over ranks that have other parts (state/Wholes.h). All is queued; scratch is
// what tasks leave free between steps.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STEP_WHOLEUPDATES_H
#define DT_RUNTIME_STEP_WHOLEUPDATES_H

#include "runtime/comm/Fabric.h"
#include "runtime/device/Array.h"
#include "runtime/device/Factored.h"
#include "runtime/device/Orthogonal.h"
#include "runtime/state/ParameterValues.h"
#include "runtime/state/Wholes.h"

#include <memory>
#include <string>
#include <vector>

namespace dt::rt {

class Optimizer;

/// Who adds up: of each module this rank's replica, null where it is not run,
/// and its groups (Ownership::groups).
struct WholeRanks {
  std::vector<TensorParallel *> axes;
  std::vector<std::vector<FabricGroup *>> groups;
};

class WholeUpdates {
public:
  /// Throws Error where there is no room for its tables.
  WholeUpdates(const Optimizer &optimizer, const ProgramInfo &program,
               const Placement &placement, const Ownership &ownership,
               const Regions &regions, const ParameterValues &values,
               WholeRanks ranks);
  ~WholeUpdates();

  /// As Optimizer::update(). All ranks call it at the same point.
  void run(int64_t step, double lr, const Verdict *verdict) const;

private:
  struct Factored; ///< parameters with one rule
  struct Matrix;
  device::UpdateRun runOf(size_t parameter, const OwnedPiece &piece) const;
  UpdateRule ruleOf(size_t parameter) const;
  void makeFactored();
  device::FactoredTensor tensorOf(const WholeTensor &tensor,
                                  const device::WholePiece *pieces,
                                  size_t count) const;
  void makeMatrices();
  void makeMatrix(const WholeTensor &tensor);
  void add(const SharedSum &sum) const;
  void runFactored(int64_t step, double lr, const Verdict *verdict) const;
  void runMatrices(int64_t step, double lr, const Verdict *verdict) const;
  float *floats(size_t place) const {
    return reinterpret_cast<float *>(regions.scratch()) + place;
  }

  const Optimizer &optimizer;
  const ProgramInfo &program;
  const Ownership &ownership;
  const Regions &regions;
  const ParameterValues &values;
  WholeRanks ranks;
  WholePlan plan;
  device::OrthogonalScratch scratch{};
  std::vector<std::string> labels; ///< by module
  std::vector<std::unique_ptr<Factored>> factored;
  std::vector<std::unique_ptr<Matrix>> matrices;
};

} // namespace dt::rt

#endif // DT_RUNTIME_STEP_WHOLEUPDATES_H
