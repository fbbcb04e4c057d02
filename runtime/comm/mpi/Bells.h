//===- Bells.h - ranks that sleep while they wait ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// MPI libraries poll while they wait. Where a node has more ranks than cores
// that costs more than the time of those who poll: to the operating system they
// look as busy as ranks that work, so it puts two that work on one core and two
// that poll on the other. There ranks sleep instead, each at a bell of its own
// in memory that the node shares, and who sends something rings.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_MPI_BELLS_H
#define DT_RUNTIME_COMM_MPI_BELLS_H

#include <cstdint>
#include <vector>

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

namespace dt::rt {

class Bells {
public:
  /// All ranks of `comm` together; ranks are known by their places in it from
  /// then on. Without effect unless this node has more ranks than cores
  /// (DT_WAIT=sleep or poll in the environment decides instead).
  void start(MPI_Comm comm);
  /// All ranks together.
  void stop();

  bool on() const { return cells; }
  /// How often this rank has been rung. Only while on().
  uint32_t count() const;
  /// Until this rank is rung again after count() was `seen`, or for so long.
  void sleep(uint32_t seen, double seconds);
  /// Wakes a rank of this node.
  void ring(int rank);

  /// Groups that may meet: below this number, all of their ranks on this node.
  static constexpr int kGroups = 256;
  bool areHere(const std::vector<int> &ranks) const;
  /// A meeting has two parts: all have come; all are awake again.
  enum Part { Come, Awake };
  /// This rank has come to the group's next meeting or, after all have, is
  /// awake; rings the others.
  void arrive(int group, Part part, const std::vector<int> &ranks);
  /// Whether all have, at the meeting that this rank came to last.
  bool haveArrived(int group, Part part, const std::vector<int> &ranks) const;

private:
  struct Cell;
  Cell *cells = nullptr; ///< by place on this node
  int self = 0;
  std::vector<int> placeOf; ///< by rank; -1: on another node
  MPI_Win window = MPI_WIN_NULL;
};

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_MPI_BELLS_H
