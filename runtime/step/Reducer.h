//===- Reducer.h - sums of gradients over ranks -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A module's gradients become the global batch's: partial sums inside the
// tensor-parallel group, then over replicas and ranks with other tokens in
// buckets (Ownership.h), then copies of tied tensors. A bucket begins inside
// the module's last backward, as soon as that is done with its parameters, and
// runs while the rest and later tasks compute. Every rank begins a module's
// buckets in the same order, on communicators of the module's own. With
// ModuleInfo::zero each rank gets its blocks only and gives back updated
// parameters.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STEP_REDUCER_H
#define DT_RUNTIME_STEP_REDUCER_H

#include "runtime/comm/Comm.h"
#include "runtime/state/Regions.h"

#include <memory>

namespace dt::rt {

class Reducer final : private GradientListener {
public:
  /// One bucket's way over its group.
  struct Sum {
    size_t module, bytes;
    double begin, end; ///< as now() has them; when its end was seen
    Request request;
    /// A block goes back to its place among the gradients.
    const std::byte *from;
    std::byte *to;
    size_t count;
    DType sent, kept; ///< kept: of gradients as they are stored
  };

  /// Makes groups: all ranks construct it at the same point. `tensorParallel`:
  /// per module this rank's replica, null where it is not run.
  Reducer(const ProgramInfo &program, const Placement &placement,
          const Ownership &ownership, const Regions &regions, Comm &comm,
          Fabric &fabric,
          const std::vector<std::shared_ptr<TensorParallel>> &tensorParallel);

  void beginStep();
  /// What a backward function of the module is to be given now. `last`: no row
  /// adds to the module's gradients afterwards, so buckets may begin in it. In
  /// others messages are only moved on: not where the host just queues work.
  GradientListener *during(size_t module, bool last);
  /// The module's gradients are complete on this rank: begins what is left.
  void begin(size_t module);
  /// Sees which sums have ended. Does not wait.
  void poll();
  /// Begins what no row has begun, waits, sums copies of tied tensors.
  void finish();
  /// Of this step, in the order in which they began; all have ended after
  /// finish().
  const std::vector<Sum> &sums() const { return running; }
  /// Processor seconds inside backward functions since the last call, without
  /// calls that wait.
  double takeSpent();
  /// This rank's of each of the module's groups (Ownership::groups); null: of
  /// this rank alone, or the module is not run.
  const std::vector<FabricGroup *> &groupsOf(size_t module) const {
    return groups[module];
  }
  /// After the update: every rank gets the others' blocks of parameters.
  void gatherParameters();

private:
  /// A set of ranks that hold one tied tensor's same part.
  struct Tie {
    FabricGroup *group; ///< null: of this rank alone
    struct Copy {
      size_t parameter;
      bool counts; ///< its gradient is not another rank's as well
    };
    std::vector<Copy> copies; ///< on this rank
  };
  /// How far a module's sums have begun in this step.
  struct Begun {
    size_t buckets = 0;
    size_t partial = 0; ///< of `updated`
    bool all = false;
  };
  void makeTies();
  bool reduces(size_t module) const;
  void ready(size_t begin, size_t end) override;
  void sumUpTo(size_t end);
  void advance(size_t module, size_t complete);
  void makeGroups(size_t module);
  void start(size_t module, const Bucket &bucket);
  void end(Sum &sum);
  void sumPartial(size_t module, size_t end);
  void sumTie(const Tie &tie) const;

  const ProgramInfo &program;
  const Placement &placement;
  const Ownership &ownership;
  const Regions &regions;
  Comm &comm;
  Fabric &fabric;
  std::vector<std::shared_ptr<TensorParallel>> tensorParallel;
  std::vector<std::vector<FabricGroup *>> groups; ///< per module
  std::vector<Tie> ties;
  /// Per module its parameters that change, in order.
  std::vector<std::vector<size_t>> updated;
  std::vector<Begun> begun;
  std::vector<Sum> running;
  size_t ended = 0;   ///< of these, as far as seen
  size_t current = 0; ///< module whose function runs
  bool currentIsLast = false;
  double spent = 0;
  /// Per module: the reduction's, that of updated parameters.
  std::vector<std::string> labels, parameterLabels;
};

} // namespace dt::rt

#endif // DT_RUNTIME_STEP_REDUCER_H
