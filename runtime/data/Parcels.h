//===- Parcels.h - inputs of a replica's parts ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What one replica of a module is given of a step is one block of bytes, equal
// for all of its ranks. Who has read the batch fills it; others get it.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_PARCELS_H
#define DT_RUNTIME_DATA_PARCELS_H

#include "runtime/data/StepFacts.h"

#include <functional>
#include <vector>

namespace dt::rt {

/// The raw inputs of all parts of a replica, in the order of tasks, pieces and
/// inputs, each from a multiple of 16 bytes on. A whole-batch module has one
/// parcel for all of its ranks.
struct Parcel {
  size_t module = 0;
  int32_t replica = 0;
  std::vector<int> ranks; ///< whom it is for
  size_t size = 0;
  std::vector<std::byte> bytes; ///< `size` of them, or none yet

  bool isFor(int rank) const;
};

/// Without bytes, in one order on all ranks; those without inputs are none.
std::vector<Parcel> parcelsOf(const ProgramInfo &program,
                              const StepFacts &facts, const Batch &batch);

/// Where an input of a part lies in its parcel. `items`: of the part.
struct ParcelInput {
  const Part &part;
  const PartItems &items;
  size_t input, at, size;
};
/// In order. The parts have no bytes. Throws Error if one is above a bound.
void forEachInput(const ProgramInfo &program, const StepFacts &facts,
                  const Batch &batch, const Parcel &parcel,
                  const std::function<void(const ParcelInput &)> &run);

/// Makes a rank's parts of its parcels' bytes, which must outlive them.
void placeParts(const ProgramInfo &program, const StepFacts &facts,
                const RankView &view, const std::vector<Parcel> &parcels,
                Batch &batch);

} // namespace dt::rt

#endif // DT_RUNTIME_DATA_PARCELS_H
