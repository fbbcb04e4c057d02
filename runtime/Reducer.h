//===- Reducer.h - sums of gradients over ranks -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A module's gradients become the global batch's: partial sums inside the
// tensor-parallel group, then over the replicas in buckets (Ownership.h) that
// run while later tasks compute, then copies of tied tensors. With
// ModuleInfo::zero each replica gets its blocks only and gives back updated
// parameters.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_REDUCER_H
#define DT_RUNTIME_REDUCER_H

#include "runtime/Comm.h"
#include "runtime/Regions.h"

#include <memory>

namespace dt::rt {

class Reducer {
public:
  /// Makes groups: all ranks construct it at the same point. `tensorParallel`:
  /// per module this rank's replica, null where it is not run.
  Reducer(const ProgramInfo &program, const Placement &placement,
          const Ownership &ownership, const Regions &regions, Comm &comm,
          const std::vector<std::shared_ptr<TensorParallel>> &tensorParallel);

  void beginStep();
  /// The module's gradients are complete on this rank.
  void begin(size_t module);
  /// Begins what no row has begun, waits, sums copies of tied tensors.
  void finish();
  /// After the update: every replica gets the others' blocks of parameters.
  void gatherParameters();

private:
  /// A set of ranks that hold one tied tensor's same part.
  struct Tie {
    Group *group;
    struct Copy {
      size_t parameter;
      bool counts; ///< its gradient is not another rank's as well
    };
    std::vector<Copy> copies; ///< on this rank
  };
  void makeTies();
  void sumPartial(size_t module);
  void sumTie(const Tie &tie) const;

  const ProgramInfo &program;
  const Placement &placement;
  const Ownership &ownership;
  const Regions &regions;
  Comm &comm;
  std::vector<std::shared_ptr<TensorParallel>> tensorParallel;
  std::vector<Group *> replicas; ///< per module; null: nothing to sum
  std::vector<Tie> ties;
  std::vector<char> begun;
  std::vector<Request> pending;
  std::vector<std::string> labels; ///< per module: the reduction's
};

} // namespace dt::rt

#endif // DT_RUNTIME_REDUCER_H
