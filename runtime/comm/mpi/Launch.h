//===- Launch.h - a program that starts its own ranks -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_MPI_LAUNCH_H
#define DT_RUNTIME_COMM_MPI_LAUNCH_H

#include <optional>

namespace dt::rt {

/// Whether mpirun or srun has started this process as one of several ranks; how
/// many there are and which one this is (else 1 and 0). A rank's number alone,
/// PMI_RANK for instance, says nothing: shells inside of jobs have it.
bool isLaunched();
int launchedRanks();
int launchedRank();
/// How many of the ranks are on this machine: all, unless the launcher says
/// otherwise.
int launchedHere();

/// Starts this program again as `ranks` ranks under mpirun, waits for them and
/// returns their exit code. Nothing if this process is a rank already, or one
/// rank is wanted; then signals that ask it to end are held from now on
/// (Stop.h). To be called first in main(), before there are threads.
///
/// The ranks share the cores: OMP_NUM_THREADS is set unless it is given or
/// `threads` (of --threads) is not 0. Open MPI is told to allow more ranks than
/// cores and root, unless its variables say otherwise; what other launchers
/// have left in the environment is taken out; ranks on other machines get what
/// of it concerns them. mpirun runs in a process group of its own and ends when
/// this process does, or when ranks of this machine have failed and it does not
/// notice (a link that is down). SIGINT, SIGTERM and SIGUSR1 do not
/// reach mpirun, which would end the ranks: ranks read on the status board
/// (Status.h) that the run is to end. A second SIGINT kills them.
///
/// Throws Error if there is no mpirun, or the program was built without MPI.
std::optional<int> launchRanks(int argc, char **argv, int ranks,
                               int threads = 0);

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_MPI_LAUNCH_H
