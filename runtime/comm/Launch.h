//===- Launch.h - a program that starts its own ranks -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_LAUNCH_H
#define DT_RUNTIME_COMM_LAUNCH_H

#include <optional>
#include <string>

namespace dt::rt {

/// How ranks talk: MPI if the program was built with it, unless DT_COMM=tcp in
/// the environment or a launcher that is not MPI's decides otherwise.
enum class Transport { Mpi, Tcp };

/// Whether a launcher has started this process as one of several ranks; how
/// many there are and which one this is (else 1 and 0). Launchers are mpirun
/// and srun with MPI; over TCP torchrun (RANK, WORLD_SIZE, MASTER_ADDR,
/// MASTER_PORT) and srun. A rank's number alone, PMI_RANK for instance, says
/// nothing: shells inside of jobs have it.
bool isLaunched();
int launchedRanks();
int launchedRank();
/// How many of the ranks are on this machine: all, unless the launcher says
/// otherwise.
int launchedHere();
Transport launchedTransport();
/// The name of the status board that this rank shares with those of its node
/// (Status.h): they have one parent, which may start several runs. Throws Error
/// if the environment does not say where ranks meet.
std::string launchedBoard();

/// Starts this program again as `ranks` ranks on this machine, waits for them
/// and returns their exit code. Nothing if this process is a rank already, or
/// one rank is wanted; then signals that ask it to end are held from now on
/// (Stop.h). To be called first in main(), before there are threads.
///
/// The ranks share the cores: OMP_NUM_THREADS is set unless it is given or
/// `threads` (of --threads) is not 0. They run in a process group of their own
/// and end when this process does, or when ranks of this machine have failed
/// and mpirun does not notice (a link that is down). Signals that ask a run to
/// end (Stop.h) do not reach them: ranks read on the status board (Status.h)
/// that the run is to end. A second SIGINT, or SIGQUIT, kills them; SIGTSTP
/// stops those of this machine until the launcher goes on. From this call on
/// SIGPIPE is ignored.
///
/// With MPI mpirun starts them (mpi/Launch.cpp), else this process
/// (tcp/Launch.cpp). Throws Error if there is no mpirun, or DT_COMM asks for
/// what the program was not built with.
std::optional<int> launchRanks(int argc, char **argv, int ranks,
                               int threads = 0);

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_LAUNCH_H
