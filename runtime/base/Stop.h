//===- Stop.h - being asked to end ------------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Signals that terminals, shells and batch systems send (kStopSignals) ask a
// program to finish its step, save and end with code 0, whichever process of a
// run gets them and how often. A second SIGINT ends it at once. They are held
// from the first line of main() on (launchRanks) and taken by a thread that
// does nothing else. What all others do: docs/signals.md.
//
// No thread that computes runs a signal handler: oneDNN's generated code keeps
// data far below its stack pointer, and the system puts a handler's frame
// there. What comes back from a handler computes with other pointers.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_BASE_STOP_H
#define DT_RUNTIME_BASE_STOP_H

#include "runtime/base/Error.h"

#include <csignal>
#include <string>
#include <vector>

namespace dt::rt {

/// The terminal is gone; a key; a batch system's end, warning and limit of
/// processor time; a timer of whoever has started the program.
constexpr int kStopSignals[] = {SIGHUP,  SIGINT,  SIGTERM, SIGUSR1,
                                SIGUSR2, SIGXCPU, SIGALRM};
/// Those that ask this process: not SIGHUP if it is ignored (nohup), and not
/// SIGUSR2 in a rank that has a launcher, which dies with that (RankProcesses).
std::vector<int> stopSignals(bool hasLauncher = false);

/// From now on signals wait for installStopSignals(), in this thread, in those
/// that it starts, and in the program that takes this one's place.
void holdStopSignals(bool hasLauncher = false);
/// Holds them, and from now on they ask, also those that have waited. To be
/// called before other threads are started; may be called again.
void installStopSignals();

/// This process was asked by a signal, or by requestStop().
bool isStopRequested();
void requestStop();
/// Forgets it: for tests.
void clearStopRequest();

/// Thrown by work before the first step when the process was asked to end.
class Stopped : public Error {
public:
  Stopped() : Error("stopped before the first step") {}
};
inline void throwIfStopped() {
  if (isStopRequested())
    throw Stopped();
}

/// Access to a mapped file that became shorter, or whose disk is full, ends the
/// process by SIGBUS. From now on it says which file first, then ends with code
/// 1. `rank`: -1: there is one only. `claim`: false if somebody has said why
/// the run ends already; called inside a signal handler; may be null.
void explainBusErrors(int rank, bool (*claim)() = nullptr);
/// Ends the process at once, with code 1 and such a line: where nothing can be
/// undone, and what others have registered must not run.
[[noreturn]] void endAtOnce(const std::string &what);
/// The same without taking memory: "error: reading samples: out of memory".
[[noreturn]] void endWithoutMemory(const char *what);
/// From now on an exception that nobody catches (in a thread of a library, in
/// what may not throw) ends the process with such a line in place of a signal.
void explainTerminations();

} // namespace dt::rt

#endif // DT_RUNTIME_BASE_STOP_H
