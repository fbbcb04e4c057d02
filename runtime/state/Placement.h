//===- Placement.h - who a rank is in every module --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Reads ModuleInfo::ranks: rank t of replica d of a module is ranks[d * tp +
// t]. Everything else asks here, so that the rule is in one place.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STATE_PLACEMENT_H
#define DT_RUNTIME_STATE_PLACEMENT_H

#include "runtime/Program.h"

#include <vector>

namespace dt::rt {

class Placement {
public:
  /// Where this rank stands in a module; replica -1: it does not run it.
  struct Place {
    int32_t replica = -1;
    int32_t tp = 0;
    bool runs() const { return replica >= 0; }
  };

  /// Throws Error if the tables contradict each other (a rank twice in a
  /// module, a number outside of the world) or are for another number of ranks.
  Placement(const ProgramInfo &program, int rank, int worldSize);

  int rank() const { return self; }
  int worldSize() const { return ranks; }
  const Place &at(size_t module) const { return places[module]; }

  /// Of a whole-batch module every rank is a replica of its own.
  int32_t replicas(size_t module) const;
  int32_t tp(size_t module) const;
  int rankOf(size_t module, int32_t replica, int32_t tp) const;
  /// The tensor-parallel group of a replica.
  std::vector<int> replicaRanks(size_t module, int32_t replica) const;
  /// Ranks with this tensor-parallel place, a replica each.
  std::vector<int> peers(size_t module, int32_t tp) const;

  /// Whether values that all ranks of the module have alike (loss terms of a
  /// part, outputs) count here: place 0 of a replica, of a whole-batch module
  /// its first rank only. Of what is cut: the canonical place of each part.
  bool counts(size_t module, Span<CutInfo> cuts = {}) const;

private:
  const ProgramInfo &program;
  int self, ranks;
  std::vector<Place> places;
};

/// A rank's place on the axis of a cut (Collectives.h).
inline int64_t placeOn(const CutInfo &axis, int64_t tp) {
  return tp / axis.stride % axis.over;
}

/// The tensor-parallel place with the same indices on the axes of `cuts` and 0
/// on all others: the rank that counts what several hold alike.
int64_t canonicalPlace(Span<CutInfo> cuts, int64_t tp);

} // namespace dt::rt

#endif // DT_RUNTIME_STATE_PLACEMENT_H
