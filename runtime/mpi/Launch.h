//===- Launch.h - a program that starts its own ranks -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_MPI_LAUNCH_H
#define DT_RUNTIME_MPI_LAUNCH_H

#include <optional>

namespace dt::rt {

/// Whether mpirun or srun has started this process as a rank; how many of them
/// and which one, as far as the environment says (else 1 and 0).
bool isLaunched();
int launchedRanks();
int launchedRank();

/// Starts this program again as `ranks` ranks under mpirun, waits for them and
/// returns their exit code. Nothing if this process is a rank already, or one
/// rank is wanted. To be called before there are threads.
///
/// The ranks share the cores: OMP_NUM_THREADS is set unless it is given or
/// `threads` (of --threads) is not 0. Open MPI is told to allow more ranks than
/// cores and root, unless its variables say otherwise. mpirun runs in a process
/// group of its own and ends when this process does. The first SIGINT or
/// SIGTERM reaches the ranks as SIGUSR1 (which means: stop after this step;
/// mpirun would kill them), the second one ends them.
///
/// Throws Error if there is no mpirun, or the program was built without MPI.
std::optional<int> launchRanks(int argc, char **argv, int ranks,
                               int threads = 0);

} // namespace dt::rt

#endif // DT_RUNTIME_MPI_LAUNCH_H
