//===- MessageProgress.h - messages move on while a rank computes ---------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Most MPI libraries move large messages inside calls only, unless the kernel
// or the network can read the sender's memory. Then a receiver would wait for
// the end of the sender's task. A probe at start finds out; where it fails a
// thread polls while something is under way.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_MPI_MESSAGEPROGRESS_H
#define DT_RUNTIME_COMM_MPI_MESSAGEPROGRESS_H

#include "runtime/comm/Comm.h"
#include "runtime/comm/mpi/Bells.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace dt::rt {

/// Throws an Error of one line unless the call has succeeded.
void mpiCheck(int code, const char *call);

/// Seconds after which a sleeper looks by itself: messages ring; the rounds of
/// a collective and messages from other nodes do not.
constexpr double kLooksForMessage = 1e-3, kLooksForCollective = 1e-4;
/// Seconds in which the system wakes a rank that has a core.
constexpr double kWakes = 3e-5;

class MessageProgress {
public:
  ~MessageProgress() { stop(); }

  /// Probes (all ranks together) and starts the thread if it is needed and
  /// `threads` allows it.
  void start(MPI_Comm comm, bool threads);
  void stop();
  /// Also where nothing of this rank is under way: a library may owe others
  /// the note that what they sent has come.
  void poll();

  /// To be held around MPI calls.
  std::unique_lock<std::mutex> lock() {
    return thread.joinable() ? std::unique_lock<std::mutex>(calls)
                             : std::unique_lock<std::mutex>();
  }
  /// Something is under way; it has ended. The thread polls meanwhile.
  void begin();
  void end();

  std::string describe() const;

  Bells &getBells() { return bells; }
  /// Until `done()`, which makes MPI calls and is asked again when something
  /// may have come, at least every `often` seconds. Only where ranks sleep.
  template <typename F> void sleepUntil(F done, double often) {
    while (true) {
      uint32_t seen = bells.count();
      if (done())
        return;
      bells.sleep(seen, often);
    }
  }

private:
  void run();

  MPI_Comm comm = MPI_COMM_NULL;
  Bells bells;
  bool alone = false; ///< messages move on by themselves
  std::thread thread;
  std::mutex calls;
  std::atomic<int> open{0};
  std::mutex sleep;
  std::condition_variable wake;
  bool stopping = false;
};

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_MPI_MESSAGEPROGRESS_H
