//===- OutputRelay.h - hands on what mpirun prints --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// mpirun would wait for whoever reads what its ranks print, and they for it. So
// a process of its own takes that, at once, and writes it on as Log.h does. It
// outlives a launcher that is killed: what ranks say of that is read, too.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_MPI_OUTPUTRELAY_H
#define DT_RUNTIME_COMM_MPI_OUTPUTRELAY_H

#include <sys/types.h>

namespace dt::rt {

class OutputRelay {
public:
  /// Starts the process. Where the system has none, mpirun keeps this process's
  /// standard output and error.
  OutputRelay();
  ~OutputRelay() { finish(); }
  OutputRelay(const OutputRelay &) = delete;
  OutputRelay &operator=(const OutputRelay &) = delete;

  /// In the child that becomes mpirun.
  void take() const;
  /// In the launcher, when that child is there: it is the only one that writes.
  void leave();
  /// Waits until what mpirun has printed is written; some seconds at most.
  void finish();

private:
  [[noreturn]] static void run(int out, int err);

  int ends[2] = {-1, -1}; ///< what is written to, of both streams
  pid_t process = -1;
};

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_MPI_OUTPUTRELAY_H
